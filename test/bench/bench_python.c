/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What Python frames cost a tick: a program that burns at several depths of recursion, its ticks
 * timed with the list of its frames and without it. Argument: the interpreter (/usr/bin/python3).
 * As root.
 */
#include "test/bpf/python_fixture.h"
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

static void measure(const char *python, unsigned depth)
{
    char path[] = "/tmp/bench_python_XXXXXX", pid[16], why[SAMPLER_DIAGNOSIS_MAX];
    struct python_program program = {0};
    struct sampler *sampler;
    struct ring *ring;
    double least[2] = {1e9, 1e9};
    struct tick tick = {0};
    int fd = mkstemp(path);
    dprintf(fd, script, depth);
    close(fd);
    program_start(&program, python, path);
    unlink(path);
    snprintf(pid, sizeof(pid), "%d", (int)program.pid);
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
    sched_setaffinity(program.pid, sizeof(set), &set);
    assert(!sampler_start_cpu(sampler, 0));
    assert(!ring_open(sampler_ring_fd(sampler), sampler_ring_size(sampler), &ring));
    assert(program_attach(&program, sampler));
    tick.pid = (uint32_t)program.pid;
    struct runtime_process entry;
    int map = sampler_runtimes_fd(sampler);
    assert(!bpf_map_lookup_elem(map, &tick.pid, &entry));
    for (int i = 0; i < 2 * ROUNDS; i++) {
        if (i % 2)
            bpf_map_update_elem(map, &tick.pid, &entry, BPF_ANY);
        else
            bpf_map_delete_elem(map, &tick.pid);
        double ns = round_ns(sampler, ring, &tick);
        if (ns > 0 && ns < least[i % 2])
            least[i % 2] = ns;
    }
    double frames = tick.samples ? (double)tick.frames / (double)tick.samples : 1;
    printf("python_tick_native_%u %.0f ns\n", depth, least[0]);
    printf("python_tick_%u %.0f ns\n", depth, least[1]);
    printf("python_frame_%u %.0f ns\n", depth, (least[1] - least[0]) / frames);
    ring_close(ring);
    sampler_close(sampler);
    program_stop(&program);
}

int main(int argc, char **argv)
{
    static const unsigned depths[] = {1, 10, 30, 100, 400};
    if (geteuid()) {
        puts("skipped: root is needed");
        return 77;
    }
    for (size_t i = 0; i < sizeof(depths) / sizeof(*depths); i++)
        measure(argc > 1 ? argv[1] : "/usr/bin/python3", depths[i]);
    return 0;
}
