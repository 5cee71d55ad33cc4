/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stack that has waited for unwind rows: its copy is walked, and what else is read is memory of
 * the process as it is now, by a real reader. The process is this one: code heap, segment map and
 * objects are made here. What lies in its stack now is not what lay there then.
 */
#include "agent-bpf/symbolizer/runtime_walk.h"
#include "agent-bpf/runtimes/hotspot/hotspot_walk.h"
#include "base/clock.h"
#include "test/support/rigs/reader_rig.h"
#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

enum { RBP = 6, RSP = 7, RDI = 5 };

#define HEAP_BYTES  (512u << 10)
#define SEGMENT     128
#define STACK_BYTES 8192
#define NATIVE      UINT64_C(0x10000) /* code of a file */
#define COMPILE_ID  4711
#define LEVEL       4
#define CODE_AT     160    /* of a CodeBlob */
#define OUTER       0x1000 /* blocks in the heap */
#define INNER       0x4000
#define CALL_STUB   0x8000
#define LITERAL     7

static uint8_t *heap, *segmap, *objects, *live; /* live: the stack as it is now */
static uint8_t copy[STACK_BYTES];               /* and as it was */
static struct process_runtimes runtimes;
static struct runtime_page pages[RUNTIME_PAGES];
static struct runtime_walk walk;
static struct unwind_frames frames;

/* ---- memory ---- */

static uint64_t address_of(const void *memory)
{
    return (uint64_t)(uintptr_t)memory;
}

static void put(void *at, uint64_t value, size_t size)
{
    memcpy(at, &value, size);
}

static void put_copy(size_t at, uint64_t value)
{
    put(copy + at, value, 8);
}

static uint8_t *map(size_t size)
{
    void *memory =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    assert_true(memory != MAP_FAILED);
    return memory;
}

static uint64_t blob_of(size_t block)
{
    return address_of(heap) + block + 16;
}

static void add_blob(size_t at, uint32_t bytes, bool is_nmethod, uint32_t frame_bytes)
{
    uint8_t *block = heap + at, *blob = block + 16;
    for (uint32_t i = 0; i < bytes / SEGMENT; i++)
        segmap[at / SEGMENT + i] = (uint8_t)i;
    put(block, bytes / SEGMENT, 8);
    block[8] = 1;
    put(blob + 8, bytes - 16, 4);
    put(blob + 12, is_nmethod ? 128 : 64, 4);
    put(blob + 16, frame_bytes / 8, 4);
    put(blob + 20, 64, 4);
    put(blob + 24, blob_of(at) + CODE_AT, 8);
    put(blob + 32, address_of(block) + bytes, 8);
    put(blob + 40, COMPILE_ID, 4);
    put(blob + 44, LEVEL, 4);
    put(blob + 48, address_of(block) + bytes - 16, 8);
    put(blob + 56, address_of(block) + bytes - 8, 8);
}

static void set_hotspot(struct hotspot_process *process)
{
    *process = (struct hotspot_process){
        .heaps = {{address_of(heap), address_of(heap) + HEAP_BYTES, address_of(segmap)}},
        .call_stub_return = blob_of(CALL_STUB) + CODE_AT + 0x40,
        .segment_shift = 7,
        .blob = {.block_bytes = 16,
                 .block_used = 8,
                 .size = 8,
                 .header_size = 12,
                 .frame_size = 16,
                 .frame_complete = 20,
                 .code_begin = 24,
                 .code_end = 32,
                 .compile_id = 40,
                 .level = 44,
                 .deopt = 48,
                 .deopt_method_handle = 56,
                 .original_pc = 64,
                 .nmethod_bytes = 128,
                 .length_bytes = 8,
                 .header_size_bytes = 4,
                 .frame_complete_bytes = 4,
                 .level_bytes = 4},
        .method = {.const_method = 8, .code_size = 40, .bytecodes = 56, .bcp_slot = 64},
    };
}

