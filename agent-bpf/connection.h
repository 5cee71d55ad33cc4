/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause */
#pragma once
/*
 * The `connections` map, shared by kernel and user space: which cgroup and user opened a TCP
 * connection to a port of spanprof, from any network namespace of this machine. The program on
 * tcp_set_state() adds an entry when the client's side becomes established, which is before the
 * server can accept it. The receiver finds the entry by the connection's SYN (TCP_SAVED_SYN), and
 * removes it. Addresses are not compared: another network namespace may have the same ones, and
 * what lies between may translate them. Nobody else knows the sequence number, which the client's
 * kernel chose at random.
 */
#ifndef __VMLINUX_H__
#include <linux/types.h>
#endif

#define CONNECTIONS_MAX      16384 /* entries; the least recently added is evicted */
#define CONNECTION_PORTS_MAX 64    /* ports of spanprof that connections are noted for */

struct connection_key { /* of the client's SYN, in host byte order */
    __u32 sequence;
    __u16 port; /* that it came from */
    __u16 reserved;
};

struct connection_origin {
    __u64 cgroup_id; /* of the unified hierarchy: where the socket was made */
    __u32 uid;       /* in the root user namespace; as above */
    __u32 reserved;
};

_Static_assert(sizeof(struct connection_key) == 8, "connection_key is a BPF map key");
_Static_assert(sizeof(struct connection_origin) == 16, "connection_origin is a BPF map value");
