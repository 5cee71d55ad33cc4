/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The sampler with all CPUs and its ring, threads that burn under a context, and the judging of
 * samples. */
#include "bpf_test.h"
#include "agent-bpf/sampler/cpu_events.h"
#include "agent-bpf/drain/ring.h"
#include "agent-bpf/sampler/sampler.h"
#include "base/stats.h"
#include <bpf/bpf.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#ifndef FREQUENCY
#define FREQUENCY 499
#endif

struct published { /* OTEP 4947 */
    uint8_t trace_id[16];
    uint8_t span_id[8];
    uint8_t valid;
    uint8_t flags;
    uint16_t attributes_size;
    uint8_t attributes[RECORD_MAX_ATTRIBUTES + 100];
} __attribute__((packed));

static __thread struct published *volatile current_context __attribute__((tls_model("local-exec")));
static __thread void *volatile second_context __attribute__((tls_model("local-exec"), unused));

#if defined(__x86_64__)
#define DTV_OFFSET 8 /* glibc: from the thread pointer */
#elif defined(__aarch64__)
#define DTV_OFFSET 0
#endif

struct fixture {
    struct sampler *sampler;
    struct cpu_events cpus;
    struct ring *ring;
};

struct span_total {
    uint32_t tid; /* of whose samples; 0 = all of this process */
    struct published expected;
    uint64_t samples, exact, without, wrong, torn, known, stacks, in_burn, attributes;
    uint64_t others, idle;
};

static __attribute__((unused)) char *thread_pointer(void)
{
    char *tp;
#if defined(__x86_64__)
    __asm__("mov %%fs:0, %0" : "=r"(tp));
#elif defined(__aarch64__)
    __asm__("mrs %0, tpidr_el0" : "=r"(tp));
#endif
    return tp;
}

static __attribute__((unused)) void setup_with(struct fixture *fixture,
                                               const struct sampler_settings *settings)
{
    char why[SAMPLER_DIAGNOSIS_MAX];
    if (sampler_open(settings, &fixture->sampler, why, sizeof(why)) != 0)
        fail_msg("%s", why);
    assert_int_equal(cpu_events_open(&fixture->cpus, fixture->sampler), 0);
    assert_int_equal(ring_open(sampler_ring_fd(fixture->sampler),
                               sampler_ring_size(fixture->sampler), &fixture->ring),
                     0);
}

static __attribute__((unused)) void setup_size(struct fixture *fixture, uint64_t ring_size)
{
    setup_with(fixture,
               &(struct sampler_settings){.frequency_hz = FREQUENCY, .ring_size_bytes = ring_size});
}

static __attribute__((unused)) void teardown(struct fixture *fixture)
{
    ring_close(fixture->ring);
    cpu_events_close(&fixture->cpus);
    sampler_close(fixture->sampler);
}

static __attribute__((unused)) struct context_process own_reader(void)
{
    struct context_process process = {.count = 1};
    process.variables[0] = (struct context_variable){
        .source = CONTEXT_OTEL_THREAD,
        .thread_local_model = THREAD_LOCAL_STATIC,
        .offset = (const char *)&current_context - thread_pointer(),
    };
    return process;
}

static __attribute__((unused)) void publish_reader(struct fixture *fixture, uint32_t pid,
                                                   const struct context_process *process)
{
    int fd = sampler_contexts_fd(fixture->sampler);
    assert_int_equal(bpf_map_update_elem(fd, &pid, process, BPF_ANY), 0);
}

static __attribute__((unused)) bool has_reader(struct fixture *fixture, uint32_t pid)
{
    struct context_process process;
    return bpf_map_lookup_elem(sampler_contexts_fd(fixture->sampler), &pid, &process) == 0;
}

/* ---- the load ---- */

static _Atomic bool stop_burning;

static _Thread_local volatile uint64_t burnt;

__attribute__((noinline)) static void burn_begin(void)
{
    for (uint64_t i = 0; i < 200000; i++)
        burnt += i * i;
}

struct burner {
    pthread_t thread;
    void *context;
    void *second; /* what its second variable points to */
    int cpu;      /* -1: any */
    _Atomic uint32_t tid;
    void (*begin)(struct burner *burner); /* once, before it burns */
    void (*step)(struct burner *burner);  /* besides burning */
};

