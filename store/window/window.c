/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request is filled until a sample does not fit; then the next request begins. Interned
 * Resources, stacks and locations of a request are cached by store id, so each is looked up in the
 * dictionary once per request.
 */
#include "store/window/window.h"
#include "base/log.h"
#include "base/stats.h"
#include "store/history/history.h"
#include "store/outbox/outbox.h"
#include "store/window/profile_request.h"
#include "store/window/span_cpu.h"
#include <errno.h>

STAT_COUNTER(window_requests, "spanprof_window_requests_total", "Profile requests made.");
STAT_COUNTER(window_samples, "spanprof_window_samples_total", "Samples put into profile requests.");
STAT_LOSS(window_unsent, "spanprof_window_samples_unsent_total",
          "Samples that are in the history alone, for the outbox had been full for a minute.");
STAT_LOSS(window_too_big, "spanprof_window_samples_too_big_total",
          "Samples left out because they alone would pass the limit of a request.");

struct window {
    const struct window_settings *settings;
    struct outbox *outbox;
    struct profile_request request;
    uint64_t now_unix_ns;
};

static int send_request(struct window *window)
{
    struct buf body _cleanup_buf_ = {0};
    struct profile_request *request = &window->request;
    uint64_t n = request->profiles ? otlp_profiles_samples(request->profiles) : 0;
    if (!n)
        return 0;
    int error = otlp_profiles_finish(request->profiles, request->first_unix_ns, window->now_unix_ns,
                                     window->settings->scope_version, &body);
    if (error)
        return error < 0 ? error : -EMSGSIZE;
    stat_add(&window_requests, 1);
    stat_add(&window_samples, (int64_t)n);
    return outbox_put(window->outbox, SIGNAL_PROFILES, n, window->settings->destinations,
                      buf_bytes(&body));
}

static int next_request(struct window *window)
{
    int error = send_request(window);
    return error ? error
                 : profile_request_begin(&window->request, window->settings->max_request_bytes);
}

static int add_to_request(struct window *window, const struct sample *sample,
                          const struct join_span_facts *span)
{
    int error = window->request.profiles ? 0 : next_request(window);
    if (!error)
        error = profile_request_add(&window->request, sample, span);
    if (error != -EMSGSIZE)
        return error;
    error = next_request(window);
    if (!error)
        error = profile_request_add(&window->request, sample, span);
    if (error != -EMSGSIZE)
        return error;
    stat_add(&window_too_big, 1);
    log_warn("store", "a sample alone passes the limit of a profile request and was left out");
    return next_request(window); /* an empty request, with empty caches */
}

static int add_sample(void *context, const struct sample *sample,
                      const struct join_span_facts *span)
{
    struct window *window = context;
    struct history *history = window->settings->history;
    int error = window->settings->unsent ? 0 : add_to_request(window, sample, span);
    if (!error && window->settings->span_cpu)
        span_cpu_add(window->settings->span_cpu, sample, span);
    return error || !history ? error : history_sample(history, sample, span);
}

int window_close(const struct window_store *store, const struct window_settings *settings,
                 uint64_t now_unix_ns, size_t *n_samples)
{
    struct window window = {
        .settings = settings, .outbox = store->outbox, .now_unix_ns = now_unix_ns};
    *n_samples = 0;
    if (settings->destinations && !settings->unsent && !outbox_has_room(store->outbox))
        return -ENOSPC;
    struct stack_dictionary dictionary = stack_dictionary_of(store->stacks);
    profile_request_open(&window.request, &dictionary, store->processes);
    size_t max_samples = settings->max_samples ? settings->max_samples : SIZE_MAX;
    int outcome = join_leave(store->join, now_unix_ns, max_samples, add_sample, &window, n_samples);
    int error = outcome < 0 ? outcome : send_request(&window);
    profile_request_close(&window.request);
    if (!error && settings->unsent)
        stat_add(&window_unsent, (int64_t)*n_samples);
    if (error)
        return error == -ENOSPC ? -EAGAIN : error;
    return outcome;
}
