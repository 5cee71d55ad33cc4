/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A second request is begun while one is under way only if the last fetch was full: what trickles
 * in during the way of one leaves together with the next. So there are as few requests as possible,
 * and as many at a time as it takes. The first after a silence leaves at once; what follows it
 * within GATHER_NS leaves together, as each alone would cost a fetch, a call and a transaction.
 *
 * What fails is sent again after a pause of the whole lane, and then one request at a time until
 * one is taken: a backend that is overloaded or away is not met with all at once. The others have
 * their turn before the one that failed, and after a long time more are fetched, so that a request
 * that can never be taken does not hold up the lane for ever.
 *
 * That it has no service for the signal waits likewise, for some time (see lane_unserved.h).
 *
 * A joined request that is refused for good is fetched and sent again in its parts, so that one bad
 * part costs only itself; one that is too big further in slices (see lane_slice.h).
 */
#include "exporter/lane.h"
#include "base/clock.h"
#include "base/log.h"
#include "exporter/lane_counts.h"
#include "exporter/lane_fetch.h"
#include "exporter/lane_hand.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define AGAIN_NS        NS_PER_SEC
#define PAUSES_FOR_LONG 60 /* times the longest pause */
#define GATHER_NS       (50 * NS_PER_MS)
#define GATHER_WAKES    16 /* then it is enough for a request */

/* A disk that is full or away may come back at any time. */
static const struct config_retry file_retry = {.enabled = true,
                                               .initial_interval_ns = NS_PER_SEC,
                                               .randomization_factor = 0.5,
                                               .multiplier = 1.5,
                                               .max_interval_ns = 10 * NS_PER_SEC};

struct lane_request {
    struct list link;  /* of the lane's requests or refused ones */
    struct lane *lane; /* NULL: closed while it was fetched */
    struct lane_fetch fetch;
    bool sending;
    size_t next_part;                /* of a refused one */
    uint64_t first_failure_ns;       /* 0 = none */
    uint64_t unserved_since_ns;      /* no other answer since; 0 = none */
    struct otlp_grpc_call grpc_call; /* of the exporter's kind one */
    struct otlp_http_call http_call;
    struct file_exporter_call file_call;
};

static const struct config_exporter *config_of(const struct lane *lane)
{
    return lane->exporter->settings.config;
}

static const char *name_of(const struct lane *lane)
{
    return config_of(lane)->id;
}

static bool is_otlp(const struct config_exporter *config)
{
    return config->type == CONFIG_EXPORTER_OTLP_GRPC || config->type == CONFIG_EXPORTER_OTLP_HTTP;
}

static size_t most_requests(const struct lane *lane)
{
    const struct config_exporter *config = config_of(lane);
    return is_otlp(config) && config->otlp.num_consumers ? config->otlp.num_consumers : 1;
}

/* ---- requests ---- */

static void answered_grpc(struct otlp_grpc_call *call, const struct export_result *result);
static void answered_http(struct otlp_http_call *call, const struct export_result *result);
static void written(struct file_exporter_call *call, int error);
static void fetched(struct lane_fetch *fetch, int error);

static struct lane_request *request_new(struct lane *lane)
{
    const struct exporter_settings *settings = &lane->exporter->settings;
    struct lane_request *request = calloc(1, sizeof(*request));
    if (!request)
        return NULL;
    request->lane = lane;
    lane_fetch_init(&request->fetch);
    request->fetch.done = fetched;
    request->fetch.reader = settings->outbox_reader;
    request->fetch.config = settings->config;
    request->fetch.signal = lane->signal;
    request->fetch.after_seq = lane->after_seq;
    request->grpc_call.done = answered_grpc;
    request->http_call.done = answered_http;
    request->file_call.done = written;
    return request;
}

static void request_free(struct lane_request *request)
{
    lane_fetch_close(&request->fetch);
    free(request);
}

static void add(struct lane *lane, struct lane_request *request)
{
    list_append(&lane->requests, &request->link);
    lane->n_requests++;
    lane_hand_bytes(lane, lane->bytes + request->fetch.message.len);
}

