/* SPDX-License-Identifier: Apache-2.0 */
/* Down fast and up slowly: a budget is a promise, a high rate a wish. */
#include "agent-bpf/sampler/pace.h"
#include "agent-bpf/sampler/sampler.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/stats.h"
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define RAISE_ROOM 0.9 /* of the budget: what the next higher rate may be expected to take */

STAT_GAUGE(sampling_active, "spanprof_sampling_active", "",
           "1 while this node samples; 0 in intervals that sampler.probability leaves out.");
STAT_GAUGE(sampling_frequency, "spanprof_sampling_frequency_hz", "",
           "Samples a second on each busy CPU, as sampler.max_cpu_percent allows at present.");
STAT_COUNTER(reductions, "spanprof_sampling_frequency_reductions_total", "",
             "Times that the frequency was lowered to keep within sampler.max_cpu_percent.");
STAT_COUNTER(intervals_on, "spanprof_sampling_intervals_total", "state=\"on\"",
             "Intervals drawn by sampler.probability, by whether the node samples in them.");
STAT_COUNTER(intervals_off, "spanprof_sampling_intervals_total", "state=\"off\"",
             "Intervals drawn by sampler.probability, by whether the node samples in them.");

static bool always(const struct pace *pace)
{
    return pace->settings.probability <= 0 || pace->settings.probability >= 1;
}

static bool draw(double probability)
{
    uint32_t number;
    if (getrandom(&number, sizeof(number), GRND_NONBLOCK) != (ssize_t)sizeof(number))
        number = (uint32_t)(clock_monotonic_ns() * UINT64_C(0x9e3779b97f4a7c15) >> 32);
    return number < probability * 4294967296.0;
}

static void begin_interval(struct pace *pace, uint64_t now_ns)
{
    pace->draw_due_ns = now_ns + pace->settings.interval_ns;
    bool active = draw(pace->settings.probability);
    stat_add(active ? &intervals_on : &intervals_off, 1);
    if (active == pace->active)
        return;
    pace->active = active;
    sampler_pause(pace->sampler, !active);
    stat_set(&sampling_active, active);
    log_debug("sampler", "%s for the next %u s", active ? "sampling" : "not sampling",
              (unsigned)(pace->settings.interval_ns / NS_PER_SEC));
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
static uint64_t used_by(struct pace_process *process, pid_t pid)
{
    uint64_t cpu_ns = pid ? cpu_time_ns(pid) : 0;
    uint64_t before = process->pid == pid ? process->cpu_ns : 0;
    *process = (struct pace_process){.pid = pid, .cpu_ns = cpu_ns};
    return cpu_ns > before ? cpu_ns - before : 0;
}

static uint64_t used(struct pace *pace, const pid_t pids[PACE_PROCESSES])
{
    uint64_t tick_ns = sampler_tick_time_ns(pace->sampler), sum = tick_ns - pace->tick_ns;
    pace->tick_ns = tick_ns;
    sum += used_by(&pace->processes[0], getpid());
    for (size_t i = 0; i < PACE_PROCESSES; i++)
        sum += used_by(&pace->processes[i + 1], pids[i]);
    return sum;
}

static bool is_prime(uint32_t n)
{
    for (uint32_t divisor = 2; divisor * divisor <= n; divisor++)
        if (n % divisor == 0)
            return false;
    return n >= 2;
}

static uint32_t lowered(uint32_t frequency_hz, double share)
{
    uint32_t next = (uint32_t)(frequency_hz * (share < 0.5 ? 0.5 : share));
    next = next < frequency_hz ? next : frequency_hz - 1;
    while (next > 1 && !is_prime(next))
        next--;
    return next > 1 ? next : 1;
}

static uint32_t raised(uint32_t frequency_hz, uint32_t highest_hz)
{
    uint32_t next = frequency_hz + frequency_hz / 8 + 1;
    while (next < highest_hz && !is_prime(next))
        next++;
    return next < highest_hz ? next : highest_hz;
}

uint32_t pace_next_frequency(const struct pace_settings *settings, uint32_t frequency_hz,
                             double percent)
{
    double max = settings->max_cpu_percent;
    if (percent > max)
        return lowered(frequency_hz, max / percent);
    uint32_t next = raised(frequency_hz, settings->frequency_hz);
    return percent * next / frequency_hz <= max * RAISE_ROOM ? next : frequency_hz;
}

static void set_frequency(struct pace *pace, uint32_t frequency_hz, double percent)
{
    uint32_t before = pace->frequency_hz, highest = pace->settings.frequency_hz;
    int error = sampler_set_frequency(pace->sampler, frequency_hz);
    if (error)
        log_warn("sampler", "a CPU keeps its frequency: %s", strerror(-error));
    pace->frequency_hz = frequency_hz;
    stat_set(&sampling_frequency, frequency_hz);
    if (frequency_hz < before)
        stat_add(&reductions, 1);
    if (before == highest)
        log_info("sampler",
                 "spanprof takes %.2f %% of the CPUs and max_cpu_percent is %.2f: sampling less "
                 "often (spanprof_sampling_frequency_hz tells) until it is below",
                 percent, pace->settings.max_cpu_percent);
    else if (frequency_hz == highest)
        log_info("sampler", "sampling at %u Hz again, within max_cpu_percent", highest);
}

static void judge(struct pace *pace, const pid_t pids[PACE_PROCESSES], uint64_t now_ns)
{
    uint64_t used_ns = used(pace, pids), wall_ns = now_ns - pace->judged_ns;
    bool first = pace->judged_ns == 0;
    pace->judged_ns = now_ns;
    pace->judge_due_ns = now_ns + PACE_BUDGET_NS;
    long n_cpus = sysconf(_SC_NPROCESSORS_ONLN);
    if (first || wall_ns == 0 || !pace->active)
        return;
    double percent = 100.0 * (double)used_ns / (double)wall_ns / (double)(n_cpus > 0 ? n_cpus : 1);
    uint32_t next = pace_next_frequency(&pace->settings, pace->frequency_hz, percent);
    if (next != pace->frequency_hz)
        set_frequency(pace, next, percent);
}

/* ---- life ---- */

void pace_open(struct pace *pace, const struct pace_settings *settings, struct sampler *sampler,
               uint64_t now_ns)
{
    *pace = (struct pace){.settings = *settings,
                          .sampler = sampler,
                          .active = true,
                          .frequency_hz = settings->frequency_hz};
    stat_set(&sampling_active, 1);
    stat_set(&sampling_frequency, settings->frequency_hz);
    if (!always(pace))
        begin_interval(pace, now_ns);
}

void pace_update(struct pace *pace, const pid_t pids[PACE_PROCESSES], uint64_t now_ns)
{
    if (pace->settings.max_cpu_percent > 0 && now_ns >= pace->judge_due_ns)
        judge(pace, pids, now_ns);
    if (!always(pace) && now_ns >= pace->draw_due_ns)
        begin_interval(pace, now_ns);
}
