/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One step from each state that a thread can be in: interpreted, machine code, builtins with and
 * without a frame; a frame that is being made, and one that has ended. Memory is made up: a stack,
 * code, and the two objects that a frame leads to.
 */
#include "agent-bpf/runtimes/v8_process.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static int v8_step_read(void *context, void *out, uint32_t size, uint64_t address);
static bool v8_step_is_code(void *context, const struct v8_process *process, uint64_t address);
#include "agent-bpf/runtimes/v8/v8_step.h"

#define STACK    UINT64_C(0x7ffd00000000)
#define CODE     UINT64_C(0x200000000000)
#define HEAP     UINT64_C(0x100000000000)
#define BUILTINS UINT64_C(0x1000000)
#define SECOND   UINT64_C(0x300000000000)
#define BYTES_OF 4096

#define FUNCTION (HEAP + 0x100 + 1)
#define SHARED   (HEAP + 0x200 + 1)
#define BYTECODE (HEAP + 0x400 + 1)
#define SCRIPT   (HEAP + 0x500 + 1)
#define CONTEXT  (HEAP + 0x600 + 1)
#define RETURN   (CODE + 0x900)
#define CALLER   (STACK + 0x800) /* its rbp */
#define FRAME    (STACK + 0x400)
#define LITERAL  7
#define DATA     64

static struct memory {
    uint64_t start;
    uint8_t bytes[BYTES_OF];
} stack = {.start = STACK}, code = {.start = CODE}, heap = {.start = HEAP};

static const struct v8_process process = {
    .builtins = {{BUILTINS, BUILTINS + 0x8000}, {SECOND, SECOND + 0x8000}},
    .handlers = 0x6000,
    .handlers_end = 0x8000,
    .hidden_frames = 1 << 1,
    .function_shared = 32,
    .shared_script = 40,
    .shared_literal = 60,
    .bytecode_data = DATA,
};

static struct v8_step step;

static int v8_step_read(void *context, void *out, uint32_t size, uint64_t address)
{
    struct memory *all[] = {&stack, &code, &heap};
    (void)context;
    for (size_t i = 0; i < 3; i++) {
        uint64_t at = address - all[i]->start;
        if (address >= all[i]->start && at < BYTES_OF && size <= BYTES_OF - at) {
            memcpy(out, all[i]->bytes + at, size);
            return 0;
        }
    }
    return -1;
}

static bool v8_step_is_code(void *context, const struct v8_process *of, uint64_t address)
{
    __u64 offset;
    (void)context;
    return v8_process_builtin(of, address, &offset) ||
           (address >= CODE && address - CODE < BYTES_OF);
}

static void put(struct memory *to, uint64_t address, uint64_t word)
{
    assert_true(address - to->start <= BYTES_OF - 8);
    memcpy(to->bytes + (address - to->start), &word, 8);
}

static void put_code(uint64_t pc, int64_t from, const char *bytes, size_t n)
{
    memcpy(code.bytes + (int64_t)(pc - CODE) + from, bytes, n);
}

/* A frame of the function at FRAME, called from RETURN. */
static void setup_frame(void)
{
    memset(stack.bytes, 0, BYTES_OF);
    memset(code.bytes, 0x90, BYTES_OF);
    memset(heap.bytes, 0, BYTES_OF);
    put(&heap, FUNCTION - 1 + 32, SHARED);
    put(&heap, SHARED - 1 + 8, BYTECODE);
    put(&heap, SHARED - 1 + 40, SCRIPT);
    put(&heap, SHARED - 1 + 56, (uint64_t)LITERAL << 32);
    put(&stack, FRAME + 8, RETURN);
    put(&stack, FRAME, CALLER);
    put(&stack, FRAME - 8, CONTEXT);
    put(&stack, FRAME - 16, FUNCTION);
    put(&stack, FRAME - 32, BYTECODE);
    put(&stack, FRAME - 40, (uint64_t)(DATA - 1 + 20) << 32);
}

static int run(uint64_t pc, uint64_t sp, uint64_t fp, bool leaf)
{
    memset(&step, 0, sizeof(step));
    step.pc = pc;
    step.sp = sp;
    step.fp = fp;
    step.is_leaf = leaf;
    step.function_register = FUNCTION;
    step.bytecode_register = BYTECODE;
    step.offset_register = DATA - 1 + 33;
    return v8_step(&process, &step, NULL);
}

