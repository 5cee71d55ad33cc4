/* SPDX-License-Identifier: Apache-2.0 */
/* Steps over frames of methods in a small code heap: each state that code can be in. */
#include "test/support/fixtures/hotspot_heap.h"

/* ---- compiled ---- */

#define NMETHOD (HEAP + 0x2000)
#define CODE    (NMETHOD + 16 + CODE_AT)

static void body(void **state)
{
    (void)state;
    uint64_t blob = add_blob(NMETHOD, 0x800, true, SIZE / 8);
    put_word(SP + SIZE - 8, CALLER);
    put_word(SP + SIZE - 16, 0x77);
    put_word(SP + 2 * SIZE - 8, CALL_STUB);
    put_word(SP + 2 * SIZE - 16, 0x78);
    assert_int_equal(step(CODE + 0x100), HOTSPOT_UNWINDS);
    assert_caller(CALLER, SP + SIZE, 0x77);
    assert_int_equal(walk.n_words, 3);
    assert_int_equal(walk.words[0], word_of(FRAME_JVM_COMPILED, CODE + 0x100, true));
    assert_int_equal(walk.words[1], blob);
    assert_int_equal(walk.words[2], COMPILE_ID | UINT64_C(4) << 32);
    assert_int_equal(hotspot_walk_step(&walk, &process), HOTSPOT_UNWINDS);
    assert_caller(CALL_STUB, SP + 2 * SIZE, 0x78);
    assert_int_equal(walk.words[0], word_of(FRAME_JVM_COMPILED, CALLER, false));
}

/* Calls into the runtime align the stack. */
static void padded(void **state)
{
    (void)state;
    add_blob(NMETHOD, 0x800, true, SIZE / 8);
    put_word(SP + SIZE + 16, 0x77);
    put_word(SP + SIZE + 24, CALLER);
    walk.is_leaf = 0;
    assert_int_equal(step(CODE + 0x100), HOTSPOT_UNWINDS);
    assert_caller(CALLER, SP + SIZE + 32, 0x77);
}

static void nowhere(void **state)
{
    (void)state;
    add_blob(NMETHOD, 0x800, true, SIZE / 8);
    assert_int_equal(step(CODE + 0x100), UNWIND_END_UNKNOWN);
    assert_int_equal(walk.n_frames, 1); /* what ran is known all the same */
}

enum where { ON_TOP, FP_ON_TOP, ALL, ALL_BUT_FP };

/* Code of a prologue, from the start of the code, up to the place of pc. */
static void at_place(const char *before, const char *behind, uint64_t from, enum where where)
{
    make(NULL);
    add_blob(NMETHOD, 0x800, true, SIZE / 8);
    add_code(from, before);
    add_code(from + strlen(before) / 2, behind);
    uint64_t size = where == ON_TOP ? 8 : where == FP_ON_TOP ? 16 : SIZE;
    put_word(SP + size - 16, 0x77);
    put_word(SP + size - 8, CALLER);
    if (step(from + strlen(before) / 2) != HOTSPOT_UNWINDS)
        fail_msg("%s | %s", before, behind);
    assert_caller(CALLER, SP + size, where == ON_TOP || where == ALL_BUT_FP ? 0x1234 : 0x77);
}

#define BANG    "89842400c0feff" /* mov [rsp - 0x14000], eax */
#define SUB     "4883ec30"
#define SUB_ALL "4883ec38"
#define BARRIER "41817f20010000000f8500000000"

static void prologue(void **state)
{
    (void)state;
    at_place("", BANG "55" SUB, CODE, ON_TOP);
    at_place(BANG, "55" SUB, CODE, ON_TOP);
    at_place(BANG "55", SUB, CODE, FP_ON_TOP);
    at_place(BANG "55" SUB, BARRIER, CODE, ALL);
    at_place(BANG "55" SUB BARRIER, "90", CODE, ALL);
    at_place(BANG "55", "488bec" SUB, CODE, FP_ON_TOP);
    at_place(BANG "55488bec", SUB, CODE, FP_ON_TOP);
    at_place(BANG "55488bec" SUB, "90", CODE, ALL);
    at_place(BANG "554881ec30000000", "90", CODE, ALL);
    at_place(BANG, SUB_ALL "48896c2430", CODE, ON_TOP);
    at_place(BANG SUB_ALL, "48896c2430", CODE, ALL_BUT_FP);
    at_place(BANG SUB_ALL "48896c2430", BARRIER, CODE, ALL);
}

