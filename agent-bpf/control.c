/* SPDX-License-Identifier: Apache-2.0 */
/* Both ends are forks of one program, so a message is a plain struct; its size is checked all the
 * same: a child that fell to an intruder must not confuse the supervisor. */
#include "agent-bpf/control.h"
#include "agent-bpf/passed_fds.h"
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union control_fd {
    struct cmsghdr header; /* for alignment */
    char bytes[CMSG_SPACE(sizeof(int))];
};

int control_pair(int fds[2])
{
    int type = SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK;
    return socketpair(AF_UNIX, type, 0, fds) < 0 ? -errno : 0;
}

int control_send(int socket, const struct control_message *message, int fd)
{
    struct iovec part = {.iov_base = (void *)message, .iov_len = sizeof(*message)};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    union control_fd space = {0};
    if (fd >= 0) {
        header.msg_control = space.bytes;
        header.msg_controllen = sizeof(space.bytes);
        struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(rights), &fd, sizeof(fd));
    }
    return sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

int control_receive(int socket, struct control_message *message, int *fd)
{
    struct iovec part = {.iov_base = message, .iov_len = sizeof(*message)};
    union control_fd space = {0};
    struct msghdr header = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = space.bytes,
                            .msg_controllen = sizeof(space.bytes)};
    ssize_t n;
    *fd = -1;
    do
        n = recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN)
        return CONTROL_NONE;
    if (n < 0)
        return errno == ECONNRESET ? CONTROL_CLOSED : -errno;
    size_t n_fds = passed_fds_take(&header, fd, 1);
    if (n_fds <= 1 && n == sizeof(*message) && !(header.msg_flags & MSG_TRUNC))
        return 0;
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
    return n || n_fds ? -EPROTO : CONTROL_CLOSED;
}
