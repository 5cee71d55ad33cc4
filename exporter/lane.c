/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of a signal other than profiles may be joined by putting their bytes one behind the
 * other: all of an Export request is one repeated field. So a backlog of small requests leaves in
 * few large ones. A joined request that is refused for good is sent again in its parts, so that one
 * bad part costs only itself. (Profiles have a dictionary, and are large already.)
 */
#include "exporter/lane.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/stats.h"
#include "exporter/debug_exporter.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SENT(signal)                                                                               \
    STAT_COUNTER(sent_##signal, "spanprof_exporter_sent_items_total", "signal=\"" #signal "\"",    \
                 "Items (spans, samples, data points, log records) that a backend has taken.")
SENT(traces);
SENT(profiles);
SENT(metrics);
SENT(logs);
static struct metric *const sent[SIGNAL_COUNT] = {&sent_traces, &sent_profiles, &sent_metrics,
                                                  &sent_logs};

enum drop_reason { DROP_REFUSED, DROP_EXPIRED, DROP_PARTIAL, DROP_UNSERVED, DROP_REASONS };
#define DROPPED(name, signal, reason)                                                              \
    STAT_COUNTER(name, "spanprof_exporter_dropped_items_total",                                    \
                 "signal=\"" #signal "\",reason=\"" reason "\"",                                   \
                 "Items that a backend will never get, by reason.")