static void assert_function(uint64_t pc, bool exact, int32_t offset)
{
    uint64_t kind = (uint64_t)FRAME_V8 << RECORD_FRAME_SHIFT;
    assert_int_equal(step.n_words, 3);
    assert_int_equal(step.words[0], kind | pc | (exact ? RECORD_FRAME_EXACT : 0));
    assert_int_equal(step.words[1], (SHARED - 1) | (offset >= 0) |
                                        V8_SCRIPT_HASH(SCRIPT) << V8_FRAME_SCRIPT_SHIFT);
    uint64_t bytes = 0;
    uint32_t place = offset >= 0 ? (uint32_t)offset : 0;
    if (offset < 0 && !v8_step_read(NULL, &bytes, sizeof(bytes), pc))
        place = V8_CODE_HASH(bytes);
    assert_int_equal(step.words[2], (uint64_t)LITERAL << 32 | place);
}

static void assert_native(uint64_t pc)
{
    assert_int_equal(step.n_words, 1);
    assert_int_equal(step.words[0],
                     (uint64_t)FRAME_NATIVE << RECORD_FRAME_SHIFT | pc | RECORD_FRAME_EXACT);
}

static void assert_caller(uint64_t pc, uint64_t sp, uint64_t fp)
{
    assert_int_equal(step.pc, pc);
    assert_int_equal(step.sp, sp);
    assert_int_equal(step.fp, fp);
    assert_int_equal(step.is_leaf, 0);
}

static void interpreted(void **state)
{
    (void)state;
    setup_frame();
    assert_int_equal(run(BUILTINS + 0x40, FRAME - 64, FRAME, false), V8_STEP_GOES_ON);
    assert_function(0, false, 20);
    assert_caller(RETURN, FRAME + 16, CALLER);
    assert_int_equal(run(SECOND + 0x40, FRAME - 64, FRAME, false), V8_STEP_GOES_ON);
    assert_function(0, false, 20);
}

/* The register is newer than the frame, if it is this function's. */
static void handler(void **state)
{
    (void)state;
    setup_frame();
    run(BUILTINS + 0x6100, FRAME - 64, FRAME, true);
    assert_function(0, true, 33);
    put(&stack, FRAME - 32, BYTECODE + 8);
    run(BUILTINS + 0x6100, FRAME - 64, FRAME, true);
    assert_function(0, true, 20);
}

static void machine_code(void **state)
{
    (void)state;
    setup_frame();
    assert_int_equal(run(CODE + 0x100, FRAME - 64, FRAME, false), V8_STEP_GOES_ON);
    assert_function(CODE + 0x100, false, -1);
    assert_caller(RETURN, FRAME + 16, CALLER);
    run(CODE + 0x100, FRAME - 64, FRAME, true);
    assert_function(CODE + 0x100, true, -1);
    assert_caller(RETURN, FRAME + 16, CALLER);
}

/* push rbp; mov rbp, rsp; push; push: at each of them. */
static void frame_begins(void **state)
{
    static const char begin[] = "\x55\x48\x89\xe5\x56\x57";
    uint64_t pc = CODE + 0x100, sp = FRAME + 8;
    (void)state;
    setup_frame();
    put_code(pc, 0, begin, 6);
    run(pc, sp, CALLER, true);
    assert_function(pc, true, -1);
    assert_caller(RETURN, sp + 8, CALLER);
    run(pc - 11, sp, CALLER, true); /* a check of the code comes first */
    assert_function(pc - 11, true, -1);
    assert_caller(RETURN, sp + 8, CALLER);
    run(pc + 1, FRAME, CALLER, true);
    assert_function(pc + 1, true, -1);
    assert_caller(RETURN, FRAME + 16, CALLER);
    put(&stack, FRAME - 16, 0);
    run(pc + 4, FRAME, FRAME, true);
    assert_function(pc + 4, true, -1);
    assert_caller(RETURN, FRAME + 16, CALLER);
    run(pc + 5, FRAME - 8, FRAME, true);
    assert_function(pc + 5, true, -1);
    assert_caller(RETURN, FRAME + 16, CALLER);
}

