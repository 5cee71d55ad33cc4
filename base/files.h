/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The number of open file descriptors against the limit. Connections of clients may not use all of
 * them: some are reserved for destinations, the store and files. Thread: the loop.
 */
#include <stdbool.h>

/* Raises the soft limit to the hard one. The usual soft limit, 1024, is for users of select(). */
void files_raise_limit(void);
/* True: less than the reserve is left (an eighth of the limit, at most 256), so close the
 * connection that was just accepted. Logged once a minute. fd: the newest descriptor. */
bool files_are_short(int fd);