static void take_out(struct lane *lane, struct lane_request *request)
{
    list_remove(&request->link);
    lane->n_requests--;
    lane_hand_bytes(lane, lane->bytes - request->fetch.message.len);
    lane->look = true;
}

/* Its parts, or a part of it, are fetched from the store. */
static void fetch_parts(struct lane *lane, struct lane_request *request)
{
    take_out(lane, request);
    lane_fetch_close(&request->fetch);
    list_append(&lane->refused, &request->link);
}

/* It is over, whatever became of it. */
static void settle(struct lane *lane, struct lane_request *request)
{
    if (lane_slice_advance(&request->fetch.slice, request->fetch.message.len))
        return fetch_parts(lane, request);
    take_out(lane, request);
    bool later = !lane->more && !lane->exporter->draining; /* nothing waits for its place */
    lane_marks_put(&lane->marks, request->fetch.seqs, request->fetch.n, later);
    request_free(request);
}

static void pause_for(struct lane *lane, uint64_t pause_ns)
{
    uint64_t due_ns = clock_monotonic_ns() + pause_ns;
    if (lane->pausing && lane->pause.due_ns >= due_ns)
        return;
    lane->pausing = true;
    timer_start(lane->exporter->settings.loop, &lane->pause, pause_ns);
}

/* ---- what became of it ---- */

static void taken(struct lane *lane, struct lane_request *request,
                  const struct export_result *result)
{
    uint64_t rejected = lane_count_taken(lane->signal, request->fetch.items, result->rejected);
    if (rejected || result->message[0])
        log_warn("exporter", "%s: %s: the backend rejected %llu %s: %s", name_of(lane),
                 signal_names[lane->signal], (unsigned long long)rejected,
                 lane->signal == SIGNAL_PROFILES ? "of them" : "items", result->message);
    if (lane->failing)
        log_info("exporter", "%s: %s go out again", name_of(lane), signal_names[lane->signal]);
    lane->failing = false;
    backoff_success(&lane->backoff);
    settle(lane, request);
}

static void drop(struct lane *lane, struct lane_request *request, enum lane_loss loss)
{
    lane_count_lost(lane->signal, loss, request->fetch.items);
    backoff_success(&lane->backoff);
    settle(lane, request);
}

/* One that is joined first in what it was joined of. Whether there is something smaller to send. */
static bool take_apart(struct lane *lane, struct lane_request *request,
                       const struct export_result *result)
{
    struct lane_slice *slice = &request->fetch.slice;
    bool is_whole = request->fetch.n == 1 && !slice->n;
    if (request->fetch.n == 1 &&
        !(result->too_big && lane_slice_shrink(slice, request->fetch.message.len)))
        return false;
    if (is_whole)
        log_warn("exporter",
                 "%s: %s: a request of %zu bytes is too big for the backend (%s: %s), it is sent "
                 "in parts; set max_request_size",
                 name_of(lane), signal_names[lane->signal], request->fetch.message.len,
                 result->code, result->message);
    fetch_parts(lane, request);
    return true;
}

static void refused(struct lane *lane, struct lane_request *request,
                    const struct export_result *result)
{
    lane_count_request(LANE_REFUSED);
    if (take_apart(lane, request, result))
        return;
    log_warn("exporter",
             "%s: %s: the backend refused a request for good (%s: %s); %llu items dropped",
             name_of(lane), signal_names[lane->signal], result->code, result->message,
             (unsigned long long)request->fetch.items);
    drop(lane, request, result->too_big ? LANE_LOST_TOO_BIG : LANE_LOST_REFUSED);
}

/* Those that fail during a pause were begun before it: all together are one failure. */
static void try_later(struct lane *lane, struct lane_request *request,
                      const struct export_result *result)
{
    struct backoff backoff = lane->backoff;
    uint64_t pause_ns = 0;
    lane_count_request(LANE_RETRY);
    backoff.first_failure_ns = request->first_failure_ns;
    if (backoff_failure(&backoff, clock_monotonic_ns(), result->retry_delay_ns, &pause_ns) ==
        BACKOFF_GIVE_UP)
        return drop(lane, request,
                    backoff.config->enabled ? LANE_LOST_EXPIRED : LANE_LOST_NOT_RETRIED);
    request->first_failure_ns = backoff.first_failure_ns;
    if (!lane->failing)
        log_warn("exporter", "%s: %s wait in the store: %s (%s)", name_of(lane),
                 signal_names[lane->signal], result->message, result->code);
    lane->failing = true;
    outbox_hand_close(lane->hand);
    list_remove(&request->link);
    list_append(&lane->requests, &request->link);
    if (!lane->pausing)
        lane->backoff = backoff;
    if (!lane->pausing || result->retry_delay_ns)
        pause_for(lane, pause_ns);
}