/* mov rsp, rbp; pop rbp; ret */
static void frame_ends(void **state)
{
    static const char end[] = "\x48\x8b\xe5\x5d\xc3";
    uint64_t pc = CODE + 0x100;
    (void)state;
    setup_frame();
    put_code(pc, 0, end, 5);
    run(pc, FRAME - 64, FRAME, true);
    assert_function(pc, true, -1);
    assert_caller(RETURN, FRAME + 16, CALLER);
    run(pc + 3, FRAME, FRAME, true);
    assert_function(pc + 3, true, -1);
    assert_caller(RETURN, FRAME + 16, CALLER);
    run(pc + 4, FRAME + 8, CALLER, true);
    assert_function(pc + 4, true, -1);
    assert_caller(RETURN, FRAME + 16, CALLER);
    put(&stack, FRAME, CALLER + 16); /* something else was pushed there */
    run(pc + 4, FRAME + 8, CALLER, true);
    assert_int_equal(step.n_words, 3);
    assert_int_equal(step.words[1], 0);
    assert_caller(RETURN, FRAME + 16, CALLER);
}

/* A builtin that the function calls, before or after it has pushed rbp. */
static void frameless_builtin(void **state)
{
    uint64_t pc = SECOND + 0x100, call = CODE + 0x300, sp = FRAME - 0x80;
    (void)state;
    setup_frame();
    put(&stack, sp, call);
    run(pc, sp, FRAME, true);
    assert_native(pc);
    assert_caller(call, sp + 8, FRAME);
    put(&stack, sp, FRAME);
    put(&stack, sp + 8, call);
    run(pc, sp, FRAME, true);
    assert_native(pc);
    assert_caller(call, sp + 16, FRAME);
    assert_int_equal(v8_step(&process, &step, NULL), V8_STEP_GOES_ON);
    assert_function(call, false, -1);
    assert_caller(RETURN, FRAME + 16, CALLER);
}

/* One that is a function of JavaScript: a number stands for its code. */
static void builtin_function(void **state)
{
    uint64_t pc = BUILTINS + 0x100;
    (void)state;
    setup_frame();
    put(&heap, SHARED - 1 + 8, UINT64_C(300) << 32);
    put(&stack, FRAME - 0x80, RETURN);
    run(pc, FRAME - 0x80, FRAME, true);
    assert_function(pc, true, -1);
    assert_caller(RETURN, FRAME + 16, CALLER);
}

static void typed_frame(void **state)
{
    (void)state;
    setup_frame();
    put(&stack, FRAME - 8, 1 << 1);
    run(BUILTINS + 0x100, FRAME - 64, FRAME, false);
    assert_int_equal(step.n_words, 0);
    assert_caller(RETURN, FRAME + 16, CALLER);
    put(&stack, FRAME - 8, 3 << 1);
    run(BUILTINS + 0x100, FRAME - 64, FRAME, false);
    assert_int_equal(step.n_words, 1);
    put(&stack, FRAME - 8, 1 << 1);
    run(BUILTINS + 0x100, FRAME - 64, FRAME, true);
    assert_native(BUILTINS + 0x100);
}

static void bad_frames(void **state)
{
    (void)state;
    setup_frame();
    assert_int_equal(run(CODE + 0x100, FRAME - 64, FRAME + 4, false), V8_STEP_UNKNOWN);
    assert_int_equal(step.n_words, 1);
    assert_int_equal(run(CODE + 0x100, FRAME + 64, FRAME, false), V8_STEP_UNKNOWN);
    assert_int_equal(run(CODE + 0x100, 0, UINT64_C(0xfffffffffffffff8), false), V8_STEP_NO_MEMORY);
    assert_int_equal(run(CODE + 0x100, 0, 0, false), V8_STEP_NO_MEMORY);
    put(&stack, FRAME - 16, FUNCTION + (UINT64_C(1) << 40)); /* not readable */
    assert_int_equal(run(CODE + 0x100, FRAME - 64, FRAME, false), V8_STEP_GOES_ON);
    assert_int_equal(step.n_words, 1);
    assert_caller(RETURN, FRAME + 16, CALLER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(interpreted),      cmocka_unit_test(handler),
        cmocka_unit_test(machine_code),     cmocka_unit_test(frame_begins),
        cmocka_unit_test(frame_ends),       cmocka_unit_test(frameless_builtin),
        cmocka_unit_test(builtin_function), cmocka_unit_test(typed_frame),
        cmocka_unit_test(bad_frames),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