#define ADD  "4883c430"
#define POLL "493ba7400300000f8700000000"

static void epilogue(void **state)
{
    uint64_t at = CODE + 0x200;
    (void)state;
    at_place("9090909090909090", ADD "5d" POLL "c3", at, ALL);
    at_place(ADD, "5d" POLL "c3", at, FP_ON_TOP);
    at_place(ADD "5d", POLL "c3", at, ON_TOP);
    at_place(ADD "5d493ba740030000", "0f8700000000c3", at, ON_TOP);
    at_place(ADD "5d" POLL, "c3", at, ON_TOP);
    at_place(ADD, "5dc3", at, FP_ON_TOP);
    at_place("4881c430000000", "5d4d8b9700000000418502c3", at, FP_ON_TOP);
    at_place(ADD "5d4d8b9700000000", "418502c3", at, ON_TOP);
    at_place(ADD "5d", "850500000000c3", at, ON_TOP);
    at_place("c9", "49837f08000f8500000000c3", at, ON_TOP);
    at_place("c949837f0800", "0f8500000000c3", at, ON_TOP);
    at_place("c94983bf0800000000", "0f8500000000c3", at, ON_TOP);
    at_place("85c9", "0f8500000000c3", at, ALL);
}

static void deoptimized(void **state)
{
    (void)state;
    add_blob(NMETHOD, 0x800, true, SIZE / 8);
    for (unsigned i = 0; i < 2; i++) {
        walk.sp = SP;
        walk.is_leaf = 0;
        put_word(SP + 24, CODE + 0x80);
        put_word(SP + SIZE - 8, CALLER);
        assert_int_equal(step(NMETHOD + 0x800 - 16 + 8 * i), HOTSPOT_UNWINDS);
        assert_int_equal(walk.words[0], word_of(FRAME_JVM_COMPILED, CODE + 0x80, false));
    }
    walk.sp = SP;
    put_word(SP + 24, HEAP); /* in no code of it */
    hotspot_begin(&walk);
    assert_int_equal(step(NMETHOD + 0x800 - 8), HOTSPOT_UNWINDS);
    assert_int_equal(walk.words[0], word_of(FRAME_JVM_COMPILED, NMETHOD + 0x800 - 8, false));
}

/* Of 577 KB in HotSpot; here its last segments are several hops from its header. */
static void large(void **state)
{
    (void)state;
    add_blob(HEAP + 0x9000, 0x6800, true, SIZE / 8);
    for (unsigned i = 0; i < 0x6800 / SEGMENT; i++)
        segmap[0x9000 / SEGMENT + i] = (uint8_t)(i ? 1 + (i - 1) % 16 : 0);
    put_word(SP + SIZE - 8, CALLER);
    assert_int_equal(step(HEAP + 0x9000 + 0x6700), HOTSPOT_UNWINDS);
    assert_int_equal(walk.words[1], HEAP + 0x9000 + 16);
}

static void free_block(void **state)
{
    (void)state;
    assert_int_equal(step(HEAP + 0x40), UNWIND_END_BAD_ADDRESS);
    assert_int_equal(walk.words[0], word_of(FRAME_JVM_STUB, HEAP + 0x40, true));
    add_blob(NMETHOD, 0x800, true, SIZE / 8);
    heap[0x2000 + 8] = 0; /* not in use */
    assert_int_equal(step(CODE + 0x40), UNWIND_END_BAD_ADDRESS);
}

/* ---- interpreted ---- */

static void frame_at(uint64_t fp, uint64_t bcp)
{
    put_word(fp + 8, CALLER);
    put_word(fp, 0x77);
    put_word(fp - 8, fp + 32);
    put_word(fp - 24, METHOD);
    put_word(fp - 64, bcp);
}

