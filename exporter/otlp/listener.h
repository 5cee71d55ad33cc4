/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Whether the process that listens at a Unix socket may have what is sent there. Thread: any.
 * Limits: the owner of a directory is not found behind more than LISTENER_LINKS_MAX links.
 */
#include "config/config.h"

enum { LISTENER_WHY_MAX = 128, LISTENER_LINKS_MAX = 8 };

/* fd: connected to the path, which is absolute; nothing was written to it. False: why says who
 * listens there. */
bool listener_may_have(int fd, const char *path, const struct config_users *socket_users,
                       char why[LISTENER_WHY_MAX]);
