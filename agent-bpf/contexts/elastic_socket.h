/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Connects to the socket on which an Elastic APM agent receives samples. The process names the
 * path, so it is opened with the rights of the process, inside its root. Symbolizer only; a file
 * system of the process may make it block.
 */
#include "base/bytes.h"

enum elastic_socket_outcome {
    ELASTIC_SOCKET_REFUSED = 1, /* not an absolute path, not a datagram socket, or not writable for
                                 * the process itself */
};
/*
 * A datagram socket connected to `path` as process `pid` sees it (in its root, with the rights of
 * its user and groups). Non-blocking, close-on-exec. Never follows a link out of that root. 0,
 * ELASTIC_SOCKET_REFUSED, negative errno: -ENOENT, -ESRCH (gone), -ECONNREFUSED (no listener),
 * -EAGAIN (the path changed meanwhile), -EPERM (we may not take its rights).
 */
int elastic_socket_connect(uint32_t pid, struct bytes path, int *fd);
