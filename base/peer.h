/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Who is at the other end of a socket, as the kernel says. No privilege is needed. Each look-up
 * takes a few system calls and some microseconds: ask once per connection. Thread: any, one at a
 * time per peer_finder.
 *
 * TCP: sock_diag(7) by the connection's addresses, which finds peers in our network namespace.
 * Unix: the credentials of connect(), and the cgroup that the process is in now.
 */
#include <stdbool.h>
#include <stdint.h>

#define PEER_UID_UNKNOWN UINT32_MAX
#define PEER_PIDFD_ASK   0xC040FF0B /* the ioctl() that is used: PIDFD_GET_INFO of Linux 6.13 */

struct peer {
    uint64_t cgroup_id; /* base/cgroup.h: where its socket was made (TCP), or where it is (Unix); 0:
                           not known */
    uint32_t uid;       /* in our user namespace; PEER_UID_UNKNOWN: not known */
    bool is_forwarder;  /* sends what others made. Set by who asks, never by peer_find(). */
};

/* fd: a connected Unix socket. Who was at its other end at connect(), or at listen(); else
 * PEER_UID_UNKNOWN. */
uint32_t peer_user(int fd);

struct peer_finder {
    int diag_fd; /* -1: peers of TCP connections are not known */
    uint32_t sequence;
    char cgroup_mount[256]; /* "": cgroups of peers on Unix sockets may not be known */
};

void peer_finder_open(struct peer_finder *finder);
void peer_finder_close(struct peer_finder *finder);
/* fd: a connected stream socket. False: nothing is known of the peer. */
bool peer_find(struct peer_finder *finder, int fd, struct peer *peer);
