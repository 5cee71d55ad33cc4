/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What the sampler's configuration means for the supervisor and for the symbolizer. Pure; strings
 * are borrowed from config. */
#include "agent-bpf/supervisor/supervisor.h"
#include "service/symbolizer_process.h"
#include "config/config.h"

/* Sets want_sampler, and sampler and sampling_rate if it is wanted. */
void sampling_config_supervisor(const struct config *config, struct supervisor_settings *settings);
/* Sets sources, lines and elastic_correlation. */
void sampling_config_symbolizer(const struct config *config,
                                struct symbolizer_process_settings *settings);
