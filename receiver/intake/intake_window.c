/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every second tidies the store and the process table; every fifth time closes the profile window.
 */
#include "agent-bpf/process/symbolizer_client.h"
#include "base/clock.h"
#include "receiver/intake/intake_state.h"
#include "receiver/intake/questions.h"
#include "store/stacks/stacks_unfinished.h"
#include <errno.h>
#include <stdlib.h>

struct window_job {
    struct job job;
    struct intake *intake;
    size_t n_samples;
    bool closes; /* closes the window; else only tidies */
    bool last;
    bool again;           /* the last window: try again a little later */
    struct list requests; /* for the symbolizer */
};

static int close_window(struct window_job *window, const struct window_settings *how,
                        uint64_t now_unix_ns)
{
    struct store *store = window->intake->settings.store;
    struct stacks *stacks = store_stacks(store);
    window->again = window->last && stacks_unfinished_count(stacks, STACK_OPEN_NAMES) > 0 &&
                    clock_monotonic_ns() < window->intake->stopping_ns + QUESTIONS_LAST_NAMES_NS;
    if (window->again)
        return 0;
    if (window->last) /* later answers are ignored */
        stacks_stop_waiting_for_names(stacks);
    int error = store_window(store, how, now_unix_ns, &window->n_samples);
    return error == -ENOSPC ? 0 : error; /* the samples wait for room */
}

static int window_run(struct job *job)
{
    struct window_job *window = container_of(job, struct window_job, job);
    const struct intake_settings *settings = &window->intake->settings;
    struct store *store = settings->store;
    struct window_settings how = {.max_request_bytes = settings->max_request_bytes,
                                  .destinations = settings->destinations[SIGNAL_PROFILES],
                                  .scope_version = settings->version,
                                  .span_cpu = settings->span_cpu};
    uint64_t now_unix_ns = clock_unix_ns();
    int error = intake_samples_expire(window->intake->samples, clock_monotonic_ns());
    if (!error && window->closes)
        error = close_window(window, &how, now_unix_ns);
    if (!error)
        error = store_collect(store, now_unix_ns);
    window->n_samples += pending_profiles_has_leaving(store_pending_profiles(store));
    process_table_expire(window->intake->table, clock_monotonic_ns());
    intake_take_requests(window->intake, &window->requests);
    return intake_broken(window->intake, error);
}

/* After the last drain. */
static void stop_correlation(struct intake *intake)
{
    correlation_stop(intake->correlation, intake->stopped, intake->settings.context);
}

static void window_done(struct job *job, int error)
{
    struct window_job *window = container_of(job, struct window_job, job);
    struct intake *intake = window->intake;
    bool last = window->last, again = window->again && !error;
    if (!error) {
        if (window->n_samples && intake->settings.committed)
            intake->settings.committed(intake->settings.context);
    }
    symbolizer_client_submit(intake->symbolizer, &window->requests);
    free(window);
    if (again)
        timer_start(intake->settings.loop, &intake->window_timer, QUESTIONS_LAST_AGAIN_NS);
    else if (last)
        stop_correlation(intake);
}

static int submit_window(struct intake *intake, bool closes, bool last)
{
    struct window_job *window = calloc(1, sizeof(*window));
    if (!window)
        return -ENOMEM;
    *window = (struct window_job){.job = {.run = window_run, .done = window_done},
                                  .intake = intake,
                                  .closes = closes,
                                  .last = last};
    list_init(&window->requests);
    int error = worker_submit(intake->settings.writer, &window->job);
    if (error)
        free(window); /* the next window does this one's work */
    return error;
}

static void close_last(struct intake *intake)
{
    if (submit_window(intake, true, true))
        stop_correlation(intake);
}

void intake_window_last(struct intake *intake)
{
    intake->stopping_ns = clock_monotonic_ns();
    close_last(intake);
}

void intake_window_fire(struct timer *timer)
{
    struct intake *intake = container_of(timer, struct intake, window_timer);
    if (intake->state == INTAKE_STOPPING || intake->state == INTAKE_ENDING)
        return close_last(intake);
    timer_start(intake->settings.loop, timer, INTAKE_TIDY_NS);
    intake->n_tidied++;
    submit_window(intake, intake->n_tidied % (INTAKE_WINDOW_NS / INTAKE_TIDY_NS) == 0, false);
}