/* ---- walking ---- */

static bool is_anonymous(void *context, uint64_t address)
{
    (void)context;
    return address - address_of(heap) < HEAP_BYTES;
}

static bool find_rule(void *context, uint64_t address, struct unwind_rule *rule)
{
    *rule = (struct unwind_rule){.cfa = UNWIND_NO_INFO};
    if (is_anonymous(context, address))
        return true;
    *rule = (struct unwind_rule){.cfa = UNWIND_REGISTER,
                                 .base = RBP,
                                 .cfa_offset = 16,
                                 .offsets = {-1, -2, 0},
                                 .places = UNWIND_IN_REGISTER << 2 * UNWIND_THIRD};
    rule->offsets[UNWIND_THIRD] = UNWIND_LOST;
    return address - NATIVE < 0x1000;
}

static int step_runtime(void *context, uint64_t address, struct unwind_step *step)
{
    (void)context;
    return runtime_walk_step(&walk, address, step);
}

static void walk_stack(size_t copied)
{
    const struct unwind_registers registers = {
        .pc = NATIVE + 0x10,
        .known = 1u << RBP | 1u << RSP,
        .of = {[RBP] = address_of(live) + 0x100, [RSP] = address_of(live) + 0x40}};
    const struct unwind_input input = {.elf_machine = EM_X86_64,
                                       .registers = registers,
                                       .stack_start = address_of(live),
                                       .stack = BYTES(copy, copied),
                                       .find = find_rule,
                                       .step = step_runtime};
    walk.stack_start = input.stack_start;
    walk.stack = input.stack;
    walk.reads = 0;
    unwind(&input, &frames);
}

/* A native function that is called by Java: inner, outer, the stub that calls Java, native code. */
static void make_java_stack(void)
{
    put_copy(0x100, 0x77);
    put_copy(0x108, blob_of(INNER) + CODE_AT + 0x100);
    put_copy(0x110 + 64 - 16, 0x78);
    put_copy(0x110 + 64 - 8, blob_of(OUTER) + CODE_AT + 0x80);
    put_copy(0x150 + 32 - 16, address_of(live) + 0x1a0);
    put_copy(0x150 + 32 - 8, runtimes.entry.hotspot.call_stub_return);
    put_copy(0x170 + 48 - 16, address_of(live) + 0x200);
    put_copy(0x170 + 48 - 8, NATIVE + 0x20);
    put_copy(0x200, 0);
    put_copy(0x208, 0);
}

static int make(void **state)
{
    static uint64_t programs = 100; /* pages of another test are another program's */
    (void)state;
    memset(heap, 0x90, HEAP_BYTES);
    memset(segmap, HOTSPOT_SEGMENT_FREE, HEAP_BYTES / SEGMENT);
    memset(live, 0x55, STACK_BYTES);
    memset(copy, 0, sizeof(copy));
    add_blob(INNER, 0x800, true, 64);
    add_blob(OUTER, 0x800, true, 32);
    add_blob(CALL_STUB, 0x800, false, 48);
    runtimes = (struct process_runtimes){.program = programs += 10};
    runtimes.entry.sections = RUNTIME_SECTION_HOTSPOT;
    set_hotspot(&runtimes.entry.hotspot);
    walk = (struct runtime_walk){.runtimes = &runtimes,
                                 .pid = (uint32_t)getpid(),
                                 .pages = pages,
                                 .now_ns = clock_monotonic_ns(),
                                 .is_anonymous = is_anonymous};
    make_java_stack();
    return 0;
}

/* ---- Java ---- */

static void assert_compiled(const struct unwind_frame *frame, size_t block, uint64_t at)
{
    const __u64 *words = frame->code.words;
    assert_int_equal(record_frame_kind(words[0]), FRAME_JVM_COMPILED);
    assert_int_equal(record_frame_address(words[0]), blob_of(block) + CODE_AT + at);
    assert_int_equal(words[1], blob_of(block));
    assert_int_equal(words[2], COMPILE_ID | (uint64_t)LEVEL << 32);
}

