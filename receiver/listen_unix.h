/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Listening sockets with a path. What a predecessor that was killed left there is taken away: a
 * socket without a listener; other files and sockets in use are left alone.
 * Thread: the only one of its process (the umask is changed for a moment).
 */

#include <sys/types.h>

struct listen_unix_file { /* that was made for a socket */
    dev_t device;
    ino_t inode;
};

/* An fd (CLOEXEC, non-blocking, listening), or negative errno: -EADDRINUSE also for a path that is
 * no socket. The path has `mode` from its first moment on. file may be NULL. */
int listen_unix(const char *path, unsigned mode, int backlog, struct listen_unix_file *file);
/* Takes the path away, unless it has become another file since: somebody else's. For the one that
 * still listens there. */
void listen_unix_remove(const char *path, const struct listen_unix_file *file);
