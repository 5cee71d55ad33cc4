/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests on their way to the writer: in turns by peer (turns.h), then in order. A drain of the
 * ring runs before a trace request, since it may hold samples of the request's spans.
 *
 * The writer leaves a body that becomes larger than LARGE_BYTES, for others would wait while it is
 * inflated and checked. large_reader, a thread, does that. What is in it, of which each costs
 * the writer something, then comes to it in parts of about that size, and other requests run
 * between them. The
 * answer waits for the last part; after a failure the peer sends all parts again. Large requests go
 * one at a time, so that one inflated body is in memory; the next is that of the peer which has
 * used the threads least.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/stats.h"
#include "receiver/intake/intake.h"
#include "receiver/intake/intake_refused.h"
#include "receiver/intake/intake_state.h"
#include <assert.h>
#include <errno.h>

STAT_GAUGE(queued_bytes, "spanprof_intake_queued_bytes",
           "Bytes of requests waiting for the writer.");
STAT_COUNTER(large_requests, "spanprof_intake_large_requests_total",
             "Requests that were inflated and checked beside the writer, because they are large.");

#define LARGE_BYTES (512u << 10)
#define STOPPING    "the service is stopping"

static void requests_advance(struct intake *intake, bool anyway);
static void large_advance(struct intake *intake);
static void request_leave(struct intake_request *request);
static void request_done(struct job *job, int error);
static bool large_has_more(struct intake_request *request);
static void large_go_on(struct intake_request *request);
static void large_end(struct intake_request *request, int error);

static int request_run(struct job *job)
{
    struct intake_request *request = container_of(job, struct intake_request, job);
    struct intake *intake = request->intake;
    const struct intake_signal *signal = &intake->signals[request->signal];
    uint64_t since_ns = clock_thread_ns();
    int error = signal->run(request, intake->settings.store, &signal->settings);
    request->took_ns += clock_thread_ns() - since_ns;
    return error == -ENOSPC ? error : intake_broken(intake, error); /* no room: fails alone */
}

static void request_for_writer(struct intake_request *request)
{
    request->job = (struct job){.run = request_run, .done = request_done, .repeatable = true};
}

static void request_unqueue(struct intake_request *request)
{
    struct intake *intake = request->intake;
    assert(intake->queued >= request->body_len);
    intake->queued -= request->body_len;
    stat_set(&queued_bytes, (int64_t)intake->queued);
    buf_close(&request->body);
    buf_close(&request->made);
    buf_close(&request->part);
    turns_done(&intake->turns, &request->turn, request->took_ns);
}

/* It has run, or failed before. */
static void request_end(struct intake_request *request, int error)
{
    struct intake *intake = request->intake;
    request_unqueue(request);
    requests_advance(intake, false);
    if (error) {
        request->outcome = INTAKE_BUSY;
        request->message = error == -ENOSPC      ? "the store is full"
                           : error == -ESHUTDOWN ? STOPPING
                                                 : "the store failed";
        intake_refused(request->signal, error == -ESHUTDOWN ? REFUSED_BUSY : REFUSED_STORE);
    } else if (intake->settings.committed) {
        intake->settings.committed(intake->settings.context);
    }
    request->done(request);
}

static void request_done(struct job *job, int error)
{
    struct intake_request *request = container_of(job, struct intake_request, job);
    if (!error && request->reading == INTAKE_LARGE)
        return request_leave(request);
    if (request->intake->read != request)
        return request_end(request, error);
    if (!error && large_has_more(request))
        return large_go_on(request);
    large_end(request, error);
}

static void request_refuse_posted(struct post *post)
{
    struct intake_request *request = container_of(post, struct intake_request, refusal);
    request->done(request);
}

static void request_refuse(struct intake_request *request, enum intake_outcome outcome,
                           const char *message)
{
    buf_close(&request->body);
    request->outcome = outcome;
    request->message = message;
    if (outcome == INTAKE_BUSY)
        intake_refused(request->signal, REFUSED_BUSY);
    request->refusal = (struct post){.call = request_refuse_posted};
    loop_post(request->intake->settings.loop, &request->refusal);
}

