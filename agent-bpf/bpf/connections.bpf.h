/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause */
#pragma once
/* Notes who opens connections to spanprof: agent-bpf/connection.h. */
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "agent-bpf/connection.h"

#define AF_INET         2
#define AF_INET6        10
#define IPPROTO_TCP     6
#define TCP_ESTABLISHED 1
#define TCP_SYN_SENT    2

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, CONNECTIONS_MAX);
    __type(key, struct connection_key);
    __type(value, struct connection_origin);
} connections SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, CONNECTION_PORTS_MAX);
    __type(key, __u16); /* in host byte order */
    __type(value, __u8);
} connection_ports SEC(".maps");

static __always_inline bool connection_is_ours(const struct sock *sock)
{
    __u16 port = bpf_ntohs(sock->__sk_common.skc_dport), family = sock->__sk_common.skc_family;
    return (family == AF_INET || family == AF_INET6) && sock->sk_protocol == IPPROTO_TCP &&
           bpf_map_lookup_elem(&connection_ports, &port);
}

/* What was sent first has been acknowledged: the SYN alone. (With data in the SYN the number is
 * another one, and the receiver finds no entry.) */
static __always_inline void connection_note(const struct sock *sock)
{
    const struct tcp_sock *tcp = (const struct tcp_sock *)sock;
    struct connection_key key = {.sequence = BPF_CORE_READ(tcp, snd_una) - 1,
                                 .port = sock->__sk_common.skc_num};
    struct connection_origin origin = {
        .cgroup_id = BPF_CORE_READ(sock, sk_cgrp_data.cgroup, kn, id),
        .uid = BPF_CORE_READ(sock, sk_uid.val),
    };
    bpf_map_update_elem(&connections, &key, &origin, 0);
}
