/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A real reader in a child process, for this process's reader_client or symbolizer. */
#include <sys/types.h>

/* Starts one; the socket to it (non-blocking) is the caller's. Aborts on failure. */
int reader_rig_start(pid_t *pid);
/* Starts one and attaches it to this process's reader_client, without the supervisor's help. */
void reader_rig_attach(void);
