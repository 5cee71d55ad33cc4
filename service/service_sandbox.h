/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What the service can do once it has its configuration. Thread: main of its process, before there
 * are others. */
#include "config/config.h"

/* From here on: its store, its exporters' files and ports, and the calls of its table. first: not
 * started again, so what the kernel lacks is logged. 0 or negative errno. */
int service_sandbox_enter(const struct config *config, bool first);