static uint64_t interpreted(uint64_t bci)
{
    return CONST_METHOD | bci << 48;
}

static void interpreter_caller(void **state)
{
    (void)state;
    walk.is_leaf = 0;
    walk.fp = SP + 80;
    frame_at(walk.fp, CONST_METHOD + BYTECODES + 17);
    assert_int_equal(step(INTERPRETER + 0x1000), HOTSPOT_UNWINDS);
    assert_caller(CALLER, SP + 112, 0x77);
    assert_int_equal(walk.words[0], word_of(FRAME_JVM_INTERPRETED, METHOD, false));
    assert_int_equal(walk.words[1], interpreted(17));
}

static void interpreter_leaf(void **state)
{
    const struct {
        uint64_t r13, slot, bci;
    } cases[] = {
        {CONST_METHOD + BYTECODES + 5, CONST_METHOD + BYTECODES + 17, 5},
        {0x4444, CONST_METHOD + BYTECODES + 17, 17},
        {CONST_METHOD + BYTECODES + CODE_SIZE, UINT64_C(0xffff800000000000), 0xffff},
    };
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        make(NULL);
        walk.fp = SP + 80;
        walk.r13 = cases[i].r13;
        frame_at(walk.fp, cases[i].slot);
        assert_int_equal(step(INTERPRETER + 0x1000), HOTSPOT_UNWINDS);
        assert_int_equal(walk.words[1], interpreted(cases[i].bci));
    }
}

static void interpreter_entry(void **state)
{
    const struct {
        uint32_t at;
        uint64_t ra, fp, saved; /* where these are, from sp on; ~0: in their register */
    } cases[] = {
        {0x110, 0, ~UINT64_C(0), ~UINT64_C(0)},
        {0x140, 0, ~UINT64_C(0), ~UINT64_C(0)},
        {0x141, ~UINT64_C(0), ~UINT64_C(0), ~UINT64_C(0)},
        {0x160, ~UINT64_C(0), ~UINT64_C(0), ~UINT64_C(0)},
        {0x161, 0, ~UINT64_C(0), ~UINT64_C(0)},
        {0x162, 8, 0, ~UINT64_C(0)},
        {0x310, 0, ~UINT64_C(0), ~UINT64_C(0)}, /* an intrinsic */
    };
    (void)state;
    for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        make(NULL);
        walk.rbx = METHOD;
        walk.rax = CALLER;
        walk.r13 = SP + 48;
        if (cases[i].ra != ~UINT64_C(0)) {
            walk.rax = 0;
            put_word(SP + cases[i].ra, CALLER);
        }
        if (cases[i].fp != ~UINT64_C(0))
            put_word(SP + cases[i].fp, 0x77);
        assert_int_equal(step(INTERPRETER + cases[i].at), HOTSPOT_UNWINDS);
        assert_caller(CALLER, SP + 48, cases[i].fp == ~UINT64_C(0) ? 0x1234 : 0x77);
        assert_int_equal(walk.words[0], word_of(FRAME_JVM_INTERPRETED, METHOD, true));
        assert_int_equal(walk.words[1], interpreted(0));
    }
}

/* From mov rbp, rsp on; the caller's stack pointer is pushed next. */
static void interpreter_entry_frame(void **state)
{
    (void)state;
    for (uint32_t at = 0x165; at < 0x180; at++) {
        make(NULL);
        walk.rbx = METHOD;
        walk.r13 = at < 0x167 ? SP + 64 : 0;
        walk.fp = SP + 16;
        put_word(walk.fp, 0x77);
        put_word(walk.fp + 8, CALLER);
        put_word(walk.fp - 8, at < 0x167 ? 0 : SP + 64);
        assert_int_equal(step(INTERPRETER + at), HOTSPOT_UNWINDS);
        assert_caller(CALLER, SP + 64, 0x77);
        assert_int_equal(walk.words[1], interpreted(0));
    }
    make(NULL);
    walk.fp = SP + 80;
    walk.r13 = CONST_METHOD + BYTECODES;
    frame_at(walk.fp, 0);
    assert_int_equal(step(INTERPRETER + 0x180), HOTSPOT_UNWINDS);
    assert_int_equal(walk.words[1], interpreted(0));
}

