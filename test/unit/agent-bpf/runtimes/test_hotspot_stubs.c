/* SPDX-License-Identifier: Apache-2.0 */
/* Steps over stubs in a small code heap; and what leads over frames that are not there. */
#include "test/support/fixtures/hotspot_heap.h"

/* ---- stubs ---- */

#define STUB (HEAP + 0x4000)

static void stub_leaf(void **state)
{
    uint64_t pc = STUB + 16 + CODE_AT + 0x40;
    (void)state;
    add_blob(STUB, 0x800, false, 0);
    put_word(SP, CALLER); /* no frame */
    assert_int_equal(step(pc), HOTSPOT_UNWINDS);
    assert_caller(CALLER, SP + 8, 0x1234);
    assert_int_equal(walk.words[0], word_of(FRAME_JVM_STUB, pc, true));
    assert_int_equal(walk.words[1], STUB + 16);

    make(NULL);
    add_blob(STUB, 0x800, false, 0);
    walk.fp = SP + 48; /* a frame by the frame pointer */
    put_word(walk.fp, 0x77);
    put_word(walk.fp + 8, CALLER);
    assert_int_equal(step(pc), HOTSPOT_UNWINDS);
    assert_caller(CALLER, SP + 64, 0x77);

    make(NULL);
    add_blob(STUB, 0x800, false, 0);
    add_code(HEAP + 0x8200 - 5, "e800000000");
    uint32_t distance = (uint32_t)(pc - (HEAP + 0x8200));
    put(heap + 0x8200 - 4, distance, 4); /* it calls the stub; what is on top is of the past */
    walk.fp = SP + 48;
    put_word(SP, CALLER);
    put_word(walk.fp, 0x77);
    put_word(walk.fp + 8, HEAP + 0x8200);
    assert_int_equal(step(pc), HOTSPOT_UNWINDS);
    assert_caller(HEAP + 0x8200, SP + 64, 0x77);

    make(NULL);
    add_blob(STUB, 0x800, false, 0);
    walk.rax = CALLER; /* an adapter */
    walk.r13 = SP + 24;
    assert_int_equal(step(pc), HOTSPOT_UNWINDS);
    assert_caller(CALLER, SP + 24, 0x1234);

    make(NULL);
    add_blob(STUB, 0x800, false, -1);
    put_word(SP + 32, CALLER); /* it saves registers */
    assert_int_equal(step(pc), HOTSPOT_UNWINDS);
    assert_caller(CALLER, SP + 40, 0x1234);

    make(NULL);
    add_blob(STUB, 0x800, false, 0);
    put_word(SP + 16, 0x77);
    put_word(SP + 24, CALLER);
    assert_int_equal(step(pc), HOTSPOT_UNWINDS);
    assert_caller(CALLER, SP + 32, 0x77);

    make(NULL);
    add_blob(STUB, 0x800, false, 0);
    assert_int_equal(step(pc), UNWIND_END_UNKNOWN);

    make(NULL);
    add_blob(STUB, 0x800, false, 0);
    put_word(SP, NATIVE + 16); /* called by native code; behind it is what called that */
    put_word(SP + 16, CALLER);
    assert_int_equal(step(pc), HOTSPOT_UNWINDS);
    assert_caller(NATIVE + 16, SP + 8, 0x1234);
}

/* Code of a stub around pc; words of the stack: CALLER is to be found as the caller. */
static void stub_at(const char *before, const char *behind, const uint64_t words[4], uint64_t size,
                    uint64_t fp)
{
    uint64_t from = STUB + 16 + CODE_AT + 0x40;
    make(NULL);
    add_blob(STUB, 0x800, false, 0);
    add_code(from, before);
    add_code(from + strlen(before) / 2, behind);
    for (unsigned i = 0; i < 4; i++)
        put_word(SP + 8 * i, words[i]);
    walk.rax = walk.r13 = 0;
    if (words[0] == CALLER && size > 8) { /* an adapter */
        walk.rax = CALLER;
        walk.r13 = SP + size;
    }
    if (step(from + strlen(before) / 2) != HOTSPOT_UNWINDS)
        fail_msg("%s | %s", before, behind);
    assert_caller(CALLER, SP + size, fp);
}

static void stub_states(void **state)
{
    const uint64_t past = HEAP + 0x8200, none = UINT64_MAX;
    (void)state;
    stub_at("", "55488bec", (uint64_t[]){CALLER, 0, past, 0}, 8, 0x1234);
    stub_at("55", "488bec", (uint64_t[]){0x77, CALLER, past, 0}, 16, 0x77);
    stub_at("55", "4889e5", (uint64_t[]){0x77, CALLER, past, 0}, 16, 0x77);
    stub_at("90", "5dc3", (uint64_t[]){0x77, CALLER, past, 0}, 16, 0x77);
    stub_at("c9", "c3", (uint64_t[]){CALLER, 0, past, 0}, 8, 0x1234);
    stub_at("68ffffffff", "55488bec", (uint64_t[]){none, CALLER, past, 0}, 16, 0x1234);
    stub_at("68ffffffff55", "488bec", (uint64_t[]){0x77, none, CALLER, 0}, 24, 0x77);
    stub_at("c9", "4883c408c3", (uint64_t[]){none, CALLER, past, 0}, 16, 0x1234);
    stub_at("4c8d6c2408584883ec1050", "48895c2408", (uint64_t[]){CALLER, 0, 0, 0}, 24, 0x1234);
}

