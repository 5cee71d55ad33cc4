/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cost of a tick by the kernel's own count of the program's run time, on busy CPUs, without and
 * with a context to read, and the memory of the BPF maps. As root.
 */
#include "agent-bpf/cpu_events.h"
#include "agent-bpf/record.h"
#include "agent-bpf/ring.h"
#include "agent-bpf/sampler.h"
#include "base/clock.h"
#include <bpf/bpf.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define SECONDS     3
#define BURNERS_MAX 64

static __thread void *volatile context_variable __attribute__((tls_model("local-exec")));
static struct {
    uint8_t ids[24], valid, flags;
    uint16_t attributes_size;
    uint8_t attributes[40];
} __attribute__((packed)) published = {.ids = {1, [16] = 1}, .valid = 1, .attributes_size = 40};

static _Atomic int stop;

static int descend(int depth) /* a stack worth walking */
{
    static _Thread_local volatile int sum;
    if (depth > 0)
        return descend(depth - 1) + 1;
    while (!stop)
        sum++;
    return sum;
}

static void *burn(void *argument)
{
    context_variable = argument;
    return (void *)(intptr_t)descend(20);
}

static void add_reader(const struct sampler *sampler)
{
    char *tp;
    __asm__("mov %%fs:0, %0" : "=r"(tp));
    uint32_t pid = (uint32_t)getpid();
    struct context_process reader = {.count = 1};
    reader.variables[0] = (struct context_variable){
        .source = CONTEXT_OTEL_THREAD,
        .tls_model = TLS_STATIC,
        .offset = (const char *)&context_variable - tp,
    };
    bpf_map_update_elem(sampler_contexts_fd(sampler), &pid, &reader, BPF_ANY);
}

static void nothing(void *context, const struct record_header *record)
{
    (void)record;
    ++*(uint64_t *)context;
}

static double measure(const struct sampler *sampler, struct ring *ring)
{
    pthread_t threads[BURNERS_MAX];
    struct sampler_run_stats before, after;
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t records = 0;
    n = n > BURNERS_MAX ? BURNERS_MAX : n;
    stop = 0;
    for (long i = 0; i < n; i++)
        if (pthread_create(&threads[i], NULL, burn, &published) != 0)
            abort();
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
    sampler_run_stats(sampler, &before);
    for (int i = 0; i < SECONDS * 10; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
        ring_drain(ring, ring_position(ring), nothing, &records, NULL);
    }
    sampler_run_stats(sampler, &after);
    stop = 1;
    for (long i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    uint64_t runs = after.runs - before.runs;
    return runs ? (double)(after.run_ns - before.run_ns) / (double)runs : 0;
}

int main(void)
{
    char why[SAMPLER_WHY_MAX];
    struct sampler *sampler = NULL;
    struct cpu_events cpus;
    struct ring *ring = NULL;
    struct sampler_settings settings = {.frequency_hz = 499, .ring_size_bytes = 4 << 20};
    int stats_fd = bpf_enable_stats(BPF_STATS_RUN_TIME);
    if (stats_fd < 0 || sampler_open(&settings, &sampler, why, sizeof(why)) != 0 ||
        cpu_events_open(&cpus, sampler) < 0 ||
        ring_open(sampler_ring_fd(sampler), sampler_ring_size(sampler), &ring) < 0) {
        fprintf(stderr, "bench_bpf: %s\n", stats_fd < 0 ? "root is needed" : why);
        return 77;
    }
    printf("bpf_tick_ns %.0f ns\n", measure(sampler, ring));
    add_reader(sampler);
    printf("bpf_tick_context_ns %.0f ns\n", measure(sampler, ring));
    printf("bpf_map_bytes %llu bytes\n", (unsigned long long)sampler_map_bytes(sampler));
    ring_close(ring);
    cpu_events_close(&cpus);
    sampler_close(sampler);
    close(stats_fd);
    return 0;
}
