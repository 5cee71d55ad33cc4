/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Start-time fair queueing: a peer that had nothing to do for a while begins with what the peer
 * that was served last has used, so idle time is no credit.
 */
#include "receiver/admission/turns.h"
#include "base/stats.h"
#include <assert.h>

/* Of a body: a bound for plain ones; for compressed ones what a ratio of 1:100 would take. */
#define NS_PER_BYTE            6
#define NS_PER_COMPRESSED_BYTE 600
#define DECAY                  8

STAT_GAUGE(
    waiting, "spanprof_intake_turns_waiting",
    "Complete requests that wait for the writer because of what their peer has sent before.");

void turns_init(struct turns *turns)
{
    *turns = (struct turns){.n = 0};
    list_init(&turns->waiting);
}

static uint64_t turn_estimate(const struct sender_peer *peer, size_t size, bool is_compressed)
{
    uint64_t by_size = size * (is_compressed ? NS_PER_COMPRESSED_BYTE : NS_PER_BYTE);
    if (by_size > TURNS_READ_NS)
        by_size = TURNS_READ_NS;
    uint64_t most = by_size > peer->request_ns ? by_size : peer->request_ns;
    return most > TURNS_REQUEST_NS ? most : TURNS_REQUEST_NS;
}

bool turns_add(struct turns *turns, struct turn *turn, struct sender *sender, size_t size,
               bool is_compressed)
{
    struct sender_peer *peer = sender->peer;
    if (turns->n >= TURNS_MAX || peer->n_turns >= TURNS_PEER_MAX)
        return false;
    turn->sender = sender_hold(sender);
    turn->estimate_ns = turn_estimate(peer, size, is_compressed);
    turn->has_left = false;
    if (!peer->n_turns && !peer->n_at_writer && peer->used_ns < turns->served_ns)
        peer->used_ns = turns->served_ns;
    list_append(&peer->turns, &turn->link);
    if (!list_linked(&peer->turns_link))
        list_append(&turns->waiting, &peer->turns_link);
    peer->n_turns++;
    turns->n++;
    stat_set(&waiting, (int64_t)turns->n);
    return true;
}

static struct turn *turn_of(const struct sender_peer *peer)
{
    return container_of(list_first(&peer->turns), struct turn, link);
}

static bool has_room(const struct turns *turns, const struct sender_peer *peer)
{
    uint64_t ns = turn_of(peer)->estimate_ns;
    return (!peer->n_at_writer || peer->at_writer_ns + ns <= TURNS_PEER_NS) &&
           (!turns->n_at_writer || turns->at_writer_ns + ns <= TURNS_ALL_NS);
}

static struct sender_peer *turns_next_peer(const struct turns *turns, bool anyway)
{
    struct sender_peer *next = NULL;
    struct list *link, *tmp;
    list_each(link, tmp, &turns->waiting)
    {
        struct sender_peer *peer = container_of(link, struct sender_peer, turns_link);
        if ((anyway || has_room(turns, peer)) && (!next || peer->used_ns < next->used_ns))
            next = peer;
    }
    return next;
}

struct turn *turns_next(struct turns *turns, bool anyway)
{
    struct sender_peer *peer = turns_next_peer(turns, anyway);
    if (!peer)
        return NULL;
    struct turn *turn = turn_of(peer);
    list_remove(&turn->link);
    if (list_empty(&peer->turns))
        list_remove(&peer->turns_link);
    turns->served_ns = peer->used_ns;
    peer->n_turns--;
    peer->n_at_writer++;
    peer->at_writer_ns += turn->estimate_ns;
    peer->used_ns += (int64_t)turn->estimate_ns;
    turns->n--;
    turns->n_at_writer++;
    turns->at_writer_ns += turn->estimate_ns;
    stat_set(&waiting, (int64_t)turns->n);
    return turn;
}

void turns_leave(struct turns *turns, struct turn *turn, uint64_t took_ns)
{
    struct sender_peer *peer = turn->sender->peer;
    assert(turns->n_at_writer && !turn->has_left);
    turn->has_left = true;
    turns->n_at_writer--;
    turns->at_writer_ns -= turn->estimate_ns;
    if (took_ns > peer->request_ns)
        peer->request_ns = took_ns;
    else
        peer->request_ns -= (peer->request_ns - took_ns) / DECAY;
}

void turns_done(struct turns *turns, struct turn *turn, uint64_t took_ns)
{
    struct sender_peer *peer = turn->sender->peer;
    if (!turn->has_left)
        turns_leave(turns, turn, took_ns);
    assert(peer->n_at_writer);
    peer->n_at_writer--;
    peer->at_writer_ns -= turn->estimate_ns;
    peer->used_ns += (int64_t)took_ns - (int64_t)turn->estimate_ns;
    sender_release(turn->sender);
    turn->sender = NULL;
}
