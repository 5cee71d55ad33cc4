/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A number for each peer, by which the shares of room and of connections are counted. Thread: any.
 */
#include "base/peer.h"

/* Equal for connections of one peer; differs between peers, but for what a keyed hash of 64 bits
 * leaves to chance. peer: what is known; fd: its connected socket. By the first that is known:
 * the cgroup; the user; the host, which is an IPv4 address or the first 64 bits of an IPv6 address,
 * because a host may have all that follow. All of loopback is one host. 0: nothing is known. */
uint64_t peer_key(const struct peer *peer, int fd);
