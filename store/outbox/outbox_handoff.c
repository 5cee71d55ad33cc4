/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a gap is found. Every request put after the handoff was opened enters it, so from_seq is the
 * last seq put before the opening, committed or not. The sender then reads the store. Afterwards
 * read_to is the last seq that it found or, if it found no more, the last seq committed when the
 * read began.
 *
 *     read_to >= from_seq   nothing is missing between what was read and what is handed over
 *     read_to <  from_seq   a transaction was open at the opening: the next read finds its requests
 *
 * A request may be in both. In the handoff only requests with seq > read_to count.
 */
#include "store/outbox/outbox_handoff.h"
#include <stdlib.h>

static struct outbox_handoff_request *handoff_request_of(struct list *link)
{
    return container_of(link, struct outbox_handoff_request, link);
}

void outbox_handoff_free(struct list *requests)
{
    struct list *link;
    while ((link = list_pop(requests)))
        free(handoff_request_of(link));
}

/* Empties the handoff. Requests that are not committed yet are void, because `opening` changes. */
static void outbox_handoff_empty(struct outbox_handoff *handoff)
{
    outbox_handoff_free(&handoff->requests);
    handoff->open = false;
    handoff->opening++;
    handoff->bytes = 0;
}

/* ---- writer ---- */

#define each_handoff(handoff, handoffs)                                                            \
    for (struct outbox_handoff *handoff = (handoffs)->of[0],                                       \
                               *end_ = handoff + OUTBOX_DESTINATIONS_MAX * SIGNAL_COUNT;           \
         handoff < end_; handoff++)

void outbox_handoffs_init(struct outbox_handoffs *handoffs)
{
    pthread_mutex_init(&handoffs->lock, NULL);
    list_init(&handoffs->pending);
    each_handoff(handoff, handoffs)
    {
        handoff->all = handoffs;
        list_init(&handoff->requests);
    }
}

void outbox_handoffs_close(struct outbox_handoffs *handoffs)
{
    outbox_handoffs_void(handoffs);
    pthread_mutex_destroy(&handoffs->lock);
}

static void outbox_handoff_put(struct outbox_handoff *handoff, const struct outbox_row *row)
{
    size_t size = sizeof(struct outbox_handoff_request) + row->body.len;
    if (!handoff->open)
        return;
    struct outbox_handoff_request *handed =
        handoff->bytes + size <= handoff->limit ? malloc(size) : NULL;
    handoff->open = handed != NULL;
    if (!handed)
        return;
    *handed = (struct outbox_handoff_request){.handoff = handoff,
                                              .opening = handoff->opening,
                                              .seq = row->seq,
                                              .items = row->items,
                                              .len = row->body.len};
    memcpy(handed->body, row->body.data, row->body.len);
    handoff->bytes += size;
    list_append(&handoff->all->pending, &handed->link);
}

void outbox_handoffs_put(struct outbox_handoffs *handoffs, uint32_t destinations,
                         const struct outbox_row *row)
{
    pthread_mutex_lock(&handoffs->lock);
    for (size_t i = 0; i < OUTBOX_DESTINATIONS_MAX; i++)
        if (destinations >> i & 1)
            outbox_handoff_put(&handoffs->of[i][row->signal], row);
    handoffs->put_seq = row->seq;
    pthread_mutex_unlock(&handoffs->lock);
}

/* The oldest request was dropped. If a handoff is empty, the request may be among its uncommitted
 * ones. */
void outbox_handoffs_dropped(struct outbox_handoffs *handoffs, enum signal signal, int64_t seq)
{
    pthread_mutex_lock(&handoffs->lock);
    for (size_t i = 0; i < OUTBOX_DESTINATIONS_MAX; i++) {
        struct outbox_handoff *handoff = &handoffs->of[i][signal];
        struct list *first = list_first(&handoff->requests);
        if (!first || handoff_request_of(first)->seq <= seq)
            outbox_handoff_empty(handoff);
    }
    pthread_mutex_unlock(&handoffs->lock);
}