static void unserved(struct lane *lane, struct lane_request *request,
                     const struct export_result *result)
{
    if (!lane->unserved.since_ns)
        lane_unserved_say(lane->backoff.config, name_of(lane), lane->signal, result);
    enum lane_unserved_outcome outcome = lane_unserved_answer(
        &lane->unserved, lane->backoff.config, clock_monotonic_ns(), &request->unserved_since_ns);
    if (outcome == UNSERVED_WAITS) {
        lane->failing = true; /* which is said */
        return try_later(lane, request, result);
    }
    if (outcome == UNSERVED_DISCARDED && !lane->unserved.is_said) {
        lane->unserved.is_said = true;
        log_warn("exporter", "%s: the backend does not take %s, those that wait are dropped",
                 name_of(lane), signal_names[lane->signal]);
    }
    lane_count_request(LANE_REFUSED);
    drop(lane, request, LANE_LOST_UNSERVED);
}

/* ---- sending ---- */

static void go_on(struct lane *lane);

static struct lane *answer_came(struct lane_request *request)
{
    request->sending = false;
    request->lane->n_sending--;
    return request->lane;
}

static void answered(struct lane_request *request, const struct export_result *result)
{
    struct lane *lane = answer_came(request);
    if (result->unserved) {
        unserved(lane, request, result);
        return go_on(lane);
    }
    lane_unserved_end(&lane->unserved);
    request->unserved_since_ns = 0;
    if (result->verdict == EXPORT_OK)
        taken(lane, request, result);
    else if (result->verdict == EXPORT_RETRY)
        try_later(lane, request, result);
    else
        refused(lane, request, result);
    go_on(lane);
}

static void answered_grpc(struct otlp_grpc_call *call, const struct export_result *result)
{
    answered(container_of(call, struct lane_request, grpc_call), result);
}

static void answered_http(struct otlp_http_call *call, const struct export_result *result)
{
    answered(container_of(call, struct lane_request, http_call), result);
}

static void written(struct file_exporter_call *call, int error)
{
    struct lane_request *request = container_of(call, struct lane_request, file_call);
    struct export_result result = {.verdict = error ? EXPORT_RETRY : EXPORT_OK,
                                   .code = "UNAVAILABLE"};
    if (error)
        snprintf(result.message, sizeof(result.message), "%s: %s",
                 config_of(request->lane)->file.path, strerror(-error));
    answered(request, &result);
}

static void send_request(struct lane *lane, struct lane_request *request)
{
    struct exporter *exporter = lane->exporter;
    struct bytes message = buf_bytes(&request->fetch.message);
    if (exporter->file && file_exporter_write(exporter->file, &request->file_call, message))
        return pause_for(lane, AGAIN_NS);
    request->sending = true;
    lane->n_sending++;
    if (exporter->grpc)
        otlp_grpc_send(exporter->grpc, &request->grpc_call, lane->signal, message);
    else if (exporter->http)
        otlp_http_send(exporter->http, &request->http_call, lane->signal, message);
}

static void shown(struct lane *lane, struct lane_request *request)
{
    lane_count_sent(lane->signal, request->fetch.items);
    settle(lane, request);
}

static void send_or_drop(struct lane *lane, struct lane_request *request)
{
    if (config_of(lane)->type == CONFIG_EXPORTER_DEBUG)
        return shown(lane, request);
    if (request->fetch.message.len == 0)
        return refused(lane, request,
                       &(struct export_result){.code = "INVALID_ARGUMENT",
                                               .message = "what was stored is malformed"});
    if (lane_slice_is_vain(&request->fetch.slice))
        return drop(lane, request, LANE_LOST_TOO_BIG);
    if (lane_unserved_discards(&lane->unserved, clock_monotonic_ns()))
        return drop(lane, request, LANE_LOST_UNSERVED);
    send_request(lane, request);
}

