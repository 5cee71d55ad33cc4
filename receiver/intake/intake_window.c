/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every second tidies the store and the process table; every fifth time closes the profile window
 * first. It takes several transactions, one after the other, so that a request that arrives
 * meanwhile waits for one of them only: some that store names, a few for the samples (each makes a
 * request and a block of the history), one that tidies.
 */
#include "agent-bpf/process/symbolizer_client.h"
#include "base/clock.h"
#include "receiver/intake/intake_state.h"
#include "receiver/intake/questions.h"
#include "store/join/join.h"
#include "store/stacks/stacks_unfinished.h"
#include <errno.h>
#include <stdlib.h>

#define SLICES        8    /* transactions of a window, about; fewer if they were smaller than: */
#define SLICE_SAMPLES 1024 /* each request repeats what its stacks have in common with others */

enum window_kind { WINDOW_TIDY, WINDOW_CLOSE, WINDOW_LAST };

struct window_job {
    struct job job;
    struct intake *intake;
    enum window_kind kind;
    size_t slice_samples;
    size_t n_samples;
    enum { WINDOW_DONE, WINDOW_NEXT, WINDOW_AGAIN_LATER } then;
    struct list requests; /* for the symbolizer */
};

static int run_window(struct window_job *window);

/* The last window is on its way, and takes what is left. */
static bool is_stopping(const struct intake *intake)
{
    return intake->state == INTAKE_STOPPING || intake->state == INTAKE_ENDING;
}

static size_t slice_of(size_t n_pending)
{
    return n_pending / SLICES > SLICE_SAMPLES ? n_pending / SLICES : SLICE_SAMPLES;
}

static bool waits_for_names(const struct window_job *window)
{
    const struct intake *intake = window->intake;
    struct stacks *stacks = store_stacks(intake->settings.store);
    return window->kind == WINDOW_LAST && stacks_unfinished_count(stacks, STACK_OPEN_NAMES) > 0 &&
           clock_monotonic_ns() < intake->stopping_ns + QUESTIONS_LAST_NAMES_NS;
}

static int close_slice(struct window_job *window, uint64_t now_unix_ns)
{
    const struct intake_settings *settings = &window->intake->settings;
    struct store *store = settings->store;
    struct window_settings how = {.max_request_bytes = settings->max_request_bytes,
                                  .destinations = settings->destinations[SIGNAL_PROFILES],
                                  .scope_version = settings->version,
                                  .span_cpu = settings->span_cpu};
    if (!window->slice_samples)
        window->slice_samples = slice_of(join_pending_samples(store_join(store)));
    how.max_samples = window->slice_samples;
    if (window->kind == WINDOW_LAST) /* later answers are ignored */
        stacks_stop_waiting_for_names(store_stacks(store));
    int outcome = store_window(store, &how, now_unix_ns, &window->n_samples);
    if (outcome == WINDOW_MORE)
        window->then = WINDOW_NEXT;
    return outcome < 0 && outcome != -ENOSPC ? outcome : 0; /* the samples wait for room */
}

static int tidy(struct window_job *window, uint64_t now_unix_ns)
{
    struct intake *intake = window->intake;
    struct store *store = intake->settings.store;
    int error = store_collect(store, now_unix_ns);
    window->n_samples += pending_profiles_has_leaving(store_pending_profiles(store));
    process_table_expire(intake->table, clock_monotonic_ns());
    return error;
}

/* One transaction of the window. */
static int window_step(struct window_job *window)
{
    uint64_t now_unix_ns = clock_unix_ns();
    int outcome = store_prepare(window->intake->settings.store);
    if (outcome == STORE_MORE)
        window->then = WINDOW_NEXT;
    if (outcome)
        return outcome < 0 ? outcome : 0;
    if (window->kind == WINDOW_TIDY)
        return tidy(window, now_unix_ns);
    outcome = close_slice(window, now_unix_ns);
    if (outcome || window->then == WINDOW_NEXT)
        return outcome;
    if (window->kind == WINDOW_LAST)
        return tidy(window, now_unix_ns);
    window->kind = WINDOW_TIDY;
    window->then = WINDOW_NEXT;
    return 0;
}

static int window_run(struct job *job)
{
    struct window_job *window = container_of(job, struct window_job, job);
    struct intake *intake = window->intake;
    int error = intake_samples_expire(intake->samples, clock_monotonic_ns());
    if (!error && waits_for_names(window))
        window->then = WINDOW_AGAIN_LATER;
    else if (!error)
        error = window_step(window);
    intake_take_requests(intake, &window->requests);
    return intake_broken(intake, error);
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
    bool last = window->kind == WINDOW_LAST;
    if (!error && window->n_samples && intake->settings.committed)
        intake->settings.committed(intake->settings.context);
    symbolizer_client_submit(intake->symbolizer, &window->requests);
    if (!error && window->then == WINDOW_NEXT && (last || !is_stopping(intake)) &&
        !run_window(window))
        return;
    bool again = !error && window->then == WINDOW_AGAIN_LATER;
    free(window);
    if (again)
        timer_start(intake->settings.loop, &intake->window_timer, QUESTIONS_LAST_AGAIN_NS);
    else if (last)
        stop_correlation(intake);
}

static int run_window(struct window_job *window)
{
    window->job = (struct job){.run = window_run, .done = window_done};
    window->then = WINDOW_DONE;
    window->n_samples = 0;
    return worker_submit(window->intake->settings.writer, &window->job);
}

static int submit_window(struct intake *intake, enum window_kind kind)
{
    struct window_job *window = calloc(1, sizeof(*window));
    if (!window)
        return -ENOMEM;
    window->intake = intake;
    window->kind = kind;
    list_init(&window->requests);
    int error = run_window(window);
    if (error)
        free(window); /* the next window does this one's work */
    return error;
}

static void close_last(struct intake *intake)
{
    if (submit_window(intake, WINDOW_LAST))
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
    if (is_stopping(intake))
        return close_last(intake);
    timer_start(intake->settings.loop, timer, INTAKE_TIDY_NS);
    intake->n_tidied++;
    bool closes = intake->n_tidied % (INTAKE_WINDOW_NS / INTAKE_TIDY_NS) == 0;
    submit_window(intake, closes ? WINDOW_CLOSE : WINDOW_TIDY);
}
