/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Closing file descriptors. -1 stands for none, and closing none is fine. */
#include <unistd.h>

static inline void fd_close(int fd)
{
    if (fd >= 0)
        close(fd);
}

/* Closes *fd, which is -1 afterwards. */
static inline void fd_closep(int *fd)
{
    fd_close(*fd);
    *fd = -1;
}

/* int fd _cleanup_fd_ = -1: closed at the end of its scope. */
#define _cleanup_fd_ __attribute__((cleanup(fd_closep)))
