/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The service's process: what the supervisor gives it, and its main function. Thread: main of its
 * process. */
#include "agent-bpf/supervisor/role.h"
#include "service/service.h"

struct service_process_settings { /* descriptors are inherited */
    int config_fd;                /* config_pack(), with secrets */
    struct service_sockets sockets;
    int files[SUPERVISOR_FILES_MAX]; /* service_files_inherit() */
};

/* Returns the exit code. */
int service_process_run(const struct role_start *start);
