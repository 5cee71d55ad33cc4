/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether nothing is left out is a matter of two numbers. All that is put after the hand was opened
 * comes into it, so from_seq is the last that was put by then, be it committed or not. Its holder
 * reads after that, and has all up to what he has found, or up to the last that was committed when
 * he began if he found no more. If that reaches from_seq, hand and read together miss nothing; if
 * not, a transaction was under way, and the next read does. What both have is taken once: in the
 * hand only that counts which lies behind read_to.
 */
#include "store/outbox/outbox_hands.h"
#include <stdlib.h>

static struct outbox_handed *handed_of(struct list *link)
{
    return container_of(link, struct outbox_handed, link);
}

void outbox_handed_free(struct list *requests)
{
    struct list *link;
    while ((link = list_pop(requests)))
        free(handed_of(link));
}

/* Also of those that are not committed yet: their opening is over. */
static void empty(struct outbox_hand *hand)
{
    outbox_handed_free(&hand->requests);
    hand->open = false;
    hand->opening++;
    hand->bytes = 0;
}

/* ---- writer ---- */

#define each_hand(hand, hands)                                                                     \
    for (struct outbox_hand *hand = (hands)->of[0],                                                \
                            *end_ = hand + OUTBOX_DESTINATIONS_MAX * SIGNAL_COUNT;                 \
         hand < end_; hand++)

void outbox_hands_init(struct outbox_hands *hands)
{
    pthread_mutex_init(&hands->lock, NULL);
    list_init(&hands->pending);
    each_hand(hand, hands)
    {
        hand->all = hands;
        list_init(&hand->requests);
    }
}

void outbox_hands_close(struct outbox_hands *hands)
{
    outbox_hands_void(hands);
    pthread_mutex_destroy(&hands->lock);
}

static void put(struct outbox_hand *hand, const struct outbox_row *row)
{
    size_t size = sizeof(struct outbox_handed) + row->body.len;
    if (!hand->open)
        return;
    struct outbox_handed *handed = hand->bytes + size <= hand->limit ? malloc(size) : NULL;
    hand->open = handed != NULL;
    if (!handed)
        return;
    *handed = (struct outbox_handed){.hand = hand,
                                     .opening = hand->opening,
                                     .seq = row->seq,
                                     .items = row->items,
                                     .len = row->body.len};
    memcpy(handed->body, row->body.data, row->body.len);
    hand->bytes += size;
    list_append(&hand->all->pending, &handed->link);
}

void outbox_hands_put(struct outbox_hands *hands, uint32_t destinations,
                      const struct outbox_row *row)
{
    pthread_mutex_lock(&hands->lock);
    for (size_t i = 0; i < OUTBOX_DESTINATIONS_MAX; i++)
        if (destinations >> i & 1)
            put(&hands->of[i][row->signal], row);
    hands->put_seq = row->seq;
    pthread_mutex_unlock(&hands->lock);
}

/* The oldest was given up. If nothing is there it may be among what is not committed. */
void outbox_hands_dropped(struct outbox_hands *hands, enum signal signal, int64_t seq)
{
    pthread_mutex_lock(&hands->lock);
    for (size_t i = 0; i < OUTBOX_DESTINATIONS_MAX; i++) {
        struct outbox_hand *hand = &hands->of[i][signal];
        struct list *first = list_first(&hand->requests);
        if (!first || handed_of(first)->seq <= seq)
            empty(hand);
    }
    pthread_mutex_unlock(&hands->lock);
}

void outbox_hands_committed(struct outbox_hands *hands)
{
    struct list *link;
    pthread_mutex_lock(&hands->lock);
    while ((link = list_pop(&hands->pending))) {
        struct outbox_handed *handed = handed_of(link);
        if (handed->opening == handed->hand->opening)
            list_append(&handed->hand->requests, link);
        else
            free(handed);
    }
    hands->end_seq = hands->put_seq;
    pthread_mutex_unlock(&hands->lock);
}

void outbox_hands_void(struct outbox_hands *hands)
{
    pthread_mutex_lock(&hands->lock);
    outbox_handed_free(&hands->pending);
    each_hand(hand, hands) empty(hand);
    pthread_mutex_unlock(&hands->lock);
}

void outbox_hands_follow(struct outbox_hands *hands, uint64_t file, int64_t last_seq)
{
    outbox_hands_void(hands);
    pthread_mutex_lock(&hands->lock);
    hands->file = file;
    hands->put_seq = hands->end_seq = last_seq;
    pthread_mutex_unlock(&hands->lock);
}

/* ---- loop ---- */

void outbox_hand_open(struct outbox_hand *hand, struct outbox_hand_read *read)
{
    struct outbox_hands *hands = hand->all;
    pthread_mutex_lock(&hands->lock);
    if (!hand->open) {
        empty(hand);
        hand->open = true;
        hand->from_seq = hands->put_seq;
        hand->read_to = -1;
    }
    *read = (struct outbox_hand_read){hand->opening, hands->file, hands->end_seq};
    pthread_mutex_unlock(&hands->lock);
}

void outbox_hand_has(struct outbox_hand *hand, const struct outbox_hand_read *read, int64_t seq)
{
    pthread_mutex_lock(&hand->all->lock);
    if (read->opening == hand->opening && seq > hand->read_to)
        hand->read_to = seq;
    pthread_mutex_unlock(&hand->all->lock);
}

static bool fits(const struct outbox_hand_want *want, size_t n, size_t bytes, size_t more)
{
    return n < want->requests && (!n || bytes + more <= want->bytes);
}

static void take(struct outbox_hand *hand, const struct outbox_hand_want *want, struct list *taken)
{
    struct list *link;
    size_t n = 0, bytes = 0;
    while ((link = list_first(&hand->requests))) {
        struct outbox_handed *handed = handed_of(link);
        bool is_new = handed->seq > hand->read_to;
        if (is_new && !fits(want, n, bytes, handed->len))
            return;
        list_remove(link);
        hand->bytes -= sizeof(*handed) + handed->len;
        if (!is_new) {
            free(handed);
            continue;
        }
        list_append(taken, link);
        bytes += handed->len;
        n++;
    }
}

int outbox_hand_take(struct outbox_hand *hand, const struct outbox_hand_want *want,
                     struct list *taken, bool *more)
{
    pthread_mutex_lock(&hand->all->lock);
    bool gap = hand->read_to < hand->from_seq;
    if (!gap)
        take(hand, want, taken);
    *more = !hand->open || !list_empty(&hand->requests);
    gap |= list_empty(taken) && !hand->open;
    pthread_mutex_unlock(&hand->all->lock);
    return gap ? OUTBOX_HAND_GAP : 0;
}

void outbox_hand_limit(struct outbox_hand *hand, size_t bytes)
{
    pthread_mutex_lock(&hand->all->lock);
    hand->limit = bytes;
    pthread_mutex_unlock(&hand->all->lock);
}

void outbox_hand_close(struct outbox_hand *hand)
{
    pthread_mutex_lock(&hand->all->lock);
    empty(hand);
    pthread_mutex_unlock(&hand->all->lock);
}
