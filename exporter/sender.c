/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A second request is begun while one is under way only if the last fetch was full: what trickles
 * in during the way of one leaves together with the next. So there are as few requests as possible,
 * and as many at a time as it takes. The first after a silence leaves at once; what follows it
 * within GATHER_NS leaves together, as each alone would cost a fetch, a call and a transaction.
 *
 * What fails is sent again after a pause of the whole sender, and then one request at a time until
 * one is taken: a backend that is overloaded or away is not met with all at once. The others have
 * their turn before the one that failed, and after a long time more are fetched, so that a request
 * that can never be taken does not hold up the sender for ever.
 *
 * That it has no service for the signal waits likewise, for some time (see sender_unimplemented.h).
 *
 * A joined request that is refused for good is fetched and sent again in its parts, so that one bad
 * part costs only itself; one that is too big further in slices (see sender_split.h).
 */
#include "exporter/sender.h"
#include "base/clock.h"
#include "base/log.h"
#include "exporter/sender_counts.h"
#include "exporter/sender_fetch.h"
#include "exporter/sender_handoff.h"
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

struct sender_request {
    struct list link;      /* of the sender's requests or refused ones */
    struct sender *sender; /* NULL: closed while it was fetched */
    struct sender_fetch fetch;
    bool sending;
    size_t next_part;                /* of a refused one */
    uint64_t first_failure_ns;       /* 0 = none */
    uint64_t unserved_since_ns;      /* no other answer since; 0 = none */
    struct otlp_grpc_call grpc_call; /* of the exporter's kind one */
    struct otlp_http_call http_call;
    struct file_exporter_call file_call;
};

static const struct config_exporter *config_of(const struct sender *sender)
{
    return sender->exporter->settings.config;
}

static const char *name_of(const struct sender *sender)
{
    return config_of(sender)->id;
}

static bool is_otlp(const struct config_exporter *config)
{
    return config->type == CONFIG_EXPORTER_OTLP_GRPC || config->type == CONFIG_EXPORTER_OTLP_HTTP;
}

static size_t most_requests(const struct sender *sender)
{
    const struct config_exporter *config = config_of(sender);
    return is_otlp(config) && config->otlp.num_consumers ? config->otlp.num_consumers : 1;
}

/* ---- requests ---- */

static void answered_grpc(struct otlp_grpc_call *call, const struct export_result *result);
static void answered_http(struct otlp_http_call *call, const struct export_result *result);
static void written(struct file_exporter_call *call, int error);
static void fetched(struct sender_fetch *fetch, int error);

static struct sender_request *request_new(struct sender *sender)
{
    const struct exporter_settings *settings = &sender->exporter->settings;
    struct sender_request *request = calloc(1, sizeof(*request));
    if (!request)
        return NULL;
    request->sender = sender;
    sender_fetch_init(&request->fetch);
    request->fetch.done = fetched;
    request->fetch.reader = settings->outbox_reader;
    request->fetch.config = settings->config;
    request->fetch.signal = sender->signal;
    request->fetch.after_seq = sender->after_seq;
    request->grpc_call.done = answered_grpc;
    request->http_call.done = answered_http;
    request->file_call.done = written;
    return request;
}

static void request_free(struct sender_request *request)
{
    sender_fetch_close(&request->fetch);
    free(request);
}

static void add(struct sender *sender, struct sender_request *request)
{
    list_append(&sender->requests, &request->link);
    sender->n_requests++;
    sender_handoff_bytes(sender, sender->bytes + request->fetch.message.len);
}

static void take_out(struct sender *sender, struct sender_request *request)
{
    list_remove(&request->link);
    sender->n_requests--;
    sender_handoff_bytes(sender, sender->bytes - request->fetch.message.len);
    sender->look = true;
}

/* Its parts, or a part of it, are fetched from the store. */
static void fetch_parts(struct sender *sender, struct sender_request *request)
{
    take_out(sender, request);
    sender_fetch_close(&request->fetch);
    list_append(&sender->refused, &request->link);
}

/* It is over, whatever became of it. */
static void settle(struct sender *sender, struct sender_request *request)
{
    if (sender_split_advance(&request->fetch.slice, request->fetch.message.len))
        return fetch_parts(sender, request);
    take_out(sender, request);
    bool later = !sender->more && !sender->exporter->draining; /* nothing waits for its place */
    sender_acks_put(&sender->marks, request->fetch.seqs, request->fetch.n, later);
    request_free(request);
}

static void pause_for(struct sender *sender, uint64_t pause_ns)
{
    uint64_t due_ns = clock_monotonic_ns() + pause_ns;
    if (sender->pausing && sender->pause.due_ns >= due_ns)
        return;
    sender->pausing = true;
    timer_start(sender->exporter->settings.loop, &sender->pause, pause_ns);
}

