/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every change of the store passes the intake as a writer job. The loop only moves bytes (ring,
 * process stream, request bodies, the symbolizer's answers); the writer interprets them
 * (intake_samples.c, intake_spans.c, intake_items.c).
 */
#include "receiver/intake/intake.h"
#include "agent-bpf/process/symbolizer_client.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/stats.h"
#include "receiver/intake/intake_items.h"
#include "receiver/intake/intake_state.h"
#include "receiver/intake/intake_profiles.h"
#include "receiver/intake/intake_spans.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

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
    if (!error)
        error = intake_requests_open(intake);
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
    intake_requests_stop(intake);
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
    worker_close(intake->large_reader);
    symbolizer_client_close(intake->symbolizer);
    correlation_close(intake->correlation);
    intake_samples_close(intake->samples);
    process_table_close(intake->table);
    symbolizer_queue_deinit(&intake->requests);
    sender_release(intake->anonymous);
    admission_close(&intake->admission);
    free(intake);
}
