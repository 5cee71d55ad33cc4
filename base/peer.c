/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Source of the formats: uapi linux/inet_diag.h, linux/sock_diag.h, linux/pidfd.h; sock_diag(7).
 */
#include "base/peer.h"
#include "base/cgroup.h"
#include "base/fd.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* Newer than the headers of the oldest system that we build on. */
#define SOCKET_PEERPIDFD 77 /* SO_PEERPIDFD; Linux 6.5 */

struct pidfd_cgroup { /* the beginning of struct pidfd_info; Linux 6.13 */
    uint64_t mask;
    uint64_t cgroup_id;
    uint32_t others[12];
};
#define PIDFD_MASK_CGROUP_ID (UINT64_C(1) << 2)
_Static_assert(_IOWR(0xFF, 11, struct pidfd_cgroup) == PEER_PIDFD_ASK, "PIDFD_INFO_SIZE_VER0");

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_storage storage;
};

/* ---- TCP ---- */

static bool endpoint_put(const union address *address, __be32 words[4], __be16 *port)
{
    if (address->any.sa_family == AF_INET) {
        words[0] = address->v4.sin_addr.s_addr;
        *port = address->v4.sin_port;
    } else {
        memcpy(words, &address->v6.sin6_addr, sizeof(address->v6.sin6_addr));
        *port = address->v6.sin6_port;
    }
    return address->any.sa_family == AF_INET || address->any.sa_family == AF_INET6;
}

/* The connection as its other end sees it. */
static bool connection_turned(int fd, struct inet_diag_req_v2 *asked)
{
    union address ours, theirs;
    socklen_t size = sizeof(ours);
    if (getsockname(fd, &ours.any, &size))
        return false;
    size = sizeof(theirs);
    if (getpeername(fd, &theirs.any, &size) || theirs.any.sa_family != ours.any.sa_family)
        return false;
    asked->sdiag_family = (uint8_t)ours.any.sa_family;
    return endpoint_put(&theirs, asked->id.idiag_src, &asked->id.idiag_sport) &&
           endpoint_put(&ours, asked->id.idiag_dst, &asked->id.idiag_dport);
}

/* Without a connection with these addresses the kernel answers with one that listens there. */
static bool is_connection(const struct inet_diag_msg *answer, const struct inet_diag_req_v2 *asked)
{
    return answer->idiag_state != TCP_LISTEN && answer->idiag_state != TCP_TIME_WAIT &&
           answer->id.idiag_sport == asked->id.idiag_sport &&
           answer->id.idiag_dport == asked->id.idiag_dport;
}

static void peer_of_answer(const struct nlmsghdr *header, const struct inet_diag_msg *answer,
                           struct peer *peer)
{
    const char *at = (const char *)(answer + 1);
    size_t left = header->nlmsg_len - NLMSG_LENGTH(sizeof(*answer));
    struct nlattr attribute;
    peer->uid = answer->idiag_uid;
    while (left >= sizeof(attribute)) {
        memcpy(&attribute, at, sizeof(attribute));
        size_t size = NLA_ALIGN(attribute.nla_len);
        if (attribute.nla_len < sizeof(attribute) || size > left)
            break;
        if (attribute.nla_type == INET_DIAG_CGROUP_ID &&
            attribute.nla_len == sizeof(attribute) + sizeof(uint64_t))
            memcpy(&peer->cgroup_id, at + sizeof(attribute), sizeof(uint64_t));
        at += size;
        left -= size;
    }
}

/* The kernel answers within send(). */
static bool tcp_answer(struct peer_finder *finder, const struct inet_diag_req_v2 *asked,
                       struct peer *peer)
{
    union {
        struct nlmsghdr header;
        char bytes[2048];
    } answer;
    ssize_t n;
    do {
        n = recv(finder->diag_fd, &answer, sizeof(answer), MSG_DONTWAIT);
        if (n < (ssize_t)NLMSG_HDRLEN || answer.header.nlmsg_len > (size_t)n)
            return false;
    } while (answer.header.nlmsg_seq != finder->sequence); /* left by a look-up that was cut off */
    const struct inet_diag_msg *message = NLMSG_DATA(&answer.header);
    if (answer.header.nlmsg_type != SOCK_DIAG_BY_FAMILY ||
        answer.header.nlmsg_len < NLMSG_LENGTH(sizeof(*message)) || !is_connection(message, asked))
        return false;
    peer_of_answer(&answer.header, message, peer);
    return true;
}

