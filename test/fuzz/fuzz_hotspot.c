/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that says it is a JVM: its layout, registers and memory are the file's. The first byte
 * says what is done with it: 0: a stack is walked and its frames are named; else tables are read
 * and the process is attached to. The corpus is recorded of real JVMs (hotspot_inspect record).
 */
#include "agent-bpf/runtimes/hotspot/hotspot_attach.h"
#include "agent-bpf/runtimes/hotspot/hotspot_layout.h"
#include "agent-bpf/runtimes/hotspot/hotspot_names.h"
#include "test/support/fixtures/memory_image.h"
#include <assert.h>
#include <stdlib.h>

static struct memory_image image;

#define HOTSPOT_READ(walk, out, size, address)                                                     \
    ((void)(walk), memory_image_get(&image, (out), (size), (address)))
#include "agent-bpf/runtimes/hotspot/hotspot_step.h"

#define ARENA_BYTES (8u << 20)
#define CACHE_BYTES (1u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t add_frames(const struct hotspot_walk *walk, struct record_frame *frames, size_t n)
{
    assert(walk->n_words && walk->n_words <= HOTSPOT_WORDS_MAX && walk->n_frames <= 2);
    if (n < HOTSPOT_FRAMES_MAX)
        memcpy(frames[n++].words, walk->words, sizeof(frames->words));
    return n;
}

static size_t walk_all(const struct hotspot_process *process, const uint64_t registers[8],
                       struct record_frame *frames)
{
    struct hotspot_walk walk = {.pc = registers[0], .sp = registers[1], .fp = registers[2]};
    walk.rax = registers[3];
    walk.rbx = registers[4];
    walk.r13 = registers[5];
    walk.is_leaf = walk.has_registers = registers[6] & 1;
    size_t n = 0;
    hotspot_begin(&walk);
    for (unsigned i = 0; i < HOTSPOT_FRAMES_MAX && hotspot_holds(process, walk.pc); i++) {
        uint64_t sp = walk.sp;
        bool leaf = walk.is_leaf;
        int end = hotspot_walk_step(&walk, process);
        n = add_frames(&walk, frames, n);
        if (end != HOTSPOT_UNWINDS)
            break;
        assert(walk.sp > sp || (leaf && walk.sp == sp));
    }
    return n;
}

static void name_all(const struct hotspot_process *process, struct runtime_cache *cache,
                     const struct record_frame *frames, size_t n)
{
    static struct runtime_name named[HOTSPOT_FRAMES_MAX];
    struct arena arena;
    struct runtime_memory memory = memory_image_memory(&image);
    arena_init(&arena, ARENA_BYTES);
    struct runtime_names names = {.arena = &arena, .names = named};
    int error = hotspot_names(process, cache, &memory, frames, n, &names);
    for (size_t i = 0; !error && i < n; i++) {
        assert(named[i].outcome == RUNTIME_FRAME_NAMED || !named[i].n_lines);
        assert(named[i].n_lines <= RUNTIME_LINES_MAX);
        for (uint32_t j = 0; j < named[i].n_lines; j++) {
            const struct runtime_line *line = &named[i].lines[j];
            assert(line->function.len && line->function.len <= RUNTIME_NAME_MAX);
            assert(bytes_utf8_valid(line->function) && bytes_utf8_valid(line->system_name));
            assert(bytes_utf8_valid(line->file) && line->file.len <= RUNTIME_NAME_MAX);
        }
    }
    arena_close(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct record_frame frames[HOTSPOT_FRAMES_MAX];
    static struct hotspot_process process;
    uint64_t registers[8];
    struct bytes input = BYTES(data, size);
    if (size < 8 + sizeof(process) + sizeof(registers))
        return 0;
    bool attaches = *data != 0;
    input = bytes_skip(input, 8);
    memcpy(&process, input.data, sizeof(process));
    memcpy(registers, input.data + sizeof(process), sizeof(registers));
    memory_image_parse(&image, bytes_skip(input, sizeof(process) + sizeof(registers)));
    if (attaches) {
        struct hotspot_constants constants;
        enum runtime_refusal why;
        struct runtime_memory memory = memory_image_memory(&image);
        memcpy(&constants, &process, sizeof(constants));
        int error = hotspot_attach(&constants, 0, &memory, &process, &why);
        assert((why == RUNTIME_REFUSAL_NONE) == !error);
        if (error)
            return 0;
    }
    if (!hotspot_layout_is_bounded(&process))
        return 0; /* attaching has checked it */
    struct runtime_cache *cache;
    assert(!runtime_cache_open(CACHE_BYTES, &cache));
    size_t n = walk_all(&process, registers, frames);
    for (int turn = 0; turn < 2; turn++) /* the second one by what the first one has kept */
        name_all(&process, cache, frames, n);
    runtime_cache_close(cache);
    return 0;
}
