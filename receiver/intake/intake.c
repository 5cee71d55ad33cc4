/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every change of the store passes here as a writer job, in order of arrival. A drain of the ring
 * runs before a trace request, since it may hold samples of the request's spans. The loop only
 * moves bytes (ring, process stream, request bodies, the symbolizer's answers); the writer
 * interprets them (intake_samples.c, intake_spans.c, intake_items.c).
 */
#include "receiver/intake/intake.h"
#include "agent-bpf/process/symbolizer_client.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/stats.h"
#include "receiver/intake/intake_items.h"
#include "receiver/intake/intake_state.h"
#include "receiver/intake/intake_profiles.h"
#include "receiver/intake/intake_refused.h"
#include "receiver/intake/intake_spans.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

STAT_GAUGE(queued_bytes, "spanprof_intake_queued_bytes",
           "Bytes of requests waiting for the writer.");

#define READY_WAIT_NS (300 * NS_PER_MS)
#define SCAN_WAIT_NS  (3 * NS_PER_SEC) /* while no spans arrive */

/* ---- shared by the parts ---- */

/* An error of the store breaks the writer's whole batch, which then runs again without this job. */
int intake_broken(struct intake *intake, int error)
{
    WORKER_THREAD(intake->settings.writer);
    if (error)
        store_fail(intake->settings.store, error);
    return error;
}

/* Rolled back or renewed: remembered rowids are void. */
void intake_follow_store(struct intake *intake)
{
    WORKER_THREAD(intake->settings.writer);
    uint64_t generation = store_generation(intake->settings.store);
    if (generation != intake->generation)
        intake_samples_forget(intake->samples);
    intake->generation = generation;
}

bool intake_has_room(const struct intake *intake)
{
    return worker_queued(intake->settings.writer) < INTAKE_WRITER_QUEUE / 2 &&
           intake->pending_bytes < INTAKE_PENDING_MAX;
}

/* ---- states ---- */

#define TO(state) (1u << (state))

static const unsigned next_states[] = {
    [INTAKE_STARTING] = TO(INTAKE_READY) | TO(INTAKE_RUNNING) | TO(INTAKE_ENDING),
    [INTAKE_READY] = TO(INTAKE_RUNNING) | TO(INTAKE_ENDING),
    [INTAKE_RUNNING] = TO(INTAKE_STOPPING),
    [INTAKE_STOPPING] = 0,
    [INTAKE_ENDING] = 0,
};

static void intake_enter(struct intake *intake, enum intake_state state)
{
    LOOP_THREAD(intake->settings.loop);
    assert(next_states[intake->state] & TO(state));
    intake->state = state;
}

bool intake_is_draining(const struct intake *intake)
{
    return intake->settings.ring &&
           (intake->state == INTAKE_RUNNING || intake->state == INTAKE_STOPPING);
}

/* ---- the first scan of processes ---- */

static void intake_call_ready(struct intake *intake)
{
    void (*ready)(void *) = intake->ready;
    timer_stop(&intake->ready_timer);
    intake->ready = NULL;
    if (ready)
        ready(intake->settings.context);
}

static void on_ready_timer(struct timer *timer)
{
    struct intake *intake = container_of(timer, struct intake, ready_timer);
    intake_enter(intake, INTAKE_READY);
    intake_call_ready(intake);
}

void intake_begin_draining(struct intake *intake)
{
    if (intake->state != INTAKE_STARTING && intake->state != INTAKE_READY)
        return;
    timer_stop(&intake->scan_timer);
    intake_enter(intake, INTAKE_RUNNING);
    if (intake->settings.ring)
        timer_start(intake->settings.loop, &intake->drain_timer,
                    intake->settings.drain_interval_ns);
    intake_call_ready(intake);
}

static void on_scan_timer(struct timer *timer)
{
    struct intake *intake = container_of(timer, struct intake, scan_timer);
    if (intake->settings.ring)
        log_warn(
            "intake",
            "the scan of running processes takes long; their first frames may stay unresolved");
    intake_begin_draining(intake);
}

/* Spans need their samples now. */
static void intake_drain_for_spans(struct intake *intake)
{
    if (intake->settings.ring)
        log_info("intake", "spans come before the scan of running processes is done; the first "
                           "frames of some may stay unresolved");
    intake_begin_draining(intake);
}

/* ---- requests ---- */

static void requests_advance(struct intake *intake, bool anyway);

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

static void request_unqueue(struct intake_request *request)
{
    struct intake *intake = request->intake;
    assert(intake->queued >= request->body_len);
    intake->queued -= request->body_len;
    stat_set(&queued_bytes, (int64_t)intake->queued);
    buf_close(&request->body);
    turns_done(&intake->turns, &request->turn, request->took_ns);
}

static void request_done(struct job *job, int error)
{
    struct intake_request *request = container_of(job, struct intake_request, job);
    struct intake *intake = request->intake;
    request_unqueue(request);
    requests_advance(intake, false);
    if (error) {
        request->outcome = INTAKE_BUSY;
        request->message = error == -ENOSPC ? "the store is full" : "the store failed";
        intake_refused(request->signal, REFUSED_STORE);
    } else if (intake->settings.committed) {
        intake->settings.committed(intake->settings.context);
    }
    request->done(request);
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

void intake_submit(struct intake *intake, struct intake_request *request)
{
    LOOP_THREAD(intake->settings.loop);
    assert(request->encoding != ENCODING_UNKNOWN); /* the receivers refuse it */
    request->intake = intake;
    request->message = NULL;
    request->body_len = request->body.len;
    request->job = (struct job){.run = request_run, .done = request_done, .repeatable = true};
    if (!intake_has_pipeline(intake, request->signal))
        return request_refuse(request, INTAKE_NO_PIPELINE, "no pipeline takes this signal");
    if (intake->state == INTAKE_STOPPING || intake->state == INTAKE_ENDING)
        return request_refuse(request, INTAKE_BUSY, "the service is stopping");
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

/* ---- life ---- */

static void intake_signals_init(struct intake *intake)
{
    static intake_signal_run *const run[SIGNAL_COUNT] = {
        [SIGNAL_TRACES] = intake_spans_run,
        [SIGNAL_PROFILES] = intake_profiles_run,
        [SIGNAL_METRICS] = intake_items_run,
        [SIGNAL_LOGS] = intake_items_run,
    };
    const struct intake_settings *settings = &intake->settings;
    for (int signal = 0; signal < SIGNAL_COUNT; signal++)
        intake->signals[signal] =
            (struct intake_signal){.run = run[signal],
                                   .settings = {.destinations = settings->destinations[signal],
                                                .max_body_bytes = settings->max_request_bytes,
                                                .join = settings->join,
                                                .coverage = settings->coverage,
                                                .label_names = settings->label_names}};
}

int intake_open(const struct intake_settings *settings, struct intake **intakep)
{
    struct intake *intake = calloc(1, sizeof(*intake));
    if (!intake)
        return -ENOMEM;
    intake->settings = *settings;
    intake_signals_init(intake);
    symbolizer_queue_init(&intake->requests);
    intake->drain_timer.fire = intake_drain_fire;
    intake->window_timer.fire = intake_window_fire;
    intake->scan_timer.fire = on_scan_timer;
    intake->ready_timer.fire = on_ready_timer;
    admission_init(&intake->admission, settings->loop, settings->max_admitted_bytes,
                   INTAKE_WRITER_QUEUE / 4);
    turns_init(&intake->turns);
    intake->anonymous = sender_open(&intake->admission.senders, 0);
    int error = intake->anonymous ? process_table_open(&intake->requests, &intake->table) : -ENOMEM;
    if (!error)
        error = intake_samples_open(settings->store, intake->table, &settings->label_names,
                                    &intake->samples);
    if (!error)
        error = correlation_open(
            &(struct correlation_settings){.loop = settings->loop,
                                           .writer = settings->writer,
                                           .store = settings->store,
                                           .drain_interval_ns = settings->drain_interval_ns},
            &intake->correlation);
    if (!error)
        intake_samples_correlate(intake->samples, intake->correlation);
    if (!error)
        intake_samples_cover(intake->samples, settings->coverage);
    if (!error)
        error = intake_symbolizer_open(intake);
    if (error) {
        intake_close(intake);
        return error;
    }
    *intakep = intake;
    return 0;
}

void intake_start(struct intake *intake, void (*ready)(void *context))
{
    intake->ready = ready;
    timer_start(intake->settings.loop, &intake->window_timer, INTAKE_TIDY_NS);
    timer_start(intake->settings.loop, &intake->scan_timer,
                intake->settings.ring ? SCAN_WAIT_NS : 0);
    timer_start(intake->settings.loop, &intake->ready_timer, READY_WAIT_NS);
}

void intake_stop(struct intake *intake, void (*stopped)(void *context))
{
    intake->stopped = stopped;
    requests_advance(intake, true);
    intake_drain(intake);
    intake_enter(intake, intake->state == INTAKE_RUNNING ? INTAKE_STOPPING : INTAKE_ENDING);
    timer_stop(&intake->window_timer);
    timer_stop(&intake->scan_timer);
    timer_stop(&intake->ready_timer);
    intake_window_last(intake);
}

void intake_close(struct intake *intake)
{
    if (!intake)
        return;
    timer_stop(&intake->drain_timer);
    timer_stop(&intake->window_timer);
    timer_stop(&intake->scan_timer);
    timer_stop(&intake->ready_timer);
    intake_drain_close(intake);
    symbolizer_client_close(intake->symbolizer);
    correlation_close(intake->correlation);
    intake_samples_close(intake->samples);
    process_table_close(intake->table);
    symbolizer_queue_deinit(&intake->requests);
    sender_release(intake->anonymous);
    admission_close(&intake->admission);
    free(intake);
}