static void exit_at(const char *before, const char *behind, unsigned popped, bool has_method)
{
    uint64_t at = INTERPRETER + 0x2000;
    make(NULL);
    add_code(at, before);
    add_code(at + strlen(before) / 2, behind);
    walk.rbx = SP + 40;
    walk.r13 = CALLER;
    if (!popped) {
        walk.r13 = 0;
        put_word(SP, CALLER);
    }
    if (has_method)
        put_word(SP - (popped ? 16 : 8) - 24, METHOD);
    if (popped == 2)
        walk.rbx = SP;
    assert_int_equal(step(at + strlen(before) / 2), HOTSPOT_UNWINDS);
    assert_caller(CALLER, popped == 2 ? SP : SP + 40, 0x1234);
    assert_int_equal(walk.words[0] >> RECORD_FRAME_SHIFT,
                     has_method ? FRAME_JVM_INTERPRETED : FRAME_JVM_STUB);
}

#define NOTE  "41c687be03000000"
#define CHECK "493ba720060000720b49c7872006000000000000"

static void interpreter_exit(void **state)
{
    (void)state;
    exit_at("c9", "415d488be341ffe5", 0, true);
    exit_at("c9415d", "488be341ffe5", 1, true);
    exit_at("c9415d488be3", "41ffe5", 2, false);
    exit_at("c9", NOTE "415d488be3" CHECK "41ffe5", 0, true); /* 25 */
    exit_at("c9" NOTE, "415d488be3" CHECK "41ffe5", 0, true);
    exit_at("c9" NOTE "415d488be3", CHECK "41ffe5", 2, false);
    exit_at("c9" NOTE "415d488be3493ba720060000", "720b49c7872006000000000000", 2, false);
    exit_at("c9" NOTE "415d488be3493ba720060000720b", "49c787200600000000000041ffe5", 2, false);
}

/* Nothing that a forged frame says leads astray. */
static void interpreter_forged(void **state)
{
    const uint64_t fps[] = {0, 1, SP - 8, SP + 4, SP + (UINT64_C(2) << 20), UINT64_MAX - 7};
    (void)state;
    for (unsigned i = 0; i < sizeof(fps) / sizeof(*fps); i++) {
        make(NULL);
        walk.fp = fps[i];
        assert_int_not_equal(step(INTERPRETER + 0x1000), HOTSPOT_UNWINDS);
        assert_int_equal(walk.n_frames, 1);
    }
    make(NULL);
    walk.fp = SP + 80;
    frame_at(walk.fp, 0);
    put_word(walk.fp - 8, SP - 64); /* down the stack */
    assert_int_equal(step(INTERPRETER + 0x1000), UNWIND_END_NO_PROGRESS);
    make(NULL);
    walk.fp = SP + 80;
    frame_at(walk.fp, 0);
    put_word(walk.fp - 24, UINT64_C(0x7fffdeadbeef)); /* no Method */
    assert_int_equal(step(INTERPRETER + 0x1000), HOTSPOT_UNWINDS);
    assert_int_equal(walk.words[1], UINT64_C(0xffff) << 48);
}

/* The window of the stack reaches beyond what can be read. */
static void end_of_stack(void **state)
{
    (void)state;
    add_blob(NMETHOD, 0x800, true, SIZE / 8);
    walk.sp = STACK + STACK_BYTES - SIZE;
    put_word(walk.sp + SIZE - 16, 0x77);
    put_word(walk.sp + SIZE - 8, CALLER);
    assert_int_equal(step(CODE + 0x100), HOTSPOT_UNWINDS);
    assert_caller(CALLER, STACK + STACK_BYTES, 0x77);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup(name, make)
    const struct CMUnitTest tests[] = {
        T(body),
        T(padded),
        T(nowhere),
        T(prologue),
        T(epilogue),
        T(deoptimized),
        T(large),
        T(free_block),
        T(interpreter_caller),
        T(interpreter_leaf),
        T(interpreter_entry),
        T(interpreter_entry_frame),
        T(interpreter_exit),
        T(interpreter_forged),
        T(end_of_stack),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
