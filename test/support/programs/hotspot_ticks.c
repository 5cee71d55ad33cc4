/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hotspot_ticks PID SECONDS HZ FUNCTION...: samples a JVM by the sampler. Counts stacks that have
 * frames of Java, those of them that have one of the functions and end with the outermost frame,
 * how their frames were named when the ring was read, and gaps in place of native frames; and
 * stacks without such frames that are not complete. Shows stacks that do not. Exit status 77:
 * without rights.
 */
#include "agent-bpf/record_frame.h"
#include "agent-bpf/runtimes/hotspot/hotspot_names.h"
#include "agent-bpf/sampler/cpu_events.h"
#include "base/clock.h"
#include "test/support/rigs/hotspot_rig.h"
#include "test/support/rigs/unwind_rig.h"
#include <bpf/bpf.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define RING_BYTES   (UINT64_C(64) << 20)
#define UNWIND_BYTES (UINT64_C(64) << 20)
#define ARENA_BYTES  (8u << 20)
#define SHOWN        4

static struct {
    struct unwind_rig rig;
    struct sampler *sampler;
    struct cpu_events cpus;
    struct ring *ring;
    struct hotspot_rig *jvm;
    uint32_t pid;
    char **functions;
    unsigned shown;
    uint64_t all, stacks, complete, wanted, frames, java, gaps, without;
    uint64_t outcomes[RUNTIME_FRAME_OUTCOMES];
} ticks;

static size_t frames_of(const struct record_header *record, struct record_frame *java, size_t *all)
{
    const uint64_t *at = (const uint64_t *)(const void *)((const uint8_t *)(record + 1) +
                                                          ((record->attributes_size + 7u) & ~7u));
    const uint64_t *end = at + record->kernel_words + record->user_words;
    struct record_frame frame;
    size_t n = 0;
    for (at += record->kernel_words, *all = 0; record_frame_next(&at, end, &frame); ++*all)
        if (record_frame_kind(frame.words[0]) >= FRAME_JVM_COMPILED &&
            record_frame_kind(frame.words[0]) <= FRAME_JVM_GAP)
            java[n++] = frame;
    return n;
}

static bool is_wanted(struct bytes function)
{
    for (char **name = ticks.functions; *name; name++)
        if (bytes_is(function, *name))
            return true;
    return false;
}

static void show(const struct record_header *record, const struct runtime_names *names, size_t n)
{
    if (ticks.shown++ >= SHOWN)
        return;
    printf("incomplete: end %u\n", record->end);
    for (size_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < names->names[i].n_lines; j++)
            printf("    %s\n", names->names[i].lines[j].function.data);
}

static void take(const struct record_header *record, const struct record_frame *frames, size_t n)
{
    struct arena arena;
    arena_init(&arena, ARENA_BYTES);
    struct runtime_memory memory = hotspot_rig_memory(ticks.jvm);
    struct runtime_names names = {.arena = &arena,
                                  .names = arena_zalloc(&arena, n * sizeof(*names.names))};
    if (hotspot_names(hotspot_rig_process(ticks.jvm), hotspot_rig_cache(ticks.jvm), &memory, frames,
                      n, &names))
        abort();
    bool found = false;
    for (size_t i = 0; i < n; i++) {
        ticks.gaps += frames[i].words[0] ==
                      ((uint64_t)FRAME_JVM_GAP << RECORD_FRAME_SHIFT | HOTSPOT_GAP_NATIVE);
        ticks.outcomes[names.names[i].outcome]++;
        for (uint32_t j = 0; j < names.names[i].n_lines; j++)
            found |= is_wanted(names.names[i].lines[j].function);
    }
    bool complete = found && record->end == UNWIND_END_OF_STACK;
    ticks.stacks++;
    ticks.java += n;
    ticks.complete += complete;
    if (!complete)
        show(record, &names, n);
    arena_close(&arena);
}

static void on_record(void *context, const struct record_header *record)
{
    static struct record_frame frames[RECORD_MAX_USER_FRAMES];
    size_t all;
    (void)context;
    ticks.all++;
    if (record->pid != ticks.pid)
        return;
    if (record->end == UNWIND_END_WANTED) {
        unwind_rig_take(&ticks.rig, record);
        ticks.wanted++;
        return;
    }
    size_t n = frames_of(record, frames, &all);
    ticks.without += !n && record->end != UNWIND_END_OF_STACK;
    if (!n)
        return;
    ticks.frames += all;
    take(record, frames, n);
}

static void open_all(uint32_t frequency_hz)
{
    char why[SAMPLER_DIAGNOSIS_MAX];
    int error;
    ticks.jvm = hotspot_rig_open(ticks.pid, &error);
    struct sampler_settings settings = {.frequency_hz = frequency_hz,
                                        .ring_size_bytes = RING_BYTES,
                                        .unwind_bytes = UNWIND_BYTES,
                                        .ticks_timed = true};
    if (!ticks.jvm || sampler_open(&settings, &ticks.sampler, why, sizeof(why))) {
        fprintf(stderr, "hotspot_ticks: %s\n", ticks.jvm ? why : "no JVM");
        exit(77);
    }
    struct runtime_process *entry = calloc(1, sizeof(*entry));
    entry->sections = RUNTIME_SECTION_HOTSPOT;
    entry->hotspot = *hotspot_rig_process(ticks.jvm);
    if (bpf_map_update_elem(sampler_runtimes_fd(ticks.sampler), &ticks.pid, entry, BPF_ANY))
        abort();
    free(entry);
    unwind_rig_open(&ticks.rig, ticks.sampler);
    if (ring_open(sampler_ring_fd(ticks.sampler), sampler_ring_size(ticks.sampler), &ticks.ring) ||
        cpu_events_open(&ticks.cpus, ticks.sampler))
        exit(77);
}

int main(int argc, char **argv)
{
    if (argc < 5)
        return 2;
    ticks.pid = (uint32_t)atoi(argv[1]);
    ticks.functions = argv + 4;
    open_all((uint32_t)atoi(argv[3]));
    uint64_t end_ns = clock_monotonic_ns() + (uint64_t)atoi(argv[2]) * NS_PER_SEC;
    while (clock_monotonic_ns() < end_ns) {
        ring_drain(ticks.ring, ring_position(ticks.ring), on_record, NULL, NULL);
        rig_round(&ticks.rig.symbolizer);
        usleep(20000);
    }
    sampler_count(ticks.sampler);
    printf("stacks %" PRIu64 " complete %" PRIu64 " wanted %" PRIu64 " frames %.1f java %.1f\n",
           ticks.stacks, ticks.complete, ticks.wanted, (double)ticks.frames / (double)ticks.stacks,
           (double)ticks.java / (double)ticks.stacks);
    printf("named %" PRIu64 " stale %" PRIu64 " unreadable %" PRIu64 " unknown %" PRIu64 "\n",
           ticks.outcomes[0], ticks.outcomes[1], ticks.outcomes[2], ticks.outcomes[3]);
    printf("gaps %" PRIu64 " without %" PRIu64 "\n", ticks.gaps, ticks.without);
    printf("tick %.0f ns\n",
           (double)sampler_tick_time_ns(ticks.sampler) / (double)(ticks.all ? ticks.all : 1));
    cpu_events_close(&ticks.cpus);
    ring_close(ticks.ring);
    unwind_rig_close(&ticks.rig);
    sampler_close(ticks.sampler);
    hotspot_rig_close(ticks.jvm);
    return 0;
}
