/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Listening sockets with a path. A stale socket (without a listener, left by a killed predecessor)
 * is removed; other files and sockets in use stay. Thread: the process must have only one (the
 * umask is changed for a moment).
 */

#include <sys/types.h>

struct listen_unix_file { /* the file of a socket */
    dev_t device;
    ino_t inode;
};

/* An fd (CLOEXEC, non-blocking, listening), or negative errno: -EADDRINUSE also if the path is not
 * a socket. The path has `mode` from its creation on. file may be NULL. */
int listen_unix(const char *path, unsigned mode, int backlog, struct listen_unix_file *file);
/* Removes the path, unless it is another file by now (made by another process). Only for the
 * process that still listens there. */
void listen_unix_remove(const char *path, const struct listen_unix_file *file);
