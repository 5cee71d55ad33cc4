/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/pages/pages_token.h"
#include "base/fd.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/random.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FILE_NAME    "pages.token"
#define NEW_NAME     "pages.token.new"
#define RANDOM_BYTES 16

bool pages_token_is_valid(const struct buf *text)
{
    if (text->len < PAGES_TOKEN_BYTES_MIN || text->len > PAGES_TOKEN_BYTES_MAX)
        return false;
    for (size_t i = 0; i < text->len; i++)
        if (text->data[i] <= ' ' || text->data[i] > '~')
            return false;
    return true;
}

static int token_read(int fd, struct buf *token)
{
    char text[PAGES_TOKEN_BYTES_MAX + 2];
    ssize_t n = read(fd, text, sizeof(text));
    if (n < 0)
        return -errno;
    while (n && (text[n - 1] == '\n' || text[n - 1] == '\r'))
        n--;
    int error = buf_append(token, text, (size_t)n);
    explicit_bzero(text, sizeof(text));
    if (error)
        return error;
    return pages_token_is_valid(token) ? 0 : -EINVAL;
}

/* It gets its name when it is whole: a crash leaves no half token. */
static int token_make(int directory_fd)
{
    uint8_t bytes[RANDOM_BYTES];
    char text[2 * RANDOM_BYTES + 2];
    if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
        return -EIO;
    for (size_t i = 0; i < sizeof(bytes); i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    text[2 * RANDOM_BYTES] = '\n';
    int fd _cleanup_fd_ =
        openat(directory_fd, NEW_NAME, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0640);
    if (fd < 0)
        return -errno;
    ssize_t n = write(fd, text, sizeof(text) - 1);
    explicit_bzero(text, sizeof(text));
    if (n != sizeof(text) - 1)
        return n < 0 ? -errno : -ENOSPC;
    if (fsync(fd))
        return -errno;
    return renameat(directory_fd, NEW_NAME, directory_fd, FILE_NAME) ? -errno : 0;
}

int pages_token_load(const char *directory, struct buf *token)
{
    int error = 0;
    int directory_fd _cleanup_fd_ = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory_fd < 0)
        return -errno;
    if (faccessat(directory_fd, FILE_NAME, F_OK, AT_SYMLINK_NOFOLLOW))
        error = token_make(directory_fd);
    if (error)
        return error;
    int fd _cleanup_fd_ = openat(directory_fd, FILE_NAME, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : token_read(fd, token);
}