static __attribute__((unused)) void *burner_main(void *argument)
{
    struct burner *burner = argument;
    if (burner->cpu >= 0) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET((size_t)burner->cpu, &set);
        pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
    }
    current_context = burner->context;
    second_context = burner->second;
    if (burner->begin)
        burner->begin(burner);
    burner->tid = (uint32_t)syscall(SYS_gettid);
    while (!stop_burning) {
        burn_begin();
        if (burner->step)
            burner->step(burner);
    }
    current_context = NULL;
    return NULL;
}

static __attribute__((unused)) void burner_start(struct burner *burner)
{
    stop_burning = false;
    burner->tid = 0;
    assert_int_equal(pthread_create(&burner->thread, NULL, burner_main, burner), 0);
    while (!burner->tid)
        sched_yield();
}

static __attribute__((unused)) void burner_stop(struct burner *burner)
{
    stop_burning = true;
    pthread_join(burner->thread, NULL);
}

/* ---- judging samples ---- */

static __attribute__((unused)) bool address_in_burn(uint64_t address)
{
    uint64_t start = (uint64_t)(uintptr_t)burn_begin;
    return address >= start && address < start + 1024;
}

/* The first frame of the program; where no rules are loaded it is with the copy of the stack. */
static __attribute__((unused)) bool leaf_in_burn(const struct record_header *record)
{
    if (!record->user_words)
        return (record->flags & RECORD_FLAG_STACK) && address_in_burn(record_stack(record)->pc);
    uint64_t word = record_frames(record)[record->kernel_words];
    return record_frame_kind(word) == FRAME_NATIVE && address_in_burn(record_frame_address(word));
}

static __attribute__((unused)) void judge_ids(struct span_total *total,
                                              const struct record_header *record)
{
    static const uint8_t none[16];
    if (!memcmp(record->trace_id, total->expected.trace_id, 16) &&
        !memcmp(record->span_id, total->expected.span_id, 8) && record->context_source)
        total->exact++;
    else if (!memcmp(record->trace_id, none, 16) && !memcmp(record->span_id, none, 8) &&
             record->context_source == CONTEXT_NONE)
        total->without++;
    else
        total->wrong++;
}

static __attribute__((unused)) void judge(void *context, const struct record_header *record)
{
    struct span_total *total = context;
    total->idle += record->root_pid == 0;
    if (record->pid != (uint32_t)getpid() || (total->tid && record->tid != total->tid)) {
        total->others++;
        return;
    }
    total->samples++;
    judge_ids(total, record);
    total->torn += (record->flags & RECORD_FLAG_CONTEXT_TORN) != 0;
    total->known += (record->flags & RECORD_FLAG_CONTEXT_KNOWN) != 0;
    total->stacks += record->user_words > 0;
    total->in_burn += leaf_in_burn(record);
    if (record->attributes_size == total->expected.attributes_size &&
        !memcmp(record_attributes(record), total->expected.attributes, record->attributes_size))
        total->attributes++;
}

/* Drops what is in the ring, then looks for `ms`. */
static __attribute__((unused)) void observe(struct fixture *fixture, struct span_total *total,
                                            uint64_t ms)
{
    struct span_total dropped = {.tid = UINT32_MAX};
    struct ring_counts counts;
    ring_drain(fixture->ring, ring_position(fixture->ring), judge, &dropped, NULL);
    for (uint64_t waited = 0; waited < ms; waited += 50) {
        sleep_ms(50);
        int outcome =
            ring_drain(fixture->ring, ring_position(fixture->ring), judge, total, &counts);
        /* an emulated CPU may stand still for long with a record half written */
        assert_true(outcome == 0 || (outcome == RING_BUSY && bpf_test_slowness() > 1));
        assert_int_equal(counts.malformed, 0);
    }
    assert_int_equal(total->idle, 0);
}

static __attribute__((unused)) struct published some_context(uint8_t seed)
{
    struct published context = {.valid = 1, .flags = 1, .attributes_size = 13};
    memset(context.trace_id, seed, 16);
    memset(context.span_id, seed + 1, 8);
    memcpy(context.attributes, "\0\005hello\1\004four", 13);
    return context;
}
