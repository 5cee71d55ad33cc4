/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/symbolizer/runtime_walk.h"
#include "agent-bpf/files/reader_client.h"
#include "agent-bpf/runtimes/hotspot/hotspot_walk.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/stats.h"
#include <errno.h>

STAT_COUNTER(
    walked, "spanprof_runtime_frames_walked_total",
    "Frames of runtimes that were stepped over outside of the kernel, in stacks that waited "
    "for unwind rows.");

uint64_t runtime_walk_evaluates(const struct runtime_walk *walk, uint64_t address)
{
    return walk->runtimes ? runtime_process_evaluates(&walk->runtimes->entry, address) : 0;
}

#if defined(__x86_64__)

/* By DWARF number. */
enum { RAX = 0, RBX = 3, RDI = 5, RBP = 6, RSP = 7, R9 = 9, R12 = 12, R13 = 13 };

/* NULL: it cannot be read. */
static const uint8_t *runtime_walk_page(struct runtime_walk *walk, uint64_t address)
{
    uint64_t program = walk->runtimes->program;
    uint64_t hash = hash_mix(address / RUNTIME_PAGE_BYTES + program);
    struct runtime_page *page = &walk->pages[hash >> (64 - RUNTIME_PAGES_BITS)];
    if (page->program == program && page->address == address &&
        walk->now_ns - page->read_ns < RUNTIME_PAGE_NS)
        return page->data;
    if (walk->reads++ >= RUNTIME_WALK_READS)
        return NULL;
    page->program = 0;
    if (reader_memory_one(walk->pid, address, page->data, sizeof(page->data)))
        return NULL;
    page->program = program;
    page->address = address;
    page->read_ns = walk->now_ns;
    return page->data;
}

static int runtime_walk_read_pages(struct runtime_walk *walk, uint8_t *out, uint32_t size,
                                   uint64_t address)
{
    for (uint32_t done = 0; done < size;) {
        uint64_t at = (address + done) % RUNTIME_PAGE_BYTES;
        const uint8_t *page = runtime_walk_page(walk, address + done - at);
        uint32_t n = RUNTIME_PAGE_BYTES - (uint32_t)at;
        n = n < size - done ? n : size - done;
        if (!page)
            return -EFAULT;
        memcpy(out + done, page + at, n);
        done += n;
    }
    return 0;
}

/* The stack is what was copied: the thread has gone on, so what lies behind a copy that was cut is
 * not what it was. */
static int runtime_walk_read(struct runtime_walk *walk, void *out, uint32_t size, uint64_t address)
{
    uint64_t at = address - walk->stack_start;
    if (address >= walk->stack_start && at < walk->stack.len) {
        if (size > walk->stack.len - at)
            return -EFAULT;
        memcpy(out, walk->stack.data + at, size);
        return 0;
    }
    bool behind = address >= walk->stack_start && at < walk->stack.len + RECORD_STACK_MAX;
    return behind ? -EFAULT : runtime_walk_read_pages(walk, out, size, address);
}

struct hotspot_steps {
    struct hotspot_walk step;
    struct runtime_walk *walk;
};

static int hotspot_steps_read(struct hotspot_walk *step, void *out, uint32_t size, uint64_t address)
{
    return runtime_walk_read(container_of(step, struct hotspot_steps, step)->walk, out, size,
                             address);
}

#define HOTSPOT_READ(walk, out, size, address) hotspot_steps_read(walk, out, size, address)
#include "agent-bpf/runtimes/hotspot/hotspot_step.h"

static int v8_step_read(void *context, void *out, __u32 size, __u64 address)
{
    return runtime_walk_read(context, out, size, address);
}

static bool v8_step_is_code(void *context, const struct v8_process *process, __u64 address)
{
    const struct runtime_walk *walk = context;
    __u64 offset;
    return v8_process_builtin(process, address, &offset) ||
           walk->is_anonymous(walk->context, address);
}
#include "agent-bpf/runtimes/v8/v8_step.h"

static bool step_registers(const struct unwind_step *step)
{
    const uint32_t needed = 1u << RSP | 1u << RBP;
    return (step->registers.known & needed) == needed;
}

