/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A second request is begun while one is in flight only if the last fetch was full; what arrives
 * meanwhile leaves with the next. The first request after a quiet time leaves at once. What follows
 * within GATHER_NS leaves together: each alone costs a fetch, a call and a transaction.
 *
 * A request that fails is sent again after a pause of the whole sender, behind the others. If all
 * requests of the sender have failed for long, more are fetched, so a request that is never
 * accepted does not block the sender. A backend without the service for this signal is at first
 * treated like one that fails (sender_unimplemented.h).
 *
 * A batch of several stored requests that is refused is fetched and sent again in its parts, so
 * that one bad part costs only itself. One that is too big is sent in slices (sender_split.h).
 */
#include "exporter/sender.h"
#include "base/clock.h"
#include "base/log.h"
#include "exporter/sender_counts.h"
#include "exporter/sender_fetch.h"
#include "exporter/sender_handoff.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#define AGAIN_NS        NS_PER_SEC
#define PAUSES_FOR_LONG 60 /* times the longest pause */
#define GATHER_NS       (50 * NS_PER_MS)
#define GATHER_WAKES    16 /* enough for one request */

/* A full or missing disk may come back at any time: short pauses. */
static const struct config_retry file_retry = {.enabled = true,
                                               .initial_interval_ns = NS_PER_SEC,
                                               .randomization_factor = 0.5,
                                               .multiplier = 1.5,
                                               .max_interval_ns = 10 * NS_PER_SEC};

struct sender_request {
    struct list link;      /* of the sender's requests or refused ones */
    struct sender *sender; /* NULL: closed while it was fetched */
    struct sender_fetch fetch;
    bool sending;
    size_t next_part;                /* of a refused request: the next part to fetch */
    uint64_t first_failure_ns;       /* 0 = none */
    uint64_t unimplemented_since_ns; /* see sender_unimplemented_answer() */
    struct otlp_grpc_call grpc_call; /* one of the three, by the kind of exporter */
    struct otlp_http_call http_call;
    struct file_exporter_call file_call;
};

static const struct config_exporter *sender_config(const struct sender *sender)
{
    return sender->host->settings.config;
}

static const char *sender_name(const struct sender *sender)
{
    return sender_config(sender)->id;
}

static bool config_is_otlp(const struct config_exporter *config)
{
    return config->type == CONFIG_EXPORTER_OTLP_GRPC || config->type == CONFIG_EXPORTER_OTLP_HTTP;
}

static size_t sender_requests_max(const struct sender *sender)
{
    const struct config_exporter *config = sender_config(sender);
    return config_is_otlp(config) && config->otlp.num_consumers ? config->otlp.num_consumers : 1;
}

/* ---- requests ---- */

static void request_answered_grpc(struct otlp_grpc_call *call, const struct export_result *result);
static void request_answered_http(struct otlp_http_call *call, const struct export_result *result);
static void request_written(struct file_exporter_call *call, int error);
static void request_fetched(struct sender_fetch *fetch, int error);

static struct sender_request *request_new(struct sender *sender)
{
    const struct exporter_settings *settings = &sender->host->settings;
    struct sender_request *request = calloc(1, sizeof(*request));
    if (!request)
        return NULL;
    request->sender = sender;
    sender_fetch_init(&request->fetch);
    request->fetch.done = request_fetched;
    request->fetch.reader = settings->outbox_reader;
    request->fetch.config = settings->config;
    request->fetch.signal = sender->signal;
    request->fetch.after_seq = sender->after_seq;
    request->grpc_call.done = request_answered_grpc;
    request->http_call.done = request_answered_http;
    request->file_call.done = request_written;
    return request;
}

static void request_free(struct sender_request *request)
{
    sender_fetch_close(&request->fetch);
    free(request);
}

static void sender_add(struct sender *sender, struct sender_request *request)
{
    list_append(&sender->requests, &request->link);
    sender->n_requests++;
    sender_handoff_bytes(sender, sender->bytes + request->fetch.message.len);
}

static void sender_remove(struct sender *sender, struct sender_request *request)
{
    assert(sender->n_requests > 0 && sender->bytes >= request->fetch.message.len);
    list_remove(&request->link);
    sender->n_requests--;
    sender_handoff_bytes(sender, sender->bytes - request->fetch.message.len);
    sender_backlog_event(&sender->backlog, BACKLOG_ANNOUNCED);
}

/* Its parts, or the next slice of it, are fetched from the store. */
static void request_fetch_parts(struct sender *sender, struct sender_request *request)
{
    sender_remove(sender, request);
    sender_fetch_close(&request->fetch);
    list_append(&sender->refused, &request->link);
}

