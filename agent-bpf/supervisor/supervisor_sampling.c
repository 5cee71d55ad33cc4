/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/supervisor/supervisor_sampling.h"
#include "base/clock.h"
#include "base/log.h"
#include <stdlib.h>
#include <string.h>

/* ---- whether settings are the same ---- */

static bool same_text(const char *a, const char *b)
{
    return strcmp(a ? a : "", b ? b : "") == 0;
}

static bool same_values(const char *const *a, const char *const *b)
{
    static const char *const none[] = {NULL};
    size_t i = 0;
    a = a ? a : none;
    b = b ? b : none;
    while (a[i] && b[i] && same_text(a[i], b[i]))
        i++;
    return !a[i] && !b[i];
}

static bool same_rules(const struct filter_rules *a, const struct filter_rules *b)
{
    for (size_t kind = 0; kind < FILTER_KINDS; kind++)
        if (!same_values(a->values[kind], b->values[kind]))
            return false;
    return true;
}

static bool same_sampler(const struct sampler_settings *a, const struct sampler_settings *b)
{
    return a->frequency_hz == b->frequency_hz && a->ring_size_bytes == b->ring_size_bytes &&
           same_text(a->obi_map, b->obi_map) && a->unwind_bytes == b->unwind_bytes &&
           a->stacks_always == b->stacks_always && a->ticks_timed == b->ticks_timed &&
           same_rules(&a->filters.include, &b->filters.include) &&
           same_rules(&a->filters.exclude, &b->filters.exclude);
}

static bool same_number(double a, double b)
{
    return !(a < b) && !(a > b);
}

static bool same_sampling_rate(const struct sampling_rate_settings *a,
                               const struct sampling_rate_settings *b)
{
    return a->frequency_hz == b->frequency_hz && a->interval_ns == b->interval_ns &&
           same_number(a->probability, b->probability) &&
           same_number(a->max_cpu_percent, b->max_cpu_percent);
}

/* ---- opening ---- */

static struct supervisor_sampling *sampling_new(const struct supervisor_settings *settings)
{
    struct supervisor_sampling *sampling = calloc(1, sizeof(*sampling));
    if (!sampling)
        return NULL;
    sampling->settings = settings->sampler;
    sampling->sampling_rate_settings = settings->sampling_rate;
    sampling->sampling_rate_settings.frequency_hz = settings->sampler.frequency_hz;
    sampling->cpus.uevent_fd = -1;
    return sampling;
}

/* The same as the run before has, whose settings are about to go. */
static bool take_over(struct supervisor_sampling *from, struct supervisor_sampling *to)
{
    if (!from || !same_sampler(&from->settings, &to->settings) ||
        !same_sampling_rate(&from->sampling_rate_settings, &to->sampling_rate_settings))
        return false;
    to->sampler = from->sampler;
    to->cpus = from->cpus;
    to->sampling_rate = from->sampling_rate;
    sampler_follow(to->sampler, &to->settings);
    free(from);
    log_info("supervisor", "sampling goes on as it was");
    return true;
}

static int supervisor_sampling_begin(struct supervisor_sampling *sampling)
{
    char why[SAMPLER_DIAGNOSIS_MAX];
    int r = sampler_open(&sampling->settings, &sampling->sampler, why, sizeof(why));
    if (r != 0) {
        log_error("supervisor", "sampling is off: %s", r < 0 ? strerror(-r) : why);
        return r;
    }
    sampling_rate_open(&sampling->sampling_rate, &sampling->sampling_rate_settings,
                       sampling->sampler, clock_monotonic_ns());
    r = cpu_events_open(&sampling->cpus, sampling->sampler);
    if (r < 0)
        log_error("supervisor", "sampling is off: %s", strerror(-r));
    return r;
}

struct supervisor_sampling *supervisor_sampling_open(const struct supervisor_settings *settings)
{
    struct supervisor_sampling *from = settings->sampling ? *settings->sampling : NULL;
    struct supervisor_sampling *sampling = settings->want_sampler ? sampling_new(settings) : NULL;
    if (settings->sampling)
        *settings->sampling = NULL;
    if (sampling && take_over(from, sampling))
        return sampling;
    supervisor_sampling_close(from);
    if (!sampling || supervisor_sampling_begin(sampling) == 0)
        return sampling;
    supervisor_sampling_close(sampling);
    return NULL;
}

void supervisor_sampling_close(struct supervisor_sampling *sampling)
{
    if (!sampling)
        return;
    cpu_events_close(&sampling->cpus);
    sampler_close(sampling->sampler);
    free(sampling);
}
