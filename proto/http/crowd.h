/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A server's connections by peer, for the moment when there are too many: the peer with the most
 * connections then loses the one that has been idle longest. So idle connections do not lock out
 * others, and a peer that opens many only closes its own. Thread: the server's. Limit: that of the
 * server's connections. Embedded.
 */
#include "base/list.h"
#include "base/map.h"
#include <stdint.h>

struct crowd {
    struct map groups; /* by peer */
};

struct crowd_group { /* the connections of one peer */
    uint64_t peer;
    size_t n;
    struct list idle; /* the longest idle first */
    struct list busy; /* the longest busy first */
};

/* A connection. Embedded by its owner. */
struct crowd_member {
    struct crowd *crowd; /* NULL: not added */
    struct crowd_group *group;
    struct list link;
};

void crowd_init(struct crowd *crowd);
void crowd_close(struct crowd *crowd); /* all members are removed */
/* 0 or -ENOMEM. It begins idle. */
int crowd_add(struct crowd *crowd, struct crowd_member *member, uint64_t peer);
void crowd_remove(struct crowd_member *member); /* also if it was not added */
void crowd_set_idle(struct crowd_member *member, bool idle);
/* The connection that gives way to a new one of this peer: of the peer with most connections, the
 * longest idle one, else the longest busy one if the peer has more than twice as many as the new
 * one's. NULL: none; the new one is to be refused. */
struct crowd_member *crowd_choose(const struct crowd *crowd, uint64_t newcomer);