/* The request is over: accepted or given up. */
static void request_end(struct sender *sender, struct sender_request *request)
{
    if (sender_split_advance(&request->fetch.slice, request->fetch.message.len))
        return request_fetch_parts(sender, request);
    sender_remove(sender, request);
    bool later = !sender_backlog_is_full(sender) &&
                 !sender->host->draining; /* no fetch waits for this ack */
    sender_acks_put(&sender->acks, request->fetch.seqs, request->fetch.n, later);
    request_free(request);
}

static void sender_pause(struct sender *sender, uint64_t pause_ns)
{
    uint64_t due_ns = clock_monotonic_ns() + pause_ns;
    if (sender_is_paused(sender) && sender->pause.due_ns >= due_ns)
        return;
    sender_delivery_event(&sender->delivery, DELIVERY_PAUSE);
    timer_start(sender->host->settings.loop, &sender->pause, pause_ns);
}

/* ---- outcomes ---- */

static void request_taken(struct sender *sender, struct sender_request *request,
                          const struct export_result *result)
{
    uint64_t rejected = sender_count_taken(sender->signal, request->fetch.items, result->rejected);
    if (rejected || result->message[0])
        log_warn("exporter", "%s: %s: the backend rejected %llu %s: %s", sender_name(sender),
                 signal_names[sender->signal], (unsigned long long)rejected,
                 sender->signal == SIGNAL_PROFILES ? "of them" : "items", result->message);
    if (sender_is_failing(sender))
        log_info("exporter", "%s: %s go out again", sender_name(sender),
                 signal_names[sender->signal]);
    sender_delivery_event(&sender->delivery, DELIVERY_SUCCESS);
    backoff_success(&sender->backoff);
    request_end(sender, request);
}

static void request_drop(struct sender *sender, struct sender_request *request,
                         enum sender_loss loss)
{
    sender_count_lost(sender->signal, loss, request->fetch.items);
    backoff_success(&sender->backoff);
    request_end(sender, request);
}

/* Splits a batch into its stored requests, and a single request into slices. Returns false if
 * nothing smaller can be sent. */
static bool request_split(struct sender *sender, struct sender_request *request,
                          const struct export_result *result)
{
    struct sender_split *slice = &request->fetch.slice;
    bool is_whole = request->fetch.n == 1 && !slice->n;
    if (request->fetch.n == 1 &&
        !(result->too_big && sender_split_shrink(slice, request->fetch.message.len)))
        return false;
    if (is_whole)
        log_warn("exporter",
                 "%s: %s: a request of %zu bytes is too big for the backend (%s: %s), it is sent "
                 "in parts; set max_request_size",
                 sender_name(sender), signal_names[sender->signal], request->fetch.message.len,
                 result->code, result->message);
    request_fetch_parts(sender, request);
    return true;
}

static void request_refused(struct sender *sender, struct sender_request *request,
                            const struct export_result *result)
{
    sender_count_request(SENDER_REFUSED);
    if (request_split(sender, request, result))
        return;
    log_warn("exporter",
             "%s: %s: the backend refused a request permanently (%s: %s); %llu items dropped",
             sender_name(sender), signal_names[sender->signal], result->code, result->message,
             (unsigned long long)request->fetch.items);
    request_drop(sender, request, result->too_big ? SENDER_LOST_TOO_BIG : SENDER_LOST_REFUSED);
}

/* Requests that fail during a pause started before it: together they count as one failure. */
static void request_retry_later(struct sender *sender, struct sender_request *request,
                                const struct export_result *result)
{
    struct backoff backoff = sender->backoff;
    uint64_t pause_ns = 0;
    sender_count_request(SENDER_RETRY);
    backoff.first_failure_ns = request->first_failure_ns;
    if (backoff_failure(&backoff, clock_monotonic_ns(), result->retry_delay_ns, &pause_ns) ==
        BACKOFF_GIVE_UP)
        return request_drop(sender, request,
                            backoff.config->enabled ? SENDER_LOST_EXPIRED
                                                    : SENDER_LOST_NOT_RETRIED);
    request->first_failure_ns = backoff.first_failure_ns;
    if (!sender_is_failing(sender))
        log_warn("exporter", "%s: %s wait in the store: %s (%s)", sender_name(sender),
                 signal_names[sender->signal], result->message, result->code);
    sender_delivery_event(&sender->delivery, DELIVERY_FAILURE);
    outbox_handoff_close(sender->handoff);
    list_remove(&request->link);
    list_append(&sender->requests, &request->link);
    if (!sender_is_paused(sender))
        sender->backoff = backoff;
    if (!sender_is_paused(sender) || result->retry_delay_ns)
        sender_pause(sender, pause_ns);
}

