/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process costs a tick that forges its frames: 512 of them, of which each makes the walk
 * read as much as it can, where it can from pages that are not there, which costs most. Prints the
 * time of a tick for each runtime.
 */
#include "sampler_fixture.h"
#include "agent-bpf/record_frame.h"
#include "agent-bpf/runtimes/runtime_process.h"
#include <stdio.h>
#include <sys/prctl.h>

#if !defined(__x86_64__)
int main(void)
{
    return BPF_TEST_SKIP; /* frames of runtimes are those of x86-64 */
}
#else

#define TICK_NS_MAX 200000
#define LOOKS       4
#define SAMPLES_MIN 50    /* in each look */
#define LOOK_MS     20000 /* for so many, on a machine that is busy */

/* The child's memory: of each kind a range of its own. */
#define ROOM        UINT64_C(0x100000000000)
#define CODE        ROOM /* executable; most of its pages are never touched */
#define CODE_SIZE   (UINT64_C(64) << 20)
#define STACK       (ROOM + (UINT64_C(1) << 32))
#define OBJECTS     (ROOM + (UINT64_C(2) << 32))
#define NOTHING     (ROOM + (UINT64_C(3) << 32)) /* mapped, but never touched */
#define DATA_SIZE   (UINT64_C(1) << 20)
#define FRAMES      RECORD_MAX_USER_FRAMES

static uint64_t *word(uint64_t address)
{
    return (uint64_t *)(uintptr_t)address;
}

