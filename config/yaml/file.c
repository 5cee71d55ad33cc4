/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limit is checked while reading, not by the size that stat() tells: pipes and /proc have none.
 */
#include "config/yaml/file.h"
#include "config/config.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK_BYTES 65536

static const char *file_failed(const char *what, int error)
{
    static _Thread_local char text[160];
    const char *hint = error == ENOENT   ? " (check the path)"
                       : error == EACCES ? " (check its permissions)"
                                         : "";
    snprintf(text, sizeof(text), "cannot be %s: %s%s", what, strerror(error), hint);
    return text;
}

static const char *read_all(int fd, struct buf *out)
{
    for (;;) {
        if (buf_reserve(out, CHUNK_BYTES))
            return "cannot be read: out of memory";
        ssize_t n = read(fd, out->data + out->len, CHUNK_BYTES);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return file_failed("read", errno);
        out->len += (size_t)n;
        if (out->len > CONFIG_FILE_MAX)
            return "is larger than 1 MiB; a configuration is smaller";
        if (n == 0)
            return NULL;
    }
}

static const char *check_kind(int fd, enum file_kind kind)
{
    struct stat status;
    if (fstat(fd, &status))
        return file_failed("read", errno);
    if (S_ISDIR(status.st_mode))
        return "is a directory; name a file in it";
    if (kind == FILE_REGULAR_ONLY && !S_ISREG(status.st_mode))
        return "is not a regular file";
    return NULL;
}

const char *file_read(const char *path, enum file_kind kind, struct buf *out)
{
    int flags = O_RDONLY | O_CLOEXEC | O_NOCTTY | (kind == FILE_REGULAR_ONLY ? O_NONBLOCK : 0);
    int fd = open(path, flags);
    if (fd < 0)
        return file_failed("opened", errno);
    const char *problem = check_kind(fd, kind);
    if (!problem)
        problem = read_all(fd, out);
    close(fd);
    return problem;
}