static void request_unimplemented(struct sender *sender, struct sender_request *request,
                                  const struct export_result *result)
{
    if (!sender->unimplemented.since_ns)
        sender_unimplemented_log(sender->backoff.config, sender_name(sender), sender->signal,
                                 result);
    enum sender_unimplemented_outcome outcome =
        sender_unimplemented_answer(&sender->unimplemented, sender->backoff.config,
                                    clock_monotonic_ns(), &request->unimplemented_since_ns);
    if (outcome == UNIMPLEMENTED_WAITS) {
        sender_delivery_event(&sender->delivery,
                              DELIVERY_FAILURE); /* first: the retry does not log then */
        return request_retry_later(sender, request, result);
    }
    if (outcome == UNIMPLEMENTED_DISCARDED && !sender->unimplemented.is_said) {
        sender->unimplemented.is_said = true;
        log_warn("exporter", "%s: the backend does not take %s, those that wait are dropped",
                 sender_name(sender), signal_names[sender->signal]);
    }
    sender_count_request(SENDER_REFUSED);
    request_drop(sender, request, SENDER_LOST_UNIMPLEMENTED);
}

/* ---- sending ---- */

static void sender_advance(struct sender *sender);

static struct sender *request_stop_sending(struct sender_request *request)
{
    assert(request->sending && request->sender->n_sending > 0);
    request->sending = false;
    request->sender->n_sending--;
    return request->sender;
}

static void request_answered(struct sender_request *request, const struct export_result *result)
{
    struct sender *sender = request_stop_sending(request);
    if (result->unimplemented) {
        request_unimplemented(sender, request, result);
        return sender_advance(sender);
    }
    sender_unimplemented_end(&sender->unimplemented);
    request->unimplemented_since_ns = 0;
    if (result->verdict == EXPORT_OK)
        request_taken(sender, request, result);
    else if (result->verdict == EXPORT_RETRY)
        request_retry_later(sender, request, result);
    else
        request_refused(sender, request, result);
    sender_advance(sender);
}

static void request_answered_grpc(struct otlp_grpc_call *call, const struct export_result *result)
{
    request_answered(container_of(call, struct sender_request, grpc_call), result);
}

static void request_answered_http(struct otlp_http_call *call, const struct export_result *result)
{
    request_answered(container_of(call, struct sender_request, http_call), result);
}

static void request_written(struct file_exporter_call *call, int error)
{
    struct sender_request *request = container_of(call, struct sender_request, file_call);
    struct export_result result = {.verdict = error ? EXPORT_RETRY : EXPORT_OK,
                                   .code = "UNAVAILABLE"};
    if (error)
        snprintf(result.message, sizeof(result.message), "%s: %s",
                 sender_config(request->sender)->file.path, strerror(-error));
    request_answered(request, &result);
}

static void request_send(struct sender *sender, struct sender_request *request)
{
    const struct sender_host *host = sender->host;
    struct bytes message = buf_bytes(&request->fetch.message);
    if (host->file && file_exporter_write(host->file, &request->file_call, message))
        return sender_pause(sender, AGAIN_NS);
    assert(!request->sending && sender->n_sending < sender->n_requests);
    request->sending = true;
    sender->n_sending++;
    if (host->grpc)
        otlp_grpc_send(host->grpc, &request->grpc_call, sender->signal, message);
    else if (host->http)
        otlp_http_send(host->http, &request->http_call, sender->signal, message);
}

static void request_send_or_drop(struct sender *sender, struct sender_request *request)
{
    if (sender_config(sender)->type == CONFIG_EXPORTER_DEBUG) { /* the fetch printed it */
        sender_count_sent(sender->signal, request->fetch.items);
        return request_end(sender, request);
    }
    if (request->fetch.message.len == 0)
        return request_refused(sender, request,
                               &(struct export_result){.code = "INVALID_ARGUMENT",
                                                       .message = "what was stored is malformed"});
    if (sender_split_is_futile(&request->fetch.slice))
        return request_drop(sender, request, SENDER_LOST_TOO_BIG);
    if (sender_unimplemented_discards(&sender->unimplemented, clock_monotonic_ns()))
        return request_drop(sender, request, SENDER_LOST_UNIMPLEMENTED);
    request_send(sender, request);
}