static void assert_whole(void)
{
    assert_int_equal(frames.end, UNWIND_END_OF_STACK);
    assert_int_equal(frames.n, 5);
    assert_int_equal(frames.frames[0].pc, NATIVE + 0x10);
    assert_compiled(&frames.frames[1], INNER, 0x100);
    assert_compiled(&frames.frames[2], OUTER, 0x80);
    assert_int_equal(record_frame_kind(frames.frames[3].code.words[0]), FRAME_JVM_STUB);
    assert_int_equal(frames.frames[3].code.words[1], blob_of(CALL_STUB));
    assert_int_equal(frames.frames[4].pc, NATIVE + 0x20);
    assert_true(frames.frames[4].is_return && !frames.frames[4].code.words[0]);
}

static void java(void **state)
{
    (void)state;
    walk_stack(STACK_BYTES);
    assert_whole();
    assert_in_range(walk.reads, 3, 6); /* pages: segment map, three blocks, code */
}

/* Stacks that wait together go through the same code: it is read once, for a while. */
static void pages_are_kept(void **state)
{
    (void)state;
    walk_stack(STACK_BYTES);
    memset(segmap, HOTSPOT_SEGMENT_FREE, HEAP_BYTES / SEGMENT);
    walk.now_ns += RUNTIME_PAGE_NS - 1;
    walk_stack(STACK_BYTES);
    assert_whole();
    assert_int_equal(walk.reads, 0);
    walk.now_ns += 1;
    walk_stack(STACK_BYTES);
    assert_int_equal(frames.n, 2);
    assert_int_not_equal(frames.end, UNWIND_END_OF_STACK);
    assert_true(walk.reads > 0);
}

static void pages_are_of_one_program(void **state)
{
    (void)state;
    walk_stack(STACK_BYTES);
    memset(segmap, HOTSPOT_SEGMENT_FREE, HEAP_BYTES / SEGMENT);
    runtimes.program++;
    walk_stack(STACK_BYTES);
    assert_true(walk.reads > 0);
    assert_int_not_equal(frames.end, UNWIND_END_OF_STACK);
}

/* What lies behind the copy was not copied, though it looks right now. */
static void copy_is_cut(void **state)
{
    (void)state;
    memcpy(live, copy, sizeof(copy));
    for (size_t copied = 0x110; copied < 0x210; copied += 8) {
        walk_stack(copied);
        assert_int_not_equal(frames.end, UNWIND_END_OF_STACK);
        assert_true(frames.n < 5 || copied >= 0x1a0);
    }
    walk_stack(0x210);
    assert_whole();
}

/* Each frame is of another method, in another page. */
static void reads_are_limited(void **state)
{
    size_t n = HEAP_BYTES / 4096, read = 0;
    (void)state;
    for (size_t i = 0; i < n; i++) {
        add_blob(i * 4096, 0x800, true, 16);
        put_copy(0x108 + i * 16, blob_of(i * 4096) + CODE_AT + 0x100);
    }
    walk_stack(STACK_BYTES);
    for (size_t i = 0; i < RUNTIME_PAGES; i++)
        read += pages[i].program == runtimes.program;
    assert_in_range(read, RUNTIME_WALK_READS / 2, RUNTIME_WALK_READS);
    assert_in_range(frames.n, RUNTIME_WALK_READS / 2, RUNTIME_WALK_READS + 2);
    assert_int_equal(frames.end, UNWIND_END_NO_MEMORY);
}

static void nothing_of_the_process_is_readable(void **state)
{
    (void)state;
    assert_int_equal(mprotect(segmap, 4096, PROT_NONE), 0);
    walk_stack(STACK_BYTES);
    assert_int_equal(mprotect(segmap, 4096, PROT_READ | PROT_WRITE), 0);
    assert_int_equal(frames.n, 2);
    assert_int_equal(record_frame_kind(frames.frames[1].code.words[0]), FRAME_JVM_STUB);
    assert_int_equal(frames.end, UNWIND_END_NO_MEMORY);
}