struct admission *intake_admission(struct intake *intake)
{
    return &intake->admission;
}

bool intake_has_pipeline(const struct intake *intake, enum signal signal)
{
    const struct intake_settings *settings = &intake->settings;
    return settings->destinations[signal] || settings->unsent >> signal & 1;
}

static void request_fail(struct intake_request *request)
{
    request->outcome = INTAKE_BUSY;
    request->message = "too many requests are waiting";
    intake_refused(request->signal, REFUSED_BUSY);
    request->done(request);
}

/* To the writer, unless its queue is full or it has closed. */
static void request_go(struct intake_request *request)
{
    struct intake *intake = request->intake;
    if (request->signal == SIGNAL_TRACES)
        intake_drain(intake);
    if (worker_submit(intake->settings.writer, &request->job) == 0)
        return;
    bool within_submit = intake->submitting == request;
    request_unqueue(request);
    if (within_submit)
        request_refuse(request, INTAKE_BUSY, "too many requests are waiting");
    else
        request_fail(request);
}

static void requests_advance(struct intake *intake, bool anyway)
{
    struct turn *turn;
    while ((turn = turns_next(&intake->turns, anyway)))
        request_go(container_of(turn, struct intake_request, turn));
}

/* ---- large ones ---- */

static void request_leave(struct intake_request *request)
{
    struct intake *intake = request->intake;
    if (!intake->large_reader)
        return request_end(request, -ESHUTDOWN);
    stat_add(&large_requests, 1);
    turns_leave(&intake->turns, &request->turn, request->took_ns);
    list_append(&intake->large, &request->large);
    large_advance(intake);
    requests_advance(intake, false);
}

/* Of a request that was checked. */
static int large_outcome(int outcome)
{
    return outcome == OTLP_MALFORMED ? -EPROTO : outcome;
}

/* At large_reader. 0; 1: refused; negative errno. */
static int large_read(struct intake_request *request)
{
    struct intake *intake = request->intake;
    struct bytes body;
    request->made = request->part = BUF_INIT(0);
    int outcome = intake_body_read(request, &request->made, &body);
    if (!outcome)
        outcome = intake_body_fit(request, body, &intake->signals[request->signal].settings);
    if (!outcome)
        outcome = large_outcome(otlp_parts_open(&intake->parts, body));
    if (outcome)
        return outcome;
    request->left = body.len;
    request->reading = INTAKE_READ;
    return 0;
}

static int large_make_part(struct intake_request *request)
{
    request->left -= request->left < request->part.len ? request->left : request->part.len;
    return large_outcome(otlp_parts_next(&request->intake->parts, LARGE_BYTES, &request->part));
}

static int large_run(struct job *job)
{
    struct intake_request *request = container_of(job, struct intake_request, job);
    uint64_t since_ns = clock_thread_ns();
    int outcome = request->reading == INTAKE_READING ? large_read(request) : 0;
    if (!outcome)
        outcome = large_make_part(request);
    request->took_ns += clock_thread_ns() - since_ns;
    return outcome < 0 ? outcome : 0;
}

/* To the writer, unless it was refused. */
static void large_done(struct job *job, int error)
{
    struct intake_request *request = container_of(job, struct intake_request, job);
    if (!error && request->reading == INTAKE_READ) {
        request_for_writer(request);
        if (!worker_submit(request->intake->settings.writer, &request->job))
            return;
        error = -ESHUTDOWN;
    }
    large_end(request, error);
}

/* Of one that the writer has run a part of. */
static bool large_has_more(struct intake_request *request)
{
    return request->outcome == INTAKE_ACCEPTED && otlp_parts_left(&request->intake->parts);
}

