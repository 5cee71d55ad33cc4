/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What Python frames cost a tick: a program that burns at several depths of recursion, its ticks
 * timed with the list of its frames and without it; and in a task of asyncio, with its name and
 * without it (nothing, before 3.14). Argument: the interpreter (/usr/bin/python3).
 * As root.
 */
#include "test/bpf/runtime_fixture.h"
#include "agent-bpf/drain/ring.h"
#include "base/clock.h"
#include "base/stats.h"
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FREQUENCY 997
#define ROUND_MS  400
#define ROUNDS    7

static const char script[] = "import sys, time\n"
                             "def descend(n):\n"
                             "    if n: return descend(n - 1)\n"
                             "    print('ready', flush=True)\n"
                             "    while True: pass\n"
                             "sys.setrecursionlimit(10000)\n"
                             "descend(%d)\n";

static const char task_script[] = "import asyncio\n"
                                  "async def main():\n"
                                  "    print('ready', flush=True)\n"
                                  "    while True: pass\n"
                                  "asyncio.run(main())\n";

struct tick {
    uint64_t samples, frames, words;
    uint32_t pid;
};

static void count_sample(void *context, const struct record_header *record)
{
    struct tick *tick = context;
    if (record->pid != tick->pid)
        return;
    tick->samples++;
    tick->frames += record->list_words / 3;
    tick->words += record->user_words;
}

static double round_ns(struct sampler *sampler, struct ring *ring, struct tick *tick)
{
    struct ring_counts counts;
    struct timespec pause = {0, ROUND_MS * NS_PER_MS};
    struct tick dropped = {0};
    ring_drain(ring, ring_position(ring), count_sample, &dropped, &counts);
    sampler_count(sampler);
    uint64_t before = sampler_tick_time_ns(sampler);
    nanosleep(&pause, NULL);
    sampler_count(sampler);
    uint64_t taken = sampler_tick_time_ns(sampler) - before;
    tick->samples = tick->frames = tick->words = 0;
    ring_drain(ring, ring_position(ring), count_sample, tick, &counts);
    return tick->samples ? (double)taken / (double)tick->samples : 0;
}

struct figures {
    double without, with, frames; /* ns, ns, of a tick */
};

/* of_task: without and with its name; else without and with the list. */
static struct figures measure(const char *python, const char *text, bool of_task)
{
    char path[] = "/tmp/bench_python_XXXXXX", pid[16], why[SAMPLER_DIAGNOSIS_MAX];
    struct sampled_program program = {.runtime.reader =
                                          runtime_readers}; /* Python's is the first */
    enum runtime_refusal why_not;
    struct sampler *sampler;
    struct ring *ring;
    double least[2] = {1e9, 1e9};
    struct tick tick = {0};
    int fd = mkstemp(path);
    dprintf(fd, "%s", text);
    close(fd);
    program_start(&program.runtime, python, path);
    program_await(&program.runtime);
    unlink(path);
    snprintf(pid, sizeof(pid), "%d", (int)program.runtime.pid);
    const char *pids[] = {pid, NULL};
    struct sampler_settings settings = {.frequency_hz = FREQUENCY,
                                        .ring_size_bytes = 16 << 20,
                                        .unwind_bytes = (uint64_t)32 << 20,
                                        .ticks_timed = true};
    settings.filters.include.values[FILTER_PIDS] = pids;
    if (sampler_open(&settings, &sampler, why, sizeof(why))) {
        fprintf(stderr, "%s\n", why);
        exit(1);
    }
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(0, &set);
    sched_setaffinity(program.runtime.pid, sizeof(set), &set);
    assert(!sampler_start_cpu(sampler, 0));
    assert(!ring_open(sampler_ring_fd(sampler), sampler_ring_size(sampler), &ring));
    assert(!program_attach(&program, sampler, &why_not));
    tick.pid = (uint32_t)program.runtime.pid;
    struct runtime_process entries[2];
    int map = sampler_runtimes_fd(sampler);
    assert(!bpf_map_lookup_elem(map, &tick.pid, &entries[1]));
    entries[0] = entries[1];
    if (of_task)
        entries[0].python_tasks = (struct python_tasks){0};
    else
        entries[0].sections = 0;
    for (int i = 0; i < 2 * ROUNDS; i++) {
        bpf_map_update_elem(map, &tick.pid, &entries[i % 2], BPF_ANY);
        double ns = round_ns(sampler, ring, &tick);
        if (ns > 0 && ns < least[i % 2])
            least[i % 2] = ns;
    }
    double frames = tick.samples ? (double)tick.frames / (double)tick.samples : 1;
    ring_close(ring);
    sampler_close(sampler);
    program_stop(&program);
    return (struct figures){least[0], least[1], frames};
}

static void measure_depth(const char *python, unsigned depth)
{
    char text[sizeof(script) + 16];
    snprintf(text, sizeof(text), script, depth);
    struct figures found = measure(python, text, false);
    printf("python_tick_native_%u %.0f ns\n", depth, found.without);
    printf("python_tick_%u %.0f ns\n", depth, found.with);
    printf("python_frame_%u %.0f ns\n", depth, (found.with - found.without) / found.frames);
}

static void measure_task(const char *python)
{
    struct figures found = measure(python, task_script, true);
    printf("python_task_tick_nameless %.0f ns\n", found.without);
    printf("python_task_tick %.0f ns\n", found.with);
    printf("python_task_name %.0f ns\n", found.with - found.without);
}

int main(int argc, char **argv)
{
    static const unsigned depths[] = {1, 10, 30, 100, 400};
    const char *python = argc > 1 ? argv[1] : "/usr/bin/python3";
    if (geteuid()) {
        puts("skipped: root is needed");
        return 77;
    }
    for (size_t i = 0; i < sizeof(depths) / sizeof(*depths); i++)
        measure_depth(python, depths[i]);
    measure_task(python);
    return 0;
}
