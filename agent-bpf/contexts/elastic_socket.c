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
#include "agent-bpf/files/file_place.h"
#include "agent-bpf/files/fs_rights.h"
#include "agent-bpf/files/proc_maps.h"
#include "base/fd.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
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

struct target {
    uint32_t pid;
    int root_fd;
    const struct fs_rights *rights;
    const char *path;
};

/* In the name of the process. */
static int look_up_as(const struct target *target, int *path_fd)
{
    struct open_how how = {
        .flags = O_PATH | O_CLOEXEC,
        .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | RESOLVE_CACHED,
    };
    struct fs_rights_own own;
    int error = fs_rights_take(target->rights, &own);
    if (error)
        return error;
    *path_fd = (int)syscall(SYS_openat2, target->root_fd, target->path, &how, sizeof(how));
    error = *path_fd < 0 ? outcome_of(-errno) : 0;
    fs_rights_return(&own);
    return error;
}

/* In the cache a refusal looks like an unknown entry. Where the mount is not known (a root of its
 * own), the symbolizer has looked. */
static int find_as(const struct target *target, int *path_fd)
{
    _cleanup_buf_ struct buf mounts = {0};
    int error = proc_mounts_read(target->pid, &mounts);
    error = error ? error : look_up_as(target, path_fd);
    if (error)
        return error == -EAGAIN ? ELASTIC_SOCKET_REFUSED : error;
    enum file_place place = file_place(*path_fd, target->pid, buf_bytes(&mounts));
    return place == FILE_PLACE_LOCAL || place == FILE_PLACE_UNKNOWN ? 0 : ELASTIC_SOCKET_REFUSED;
}

static int connect_as(const struct target *target, int *out)
{
    struct fs_rights_own own;
    _cleanup_fd_ int path_fd = -1;
    int error = find_as(target, &path_fd);
    error = error ? error : fs_rights_take(target->rights, &own);
    if (error)
        return error;
    error = connect_to(path_fd, out);
    fs_rights_return(&own);
    return outcome_of(error);
}

int elastic_socket_connect(uint32_t pid, struct bytes path, int *out)
{
    char name[PATH_MAX], process[32];
    struct fs_rights rights;
    *out = -1;
    if (path.len == 0 || path.len >= sizeof(name) || path.data[0] != '/' ||
        memchr(path.data, 0, path.len))
        return ELASTIC_SOCKET_REFUSED;
    memcpy(name, path.data, path.len);
    name[path.len] = '\0';
    snprintf(process, sizeof(process), "/proc/%u", pid);
    _cleanup_fd_ int process_fd = open(process, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (process_fd < 0)
        return -errno;
    int error = read_rights(process_fd, &rights);
    if (error)
        return error;
    _cleanup_fd_ int root_fd = openat(process_fd, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root_fd < 0)
        return -errno;
    return connect_as(&(struct target){pid, root_fd, &rights, name}, out);
}