static void large_submit(struct intake_request *request)
{
    request->job = (struct job){.run = large_run, .done = large_done};
    int outcome = worker_submit(request->intake->large_reader, &request->job);
    assert(!outcome); /* its queue has room for the only one */
    (void)outcome;
}

static void large_go_on(struct intake_request *request)
{
    const struct intake_settings *settings = &request->intake->settings;
    if (!request->intake->large_reader)
        return large_end(request, -ESHUTDOWN);
    if (settings->committed)
        settings->committed(settings->context);
    large_submit(request);
}

static void large_end(struct intake_request *request, int error)
{
    struct intake *intake = request->intake;
    intake->read = NULL;
    otlp_parts_close(&intake->parts);
    request_end(request, error);
    large_advance(intake);
}

static struct intake_request *large_next(const struct intake *intake)
{
    struct intake_request *next = NULL;
    struct list *link, *tmp;
    list_each(link, tmp, &intake->large)
    {
        struct intake_request *request = container_of(link, struct intake_request, large);
        if (!next || request->turn.sender->peer->used_ns < next->turn.sender->peer->used_ns)
            next = request;
    }
    return next;
}

static void large_advance(struct intake *intake)
{
    struct intake_request *request =
        intake->read || !intake->large_reader ? NULL : large_next(intake);
    if (!request)
        return;
    list_remove(&request->large);
    intake->read = request;
    request->reading = INTAKE_READING;
    large_submit(request);
}

/* ---- entry and life ---- */

/* Spans need their samples now. */
static void intake_drain_for_spans(struct intake *intake)
{
    if (intake->settings.ring)
        log_info("intake", "spans come before the scan of running processes is done; the first "
                           "frames of some may stay unresolved");
    intake_begin_draining(intake);
}

void intake_submit(struct intake *intake, struct intake_request *request)
{
    LOOP_THREAD(intake->settings.loop);
    assert(request->encoding != ENCODING_UNKNOWN); /* the receivers refuse it */
    request->intake = intake;
    request->message = NULL;
    request->body_len = request->body.len;
    request->max_at_writer = LARGE_BYTES;
    request->left = 0;
    request->reading = INTAKE_UNREAD;
    request_for_writer(request);
    if (!intake_has_pipeline(intake, request->signal))
        return request_refuse(request, INTAKE_NO_PIPELINE, "no pipeline takes this signal");
    if (intake->state == INTAKE_STOPPING || intake->state == INTAKE_ENDING)
        return request_refuse(request, INTAKE_BUSY, STOPPING);
    if (intake->queued + request->body_len > intake->settings.max_queued_bytes ||
        !intake_has_room(intake))
        return request_refuse(request, INTAKE_BUSY, "too many requests are waiting");
    if (!turns_add(&intake->turns, &request->turn,
                   request->sender ? request->sender : intake->anonymous, request->body_len,
                   request->encoding != ENCODING_IDENTITY))
        return request_refuse(request, INTAKE_BUSY, "too many requests of this sender are waiting");
    if (request->signal == SIGNAL_TRACES && intake->state == INTAKE_READY && request->body_len)
        intake_drain_for_spans(intake);
    request->took_ns = 0;
    intake->queued += request->body_len;
    stat_set(&queued_bytes, (int64_t)intake->queued);
    intake->submitting = request;
    requests_advance(intake, false);
    intake->submitting = NULL;
}

int intake_requests_open(struct intake *intake)
{
    list_init(&intake->large);
    return worker_open(
        &intake->large_reader, intake->settings.loop,
        &(struct worker_ops){
            .name = "large", .queue_limit = 1, .batch_limit = 1, .in_background = true});
}

void intake_requests_stop(struct intake *intake)
{
    requests_advance(intake, true);
}

void intake_requests_last(struct intake *intake)
{
    struct worker *reader = intake->large_reader;
    struct list *link;
    intake->large_reader = NULL;
    while ((link = list_pop(&intake->large)))
        request_end(container_of(link, struct intake_request, large), -ESHUTDOWN);
    worker_close(reader);
}