/* ---- what became of it ---- */

static void taken(struct sender *sender, struct sender_request *request,
                  const struct export_result *result)
{
    uint64_t rejected = sender_count_taken(sender->signal, request->fetch.items, result->rejected);
    if (rejected || result->message[0])
        log_warn("exporter", "%s: %s: the backend rejected %llu %s: %s", name_of(sender),
                 signal_names[sender->signal], (unsigned long long)rejected,
                 sender->signal == SIGNAL_PROFILES ? "of them" : "items", result->message);
    if (sender->failing)
        log_info("exporter", "%s: %s go out again", name_of(sender), signal_names[sender->signal]);
    sender->failing = false;
    backoff_success(&sender->backoff);
    settle(sender, request);
}

static void drop(struct sender *sender, struct sender_request *request, enum sender_loss loss)
{
    sender_count_lost(sender->signal, loss, request->fetch.items);
    backoff_success(&sender->backoff);
    settle(sender, request);
}

/* One that is joined first in what it was joined of. Whether there is something smaller to send. */
static bool take_apart(struct sender *sender, struct sender_request *request,
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
                 name_of(sender), signal_names[sender->signal], request->fetch.message.len,
                 result->code, result->message);
    fetch_parts(sender, request);
    return true;
}

static void refused(struct sender *sender, struct sender_request *request,
                    const struct export_result *result)
{
    sender_count_request(SENDER_REFUSED);
    if (take_apart(sender, request, result))
        return;
    log_warn("exporter",
             "%s: %s: the backend refused a request for good (%s: %s); %llu items dropped",
             name_of(sender), signal_names[sender->signal], result->code, result->message,
             (unsigned long long)request->fetch.items);
    drop(sender, request, result->too_big ? SENDER_LOST_TOO_BIG : SENDER_LOST_REFUSED);
}

/* Those that fail during a pause were begun before it: all together are one failure. */
static void try_later(struct sender *sender, struct sender_request *request,
                      const struct export_result *result)
{
    struct backoff backoff = sender->backoff;
    uint64_t pause_ns = 0;
    sender_count_request(SENDER_RETRY);
    backoff.first_failure_ns = request->first_failure_ns;
    if (backoff_failure(&backoff, clock_monotonic_ns(), result->retry_delay_ns, &pause_ns) ==
        BACKOFF_GIVE_UP)
        return drop(sender, request,
                    backoff.config->enabled ? SENDER_LOST_EXPIRED : SENDER_LOST_NOT_RETRIED);
    request->first_failure_ns = backoff.first_failure_ns;
    if (!sender->failing)
        log_warn("exporter", "%s: %s wait in the store: %s (%s)", name_of(sender),
                 signal_names[sender->signal], result->message, result->code);
    sender->failing = true;
    outbox_handoff_close(sender->handoff);
    list_remove(&request->link);
    list_append(&sender->requests, &request->link);
    if (!sender->pausing)
        sender->backoff = backoff;
    if (!sender->pausing || result->retry_delay_ns)
        pause_for(sender, pause_ns);
}

static void unserved(struct sender *sender, struct sender_request *request,
                     const struct export_result *result)
{
    if (!sender->unserved.since_ns)
        sender_unimplemented_say(sender->backoff.config, name_of(sender), sender->signal, result);
    enum sender_unimplemented_outcome outcome =
        sender_unimplemented_answer(&sender->unserved, sender->backoff.config, clock_monotonic_ns(),
                                    &request->unserved_since_ns);
    if (outcome == UNSERVED_WAITS) {
        sender->failing = true; /* which is said */
        return try_later(sender, request, result);
    }
    if (outcome == UNSERVED_DISCARDED && !sender->unserved.is_said) {
        sender->unserved.is_said = true;
        log_warn("exporter", "%s: the backend does not take %s, those that wait are dropped",
                 name_of(sender), signal_names[sender->signal]);
    }
    sender_count_request(SENDER_REFUSED);
    drop(sender, request, SENDER_LOST_UNIMPLEMENTED);
}

/* ---- sending ---- */

static void go_on(struct sender *sender);

static struct sender *answer_came(struct sender_request *request)
{
    request->sending = false;
    request->sender->n_sending--;
    return request->sender;
}

