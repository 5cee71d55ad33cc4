/* SPDX-License-Identifier: Apache-2.0 */
#include "receiver/intake/admission.h"
#include "base/clock.h"
#include "base/stats.h"

#define EXPIRY_NS (5 * NS_PER_SEC)

STAT_COUNTER(waited, "spanprof_receiver_waited_total",
             "Requests whose body waited until there was room for it.");
STAT_GAUGE(waiting, "spanprof_receiver_waiting_requests",
           "Requests whose body waits until there is room for it.");
STAT_COUNTER(expired, "spanprof_receiver_expired_total",
             "Requests refused because they were not finished while others waited for room.");

static struct admission_request *admission_first(const struct list *requests)
{
    struct list *link = list_first(requests);
    return link ? container_of(link, struct admission_request, link) : NULL;
}

static bool has_room(const struct admission *admission, size_t bytes)
{
    if (!admission->n)
        return true;
    return admission->n < admission->limit_requests && bytes <= admission->limit_bytes &&
           admission->bytes <= admission->limit_bytes - bytes;
}

static void admission_watch(struct admission *admission)
{
    struct admission_request *oldest = admission_first(&admission->receiving);
    uint64_t now_ns = clock_monotonic_ns();
    if (!oldest || list_empty(&admission->waiting))
        return timer_stop(&admission->expiry);
    uint64_t due_ns = oldest->since_ns + EXPIRY_NS;
    if (!admission->expiry.due_ns)
        timer_start(admission->loop, &admission->expiry, due_ns > now_ns ? due_ns - now_ns : 0);
}

static void on_expiry(struct timer *timer)
{
    struct admission *admission = container_of(timer, struct admission, expiry);
    struct admission_request *oldest = admission_first(&admission->receiving);
    if (oldest && !list_empty(&admission->waiting) &&
        clock_monotonic_ns() - oldest->since_ns >= EXPIRY_NS) {
        stat_add(&expired, 1);
        oldest->expired(oldest);
    }
    admission_watch(admission);
}

static void let_in(struct admission *admission, struct admission_request *request)
{
    admission->bytes += request->bytes;
    admission->n++;
    request->is_in = true;
    request->since_ns = clock_monotonic_ns();
    list_append(&admission->receiving, &request->link);
    request->let_in(request);
}

static void let_next_in(struct admission *admission)
{
    struct admission_request *request;
    while ((request = admission_first(&admission->waiting)) &&
           has_room(admission, request->bytes)) {
        list_remove(&request->link);
        stat_add(&waiting, -1);
        let_in(admission, request);
    }
    admission_watch(admission);
}

void admission_init(struct admission *admission, struct loop *loop, size_t limit_bytes,
                    size_t limit_requests)
{
    *admission = (struct admission){.limit_bytes = limit_bytes,
                                    .limit_requests = limit_requests,
                                    .loop = loop,
                                    .expiry.fire = on_expiry};
    list_init(&admission->waiting);
    list_init(&admission->receiving);
}

void admission_ask(struct admission *admission, struct admission_request *request, size_t bytes)
{
    assert(!request->admission);
    request->admission = admission;
    request->bytes = bytes;
    if (list_empty(&admission->waiting) && has_room(admission, bytes))
        return let_in(admission, request);
    list_append(&admission->waiting, &request->link);
    stat_add(&waited, 1);
    stat_add(&waiting, 1);
    admission_watch(admission);
}

bool admission_is_in(const struct admission_request *request)
{
    return request->is_in;
}

void admission_received(struct admission_request *request)
{
    assert(request->is_in);
    list_remove(&request->link);
}

void admission_leave(struct admission_request *request)
{
    struct admission *admission = request->admission;
    if (!admission)
        return;
    if (!request->is_in) {
        stat_add(&waiting, -1);
    } else {
        admission->bytes -= request->bytes;
        admission->n--;
    }
    list_remove(&request->link);
    request->is_in = false;
    request->admission = NULL;
    let_next_in(admission);
}
