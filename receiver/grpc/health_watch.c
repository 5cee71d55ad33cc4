/* SPDX-License-Identifier: Apache-2.0 */
#include "receiver/grpc/health_watch.h"
#include "base/clock.h"
#include "base/stats.h"
#include "proto/http/grpc.h"
#include <errno.h>
#include <stdlib.h>

#define UPDATE_NS NS_PER_SEC

STAT_GAUGE(watching, "spanprof_grpc_server_health_watches", "Clients that watch the health.");
STAT_LOSS(too_many, "spanprof_grpc_server_health_watches_refused_total",
          "Clients that asked to watch the health when there were too many.");

struct health_watch {
    struct list link;
    struct health_watches *watches;
    struct h2_stream *stream;
    uint32_t signals;
    struct buf request;
    struct buf last_sent; /* answer */
};

/* An unknown service may become known later, so "unknown" is a state here, not an error. */
static int watch_state(const struct health_watch *watch, struct buf *response)
{
    int outcome =
        health_check(watch->watches->health, watch->signals, buf_bytes(&watch->request), response);
    return outcome == GRPC_NOT_FOUND ? health_unknown(response) : outcome;
}

static int message_of(const struct buf *response, struct buf *message)
{
    uint8_t prefix[GRPC_PREFIX_SIZE];
    grpc_prefix_write(prefix, false, (uint32_t)response->len);
    int error = buf_append(message, prefix, sizeof(prefix));
    return error ? error : buf_append_bytes(message, buf_bytes(response));
}

static int watch_answer(struct health_watch *watch)
{
    static const struct h2_header headers[] = {
        {":status", {(const uint8_t *)"200", 3}, false},
        {"content-type", {(const uint8_t *)"application/grpc", 16}, false}};
    static const struct h2_header trailers[] = {
        {"grpc-status", {(const uint8_t *)"14", 2}, false},
        {"grpc-message", {(const uint8_t *)"the node is shutting down", 25}, false}};
    struct buf message = BUF_INIT(0);
    int error = message_of(&watch->last_sent, &message);
    if (error) {
        buf_close(&message);
        return error;
    }
    h2_respond_on(watch->stream, &(struct h2_response){headers, 2, &message, trailers, 2});
    return 0;
}

static void watch_update(struct health_watch *watch)
{
    _cleanup_buf_ struct buf response = BUF_INIT(0), message = BUF_INIT(0);
    if (watch_state(watch, &response) ||
        bytes_equal(buf_bytes(&response), buf_bytes(&watch->last_sent)) ||
        message_of(&response, &message))
        return;
    if (h2_append(watch->stream, buf_bytes(&message)))
        return; /* the next time */
    buf_close(&watch->last_sent);
    watch->last_sent = response;
    response = BUF_INIT(0);
}

static void on_timer(struct timer *timer)
{
    struct health_watches *watches = container_of(timer, struct health_watches, timer);
    struct list *link, *tmp;
    list_each(link, tmp, &watches->all) watch_update(container_of(link, struct health_watch, link));
    timer_start(watches->loop, timer, UPDATE_NS);
}

void health_watches_init(struct health_watches *watches, struct loop *loop,
                         const struct health *health)
{
    LOOP_THREAD(loop);
    *watches = (struct health_watches){.loop = loop, .health = health, .timer.fire = on_timer};
    list_init(&watches->all);
}

int health_watch_begin(struct health_watches *watches, struct h2_stream *stream, uint32_t signals,
                       struct bytes request, struct health_watch **result)
{
    LOOP_THREAD(watches->loop);
    if (watches->n >= HEALTH_WATCHES_MAX) {
        stat_add(&too_many, 1);
        return GRPC_RESOURCE_EXHAUSTED;
    }
    struct health_watch *watch = calloc(1, sizeof(*watch));
    if (!watch)
        return -ENOMEM;
    *watch = (struct health_watch){.watches = watches, .stream = stream, .signals = signals};
    list_append(&watches->all, &watch->link);
    stat_add(&watching, 1);
    if (watches->n++ == 0)
        timer_start(watches->loop, &watches->timer, UPDATE_NS);
    int outcome = buf_append_bytes(&watch->request, request);
    outcome = outcome ? outcome : watch_state(watch, &watch->last_sent);
    outcome = outcome ? outcome : watch_answer(watch);
    if (outcome)
        health_watch_end(watch);
    else
        *result = watch;
    return outcome;
}

void health_watch_end(struct health_watch *watch)
{
    if (!watch)
        return;
    LOOP_THREAD(watch->watches->loop);
    struct health_watches *watches = watch->watches;
    list_remove(&watch->link);
    stat_add(&watching, -1);
    if (--watches->n == 0)
        timer_stop(&watches->timer);
    buf_close(&watch->request);
    buf_close(&watch->last_sent);
    free(watch);
}

void health_watches_finish(struct health_watches *watches)
{
    LOOP_THREAD(watches->loop);
    struct list *link, *tmp;
    list_each(link, tmp, &watches->all)
        h2_finish(container_of(link, struct health_watch, link)->stream);
}
