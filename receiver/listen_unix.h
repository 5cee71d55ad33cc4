/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Listening sockets with a path. What a predecessor that was killed left there is taken away: a
 * socket that nobody listens on; other files and sockets in use are left alone.
 * Thread: the only one of its process (the umask is changed for a moment).
 */

/* An fd (CLOEXEC, non-blocking, listening), or negative errno: -EADDRINUSE also for a path that is
 * no socket. The path has `mode` from its first moment on. */
int listen_unix(const char *path, unsigned mode, int backlog);
/* Takes the path away, if the fd is of a Unix socket. */
void listen_unix_remove(int fd);
