/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The reader: a child process that touches, on the symbolizer's request, what a stranger may
 * withhold for ever. It parses nothing of what it reads and keeps nothing between requests. If it
 * hangs, the supervisor leaves it to itself and starts another one, so it holds nothing but its
 * socket.
 *
 * Needs (with fewer, less is read): CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH, CAP_CHECKPOINT_RESTORE.
 * Thread: main of its process.
 */

/* Serves until the other end is closed. socket (SOCK_SEQPACKET) is borrowed. 0 or negative errno.
 */
int reader_run(int socket);
