/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The reader's process: its sandbox and its main function. It is given its socket alone.
 * Thread: main of its process.
 */
#include "agent-bpf/supervisor/role.h"

/* Returns the exit code. */
int reader_process_run(const struct role_start *start);
