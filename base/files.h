/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * How many file descriptors there are. Some are kept for what is more than one connection of many:
 * destinations, the store, files. Thread: the loop.
 */
#include <stdbool.h>

/* The soft limit to the hard one: that of 1024 is for programs that use select(). */
void files_raise_limit(void);
/* Less than the reserve is left (an eighth of the limit, 256 at most), so that a connection that
 * was just accepted is to be closed; said in the log once a minute. fd: the newest one. */
bool files_are_short(int fd);
/* Likewise, where the newest is not known. */
bool files_are_short_now(void);
