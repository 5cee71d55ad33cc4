/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each second the store and the process table are tidied; every fifth time the profile window is
 * closed.
 */
#include "agent-bpf/analyst_client.h"
#include "base/clock.h"
#include "receiver/intake_parts.h"
#include <errno.h>
#include <stdlib.h>

struct window_job {
    struct job job;
    struct intake *intake;
    size_t n_samples;
    bool closes; /* the window; else store and process table are only tidied */
    bool last;
    struct list requests; /* for the analyst */
};

static int window_run(struct job *job)
{
    struct window_job *window = container_of(job, struct window_job, job);
    const struct intake_settings *settings = &window->intake->settings;
    struct store *store = settings->store;
    struct window_settings how = {.max_request_bytes = settings->max_request_bytes,
                                  .destinations = settings->destinations[SIGNAL_PROFILES],
                                  .scope_version = settings->version};
    uint64_t now_unix_ns = clock_unix_ns();
    samples_expire(window->intake->samples, clock_monotonic_ns());
    int error =
        window->closes ? store_window(store, &how, now_unix_ns, false, &window->n_samples) : 0;
    if (error == -ENOSPC)
        error = 0; /* the samples wait for room */
    if (!error)
        error = store_collect(store, now_unix_ns);
    window->n_samples += held_has_leaving(store_held(store));
    process_table_expire(window->intake->table, clock_monotonic_ns());
    process_table_take_requests(window->intake->table, &window->requests);
    return intake_broken(window->intake, error);
}

static void window_done(struct job *job, int error)
{
    struct window_job *window = container_of(job, struct window_job, job);
    struct intake *intake = window->intake;
    bool last = window->last;
    if (!error) {
        if (window->n_samples && intake->settings.committed)
            intake->settings.committed(intake->settings.context);
    }
    analyst_client_submit(intake->analyst, &window->requests);
    free(window);
    if (last)
        intake->stopped(intake->settings.context);
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
        free(window); /* the next window takes what this one would have taken */
    return error;
}

int intake_window_last(struct intake *intake)
{
    return submit_window(intake, true, true);
}

void intake_window_fire(struct timer *timer)
{
    struct intake *intake = container_of(timer, struct intake, window_timer);
    timer_start(intake->settings.loop, timer, INTAKE_TIDY_NS);
    intake->n_tidied++;
    submit_window(intake, intake->n_tidied % (INTAKE_WINDOW_NS / INTAKE_TIDY_NS) == 0, false);
}