static struct lane_request *next_to_send(const struct lane *lane)
{
    struct list *link, *tmp;
    if (lane->pausing || (lane->failing && lane->n_sending))
        return NULL;
    list_each(link, tmp, &lane->requests)
    {
        struct lane_request *request = container_of(link, struct lane_request, link);
        if (!request->sending)
            return request;
    }
    return NULL;
}

/* ---- fetching ---- */

/* While the backend fails no more is fetched, unless it may be those at hand that are at fault. */
static bool fail_for_long(const struct lane *lane)
{
    uint64_t long_ns = PAUSES_FOR_LONG * lane->backoff.config->max_interval_ns;
    uint64_t now_ns = clock_monotonic_ns();
    struct list *link, *tmp;
    list_each(link, tmp, &lane->requests)
    {
        uint64_t since_ns = container_of(link, struct lane_request, link)->first_failure_ns;
        if (!since_ns || now_ns - since_ns < long_ns)
            return false;
    }
    return true;
}

/* One that was answered is on its way until that is committed: a kill before sends it again. */
static size_t under_way(const struct lane *lane)
{
    return lane->n_requests + (is_otlp(config_of(lane)) ? lane->marks.n : 0);
}

static bool gathers(const struct lane *lane)
{
    return lane->gather.due_ns && lane->n_woken < GATHER_WAKES && !lane->exporter->draining;
}

static bool wants_fetch(const struct lane *lane)
{
    if (lane->fetching || lane->pausing || under_way(lane) >= most_requests(lane) ||
        lane->bytes >= LANE_BYTES_MAX)
        return false;
    if (!list_empty(&lane->refused))
        return true;
    bool room = !lane->n_requests || (lane->failing ? fail_for_long(lane) : lane->more);
    return lane->look && room && !gathers(lane);
}

static struct lane_request *first_refused(const struct lane *lane)
{
    struct list *link = list_first(&lane->refused);
    return link ? container_of(link, struct lane_request, link) : NULL;
}

static void part_begun(struct lane_request *whole)
{
    if (++whole->next_part < whole->fetch.n)
        return;
    list_remove(&whole->link);
    request_free(whole);
}

/* What the hand had is in the store alone now. */
static void failed_to_fetch(struct lane *lane, struct lane_request *request)
{
    if (request)
        request_free(request);
    outbox_hand_close(lane->hand);
    lane->look = true;
    pause_for(lane, AGAIN_NS);
}

static void nothing_there(struct lane *lane)
{
    lane->more = false;
    timer_stop(&lane->gather);
    if (lane->unserved.discard_until_ns) /* all is given up: asked again with what comes now */
        pause_for(lane, lane->backoff.config->max_interval_ns);
    lane->unserved.discard_until_ns = 0;
    if (!lane->n_requests && !lane->marks.n)
        lane->after_seq = 0; /* all is marked; a store that was renewed begins at 1 again */
}

static void note_fetched(struct lane *lane, const struct lane_fetch *fetch)
{
    lane_hand_tell(lane, fetch);
    if (!fetch->n)
        return nothing_there(lane);
    lane->after_seq = fetch->seqs[fetch->n - 1];
    lane->more = fetch->more;
    lane->look |= fetch->more;
    if (fetch->more)
        timer_stop(&lane->gather);
}

static void came(struct lane *lane, struct lane_request *request, int error)
{
    struct lane_fetch *fetch = &request->fetch;
    if (error) {
        log_warn("exporter", "%s: the store cannot be read: %s", name_of(lane), strerror(-error));
        return failed_to_fetch(lane, request);
    }
    if (!fetch->only_seq)
        note_fetched(lane, fetch);
    if (fetch->n)
        add(lane, request);
    else
        request_free(request);
}