static void answered(struct sender_request *request, const struct export_result *result)
{
    struct sender *sender = answer_came(request);
    if (result->unserved) {
        unserved(sender, request, result);
        return go_on(sender);
    }
    sender_unimplemented_end(&sender->unserved);
    request->unserved_since_ns = 0;
    if (result->verdict == EXPORT_OK)
        taken(sender, request, result);
    else if (result->verdict == EXPORT_RETRY)
        try_later(sender, request, result);
    else
        refused(sender, request, result);
    go_on(sender);
}

static void answered_grpc(struct otlp_grpc_call *call, const struct export_result *result)
{
    answered(container_of(call, struct sender_request, grpc_call), result);
}

static void answered_http(struct otlp_http_call *call, const struct export_result *result)
{
    answered(container_of(call, struct sender_request, http_call), result);
}

static void written(struct file_exporter_call *call, int error)
{
    struct sender_request *request = container_of(call, struct sender_request, file_call);
    struct export_result result = {.verdict = error ? EXPORT_RETRY : EXPORT_OK,
                                   .code = "UNAVAILABLE"};
    if (error)
        snprintf(result.message, sizeof(result.message), "%s: %s",
                 config_of(request->sender)->file.path, strerror(-error));
    answered(request, &result);
}

static void send_request(struct sender *sender, struct sender_request *request)
{
    struct exporter *exporter = sender->exporter;
    struct bytes message = buf_bytes(&request->fetch.message);
    if (exporter->file && file_exporter_write(exporter->file, &request->file_call, message))
        return pause_for(sender, AGAIN_NS);
    request->sending = true;
    sender->n_sending++;
    if (exporter->grpc)
        otlp_grpc_send(exporter->grpc, &request->grpc_call, sender->signal, message);
    else if (exporter->http)
        otlp_http_send(exporter->http, &request->http_call, sender->signal, message);
}

static void shown(struct sender *sender, struct sender_request *request)
{
    sender_count_sent(sender->signal, request->fetch.items);
    settle(sender, request);
}

static void send_or_drop(struct sender *sender, struct sender_request *request)
{
    if (config_of(sender)->type == CONFIG_EXPORTER_DEBUG)
        return shown(sender, request);
    if (request->fetch.message.len == 0)
        return refused(sender, request,
                       &(struct export_result){.code = "INVALID_ARGUMENT",
                                               .message = "what was stored is malformed"});
    if (sender_split_is_futile(&request->fetch.slice))
        return drop(sender, request, SENDER_LOST_TOO_BIG);
    if (sender_unimplemented_discards(&sender->unserved, clock_monotonic_ns()))
        return drop(sender, request, SENDER_LOST_UNIMPLEMENTED);
    send_request(sender, request);
}

