/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attacks: a link that leads out of a container to a socket of the host; a socket that only we may
 * write to; a path that is replaced after it was checked; a pid that is reused. Therefore /proc/PID
 * is held open and everything is found from there. The path is resolved within the process's root,
 * with its rights, to an O_PATH descriptor, which is checked and then connected to through
 * /proc/self/fd, which cannot lead elsewhere. connect() checks the right to write, by mode, ACL and
 * security modules.
 *
 * Neither the look-up nor connect() waits for a foreign file system: the look-up is made from the
 * cache alone, which the symbolizer's reader has filled, and a socket that is known not to lie on a
 * local file system is refused.
 *
 * The listener cannot be checked: datagram sockets have no peer credentials.
 */
#include "agent-bpf/contexts/elastic_socket.h"
#include "base/fd.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#define STATUS_BYTES_MAX 8192 /* with FS_RIGHTS_GROUPS_MAX groups */

static int read_rights(int process_fd, struct fs_rights *rights)
{
    char text[STATUS_BYTES_MAX];
    _cleanup_fd_ int fd = openat(process_fd, "status", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    size_t len = 0;
    ssize_t n;
    while ((n = read(fd, text + len, sizeof(text) - len)) > 0)
        len += (size_t)n;
    if (n < 0)
        return -errno;
    return fs_rights_parse(BYTES(text, len), rights) ? 0 : ELASTIC_SOCKET_REFUSED;
}

static int connect_to(int path_fd, int *out)
{
    struct stat status;
    if (fstat(path_fd, &status))
        return -errno;
    if (!S_ISSOCK(status.st_mode))
        return ELASTIC_SOCKET_REFUSED;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d", path_fd);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0) {
        *out = fd;
        return 0;
    }
    int error = -errno;
    close(fd);
    return error;
}

static int outcome_of(int error)
{
    switch (error) {
    case -EACCES:
    case -EPERM:      /* it is connected to another one */
    case -EPROTOTYPE: /* not of datagrams */
    case -ELOOP:
    case -ENAMETOOLONG:
    case -ENOTDIR:
        return ELASTIC_SOCKET_REFUSED;
    default:
        return error;
    }
}

static int look_up(const struct elastic_socket *socket, int *path_fd)
{
    struct open_how how = {
        .flags = O_PATH | O_CLOEXEC,
        .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | RESOLVE_CACHED,
    };
    *path_fd = (int)syscall(SYS_openat2, socket->view.root_fd, socket->path, &how, sizeof(how));
    return *path_fd < 0 ? outcome_of(-errno) : 0;
}

/* In the cache a refusal looks like an unknown entry. Where the mount is not known (a root of its
 * own), the symbolizer has looked. */
int elastic_socket_connect(const struct elastic_socket *socket, int *fd)
{
    _cleanup_fd_ int path_fd = -1;
    *fd = -1;
    int error = look_up(socket, &path_fd);
    if (error)
        return error == -EAGAIN ? ELASTIC_SOCKET_REFUSED : error;
    enum file_place place = file_place_viewed(path_fd, &socket->view);
    if (place != FILE_PLACE_LOCAL && place != FILE_PLACE_UNKNOWN)
        return ELASTIC_SOCKET_REFUSED;
    return outcome_of(connect_to(path_fd, fd));
}

static bool take_path(struct bytes path, char name[PATH_MAX])
{
    if (path.len == 0 || path.len >= PATH_MAX || path.data[0] != '/' ||
        memchr(path.data, 0, path.len))
        return false;
    memcpy(name, path.data, path.len);
    name[path.len] = '\0';
    return true;
}

int elastic_socket_become(uint32_t pid, struct bytes path, struct elastic_socket *socket)
{
    char process[32];
    *socket = (struct elastic_socket){.view = {.root_fd = -1, .node_root_fd = -1}};
    if (!take_path(path, socket->path))
        return ELASTIC_SOCKET_REFUSED;
    snprintf(process, sizeof(process), "/proc/%u", pid);
    _cleanup_fd_ int process_fd = open(process, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (process_fd < 0)
        return -errno;
    int error = read_rights(process_fd, &socket->rights);
    if (!error)
        error = file_view_open(process_fd, pid, &socket->view);
    return error ? error : fs_rights_become(&socket->rights);
}

void elastic_socket_close(struct elastic_socket *socket)
{
    file_view_close(&socket->view);
}
