/* SPDX-License-Identifier: Apache-2.0 */
/* Down fast and up slowly: a budget is a promise, a high rate a wish. */
#include "agent-bpf/sampler/sampling_rate.h"
#include "agent-bpf/sampler/sampler.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/stats.h"
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define RAISE_ROOM 0.9 /* of the budget: what the next higher rate may be expected to take */

STAT_GAUGE(sampling_active, "spanprof_sampling_active",
           "1 while this node samples; 0 during intervals in which it does not "
           "(sampler.probability).");
STAT_GAUGE(sampling_frequency, "spanprof_sampling_frequency_hz",
           "Samples per second on each busy CPU at present; lower than configured to keep within "
           "sampler.max_cpu_percent.");
STAT_COUNTER(reductions, "spanprof_sampling_frequency_reductions_total",
             "Times that the sampling frequency was lowered to keep within "
             "sampler.max_cpu_percent.");
enum interval { INTERVAL_OFF, INTERVAL_ON, INTERVALS };

static const char *const interval_names[] = {[INTERVAL_OFF] = "off", [INTERVAL_ON] = "on"};
STAT_COUNTERS(
    intervals, "spanprof_sampling_intervals_total",
    "Intervals of sampler.probability that have begun; the node samples in those that are "
    "on.",
    STAT_LABEL("state", interval_names, INTERVALS));

static bool sampling_rate_always(const struct sampling_rate *sampling_rate)
{
    return sampling_rate->settings.probability <= 0 || sampling_rate->settings.probability >= 1;
}

static bool rate_draw(double probability)
{
    uint32_t number;
    if (getrandom(&number, sizeof(number), GRND_NONBLOCK) != (ssize_t)sizeof(number))
        number = (uint32_t)(hash_mix(clock_monotonic_ns()) >> 32);
    return number < probability * 4294967296.0;
}

static void begin_interval(struct sampling_rate *sampling_rate, uint64_t now_ns)
{
    sampling_rate->draw_due_ns = now_ns + sampling_rate->settings.interval_ns;
    bool active = rate_draw(sampling_rate->settings.probability);
    stat_add_of(&intervals, active ? INTERVAL_ON : INTERVAL_OFF, 1);
    if (active == sampling_rate->active)
        return;
    sampling_rate->active = active;
    sampler_pause(sampling_rate->sampler, !active);
    stat_set(&sampling_active, active);
    log_debug("sampler", "%s for the next %u s", active ? "sampling" : "not sampling",
              (unsigned)(sampling_rate->settings.interval_ns / NS_PER_SEC));
}

/* ---- the budget ---- */

static uint64_t cpu_time_ns(pid_t pid)
{
    clockid_t clock;
    struct timespec time;
    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &time) != 0)
        return 0; /* it ended */
    return (uint64_t)time.tv_sec * NS_PER_SEC + (uint64_t)time.tv_nsec;
}

/* Since the last call; all of it of a process that is new. */
static uint64_t used_by(struct sampling_rate_process *process, pid_t pid)
{
    uint64_t cpu_ns = pid ? cpu_time_ns(pid) : 0;
    uint64_t before = process->pid == pid ? process->cpu_ns : 0;
    *process = (struct sampling_rate_process){.pid = pid, .cpu_ns = cpu_ns};
    return cpu_ns > before ? cpu_ns - before : 0;
}

static uint64_t sampling_rate_used(struct sampling_rate *sampling_rate,
                                   const pid_t pids[SAMPLING_RATE_PROCESSES])
{
    uint64_t tick_ns = sampler_tick_time_ns(sampling_rate->sampler),
             sum = tick_ns - sampling_rate->tick_ns;
    sampling_rate->tick_ns = tick_ns;
    sum += used_by(&sampling_rate->processes[0], getpid());
    for (size_t i = 0; i < SAMPLING_RATE_PROCESSES; i++)
        sum += used_by(&sampling_rate->processes[i + 1], pids[i]);
    return sum;
}

static bool is_prime(uint32_t n)
{
    for (uint32_t divisor = 2; divisor * divisor <= n; divisor++)
        if (n % divisor == 0)
            return false;
    return n >= 2;
}

