/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The process that reads for the supervisor what may not answer: the configuration, whose YAML is
 * parsed there without rights, certificates and other files, and names of hosts. The supervisor
 * checks what comes back (config_unpack()). Its errors go to stderr.
 */
#include "agent-bpf/supervisor/role.h"
#include "base/buf.h"
#include "config/load/cli.h"

/* In the supervisor: has the configuration read, in 10 s at most. The sealed image (for the
 * service), and *config; or negative errno: what is wrong was printed. */
int config_process_load(const struct cli *cli, struct config **config);
/* In the supervisor: has a host looked up, in 2 s at most. Appends its addresses, for
 * listen_open_name(); or negative errno: -ENOENT, -EAGAIN, -ETIMEDOUT, ... */
int config_process_look_up(const char *name, struct buf *addresses);
/* In that process. Returns main's exit code. */
int config_process_run(const struct role_start *start);
