/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The process that reads the configuration. YAML is parsed there, without rights, and the
 * supervisor checks what comes back (config_unpack()). Its errors go to stderr.
 */
#include "agent-bpf/supervisor/role.h"
#include "config/load/cli.h"

/* In the supervisor: runs that process to its end. The sealed image (for the service), and *config;
 * or negative errno: what is wrong was printed. */
int config_process_load(const struct cli *cli, struct config **config);
/* In that process. Returns main's exit code. */
int config_process_run(const struct role_start *start);