/* A word is free between the frame pointer and the return address; also of a caller. */
static void stub_barrier(void **state)
{
    (void)state;
    for (unsigned leaf = 0; leaf < 2; leaf++) {
        make(NULL);
        add_blob(STUB, 0x800, false, 0);
        walk.is_leaf = leaf != 0;
        walk.fp = SP + 48;
        put_word(walk.fp, 0x77);
        put_word(walk.fp + 8, UINT64_MAX);
        put_word(walk.fp + 16, CALLER);
        assert_int_equal(step(STUB + 16 + CODE_AT + 0x40), HOTSPOT_UNWINDS);
        assert_caller(CALLER, SP + 72, 0x77);
    }
}

static void stub_caller(void **state)
{
    uint64_t pc = STUB + 16 + CODE_AT + 0x40;
    (void)state;
    add_blob(STUB, 0x800, false, 4);
    walk.is_leaf = 0;
    put_word(SP + 16, 0x77);
    put_word(SP + 24, CALLER);
    assert_int_equal(step(pc), HOTSPOT_UNWINDS);
    assert_caller(CALLER, SP + 32, 0x77);

    make(NULL);
    add_blob(STUB, 0x800, false, 4);
    walk.is_leaf = 0; /* called by native code */
    put_word(SP + 16, 0x77);
    put_word(SP + 24, 0x5555);
    assert_int_equal(step(pc), HOTSPOT_UNWINDS);
    assert_caller(0x5555, SP + 32, 0x77);
}

/* Of stubs in one CodeBlob the one is called whose start is nearest to pc. */
static void stub_nearest(void **state)
{
    const uint64_t pc = STUB + 16 + CODE_AT + 0x80, calls[] = {pc - 0x60, pc - 0x20, pc + 0x20};
    (void)state;
    add_blob(STUB, 0x800, false, 0);
    for (unsigned i = 0; i < 3; i++) { /* mov r10, address; call r10 */
        uint64_t behind = HEAP + 0x8200 + i * 0x20;
        add_code(behind - 13, "49ba000000000000000041ffd2");
        put(heap + (behind - 11 - HEAP), calls[i], 8);
        put_word(SP + 8 + 16 * i, behind);
    }
    assert_int_equal(step(pc), HOTSPOT_UNWINDS);
    assert_caller(HEAP + 0x8220, SP + 32, 0);
}

/* ---- frames that are missing ---- */

static void frozen(void **state)
{
    (void)state;
    add_blob(HEAP + 0x2000, 0x800, true, SIZE / 8);
    put_word(SP + SIZE - 16, SP + 200); /* of the frame that entered the virtual thread */
    put_word(SP + SIZE - 8, process.return_barrier);
    put_word(SP + 200, 0x77);
    put_word(SP + 208, CALLER);
    assert_int_equal(step(HEAP + 0x2000 + 16 + CODE_AT + 0x100), HOTSPOT_UNWINDS);
    assert_caller(CALLER, SP + 216, 0x77);
    assert_int_equal(walk.n_frames, 2);
    assert_int_equal(walk.n_words, 4);
    assert_int_equal(walk.words[3], word_of(FRAME_JVM_GAP, 0, false));
}

#define THREAD UINT64_C(0x7f5000000000)

static void anchor(void **state)
{
    struct {
        uint64_t sp, pc, fp;
    } anchor = {SP + 64, CALLER, SP + 96};
    (void)state;
    process.thread = (struct hotspot_thread_layout){.anchor = 16, .anchor_pc = 8, .anchor_fp = 16};
    memory_image_put(&image, THREAD + 16, (uint8_t *)&anchor, sizeof(anchor));
    assert_true(hotspot_find_anchor(&walk, &process, THREAD));
    assert_int_equal(walk.caller.pc, CALLER);
    assert_int_equal(walk.caller.sp, SP + 64);
    assert_int_equal(walk.caller.fp, SP + 96);
    anchor.pc = 0; /* it is below */
    put_word(SP + 56, CALLER + 8);
    assert_true(hotspot_find_anchor(&walk, &process, THREAD));
    assert_int_equal(walk.caller.pc, CALLER + 8);
    put_word(SP + 56, 0x5555);
    hotspot_begin(&walk);
    assert_false(hotspot_find_anchor(&walk, &process, THREAD));
    anchor.pc = CALLER;
    for (unsigned i = 0; i < 3; i++) { /* the thread runs Java; lower on the stack; forged */
        anchor.sp = (uint64_t[]){0, SP - 8, SP + 65}[i];
        assert_false(hotspot_find_anchor(&walk, &process, THREAD));
    }
    assert_false(hotspot_find_anchor(&walk, &process, 0));
}

int main(void)
{
#define T(name) cmocka_unit_test_setup(name, make)
    const struct CMUnitTest tests[] = {
        T(stub_leaf),    T(stub_states), T(stub_barrier), T(stub_caller),
        T(stub_nearest), T(frozen),      T(anchor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
