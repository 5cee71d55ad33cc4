/* SPDX-License-Identifier: Apache-2.0 */
#include "receiver/admission/admission.h"
#include "base/stats.h"

#define LOOK_NS (250 * NS_PER_MS) /* how often slow requests are looked for */

STAT_COUNTER(waited, "spanprof_receiver_waited_total",
             "Requests whose body waited until there was room for it.");
STAT_GAUGE(waiting, "spanprof_receiver_waiting_requests",
           "Requests whose body waits until there is room for it.");
STAT_COUNTER(expired, "spanprof_receiver_expired_total",
             "Requests refused because they arrived too slowly while others waited for room.");

/* ---- shares ---- */

static size_t sender_share(const struct admission *admission)
{
    return admission->limit_bytes / 4;
}

static bool is_large(const struct admission *admission, size_t bytes)
{
    return bytes > sender_share(admission);
}

/* Whoever has nothing yet may have one request. */
static bool fits_share(size_t has, size_t more, size_t share)
{
    return !has || (more <= share && has <= share - more);
}

static bool sender_may(const struct admission *admission, const struct sender *sender, size_t bytes)
{
    size_t share = sender_share(admission);
    return fits_share(sender->admitted_bytes, bytes, share) &&
           fits_share(sender->peer->admitted_bytes, bytes, 3 * share) &&
           !(is_large(admission, bytes) && admission->n_large);
}

static bool has_room(const struct admission *admission, size_t bytes)
{
    if (!admission->n)
        return true;
    return admission->n < admission->limit_requests && bytes <= admission->limit_bytes &&
           admission->bytes <= admission->limit_bytes - bytes;
}

/* ---- slow requests ---- */

static bool is_slow(const struct admission_request *request, uint64_t now_ns)
{
    uint64_t age_ns = now_ns - request->since_ns;
    uint64_t due_ns = request->received_bytes * (NS_PER_SEC / ADMISSION_BYTES_PER_SEC);
    return age_ns >= ADMISSION_GRACE_NS && age_ns - ADMISSION_GRACE_NS >= due_ns;
}

static void admission_watch(struct admission *admission)
{
    if (!admission->n_waiting || list_empty(&admission->receiving))
        return timer_stop(&admission->expiry);
    if (!admission->expiry.due_ns)
        timer_start(admission->loop, &admission->expiry, LOOK_NS);
}

/* All slow ones leave at once: refusing one may admit another, which is then the last in the list
 * and not slow. */
static void on_expiry(struct timer *timer)
{
    struct admission *admission = container_of(timer, struct admission, expiry);
    uint64_t now_ns = clock_monotonic_ns();
    struct list slow, *link, *tmp;
    list_init(&slow);
    list_each(link, tmp, &admission->receiving)
    {
        if (!is_slow(container_of(link, struct admission_request, link), now_ns))
            continue;
        list_remove(link);
        list_append(&slow, link);
    }
    while ((link = list_pop(&slow))) {
        struct admission_request *request = container_of(link, struct admission_request, link);
        stat_add(&expired, 1);
        request->expired(request);
    }
    admission_watch(admission);
}

/* ---- turns ---- */

static void let_in(struct admission *admission, struct admission_request *request)
{
    struct sender *sender = request->sender;
    admission->bytes += request->bytes;
    admission->n++;
    admission->n_large += is_large(admission, request->bytes);
    sender->admitted_bytes += request->bytes;
    sender->peer->admitted_bytes += request->bytes;
    request->is_in = true;
    request->since_ns = clock_monotonic_ns();
    list_append(&admission->receiving, &request->link);
    request->let_in(request);
}

static void admission_queue(struct admission *admission, struct admission_request *request)
{
    struct sender *sender = request->sender;
    struct sender_peer *peer = sender->peer;
    request->since_ns = clock_monotonic_ns();
    list_append(&sender->waiting, &request->link);
    if (!list_linked(&sender->link))
        list_append(&peer->waiting, &sender->link);
    if (!list_linked(&peer->link))
        list_append(&admission->waiting, &peer->link);
    admission->n_waiting++;
    stat_add(&waiting, 1);
}