static void step_to(struct unwind_step *step, uint64_t pc, uint64_t sp, uint64_t fp)
{
    step->registers = (struct unwind_registers){.pc = pc, .known = 1u << RSP | 1u << RBP};
    step->registers.of[RSP] = sp;
    step->registers.of[RBP] = fp;
}

static void step_add_words(struct unwind_step *step, const __u64 *words, size_t n)
{
    uint64_t copy[UNWIND_STEP_FRAMES * RECORD_FRAME_WORDS_MAX];
    n = n < sizeof(copy) / sizeof(*copy) ? n : sizeof(copy) / sizeof(*copy);
    memcpy(copy, words, n * sizeof(*copy));
    const uint64_t *at = copy;
    while (step->n_frames < UNWIND_STEP_FRAMES &&
           record_frame_next(&at, copy + n, &step->frames[step->n_frames]))
        step->n_frames++;
}

static int walk_hotspot(struct runtime_walk *walk, struct unwind_step *step)
{
    const struct unwind_registers *registers = &step->registers;
    struct hotspot_steps hotspot = {.step = {.pc = registers->pc,
                                             .sp = registers->of[RSP],
                                             .fp = registers->of[RBP],
                                             .rax = registers->of[RAX],
                                             .rbx = registers->of[RBX],
                                             .r13 = registers->of[R13],
                                             .is_leaf = !step->is_return,
                                             .has_registers = registers->known == 0xffff},
                                    .walk = walk};
    int end = hotspot_walk_step(&hotspot.step, &walk->runtimes->entry.hotspot);
    step_add_words(step, hotspot.step.words, hotspot.step.n_words);
    if (end != HOTSPOT_UNWINDS)
        return end;
    step_to(step, hotspot.step.pc, hotspot.step.sp, hotspot.step.fp);
    step->is_return = true;
    return UNWIND_GOES_ON;
}

static int walk_v8(struct runtime_walk *walk, struct unwind_step *step)
{
    static const int ends[] = {[V8_STEP_GOES_ON] = UNWIND_GOES_ON,
                               [V8_STEP_NO_MEMORY] = UNWIND_END_NO_MEMORY,
                               [V8_STEP_NO_PROGRESS] = UNWIND_END_NO_PROGRESS,
                               [V8_STEP_UNKNOWN] = UNWIND_END_UNKNOWN};
    const struct unwind_registers *registers = &step->registers;
    struct v8_step v8 = {.pc = registers->pc,
                         .sp = registers->of[RSP],
                         .fp = registers->of[RBP],
                         .is_leaf = !step->is_return,
                         .offset_register = registers->of[R9],
                         .bytecode_register = registers->of[R12],
                         .function_register = registers->of[RDI]};
    int outcome = v8_step(&walk->runtimes->entry.v8, &v8, walk);
    step_add_words(step, v8.words, v8.n_words);
    step_to(step, v8.pc, v8.sp, v8.fp);
    step->is_return = !v8.is_leaf;
    return ends[outcome];
}

static int walk_any(struct runtime_walk *walk, uint64_t address, struct unwind_step *step)
{
    const struct runtime_process *entry = &walk->runtimes->entry;
    if (entry->sections & RUNTIME_SECTION_HOTSPOT &&
        hotspot_holds(&entry->hotspot, step->registers.pc))
        return walk_hotspot(walk, step);
    if (entry->sections & RUNTIME_SECTION_V8 && v8_step_is_code(walk, &entry->v8, address))
        return walk_v8(walk, step);
    return UNWIND_NOT_A_RUNTIME;
}

int runtime_walk_step(struct runtime_walk *walk, uint64_t address, struct unwind_step *step)
{
    if (!walk->runtimes || !step_registers(step))
        return UNWIND_NOT_A_RUNTIME;
    int end = walk_any(walk, address, step);
    stat_add(&walked, step->n_frames);
    return end;
}

#else

int runtime_walk_step(struct runtime_walk *walk, uint64_t address, struct unwind_step *step)
{
    (void)walk;
    (void)address;
    (void)step;
    return UNWIND_NOT_A_RUNTIME;
}

#endif
