/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The socket on which an Elastic APM agent wants to hear of samples. It names a path, so it could
 * name any: nothing is reached that the process itself does not reach. SYMBOLIZER only; may block
 * as long as a file system of the process wants.
 */
#include "base/bytes.h"

enum elastic_socket_outcome {
    ELASTIC_SOCKET_REFUSED = 1, /* not an absolute path, not a datagram socket, or the process
                                   itself could not write to it */
};
/*
 * A datagram socket connected to `path` as process `pid` sees it (its root, its rights: the kernel
 * is asked in the name of the process's own user and groups). Non-blocking, close-on-exec. Never
 * follows a link out of that root. 0, ELASTIC_SOCKET_REFUSED, negative errno: -ENOENT, -ESRCH
 * (gone), -ECONNREFUSED (nobody listens), -EAGAIN (looked up in the midst of a change), -EPERM (we
 * may not act in its name).
 */
int elastic_socket_connect(uint32_t pid, struct bytes path, int *fd);