/* The sender and its peer go to the end of their lists, if more of theirs waits. */
static void admission_unqueue(struct admission *admission, struct admission_request *request)
{
    struct sender *sender = request->sender;
    struct sender_peer *peer = sender->peer;
    list_remove(&request->link);
    list_remove(&sender->link);
    list_remove(&peer->link);
    if (!list_empty(&sender->waiting))
        list_append(&peer->waiting, &sender->link);
    if (!list_empty(&peer->waiting))
        list_append(&admission->waiting, &peer->link);
    assert(admission->n_waiting);
    admission->n_waiting--;
    stat_add(&waiting, -1);
}

static struct admission_request *sender_first(const struct sender *sender)
{
    return container_of(list_first(&sender->waiting), struct admission_request, link);
}

/* The next request that its shares allow; NULL: none. */
static struct admission_request *next_within_shares(const struct admission *admission)
{
    struct list *peer_link, *sender_link, *tmp, *tmp2;
    list_each(peer_link, tmp, &admission->waiting)
    {
        const struct sender_peer *peer = container_of(peer_link, struct sender_peer, link);
        list_each(sender_link, tmp2, &peer->waiting)
        {
            const struct sender *sender = container_of(sender_link, struct sender, link);
            struct admission_request *request = sender_first(sender);
            if (sender_may(admission, sender, request->bytes))
                return request;
        }
    }
    return NULL;
}

/* A request within its shares that finds no room holds up the others: else small ones would always
 * be ahead of it. */
static void let_next_in(struct admission *admission)
{
    struct admission_request *request;
    while (admission->n_waiting && (request = next_within_shares(admission)) &&
           has_room(admission, request->bytes)) {
        admission_unqueue(admission, request);
        let_in(admission, request);
    }
    admission_watch(admission);
}

/* ---- verbs ---- */

void admission_init(struct admission *admission, struct loop *loop, size_t limit_bytes,
                    size_t limit_requests)
{
    *admission = (struct admission){.limit_bytes = limit_bytes,
                                    .limit_requests = limit_requests,
                                    .loop = loop,
                                    .expiry.fire = on_expiry};
    senders_init(&admission->senders);
    list_init(&admission->waiting);
    list_init(&admission->receiving);
}

void admission_close(struct admission *admission)
{
    timer_stop(&admission->expiry);
    senders_close(&admission->senders);
}

void admission_ask(struct admission *admission, struct sender *sender,
                   struct admission_request *request, size_t bytes)
{
    assert(!request->admission);
    request->admission = admission;
    request->sender = sender_hold(sender);
    request->bytes = bytes;
    request->received_bytes = 0;
    size_t before = admission->n_waiting;
    admission_queue(admission, request);
    let_next_in(admission);
    stat_add(&waited, admission->n_waiting > before);
}

bool admission_is_in(const struct admission_request *request)
{
    return request->is_in;
}

void admission_progress(struct admission_request *request, size_t bytes)
{
    request->received_bytes += bytes;
}

void admission_received(struct admission_request *request)
{
    assert(request->is_in);
    list_remove(&request->link);
}

void admission_leave(struct admission_request *request)
{
    struct admission *admission = request->admission;
    struct sender *sender = request->sender;
    if (!admission)
        return;
    if (!request->is_in) {
        admission_unqueue(admission, request);
    } else {
        admission->bytes -= request->bytes;
        admission->n--;
        admission->n_large -= is_large(admission, request->bytes);
        sender->admitted_bytes -= request->bytes;
        sender->peer->admitted_bytes -= request->bytes;
        list_remove(&request->link);
    }
    request->is_in = false;
    request->admission = NULL;
    request->sender = NULL;
    let_next_in(admission);
    sender_release(sender);
}

bool admission_is_stuck(const struct admission *admission)
{
    uint64_t now_ns = clock_monotonic_ns();
    struct list *peer_link, *sender_link, *tmp, *tmp2;
    list_each(peer_link, tmp, &admission->waiting)
    {
        const struct sender_peer *peer = container_of(peer_link, struct sender_peer, link);
        list_each(sender_link, tmp2, &peer->waiting)
        {
            const struct sender *sender = container_of(sender_link, struct sender, link);
            const struct admission_request *request = sender_first(sender);
            if (now_ns - request->since_ns >= ADMISSION_LONG_NS &&
                sender_may(admission, sender, request->bytes))
                return true;
        }
    }
    return false;
}