static void map(uint64_t start, uint64_t size, int protection)
{
    void *at = mmap(word(start), size, protection,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (at != word(start))
        _exit(1);
}

/* Endless, with these registers. */
static void run(uint64_t pc, uint64_t sp, uint64_t fp)
{
    memcpy(word(pc), "\xeb\xfe", 2);
    __asm__ volatile("mov %1, %%rsp\n"
                     "mov %2, %%rbp\n"
                     "jmp *%0\n"
                     :
                     : "a"(pc), "b"(sp), "c"(fp));
}

/* ---- HotSpot: the longest way to the CodeBlob, then a caller that is looked for ---- */

#define SEGMENT_SHIFT 12
#define HEAP          (CODE + 4096 - 200) /* blocks lie at the ends of pages */
#define SEGMAP        OBJECTS
#define SEGMENT       32 /* of pc: 16 hops of two */
#define PC            (HEAP + ((uint64_t)SEGMENT << SEGMENT_SHIFT) + 64)

static void hotspot_entry(struct runtime_process *entry)
{
    entry->sections = RUNTIME_SECTION_HOTSPOT;
    entry->hotspot = (struct hotspot_process){
        .heaps = {{HEAP, CODE + CODE_SIZE, SEGMAP}},
        .segment_shift = SEGMENT_SHIFT,
        .blob = {.block_bytes = 8,
                 .length_bytes = 4,
                 .block_used = 4,
                 .header_size = 4,
                 .header_size_bytes = 4,
                 .nmethod_bytes = 300,
                 .frame_size = 8,
                 .code_begin = 16,
                 .code_end = 24},
    };
}

static void hotspot_child(void)
{
    const uint64_t size = 32 << 20;
    memset(word(SEGMAP), 2, SEGMENT + 1);
    for (uint64_t at = 0; at < SEGMENT; at += 2) /* headers that are none, but the first */
        *word(HEAP + (at << SEGMENT_SHIFT)) = size;
    *word(HEAP) = size | UINT64_C(1) << 32;
    *word(HEAP + 8) = size;
    *word(HEAP + 16) = UINT32_MAX; /* no frame */
    *word(HEAP + 24) = HEAP + 9;
    *word(HEAP + 32) = HEAP + size;
    memset(word(PC - 64), 0xe8, 128); /* calls */
    for (uint64_t i = 0; i < 9 * (FRAMES + 1); i++)
        *word(STACK + 8 * i) = i % 9 == 8 ? PC : CODE + (48 << 20) + 4096 * i;
    run(PC, STACK, 1);
}

/* ---- V8: each frame has its function, in a mapping of its own that cannot be read ---- */

static void v8_entry(struct runtime_process *entry)
{
    entry->sections = RUNTIME_SECTION_V8;
    entry->v8 =
        (struct v8_process){.function_shared = 8, .shared_script = 24, .shared_literal = 36};
}

static void v8_child(void)
{
    const uint64_t function = OBJECTS, shared = OBJECTS + 4096;
    *word(function + 8) = shared + 1;
    *word(shared) = 0;
    for (uint64_t i = 1; i <= FRAMES + 1; i++) {
        uint64_t frame = STACK + 64 * i;
        *word(frame) = frame + 64;
        *word(frame + 8) = CODE + (32 << 20) + 8192 * i;
        mprotect(word(*word(frame + 8)), 4096, PROT_READ | PROT_EXEC);
        *word(frame - 8) = *word(frame - 16) = function + 1;
    }
    run(CODE, STACK, STACK + 64);
}

/* ---- Python: each frame's code object cannot be read ---- */

#define THREAD OBJECTS

static void python_entry(struct runtime_process *entry)
{
    entry->sections = RUNTIME_SECTION_PYTHON;
    entry->python = (struct python_process){
        .slot = (int64_t)(OBJECTS + 4096 - (uint64_t)(uintptr_t)thread_pointer()),
        .slot_in_array = PYTHON_SLOT_DIRECT,
        .activations = PYTHON_SHIMS,
        .shim_owner = 3,
        .identity_words = PYTHON_IDENTITY_WORDS_MAX,
        .thread_bytes = 24,
        .thread_id = 8,
        .thread_frame = 16,
        .frame_bytes = PYTHON_READ_MAX - 8,
        .frame_previous = 8,
        .frame_code = 16,
        .frame_owner = 24,
        .code_identity = 8,
    };
}

static void python_child(void)
{
    *word(OBJECTS + 4096) = THREAD;
    *word(THREAD + 8) = (uint64_t)(uintptr_t)thread_pointer();
    *word(THREAD + 16) = STACK;
    for (uint64_t i = 0; i <= FRAMES; i++) {
        *word(STACK + 256 * i + 8) = STACK + 256 * (i + 1);
        *word(STACK + 256 * i + 16) = NOTHING + 8 * i;
    }
    for (;;)
        burn_begin();
}

/* ---- all ---- */

struct tick {
    uint32_t pid;
    uint64_t samples, frames, words, list;
};

static void count_sample(void *context, const struct record_header *record)
{
    struct tick *tick = context;
    const uint64_t *at = record_frames(record) + record->kernel_words,
                   *end = at + record->user_words;
    struct record_frame frame;
    if (record->pid != tick->pid)
        return;
    tick->samples++;
    tick->words += record->user_words;
    tick->list += record->list_words;
    while (record_frame_next(&at, end, &frame))
        tick->frames++;
}

static uint64_t time_taken(struct sampler *sampler)
{
    sampler_count(sampler);
    return sampler_tick_time_ns(sampler);
}

/* The mean time of a tick, over SAMPLES_MIN ticks. */
static uint64_t look(struct sampler *sampler, struct ring *ring, struct tick *tick)
{
    struct tick dropped = {0};
    struct ring_counts counts;
    ring_drain(ring, ring_position(ring), count_sample, &dropped, &counts);
    uint64_t before_ns = time_taken(sampler), before = tick->samples;
    for (int i = 0; i < LOOK_MS / 50 && tick->samples < before + SAMPLES_MIN; i++) {
        sleep_ms(50);
        ring_drain(ring, ring_position(ring), count_sample, tick, &counts);
        assert_int_equal(counts.malformed, 0);
    }
    assert_true(tick->samples > before);
    return (time_taken(sampler) - before_ns) / (tick->samples - before);
}

/* All ticks of a child do the same. What a hypervisor takes from this CPU counts as time of the
 * tick that it stops, so the cheapest look is the one that says what a tick costs. */
static uint64_t cheapest_look(struct sampler *sampler, struct ring *ring, struct tick *tick)
{
    uint64_t ns = UINT64_MAX;
    for (int i = 0; i < LOOKS; i++) {
        uint64_t mean = look(sampler, ring, tick);
        ns = mean < ns ? mean : ns;
    }
    return ns;
}

static pid_t start(void (*child)(void))
{
    pid_t pid = fork();
    if (pid)
        return pid;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(0, &set);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sched_setaffinity(0, sizeof(set), &set);
    map(CODE, CODE_SIZE, PROT_READ | PROT_WRITE | PROT_EXEC);
    map(STACK, DATA_SIZE, PROT_READ | PROT_WRITE);
    map(OBJECTS, DATA_SIZE, PROT_READ | PROT_WRITE);
    map(NOTHING, DATA_SIZE, PROT_READ | PROT_WRITE);
    child();
    _exit(1);
}

static void check(const char *name, void (*fill)(struct runtime_process *), void (*child)(void))
{
    char pid[16], why[SAMPLER_DIAGNOSIS_MAX];
    const char *pids[] = {pid, NULL};
    struct sampler *sampler;
    struct ring *ring;
    static struct runtime_process entry;
    struct tick tick = {.pid = (uint32_t)start(child)};
    snprintf(pid, sizeof(pid), "%u", tick.pid);
    struct sampler_settings settings = {
        .frequency_hz = FREQUENCY, .ring_size_bytes = 16 << 20, .ticks_timed = true};
    settings.filters.include.values[FILTER_PIDS] = pids;
    if (sampler_open(&settings, &sampler, why, sizeof(why)))
        fail_msg("%s", why);
    assert_int_equal(sampler_start_cpu(sampler, 0), 0);
    assert_int_equal(ring_open(sampler_ring_fd(sampler), sampler_ring_size(sampler), &ring), 0);
    memset(&entry, 0, sizeof(entry));
    fill(&entry);
    int map_fd = sampler_runtimes_fd(sampler);
    assert_int_equal(bpf_map_update_elem(map_fd, &tick.pid, &entry, BPF_ANY), 0);
    sleep_ms(100);
    uint64_t ns = cheapest_look(sampler, ring, &tick);
    kill((pid_t)tick.pid, SIGKILL);
    waitpid((pid_t)tick.pid, NULL, 0);
    ring_close(ring);
    sampler_close(sampler);
    print_message("%s: %.1f us a tick; %zu samples, each %zu frames, %zu words, %zu of a list\n",
                  name, (double)ns / 1000, (size_t)tick.samples,
                  (size_t)(tick.frames / tick.samples), (size_t)(tick.words / tick.samples),
                  (size_t)(tick.list / tick.samples));
    assert_true(tick.words + tick.list > 2 * tick.samples);
    if (bpf_test_slowness() == 1) /* an emulated CPU takes ten times as long */
        assert_in_range(ns, 0, TICK_NS_MAX);
}

static void hotspot(void **state)
{
    (void)state;
    check("HotSpot", hotspot_entry, hotspot_child);
}

static void v8(void **state)
{
    (void)state;
    check("V8", v8_entry, v8_child);
}

static void python(void **state)
{
    (void)state;
    check("Python", python_entry, python_child);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(hotspot), cmocka_unit_test(v8),
                                       cmocka_unit_test(python)};
    if (!bpf_test_possible())
        return BPF_TEST_SKIP;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
