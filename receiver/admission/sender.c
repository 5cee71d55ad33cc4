/* SPDX-License-Identifier: Apache-2.0 */
#include "receiver/admission/sender.h"
#include "base/stats.h"
#include <stdlib.h>

STAT_GAUGE(peers, "spanprof_receiver_peers",
           "Users, cgroups or hosts with open connections to receivers.");

void senders_init(struct senders *senders)
{
    MAP_INIT(&senders->peers, struct sender_peer, key);
}

void senders_close(struct senders *senders)
{
    assert(!senders->peers.count);
    map_close(&senders->peers);
}

static struct sender_peer *peer_get(struct senders *senders, uint64_t key)
{
    struct sender_peer *peer = map_get(&senders->peers, &key);
    if (peer)
        return peer;
    peer = calloc(1, sizeof(*peer));
    if (!peer)
        return NULL;
    peer->key = key;
    list_init(&peer->waiting);
    list_init(&peer->turns);
    if (map_put(&senders->peers, peer, NULL)) {
        free(peer);
        return NULL;
    }
    stat_add(&peers, 1);
    return peer;
}

static void peer_drop(struct senders *senders, struct sender_peer *peer)
{
    if (--peer->n_senders)
        return;
    assert(!peer->admitted_bytes && !peer->beginning_bytes && !peer->n_at_writer);
    assert(list_empty(&peer->waiting) && list_empty(&peer->turns));
    map_remove(&senders->peers, &peer->key);
    stat_add(&peers, -1);
    free(peer);
}

struct sender *sender_open(struct senders *senders, uint64_t key)
{
    struct sender *sender = calloc(1, sizeof(*sender));
    struct sender_peer *peer = sender ? peer_get(senders, key) : NULL;
    if (!peer) {
        free(sender);
        return NULL;
    }
    peer->n_senders++;
    *sender = (struct sender){.all = senders, .peer = peer, .refs = 1};
    list_init(&sender->waiting);
    return sender;
}

struct sender *sender_hold(struct sender *sender)
{
    sender->refs++;
    return sender;
}

void sender_release(struct sender *sender)
{
    if (!sender || --sender->refs)
        return;
    assert(!sender->admitted_bytes && !sender->beginning_bytes && list_empty(&sender->waiting));
    peer_drop(sender->all, sender->peer);
    free(sender);
}
