/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The broker's process (agent-bpf/supervisor/supervisor_broker.h): one connection, one answer.
 * Thread: main of its process. */
#include "agent-bpf/supervisor/role.h"

/* Returns the exit code. */
int broker_process_run(const struct role_start *start);
