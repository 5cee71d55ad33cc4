/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Descriptors in messages between processes that do not trust each other. Thread: any. */
#include <stddef.h>
#include <sys/socket.h>

/* Takes those that recvmsg() brought: at most `max`, which are the caller's; the others are closed.
 * How many came: with more than were expected the message is not to be believed. */
size_t passed_fds_take(struct msghdr *header, int *fds, size_t max);
