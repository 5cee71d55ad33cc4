/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Connects to the socket on which an Elastic APM agent receives samples. The process names the
 * path, so it is opened with the rights of the process, inside its root. These rights are taken for
 * good: a process that does this does nothing else. Broker only; a file system of the process may
 * make it block.
 */
#include "agent-bpf/files/file_place.h"
#include "agent-bpf/files/fs_rights.h"
#include <limits.h>

enum elastic_socket_outcome {
    ELASTIC_SOCKET_REFUSED = 1, /* not an absolute path, not a datagram socket, or not writable for
                                 * the process itself */
};

struct elastic_socket {
    char path[PATH_MAX];
    struct fs_rights rights;
    struct file_view view;
};

/*
 * First: what the process sees and may do, which takes the right to look into it; then its ids, and
 * no capability. 0, ELASTIC_SOCKET_REFUSED, negative errno: -ENOENT, -ESRCH (gone), -EPERM (we may
 * not take its rights). To be closed in any case.
 */
int elastic_socket_become(uint32_t pid, struct bytes path, struct elastic_socket *socket);
/*
 * Then: a datagram socket connected to the path as the process sees it. Non-blocking,
 * close-on-exec. Never follows a link out of its root. 0, ELASTIC_SOCKET_REFUSED, negative errno:
 * -ENOENT, -ECONNREFUSED (no listener), -EAGAIN (the path changed meanwhile).
 */
int elastic_socket_connect(const struct elastic_socket *socket, int *fd);
void elastic_socket_close(struct elastic_socket *socket);
