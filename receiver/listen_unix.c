/* SPDX-License-Identifier: Apache-2.0 */
#include "receiver/listen_unix.h"
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static int new_socket(void)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return fd < 0 ? -errno : fd;
}

/* EAGAIN means a full backlog: the socket is in use. */
static int is_in_use(const struct sockaddr_un *address)
{
    int fd = new_socket();
    if (fd < 0)
        return fd;
    int refused = connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 &&
                  errno == ECONNREFUSED;
    close(fd);
    return !refused;
}

static int remove_stale(const struct sockaddr_un *address)
{
    struct stat status;
    if (lstat(address->sun_path, &status))
        return errno == ENOENT ? 0 : -errno;
    if (!S_ISSOCK(status.st_mode))
        return -EADDRINUSE;
    int in_use = is_in_use(address);
    if (in_use)
        return in_use < 0 ? in_use : -EADDRINUSE;
    return unlink(address->sun_path) ? -errno : 0;
}

static int bind_with_mode(int fd, const struct sockaddr_un *address, unsigned mode)
{
    mode_t before = umask(0777 & ~mode);
    int error = bind(fd, (const struct sockaddr *)address, sizeof(*address)) ? -errno : 0;
    umask(before);
    return error;
}

static int file_identify(const char *path, struct listen_unix_file *file)
{
    struct stat status;
    int error = lstat(path, &status) ? -errno : 0;
    if (!error)
        *file = (struct listen_unix_file){status.st_dev, status.st_ino};
    return error;
}

int listen_unix(const char *path, unsigned mode, int backlog, struct listen_unix_file *file)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len = strlen(path);
    if (len >= sizeof(address.sun_path))
        return -ENAMETOOLONG;
    memcpy(address.sun_path, path, len + 1);
    int fd = new_socket();
    if (fd < 0)
        return fd;
    int error = bind_with_mode(fd, &address, mode);
    if (error == -EADDRINUSE) {
        error = remove_stale(&address);
        error = error ? error : bind_with_mode(fd, &address, mode);
    }
    if (!error && listen(fd, backlog))
        error = -errno;
    if (!error && file)
        error = file_identify(path, file);
    if (!error)
        return fd;
    close(fd);
    return error;
}

void listen_unix_remove(const char *path, const struct listen_unix_file *file)
{
    struct listen_unix_file now = {0, 0};
    if (file_identify(path, &now) == 0 && now.device == file->device && now.inode == file->inode)
        unlink(path);
}