#define DROPPED_ALL(signal)                                                                        \
    DROPPED(refused_##signal, signal, "refused");                                                  \
    DROPPED(expired_##signal, signal, "max_elapsed_time");                                         \
    DROPPED(partial_##signal, signal, "partial_success");                                          \
    DROPPED(unserved_##signal, signal, "no_" #signal "_service")
#define DROPPED_TABLE(signal)                                                                      \
    {                                                                                              \
        &refused_##signal, &expired_##signal, &partial_##signal, &unserved_##signal                \
    }
DROPPED_ALL(traces);
DROPPED_ALL(profiles);
DROPPED_ALL(metrics);
DROPPED_ALL(logs);
static struct metric *const dropped[SIGNAL_COUNT][DROP_REASONS] = {
    [SIGNAL_TRACES] = DROPPED_TABLE(traces),
    [SIGNAL_PROFILES] = DROPPED_TABLE(profiles),
    [SIGNAL_METRICS] = DROPPED_TABLE(metrics),
    [SIGNAL_LOGS] = DROPPED_TABLE(logs),
};
STAT_COUNTER(requests_sent, "spanprof_exporter_requests_total", "outcome=\"ok\"",
             "Requests to backends, by outcome.");
STAT_COUNTER(requests_retried, "spanprof_exporter_requests_total", "outcome=\"retry\"",
             "Requests to backends, by outcome.");
STAT_COUNTER(requests_refused, "spanprof_exporter_requests_total", "outcome=\"refused\"",
             "Requests to backends, by outcome.");

#define JOINED_REQUESTS_MAX 256
#define READ_AGAIN_NS       NS_PER_SEC
#define MARK_AGAIN_NS       (100 * NS_PER_MS)
#define PROBE_AGAIN_NS      (300 * NS_PER_SEC)
#define JSON_GROWTH         3 /* times the size of protobuf, usually */

/* A disk that is full or away may come back at any time. */
static const struct config_retry file_retry = {.enabled = true,
                                               .initial_interval_ns = NS_PER_SEC,
                                               .randomization_factor = 0.5,
                                               .multiplier = 1.5,
                                               .max_interval_ns = 10 * NS_PER_SEC};

/* ---- fetching: runs on the reader, knows the lane only on the loop ---- */

struct lane_fetch {
    struct job job;
    struct lane *lane; /* NULL: closed meanwhile */
    struct outbox_reader *reader;
    const struct config_exporter *config;
    enum signal signal;
    int64_t after_seq;
    bool single;
    size_t max_bytes;
    size_t n;
    int64_t seqs[JOINED_REQUESTS_MAX];
    uint64_t items;
    struct buf body;
    struct buf message; /* what goes over the wire; kept for further tries */
};

static void fetch_free(struct lane_fetch *fetch)
{
    if (!fetch)
        return;
    buf_close(&fetch->body);
    buf_close(&fetch->message);
    free(fetch);
}

static int take_item(struct lane_fetch *fetch, struct outbox_item *item)
{
    if (fetch->n && fetch->body.len + item->body.len > fetch->max_bytes)
        return 1;
    int error = buf_append_bytes(&fetch->body, buf_bytes(&item->body));
    if (error)
        return error;
    fetch->seqs[fetch->n++] = item->seq;
    fetch->items += item->items;
    return 0;
}

static int fetch_items(struct lane_fetch *fetch)
{
    bool joins = !fetch->single && fetch->signal != SIGNAL_PROFILES;
    size_t limit = joins ? JOINED_REQUESTS_MAX : 1;
    int error = 0;
    while (!error && fetch->n < limit) {
        struct outbox_item item = {0};
        int64_t after = fetch->n ? fetch->seqs[fetch->n - 1] : fetch->after_seq;
        error = outbox_next_signal(fetch->reader, fetch->config->id, fetch->signal, after, &item);
        if (!error)
            error = take_item(fetch, &item);
        buf_close(&item.body);
    }
    return error < 0 && fetch->n == 0 ? error : 0;
}

/* By the reader: a stderr that nobody reads must not hold up the loop. */
static void show(const struct lane_fetch *fetch)
{
    _cleanup_buf_ struct buf text = BUF_INIT(0);
    log_info("debug", "%s: %zu requests, %llu items, %zu bytes", signal_names[fetch->signal],
             fetch->n, (unsigned long long)fetch->items, fetch->body.len);
    if (debug_exporter_text(fetch->config->debug.verbosity, fetch->signal, buf_bytes(&fetch->body),
                            &text))
        log_warn("debug", "no memory to show a request");
    size_t shown = 0;
    while (shown < text.len) {
        ssize_t n = write(STDERR_FILENO, text.data + shown, text.len - shown);
        if (n <= 0 && errno != EINTR)
            return; /* nowhere left to tell of it */
        shown += n > 0 ? (size_t)n : 0;
    }
}

/* What goes over the wire or into the file. A body that is no request gives none: it is refused
 * later, where it can be told apart from what it was joined with. */
static int make_message(struct lane_fetch *fetch)
{
    struct bytes body = buf_bytes(&fetch->body);
    const struct config_exporter *config = fetch->config;
    int error = 0;
    if (fetch->n == 0)
        return 0;
    if (config->type == CONFIG_EXPORTER_OTLP_GRPC)
        error = otlp_grpc_message(body, config->otlp.compression, &fetch->message);
    else if (config->type == CONFIG_EXPORTER_OTLP_HTTP)
        error = otlp_http_message(&config->otlp, fetch->signal, body, &fetch->message);
    else if (config->type == CONFIG_EXPORTER_FILE)
        error = file_exporter_record(&config->file, fetch->signal, body, &fetch->message);
    return error == -EBADMSG ? 0 : error;
}

static int fetch_run(struct job *job)
{
    struct lane_fetch *fetch = container_of(job, struct lane_fetch, job);
    int error = fetch_items(fetch);
    error = error ? error : make_message(fetch);
    if (!error && fetch->n && fetch->config->type == CONFIG_EXPORTER_DEBUG)
        show(fetch);
    buf_close(&fetch->body);
    return error > 0 ? -EMSGSIZE : error;
}

static void lane_fetched(struct lane *lane, struct lane_fetch *fetch, int error);

static void fetch_done(struct job *job, int error)
{
    struct lane_fetch *fetch = container_of(job, struct lane_fetch, job);
    if (fetch->lane)
        lane_fetched(fetch->lane, fetch, error);
    else
        fetch_free(fetch);
}

static bool is_otlp(const struct config_exporter *config)
{
    return config->type == CONFIG_EXPORTER_OTLP_GRPC || config->type == CONFIG_EXPORTER_OTLP_HTTP;
}

static uint64_t max_request_bytes(const struct config_exporter *config)
{
    if (is_otlp(config))
        return config->otlp.max_request_size_bytes / (config->otlp.json ? JSON_GROWTH : 1);
    /* The Collector's reader of such files takes lines of up to 1 MiB, JSON is some 2.3 times as
     * large as protobuf: what is joined stays below that. */
    return config->type == CONFIG_EXPORTER_FILE ? UINT64_C(256) << 10 : UINT64_C(1) << 20;
}

static void fetch_start(struct lane *lane)
{
    const struct exporter_settings *settings = &lane->exporter->settings;
    struct lane_fetch *fetch = calloc(1, sizeof(*fetch));
    lane->look_again = false;
    if (fetch) {
        fetch->job = (struct job){.run = fetch_run, .done = fetch_done};
        fetch->lane = lane;
        fetch->reader = settings->outbox_reader;
        fetch->config = settings->config;
        fetch->signal = lane->signal;
        fetch->after_seq = lane->after_seq;
        fetch->single = lane->after_seq < lane->singly_until;
        fetch->max_bytes = (size_t)max_request_bytes(settings->config);
        if (worker_submit(settings->reader, &fetch->job) == 0) {
            lane->fetched = fetch;
            lane->state = LANE_FETCHING;
            return;
        }
    }
    free(fetch);
    lane->state = LANE_PAUSING;
    timer_start(settings->loop, &lane->pause, READ_AGAIN_NS);
}

/* ---- marking as done: a job of the writer ---- */

struct lane_mark {
    struct job job;
    struct list
        link; /* of lane->marks while it waits for room at the writer, then of lane->marking */
    struct lane *lane; /* NULL: closed meanwhile */
    struct outbox *outbox;
    size_t destination;
    size_t n;
    int64_t seqs[];
};

static int mark_run(struct job *job)
{
    struct lane_mark *mark = container_of(job, struct lane_mark, job);
    int error = 0;
    for (size_t i = 0; !error && i < mark->n; i++)
        error = outbox_done(mark->outbox, mark->destination, mark->seqs[i]);
    return error;
}

static void mark_done(struct job *job, int error)
{
    struct lane_mark *mark = container_of(job, struct lane_mark, job);
    struct lane *lane = mark->lane;
    list_remove(&mark->link);
    if (error)
        log_debug("exporter", "a request that was sent could not be marked: it may be sent again");
    free(mark);
    if (!lane)
        return;
    lane->n_marking--;
    exporter_lane_quiet(lane->exporter);
}

static void submit_marks(struct lane *lane)
{
    struct list *link, *next;
    list_each(link, next, &lane->marks)
    {
        struct lane_mark *mark = container_of(link, struct lane_mark, link);
        if (worker_submit(lane->exporter->settings.writer, &mark->job) != 0) {
            if (!lane->pause.due_ns)
                timer_start(lane->exporter->settings.loop, &lane->pause, MARK_AGAIN_NS);
            return;
        }
        list_remove(link);
        list_append(&lane->marking, link);
    }
}

static void mark(struct lane *lane, const struct lane_fetch *fetch)
{
    lane->after_seq = fetch->seqs[fetch->n - 1];
    struct lane_mark *mark = calloc(1, sizeof(*mark) + fetch->n * sizeof(mark->seqs[0]));
    if (!mark)
        return; /* sent again after the next start */
    mark->job = (struct job){.run = mark_run, .done = mark_done};
    mark->lane = lane;
    mark->outbox = lane->exporter->settings.outbox;
    mark->destination = lane->exporter->settings.destination;
    mark->n = fetch->n;
    memcpy(mark->seqs, fetch->seqs, fetch->n * sizeof(mark->seqs[0]));
    lane->n_marking++;
    list_append(&lane->marks, &mark->link);
    submit_marks(lane);
}

/* ---- sending ---- */

static const char *name_of(const struct lane *lane)
{
    return lane->exporter->settings.config->id;
}

/* The request at hand is over; on to the next. */
static void settle(struct lane *lane)
{
    mark(lane, lane->fetched);
    fetch_free(lane->fetched);
    lane->fetched = NULL;
    fetch_start(lane);
}

static void send_fetched(struct lane *lane)
{
    _cleanup_buf_ struct buf message = BUF_INIT(0);
    struct exporter *exporter = lane->exporter;
    int error = buf_append_bytes(&message, buf_bytes(&lane->fetched->message));
    if (!error && exporter->file)
        error = file_exporter_write(exporter->file, &lane->file_call, &message);
    if (error) {
        lane->state = LANE_PAUSING;
        timer_start(exporter->settings.loop, &lane->pause, READ_AGAIN_NS);
        return;
    }
    lane->state = LANE_SENDING;
    if (exporter->grpc)
        otlp_grpc_send(exporter->grpc, &lane->grpc_call, lane->signal, &message);
    else if (exporter->http)
        otlp_http_send(exporter->http, &lane->http_call, lane->signal, &message);
}

static void taken(struct lane *lane, const struct export_result *result)
{
    uint64_t rejected = result->rejected > 0 ? (uint64_t)result->rejected : 0;
    uint64_t items = lane->fetched->items;
    if (rejected > items)
        rejected = items;
    stat_add(&requests_sent, 1);
    stat_add(sent[lane->signal], (int64_t)(items - rejected));
    stat_add(dropped[lane->signal][DROP_PARTIAL], (int64_t)rejected);
    if (rejected || result->message[0])
        log_warn("exporter", "%s: %s: the backend rejected %llu items: %s", name_of(lane),
                 signal_names[lane->signal], (unsigned long long)rejected, result->message);
    if (lane->failing)
        log_info("exporter", "%s: %s go out again", name_of(lane), signal_names[lane->signal]);
    lane->failing = false;
    backoff_success(&lane->backoff);
    settle(lane);
}

static void drop(struct lane *lane, enum drop_reason reason)
{
    stat_add(dropped[lane->signal][reason], (int64_t)lane->fetched->items);
    backoff_success(&lane->backoff);
    settle(lane);
}

/* A backend for spans alone is nothing unusual: it is asked again now and then only. */
static bool is_unserved(const struct lane *lane, const struct export_result *result)
{
    return lane->signal != SIGNAL_TRACES && result->unserved;
}

static void refused(struct lane *lane, const struct export_result *result)
{
    stat_add(&requests_refused, 1);
    if (is_unserved(lane, result)) {
        if (!lane->unserved_until_ns)
            log_warn("exporter", "%s: the backend does not take %s, they are dropped%s",
                     name_of(lane), signal_names[lane->signal],
                     lane->signal == SIGNAL_PROFILES
                         ? "; a Collector takes them with "
                           "--feature-gates=service.profilesSupport and a profiles pipeline"
                         : "");
        lane->unserved_until_ns = clock_monotonic_ns() + PROBE_AGAIN_NS;
        return drop(lane, DROP_UNSERVED);
    }
    if (lane->fetched->n > 1) { /* in its parts: one bad part costs only itself */
        lane->singly_until = lane->fetched->seqs[lane->fetched->n - 1];
        fetch_free(lane->fetched);
        lane->fetched = NULL;
        return fetch_start(lane);
    }
    log_warn("exporter",
             "%s: %s: the backend refused a request for good (%s: %s); %llu items dropped",
             name_of(lane), signal_names[lane->signal], result->code, result->message,
             (unsigned long long)lane->fetched->items);
    drop(lane, DROP_REFUSED);
}

static void try_later(struct lane *lane, const struct export_result *result)
{
    uint64_t pause_ns = 0;
    stat_add(&requests_retried, 1);
    if (backoff_failure(&lane->backoff, clock_monotonic_ns(), result->retry_delay_ns, &pause_ns) ==
        BACKOFF_GIVE_UP)
        return drop(lane, DROP_EXPIRED);
    if (!lane->failing)
        log_warn("exporter", "%s: %s wait in the store: %s (%s)", name_of(lane),
                 signal_names[lane->signal], result->message, result->code);
    lane->failing = true;
    lane->state = LANE_PAUSING;
    timer_start(lane->exporter->settings.loop, &lane->pause, pause_ns);
    exporter_lane_quiet(lane->exporter);
}

static void answered(struct lane *lane, const struct export_result *result)
{
    if (result->verdict == EXPORT_OK)
        taken(lane, result);
    else if (result->verdict == EXPORT_RETRY)
        try_later(lane, result);
    else
        refused(lane, result);
}

static void answered_grpc(struct otlp_grpc_call *call, const struct export_result *result)
{
    answered(container_of(call, struct lane, grpc_call), result);
}

static void answered_http(struct otlp_http_call *call, const struct export_result *result)
{
    answered(container_of(call, struct lane, http_call), result);
}

static void written(struct file_exporter_call *call, int error)
{
    struct lane *lane = container_of(call, struct lane, file_call);
    struct export_result result = {.code = "UNAVAILABLE"};
    if (!error)
        return taken(lane, &result);
    snprintf(result.message, sizeof(result.message), "%s: %s",
             lane->exporter->settings.config->file.path, strerror(-error));
    try_later(lane, &result);
}

static void shown(struct lane *lane)
{
    stat_add(sent[lane->signal], (int64_t)lane->fetched->items);
    settle(lane);
}

static void send_or_drop(struct lane *lane)
{
    if (lane->exporter->settings.config->type == CONFIG_EXPORTER_DEBUG)
        return shown(lane);
    if (lane->fetched->message.len == 0)
        return refused(lane, &(struct export_result){.code = "INVALID_ARGUMENT",
                                                     .message = "what was stored is malformed"});
    if (lane->unserved_until_ns && clock_monotonic_ns() < lane->unserved_until_ns)
        return drop(lane, DROP_UNSERVED);
    send_fetched(lane);
}

static void nothing_there(struct lane *lane)
{
    lane->state = LANE_IDLE;
    if (lane->n_marking == 0)
        lane->after_seq = 0; /* all is marked; a store that was renewed begins at 1 again */
    if (lane->look_again)
        fetch_start(lane);
    else
        exporter_lane_quiet(lane->exporter);
}

static void lane_fetched(struct lane *lane, struct lane_fetch *fetch, int error)
{
    lane->fetched = NULL;
    if (!error && fetch->n) {
        lane->fetched = fetch;
        return send_or_drop(lane);
    }
    fetch_free(fetch);
    if (!error || error == -ENOENT)
        return nothing_there(lane);
    log_warn("exporter", "%s: the store cannot be read: %s", name_of(lane), strerror(-error));
    lane->state = LANE_PAUSING;
    timer_start(lane->exporter->settings.loop, &lane->pause, READ_AGAIN_NS);
    exporter_lane_quiet(lane->exporter);
}

static void on_pause(struct timer *timer)
{
    struct lane *lane = container_of(timer, struct lane, pause);
    submit_marks(lane);
    if (lane->state != LANE_PAUSING || lane->exporter->draining)
        return;
    if (lane->fetched)
        send_or_drop(lane);
    else
        fetch_start(lane);
}

/* ---- verbs ---- */

void lane_init(struct lane *lane, struct exporter *exporter, enum signal signal)
{
    const struct config_exporter *config = exporter->settings.config;
    *lane = (struct lane){.exporter = exporter,
                          .signal = signal,
                          .grpc_call.done = answered_grpc,
                          .http_call.done = answered_http,
                          .file_call.done = written,
                          .pause.fire = on_pause};
    list_init(&lane->marks);
    list_init(&lane->marking);
    backoff_init(&lane->backoff, is_otlp(config) ? &config->otlp.retry : &file_retry,
                 clock_monotonic_ns() + signal);
}

void lane_wake(struct lane *lane)
{
    if (lane->state == LANE_IDLE)
        fetch_start(lane);
    else
        lane->look_again = true;
}

bool lane_is_quiet(const struct lane *lane)
{
    return (lane->state == LANE_IDLE || lane->state == LANE_PAUSING) && lane->n_marking == 0;
}

void lane_close(struct lane *lane)
{
    struct list *link;
    timer_stop(&lane->pause);
    otlp_grpc_cancel(&lane->grpc_call);
    otlp_http_cancel(&lane->http_call);
    file_exporter_cancel(&lane->file_call);
    while ((link = list_pop(&lane->marks)))
        free(container_of(link, struct lane_mark, link));
    while ((link = list_pop(&lane->marking))) /* mark_done() frees it */
        container_of(link, struct lane_mark, link)->lane = NULL;
    if (lane->fetched && lane->state == LANE_FETCHING)
        lane->fetched->lane = NULL; /* fetch_done() frees it */
    else
        fetch_free(lane->fetched);
}