static uint32_t rate_lowered(uint32_t frequency_hz, double share)
{
    uint32_t next = (uint32_t)(frequency_hz * (share < 0.5 ? 0.5 : share));
    next = next < frequency_hz ? next : frequency_hz - 1;
    while (next > 1 && !is_prime(next))
        next--;
    return next > 1 ? next : 1;
}

static uint32_t rate_raised(uint32_t frequency_hz, uint32_t highest_hz)
{
    uint32_t next = frequency_hz + frequency_hz / 8 + 1;
    while (next < highest_hz && !is_prime(next))
        next++;
    return next < highest_hz ? next : highest_hz;
}

uint32_t sampling_rate_next_frequency(const struct sampling_rate_settings *settings,
                                      uint32_t frequency_hz, double percent)
{
    double max = settings->max_cpu_percent;
    if (percent > max)
        return rate_lowered(frequency_hz, max / percent);
    uint32_t next = rate_raised(frequency_hz, settings->frequency_hz);
    return percent * next / frequency_hz <= max * RAISE_ROOM ? next : frequency_hz;
}

static void set_frequency(struct sampling_rate *sampling_rate, uint32_t frequency_hz,
                          double percent)
{
    uint32_t before = sampling_rate->frequency_hz, highest = sampling_rate->settings.frequency_hz;
    int error = sampler_set_frequency(sampling_rate->sampler, frequency_hz);
    if (error)
        log_warn("sampler", "a CPU keeps its frequency: %s", strerror(-error));
    sampling_rate->frequency_hz = frequency_hz;
    stat_set(&sampling_frequency, frequency_hz);
    if (frequency_hz < before)
        stat_add(&reductions, 1);
    if (before == highest)
        log_info("sampler",
                 "spanprof uses %.2f %% of the CPUs and max_cpu_percent is %.2f: sampling less "
                 "often (see spanprof_sampling_frequency_hz) until it is below",
                 percent, sampling_rate->settings.max_cpu_percent);
    else if (frequency_hz == highest)
        log_info("sampler", "sampling at %u Hz again, within max_cpu_percent", highest);
}

static void sampling_rate_judge(struct sampling_rate *sampling_rate,
                                const pid_t pids[SAMPLING_RATE_PROCESSES], uint64_t now_ns)
{
    uint64_t used_ns = sampling_rate_used(sampling_rate, pids),
             wall_ns = now_ns - sampling_rate->judged_ns;
    bool first = sampling_rate->judged_ns == 0;
    sampling_rate->judged_ns = now_ns;
    sampling_rate->judge_due_ns = now_ns + SAMPLING_RATE_BUDGET_NS;
    long n_cpus = sysconf(_SC_NPROCESSORS_ONLN);
    if (first || wall_ns == 0 || !sampling_rate->active)
        return;
    double percent = 100.0 * (double)used_ns / (double)wall_ns / (double)(n_cpus > 0 ? n_cpus : 1);
    uint32_t next = sampling_rate_next_frequency(&sampling_rate->settings,
                                                 sampling_rate->frequency_hz, percent);
    if (next != sampling_rate->frequency_hz)
        set_frequency(sampling_rate, next, percent);
}

/* ---- life ---- */

void sampling_rate_open(struct sampling_rate *sampling_rate,
                        const struct sampling_rate_settings *settings, struct sampler *sampler,
                        uint64_t now_ns)
{
    *sampling_rate = (struct sampling_rate){.settings = *settings,
                                            .sampler = sampler,
                                            .active = true,
                                            .frequency_hz = settings->frequency_hz};
    stat_set(&sampling_active, 1);
    stat_set(&sampling_frequency, settings->frequency_hz);
    if (!sampling_rate_always(sampling_rate))
        begin_interval(sampling_rate, now_ns);
}

void sampling_rate_update(struct sampling_rate *sampling_rate,
                          const pid_t pids[SAMPLING_RATE_PROCESSES], uint64_t now_ns)
{
    if (sampling_rate->settings.max_cpu_percent > 0 && now_ns >= sampling_rate->judge_due_ns)
        sampling_rate_judge(sampling_rate, pids, now_ns);
    if (!sampling_rate_always(sampling_rate) && now_ns >= sampling_rate->draw_due_ns)
        begin_interval(sampling_rate, now_ns);
}