void outbox_handoffs_committed(struct outbox_handoffs *handoffs)
{
    struct list *link;
    pthread_mutex_lock(&handoffs->lock);
    while ((link = list_pop(&handoffs->pending))) {
        struct outbox_handoff_request *handed = handoff_request_of(link);
        if (handed->opening == handed->handoff->opening)
            list_append(&handed->handoff->requests, link);
        else
            free(handed);
    }
    handoffs->end_seq = handoffs->put_seq;
    pthread_mutex_unlock(&handoffs->lock);
}

void outbox_handoffs_void(struct outbox_handoffs *handoffs)
{
    pthread_mutex_lock(&handoffs->lock);
    outbox_handoff_free(&handoffs->pending);
    each_handoff(handoff, handoffs) outbox_handoff_empty(handoff);
    pthread_mutex_unlock(&handoffs->lock);
}

void outbox_handoffs_follow(struct outbox_handoffs *handoffs, uint64_t file, int64_t last_seq)
{
    outbox_handoffs_void(handoffs);
    pthread_mutex_lock(&handoffs->lock);
    handoffs->file = file;
    handoffs->put_seq = handoffs->end_seq = last_seq;
    pthread_mutex_unlock(&handoffs->lock);
}

/* ---- loop ---- */

void outbox_handoff_open(struct outbox_handoff *handoff, struct outbox_handoff_read *read)
{
    struct outbox_handoffs *handoffs = handoff->all;
    pthread_mutex_lock(&handoffs->lock);
    if (!handoff->open) {
        outbox_handoff_empty(handoff);
        handoff->open = true;
        handoff->from_seq = handoffs->put_seq;
        handoff->read_to = -1;
    }
    *read = (struct outbox_handoff_read){handoff->opening, handoffs->file, handoffs->end_seq};
    pthread_mutex_unlock(&handoffs->lock);
}

void outbox_handoff_has(struct outbox_handoff *handoff, const struct outbox_handoff_read *read,
                        int64_t seq)
{
    pthread_mutex_lock(&handoff->all->lock);
    if (read->opening == handoff->opening && seq > handoff->read_to)
        handoff->read_to = seq;
    pthread_mutex_unlock(&handoff->all->lock);
}

static bool outbox_handoff_want_fits(const struct outbox_handoff_want *want, size_t n, size_t bytes,
                                     size_t more)
{
    return n < want->requests && (!n || bytes + more <= want->bytes);
}

static void handoff_take(struct outbox_handoff *handoff, const struct outbox_handoff_want *want,
                         struct list *taken)
{
    struct list *link;
    size_t n = 0, bytes = 0;
    while ((link = list_first(&handoff->requests))) {
        struct outbox_handoff_request *handed = handoff_request_of(link);
        bool is_new = handed->seq > handoff->read_to;
        if (is_new && !outbox_handoff_want_fits(want, n, bytes, handed->len))
            return;
        list_remove(link);
        handoff->bytes -= sizeof(*handed) + handed->len;
        if (!is_new) {
            free(handed);
            continue;
        }
        list_append(taken, link);
        bytes += handed->len;
        n++;
    }
}

int outbox_handoff_take(struct outbox_handoff *handoff, const struct outbox_handoff_want *want,
                        struct list *taken, bool *more)
{
    pthread_mutex_lock(&handoff->all->lock);
    bool gap = handoff->read_to < handoff->from_seq;
    if (!gap)
        handoff_take(handoff, want, taken);
    *more = !handoff->open || !list_empty(&handoff->requests);
    gap |= list_empty(taken) && !handoff->open;
    pthread_mutex_unlock(&handoff->all->lock);
    return gap ? OUTBOX_HANDOFF_GAP : 0;
}

void outbox_handoff_limit(struct outbox_handoff *handoff, size_t bytes)
{
    pthread_mutex_lock(&handoff->all->lock);
    handoff->limit = bytes;
    pthread_mutex_unlock(&handoff->all->lock);
}

void outbox_handoff_close(struct outbox_handoff *handoff)
{
    pthread_mutex_lock(&handoff->all->lock);
    outbox_handoff_empty(handoff);
    pthread_mutex_unlock(&handoff->all->lock);
}
