/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Who is at the other end of a receiver's connections: asked once, when it is accepted, and kept
 * with the connection. Thread: loop. Errors: what is not known is left unknown and counted.
 *
 * TCP: what the kernel noted when the connection was opened (agent-bpf/connection.h), from any
 * network namespace of this machine; else base/peer.h. Unix sockets: base/peer.h. Peers on other
 * machines stay unknown. Cost: two system calls for a noted connection, otherwise some more; below
 * 10 us.
 */
#include "base/peer.h"
#include "config/config.h"

struct peers;

/* config: borrowed, for its forwarders; users_find() was called. connections_fd: of the
 * `connections` map, borrowed; -1: there is none. 0 or -ENOMEM. */
int peers_open(const struct config *config, int connections_fd, struct peers **peers);
void peers_close(struct peers *peers); /* NULL is fine */
/* fd: accepted by the listener of the endpoint. peers NULL: nothing is known. */
void peers_identify(struct peers *peers, int fd, const struct config_endpoint *endpoint,
                    struct peer *peer);