static void no_runtime(void **state)
{
    struct unwind_step step = {.registers = {.pc = blob_of(INNER) + CODE_AT,
                                             .known = 1u << RSP,
                                             .of = {[RSP] = address_of(live) + 0x110}}};
    (void)state;
    assert_int_equal(runtime_walk_step(&walk, step.registers.pc, &step), UNWIND_NOT_A_RUNTIME);
    step.registers.known |= 1u << RBP;
    runtimes.entry.sections = 0;
    assert_int_equal(runtime_walk_step(&walk, step.registers.pc, &step), UNWIND_NOT_A_RUNTIME);
    walk.runtimes = NULL;
    assert_int_equal(runtime_walk_step(&walk, step.registers.pc, &step), UNWIND_NOT_A_RUNTIME);
    assert_int_equal(step.n_frames, 0);
    assert_false(runtime_walk_evaluates(&walk, step.registers.pc));
}

/* ---- JavaScript ---- */

/* A native function that is called by code of V8, which is called by native code. */
static void javascript(void **state)
{
    uint64_t function = address_of(objects) + 0x100 + 1, shared = address_of(objects) + 0x200 + 1;
    uint64_t script = address_of(objects) + 0x500 + 1, pc = address_of(heap) + 0x640;
    (void)state;
    runtimes.entry.sections = RUNTIME_SECTION_V8;
    runtimes.entry.v8 =
        (struct v8_process){.function_shared = 32, .shared_script = 40, .shared_literal = 60};
    put(objects + 0x100 + 32, shared, 8);
    put(objects + 0x200 + 40, script, 8);
    put(objects + 0x200 + 60, LITERAL, 4);
    put_copy(0x100, address_of(live) + 0x180); /* of the native function */
    put_copy(0x108, pc);
    put_copy(0x180, address_of(live) + 0x200); /* of the JavaScript function */
    put_copy(0x188, NATIVE + 0x20);
    put_copy(0x178, address_of(objects) + 0x600 + 1); /* context */
    put_copy(0x170, function);
    walk_stack(STACK_BYTES);
    assert_int_equal(frames.end, UNWIND_END_OF_STACK);
    assert_int_equal(frames.n, 3);
    const __u64 *words = frames.frames[1].code.words;
    assert_int_equal(record_frame_kind(words[0]), FRAME_V8);
    assert_int_equal(record_frame_address(words[0]), pc);
    assert_int_equal(words[1] & V8_FRAME_SHARED_MASK, shared - 1);
    assert_int_equal(words[1] >> V8_FRAME_SCRIPT_SHIFT, V8_SCRIPT_HASH(script));
    assert_int_equal(words[2] >> 32, LITERAL);
    assert_int_equal((uint32_t)words[2], V8_CODE_HASH(UINT64_C(0x9090909090909090)));
    assert_int_equal(frames.frames[2].pc, NATIVE + 0x20);
}

int main(void)
{
#if !defined(__x86_64__)
    return 77; /* frames of runtimes are stepped over on x86-64 alone */
#else
#define T(name) cmocka_unit_test_setup(name, make)
    const struct CMUnitTest tests[] = {
        T(java),        T(pages_are_kept),    T(pages_are_of_one_program),
        T(copy_is_cut), T(reads_are_limited), T(nothing_of_the_process_is_readable),
        T(no_runtime),  T(javascript),
    };
    uint8_t *all = map(HEAP_BYTES + 2 * 4096 + STACK_BYTES); /* the stack above all, as it is */
    heap = all;
    segmap = heap + HEAP_BYTES;
    objects = segmap + 4096;
    live = objects + 4096;
    reader_rig_attach();
    return cmocka_run_group_tests(tests, NULL, NULL);
#endif
}