static struct sender_request *sender_next_request(const struct sender *sender)
{
    struct list *link, *tmp;
    if (sender_is_paused(sender) || (sender_is_failing(sender) && sender->n_sending))
        return NULL;
    list_each(link, tmp, &sender->requests)
    {
        struct sender_request *request = container_of(link, struct sender_request, link);
        if (!request->sending)
            return request;
    }
    return NULL;
}

/* ---- fetching ---- */

/* While the backend fails, no more is fetched. Exception: every request of the sender has failed
 * for long, so the requests may be the cause. */
static bool sender_fails_for_long(const struct sender *sender)
{
    uint64_t long_ns = PAUSES_FOR_LONG * sender->backoff.config->max_interval_ns;
    uint64_t now_ns = clock_monotonic_ns();
    struct list *link, *tmp;
    list_each(link, tmp, &sender->requests)
    {
        uint64_t since_ns = container_of(link, struct sender_request, link)->first_failure_ns;
        if (!since_ns || now_ns - since_ns < long_ns)
            return false;
    }
    return true;
}

/* An answered request counts as in flight until its ack is committed: a kill before the commit
 * sends it again. */
static size_t sender_in_flight(const struct sender *sender)
{
    return sender->n_requests + (config_is_otlp(sender_config(sender)) ? sender->acks.n : 0);
}

static bool sender_is_gathering(const struct sender *sender)
{
    return sender->gather.due_ns && sender->n_woken < GATHER_WAKES && !sender->host->draining;
}

static bool sender_wants_fetch(const struct sender *sender)
{
    if (sender->fetching || sender_is_paused(sender) ||
        sender_in_flight(sender) >= sender_requests_max(sender) ||
        sender->bytes >= SENDER_BYTES_MAX)
        return false;
    if (!list_empty(&sender->refused))
        return true;
    bool room = !sender->n_requests || (sender_is_failing(sender) ? sender_fails_for_long(sender)
                                                                  : sender_backlog_is_full(sender));
    return sender_backlog_is_news(sender) && room && !sender_is_gathering(sender);
}

/* The handoff's requests are now only in the store. */
static void sender_fetch_failed(struct sender *sender, struct sender_request *request)
{
    if (request)
        request_free(request);
    outbox_handoff_close(sender->handoff);
    sender_backlog_event(&sender->backlog, BACKLOG_ANNOUNCED);
    sender_pause(sender, AGAIN_NS);
}

static void sender_reached_end(struct sender *sender)
{
    timer_stop(&sender->gather);
    if (sender->unimplemented
            .discard_until_ns) /* all were given up: the next new request is sent */
        sender_pause(sender, sender->backoff.config->max_interval_ns);
    sender->unimplemented.discard_until_ns = 0;
    if (!sender->n_requests && !sender->acks.n)
        sender->after_seq = 0; /* all are marked; a replaced store starts at 1 again */
}

static void sender_note_fetch(struct sender *sender, const struct sender_fetch *fetch)
{
    sender_handoff_fetched(sender, fetch);
    sender_backlog_event(&sender->backlog,
                         fetch->n && fetch->more ? BACKLOG_FETCH_FULL : BACKLOG_FETCH_PART);
    if (!fetch->n)
        return sender_reached_end(sender);
    sender->after_seq = fetch->seqs[fetch->n - 1];
    if (fetch->more)
        timer_stop(&sender->gather);
}

static void sender_receive(struct sender *sender, struct sender_request *request, int error)
{
    struct sender_fetch *fetch = &request->fetch;
    if (error) {
        log_warn("exporter", "%s: the store cannot be read: %s", sender_name(sender),
                 strerror(-error));
        return sender_fetch_failed(sender, request);
    }
    if (!fetch->only_seq)
        sender_note_fetch(sender, fetch);
    if (fetch->n)
        sender_add(sender, request);
    else
        request_free(request);
}

static void request_fetched(struct sender_fetch *fetch, int error)
{
    struct sender_request *request = container_of(fetch, struct sender_request, fetch);
    struct sender *sender = request->sender;
    if (!sender)
        return request_free(request);
    sender->fetching = NULL;
    sender_receive(sender, request, error);
    sender_advance(sender);
}

static int request_begin_fetch(struct sender *sender, struct sender_request *request)
{
    if (sender_fetch_is_quick(&request->fetch)) {
        sender_receive(sender, request, sender_fetch_run(&request->fetch));
        return 0;
    }
    sender->fetching = request;
    return sender_fetch_start(&request->fetch, sender->host->settings.reader);
}