static bool peer_find_tcp(struct peer_finder *finder, int fd, struct peer *peer)
{
    struct {
        struct nlmsghdr header;
        struct inet_diag_req_v2 body;
    } request = {
        .header = {.nlmsg_len = sizeof(request),
                   .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                   .nlmsg_flags = NLM_F_REQUEST,
                   .nlmsg_seq = ++finder->sequence},
        .body = {.sdiag_protocol = IPPROTO_TCP,
                 .idiag_states = UINT32_MAX,
                 .id = {.idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}}},
    };
    return finder->diag_fd >= 0 && connection_turned(fd, &request.body) &&
           send(finder->diag_fd, &request, sizeof(request), MSG_DONTWAIT) == sizeof(request) &&
           tcp_answer(finder, &request.body, peer);
}

/* ---- Unix ---- */

static bool has_ended(int pidfd)
{
    struct pollfd poll_fd = {.fd = pidfd, .events = POLLIN};
    return poll(&poll_fd, 1, 0) != 0;
}

static uint64_t cgroup_of_pid(const struct peer_finder *finder, pid_t pid)
{
    char path[64], text[2 * CGROUP_PATH_MAX];
    int fd _cleanup_fd_ = -1;
    if (!finder->cgroup_mount[0])
        return 0;
    snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text));
    if (n <= 0 || n == sizeof(text))
        return 0;
    return cgroup_id_of_path(finder->cgroup_mount, cgroup_path_of_text(BYTES(text, (size_t)n)));
}

/* A pid that is read of after its process has ended may be another's: the pidfd tells. */
static uint64_t cgroup_of_socket(const struct peer_finder *finder, int fd, pid_t pid)
{
    int pidfd _cleanup_fd_ = -1;
    socklen_t size = sizeof(pidfd);
    if (getsockopt(fd, SOL_SOCKET, SOCKET_PEERPIDFD, &pidfd, &size))
        return cgroup_of_pid(finder, pid);
    struct pidfd_cgroup info = {.mask = PIDFD_MASK_CGROUP_ID};
    if (ioctl(pidfd, PEER_PIDFD_ASK, &info) == 0 && info.mask & PIDFD_MASK_CGROUP_ID)
        return info.cgroup_id;
    uint64_t id = cgroup_of_pid(finder, pid);
    return has_ended(pidfd) ? 0 : id;
}

static bool credentials_get(int fd, struct ucred *credentials)
{
    socklen_t size = sizeof(*credentials);
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, credentials, &size) == 0;
}

static bool peer_find_unix(const struct peer_finder *finder, int fd, struct peer *peer)
{
    struct ucred credentials;
    if (!credentials_get(fd, &credentials))
        return false;
    peer->uid = credentials.uid;
    if (credentials.pid > 0) /* 0: outside of our PID namespace */
        peer->cgroup_id = cgroup_of_socket(finder, fd, credentials.pid);
    return true;
}

/* ---- verbs ---- */

uint32_t peer_user(int fd)
{
    struct ucred credentials;
    return credentials_get(fd, &credentials) ? credentials.uid : PEER_UID_UNKNOWN;
}

void peer_finder_open(struct peer_finder *finder)
{
    *finder = (struct peer_finder){
        .diag_fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG)};
    if (!cgroup_mount_find(finder->cgroup_mount, sizeof(finder->cgroup_mount)))
        finder->cgroup_mount[0] = '\0';
}

void peer_finder_close(struct peer_finder *finder)
{
    fd_closep(&finder->diag_fd);
}

bool peer_find(struct peer_finder *finder, int fd, struct peer *peer)
{
    int domain = AF_UNSPEC;
    socklen_t size = sizeof(domain);
    *peer = (struct peer){.uid = PEER_UID_UNKNOWN};
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size))
        return false;
    return domain == AF_UNIX ? peer_find_unix(finder, fd, peer) : peer_find_tcp(finder, fd, peer);
}