static void fetched(struct lane_fetch *fetch, int error)
{
    struct lane_request *request = container_of(fetch, struct lane_request, fetch);
    struct lane *lane = request->lane;
    if (!lane)
        return request_free(request);
    lane->fetching = NULL;
    came(lane, request, error);
    go_on(lane);
}

static int begin_fetch(struct lane *lane, struct lane_request *request)
{
    if (!lane_fetch_is_here(&request->fetch)) {
        lane->fetching = request;
        return lane_fetch_start(&request->fetch, lane->exporter->settings.reader);
    }
    came(lane, request, lane_fetch_here(&request->fetch));
    return 0;
}

static void start_fetch(struct lane *lane)
{
    struct lane_request *request = request_new(lane), *whole = first_refused(lane);
    if (!request)
        return failed_to_fetch(lane, NULL);
    if (whole) {
        request->fetch.only_seq = whole->fetch.seqs[whole->next_part];
        request->fetch.slice = whole->fetch.slice;
    } else {
        lane_hand_take(lane, &request->fetch);
        lane->look = false;
        lane->n_woken = 0;
        timer_start(lane->exporter->settings.loop, &lane->gather, GATHER_NS);
    }
    if (begin_fetch(lane, request)) {
        lane->fetching = NULL;
        failed_to_fetch(lane, request);
    } else if (whole) {
        part_begun(whole);
    }
}

/* ---- verbs ---- */

static void go_on(struct lane *lane)
{
    struct lane_request *request;
    do {
        while ((request = next_to_send(lane)))
            send_or_drop(lane, request);
        if (wants_fetch(lane))
            start_fetch(lane);
    } while (next_to_send(lane) || wants_fetch(lane));
    exporter_lane_quiet(lane->exporter);
}

static void on_pause(struct timer *timer)
{
    struct lane *lane = container_of(timer, struct lane, pause);
    if (lane->exporter->draining) /* what failed stays in the store */
        return;
    lane->pausing = false;
    go_on(lane);
}

static void on_gathered(struct timer *timer)
{
    go_on(container_of(timer, struct lane, gather));
}

static void marked(struct lane_marks *marks)
{
    struct lane *lane = container_of(marks, struct lane, marks);
    if (marks->lost)
        outbox_hand_close(lane->hand);
    go_on(lane);
}

void lane_init(struct lane *lane, struct exporter *exporter, enum signal signal)
{
    const struct config_exporter *config = exporter->settings.config;
    *lane = (struct lane){
        .exporter = exporter,
        .signal = signal,
        .look = exporter_wants(exporter, signal), /* once, whatever is there */
        .hand = outbox_hand(exporter->settings.outbox, exporter->settings.destination, signal),
        .pause.fire = on_pause,
        .gather.fire = on_gathered};
    list_init(&lane->requests);
    list_init(&lane->refused);
    lane_marks_init(&lane->marks, &exporter->settings, marked);
    lane_hand_bytes(lane, 0);
    backoff_init(&lane->backoff, is_otlp(config) ? &config->otlp.retry : &file_retry,
                 clock_monotonic_ns() + signal);
}

void lane_wake(struct lane *lane)
{
    if (!lane->look && outbox_is_empty(lane->signal))
        return;
    lane->look = true;
    lane->n_woken++;
    go_on(lane);
}

bool lane_is_quiet(const struct lane *lane)
{
    if (lane->fetching || lane->n_sending || lane->marks.n)
        return false;
    return lane->pausing ||
           (list_empty(&lane->requests) && list_empty(&lane->refused) && !lane->look);
}

void lane_close(struct lane *lane)
{
    struct list *link;
    outbox_hand_close(lane->hand);
    timer_stop(&lane->pause);
    timer_stop(&lane->gather);
    while ((link = list_pop(&lane->requests))) {
        struct lane_request *request = container_of(link, struct lane_request, link);
        otlp_grpc_cancel(&request->grpc_call);
        otlp_http_cancel(&request->http_call);
        file_exporter_cancel(&request->file_call);
        request_free(request);
    }
    while ((link = list_pop(&lane->refused)))
        request_free(container_of(link, struct lane_request, link));
    if (lane->fetching)
        lane->fetching->lane = NULL; /* fetched() frees it */
    lane_marks_close(&lane->marks);
}