static void sender_start_fetch(struct sender *sender)
{
    struct sender_request *request = request_new(sender), *whole = NULL;
    if (!request)
        return sender_fetch_failed(sender, NULL);
    if (!list_empty(&sender->refused)) {
        whole = container_of(list_first(&sender->refused), struct sender_request, link);
        request->fetch.only_seq = whole->fetch.seqs[whole->next_part];
        request->fetch.slice = whole->fetch.slice;
    } else {
        sender_handoff_take(sender, &request->fetch);
        sender_backlog_event(&sender->backlog, BACKLOG_FETCH_BEGINS);
        sender->n_woken = 0;
        timer_start(sender->host->settings.loop, &sender->gather, GATHER_NS);
    }
    if (request_begin_fetch(sender, request)) {
        sender->fetching = NULL;
        sender_fetch_failed(sender, request);
    } else if (whole && ++whole->next_part == whole->fetch.n) { /* its last part is begun */
        list_remove(&whole->link);
        request_free(whole);
    }
}

/* ---- verbs ---- */

static void sender_advance(struct sender *sender)
{
    struct sender_request *request;
    do {
        while ((request = sender_next_request(sender)))
            request_send_or_drop(sender, request);
        if (sender_wants_fetch(sender))
            sender_start_fetch(sender);
    } while (sender_next_request(sender) || sender_wants_fetch(sender));
    sender->host->quiet(sender->host);
}

static void on_pause_timer(struct timer *timer)
{
    struct sender *sender = container_of(timer, struct sender, pause);
    if (sender->host->draining) /* what failed stays in the store */
        return;
    sender_delivery_event(&sender->delivery, DELIVERY_PAUSE_OVER);
    sender_advance(sender);
}

static void on_gather_timer(struct timer *timer)
{
    sender_advance(container_of(timer, struct sender, gather));
}

static void on_acks_done(struct sender_acks *acks)
{
    struct sender *sender = container_of(acks, struct sender, acks);
    if (acks->lost)
        outbox_handoff_close(sender->handoff);
    sender_advance(sender);
}

bool sender_host_wants(const struct sender_host *host, enum signal signal)
{
    return !host->settings.signals || (host->settings.signals >> signal & 1);
}

void sender_init(struct sender *sender, struct sender_host *host, enum signal signal)
{
    LOOP_THREAD(host->settings.loop);
    const struct config_exporter *config = host->settings.config;
    *sender = (struct sender){
        .host = host,
        .signal = signal,
        /* once, whatever lies there from before */
        .backlog = sender_host_wants(host, signal) ? BACKLOG_NEWS : BACKLOG_NONE,
        .handoff = outbox_handoff(host->settings.outbox, host->settings.destination, signal),
        .pause.fire = on_pause_timer,
        .gather.fire = on_gather_timer};
    list_init(&sender->requests);
    list_init(&sender->refused);
    sender_acks_init(&sender->acks, &host->settings, on_acks_done);
    sender_handoff_bytes(sender, 0);
    backoff_init(&sender->backoff, config_is_otlp(config) ? &config->otlp.retry : &file_retry,
                 clock_monotonic_ns() + signal);
}

void sender_wake(struct sender *sender)
{
    LOOP_THREAD(sender->host->settings.loop);
    if (!sender_backlog_is_news(sender) && outbox_is_empty(sender->signal))
        return;
    sender_backlog_event(&sender->backlog, BACKLOG_ANNOUNCED);
    sender->n_woken++;
    sender_advance(sender);
}

bool sender_is_quiet(const struct sender *sender)
{
    LOOP_THREAD(sender->host->settings.loop);
    if (sender->fetching || sender->n_sending || sender->acks.n)
        return false;
    return sender_is_paused(sender) ||
           (list_empty(&sender->requests) && list_empty(&sender->refused) &&
            !sender_backlog_is_news(sender));
}

void sender_close(struct sender *sender)
{
    LOOP_THREAD(sender->host->settings.loop);
    struct list *link;
    outbox_handoff_close(sender->handoff);
    timer_stop(&sender->pause);
    timer_stop(&sender->gather);
    while ((link = list_pop(&sender->requests))) {
        struct sender_request *request = container_of(link, struct sender_request, link);
        otlp_grpc_cancel(&request->grpc_call);
        otlp_http_cancel(&request->http_call);
        file_exporter_cancel(&request->file_call);
        request_free(request);
    }
    while ((link = list_pop(&sender->refused)))
        request_free(container_of(link, struct sender_request, link));
    if (sender->fetching)
        sender->fetching->sender = NULL; /* request_fetched() frees it */
    sender_acks_close(&sender->acks);
}