static struct sender_request *next_to_send(const struct sender *sender)
{
    struct list *link, *tmp;
    if (sender->pausing || (sender->failing && sender->n_sending))
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

/* While the backend fails no more is fetched, unless it may be those at hand that are at fault. */
static bool fail_for_long(const struct sender *sender)
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

/* One that was answered is on its way until that is committed: a kill before sends it again. */
static size_t under_way(const struct sender *sender)
{
    return sender->n_requests + (is_otlp(config_of(sender)) ? sender->marks.n : 0);
}

static bool gathers(const struct sender *sender)
{
    return sender->gather.due_ns && sender->n_woken < GATHER_WAKES && !sender->exporter->draining;
}

static bool wants_fetch(const struct sender *sender)
{
    if (sender->fetching || sender->pausing || under_way(sender) >= most_requests(sender) ||
        sender->bytes >= SENDER_BYTES_MAX)
        return false;
    if (!list_empty(&sender->refused))
        return true;
    bool room = !sender->n_requests || (sender->failing ? fail_for_long(sender) : sender->more);
    return sender->look && room && !gathers(sender);
}

static struct sender_request *first_refused(const struct sender *sender)
{
    struct list *link = list_first(&sender->refused);
    return link ? container_of(link, struct sender_request, link) : NULL;
}

static void part_begun(struct sender_request *whole)
{
    if (++whole->next_part < whole->fetch.n)
        return;
    list_remove(&whole->link);
    request_free(whole);
}

/* What the handoff had is in the store alone now. */
static void failed_to_fetch(struct sender *sender, struct sender_request *request)
{
    if (request)
        request_free(request);
    outbox_handoff_close(sender->handoff);
    sender->look = true;
    pause_for(sender, AGAIN_NS);
}

static void nothing_there(struct sender *sender)
{
    sender->more = false;
    timer_stop(&sender->gather);
    if (sender->unserved.discard_until_ns) /* all is given up: asked again with what comes now */
        pause_for(sender, sender->backoff.config->max_interval_ns);
    sender->unserved.discard_until_ns = 0;
    if (!sender->n_requests && !sender->marks.n)
        sender->after_seq = 0; /* all is marked; a store that was renewed begins at 1 again */
}

static void note_fetched(struct sender *sender, const struct sender_fetch *fetch)
{
    sender_handoff_tell(sender, fetch);
    if (!fetch->n)
        return nothing_there(sender);
    sender->after_seq = fetch->seqs[fetch->n - 1];
    sender->more = fetch->more;
    sender->look |= fetch->more;
    if (fetch->more)
        timer_stop(&sender->gather);
}

static void came(struct sender *sender, struct sender_request *request, int error)
{
    struct sender_fetch *fetch = &request->fetch;
    if (error) {
        log_warn("exporter", "%s: the store cannot be read: %s", name_of(sender), strerror(-error));
        return failed_to_fetch(sender, request);
    }
    if (!fetch->only_seq)
        note_fetched(sender, fetch);
    if (fetch->n)
        add(sender, request);
    else
        request_free(request);
}

static void fetched(struct sender_fetch *fetch, int error)
{
    struct sender_request *request = container_of(fetch, struct sender_request, fetch);
    struct sender *sender = request->sender;
    if (!sender)
        return request_free(request);
    sender->fetching = NULL;
    came(sender, request, error);
    go_on(sender);
}

static int begin_fetch(struct sender *sender, struct sender_request *request)
{
    if (!sender_fetch_is_here(&request->fetch)) {
        sender->fetching = request;
        return sender_fetch_start(&request->fetch, sender->exporter->settings.reader);
    }
    came(sender, request, sender_fetch_here(&request->fetch));
    return 0;
}

static void start_fetch(struct sender *sender)
{
    struct sender_request *request = request_new(sender), *whole = first_refused(sender);
    if (!request)
        return failed_to_fetch(sender, NULL);
    if (whole) {
        request->fetch.only_seq = whole->fetch.seqs[whole->next_part];
        request->fetch.slice = whole->fetch.slice;
    } else {
        sender_handoff_take(sender, &request->fetch);
        sender->look = false;
        sender->n_woken = 0;
        timer_start(sender->exporter->settings.loop, &sender->gather, GATHER_NS);
    }
    if (begin_fetch(sender, request)) {
        sender->fetching = NULL;
        failed_to_fetch(sender, request);
    } else if (whole) {
        part_begun(whole);
    }
}

/* ---- verbs ---- */

static void go_on(struct sender *sender)
{
    struct sender_request *request;
    do {
        while ((request = next_to_send(sender)))
            send_or_drop(sender, request);
        if (wants_fetch(sender))
            start_fetch(sender);
    } while (next_to_send(sender) || wants_fetch(sender));
    exporter_sender_quiet(sender->exporter);
}

static void on_pause(struct timer *timer)
{
    struct sender *sender = container_of(timer, struct sender, pause);
    if (sender->exporter->draining) /* what failed stays in the store */
        return;
    sender->pausing = false;
    go_on(sender);
}

static void on_gathered(struct timer *timer)
{
    go_on(container_of(timer, struct sender, gather));
}

static void marked(struct sender_acks *marks)
{
    struct sender *sender = container_of(marks, struct sender, marks);
    if (marks->lost)
        outbox_handoff_close(sender->handoff);
    go_on(sender);
}

void sender_init(struct sender *sender, struct exporter *exporter, enum signal signal)
{
    const struct config_exporter *config = exporter->settings.config;
    *sender =
        (struct sender){.exporter = exporter,
                        .signal = signal,
                        .look = exporter_wants(exporter, signal), /* once, whatever is there */
                        .handoff = outbox_handoff(exporter->settings.outbox,
                                                  exporter->settings.destination, signal),
                        .pause.fire = on_pause,
                        .gather.fire = on_gathered};
    list_init(&sender->requests);
    list_init(&sender->refused);
    sender_acks_init(&sender->marks, &exporter->settings, marked);
    sender_handoff_bytes(sender, 0);
    backoff_init(&sender->backoff, is_otlp(config) ? &config->otlp.retry : &file_retry,
                 clock_monotonic_ns() + signal);
}

void sender_wake(struct sender *sender)
{
    if (!sender->look && outbox_is_empty(sender->signal))
        return;
    sender->look = true;
    sender->n_woken++;
    go_on(sender);
}

bool sender_is_quiet(const struct sender *sender)
{
    if (sender->fetching || sender->n_sending || sender->marks.n)
        return false;
    return sender->pausing ||
           (list_empty(&sender->requests) && list_empty(&sender->refused) && !sender->look);
}

void sender_close(struct sender *sender)
{
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
        sender->fetching->sender = NULL; /* fetched() frees it */
    sender_acks_close(&sender->marks);
}
