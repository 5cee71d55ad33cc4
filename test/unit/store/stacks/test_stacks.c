/* SPDX-License-Identifier: Apache-2.0 */
#include "base/stats.h"
#include "store/db/id_set.h"
#include "test/support/fixtures/store_fixture.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

static void restart(struct fixture *fixture)
{
    fixture_commit(fixture);
    fixture_reopen(fixture);
    fixture_begin(fixture);
}

static struct stacks *stacks_of(struct fixture *fixture)
{
    return store_stacks(fixture->store);
}

static int64_t executable(struct fixture *fixture, uint8_t n)
{
    uint8_t identity[16] = {n};
    int64_t id;
    assert_int_equal(stacks_executable(stacks_of(fixture), identity, &id), 0);
    return id;
}

static int64_t intern(struct fixture *fixture, const struct frame *frames, size_t n,
                      bool expect_wanted)
{
    int64_t id;
    bool names_wanted;
    assert_int_equal(stacks_intern(stacks_of(fixture), frames, n, &id, &names_wanted), 0);
    assert_int_equal(names_wanted, expect_wanted);
    return id;
}

static void test_intern(void **state)
{
    struct fixture *fixture = *state;
    int64_t exe = executable(fixture, 1);
    const struct frame frames[] = {
        {STACK_FRAME_KERNEL, 0, 0x810},
        {STACK_FRAME_NATIVE, exe, 0x1000},
        {STACK_FRAME_NATIVE, exe, 0x20},
    };
    struct frame other[3];
    const struct frame *read;
    size_t n;
    int64_t id = intern(fixture, frames, 3, true);
    assert_int_equal(intern(fixture, frames, 3, false), id);
    assert_int_not_equal(intern(fixture, frames, 2, true), id);
    for (int i = 0; i < 3; i++) { /* kind, executable and address each make another stack */
        memcpy(other, frames, sizeof(other));
        if (i == 0)
            other[1].kind = STACK_FRAME_KERNEL;
        else if (i == 1)
            other[1].executable = 0;
        else
            other[1].address++;
        assert_int_not_equal(intern(fixture, other, 3, true), id);
    }
    intern(fixture, NULL, 0, true);
    restart(fixture);
    assert_int_equal(intern(fixture, frames, 3, true),
                     id); /* what was asked is not known any more */
    assert_int_equal(intern(fixture, frames, 3, false), id);
    assert_int_equal(stacks_frames(stacks_of(fixture), id, &read, &n), 0);
    assert_int_equal(n, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(read[i].kind, frames[i].kind);
        assert_int_equal(read[i].executable, frames[i].executable);
        assert_true(read[i].address == frames[i].address);
    }
    assert_int_equal(stacks_frames(stacks_of(fixture), 12345, &read, &n), -ENOENT);
}

static void test_limits(void **state)
{
    struct fixture *fixture = *state;
    static struct frame frames[STACKS_FRAMES_MAX + 1];
    const struct frame *read;
    bool is_new;
    size_t n;
    int64_t id, first = fixture_stack(fixture, 0);
    for (size_t i = 0; i <= STACKS_FRAMES_MAX; i++)
        frames[i] = (struct frame){STACK_FRAME_NATIVE, 0, i * 1000};
    assert_int_equal(stacks_intern(stacks_of(fixture), frames, STACKS_FRAMES_MAX + 1, &id, &is_new),
                     -EINVAL);
    id = intern(fixture, frames, STACKS_FRAMES_MAX, true);
    assert_int_equal(stacks_frames(stacks_of(fixture), id, &read, &n), 0);
    assert_int_equal(n, STACKS_FRAMES_MAX);
    for (unsigned i = 0; i < STACKS_CACHE + 100; i++) /* more than stay in memory */
        fixture_stack(fixture, i);
    assert_int_equal(fixture_stack(fixture, 0), first);
    frames[0].executable = 4711;
    assert_int_equal(stacks_intern(stacks_of(fixture), frames, 1, &id, &is_new), -ESTALE);
}

static struct executable_facts facts(void)
{
    return (struct executable_facts){
        .path = BYTES_LIT("/usr/bin/shop"),
        .build_id = BYTES_LIT("\1\2\3\4"),
        .go_build_id = BYTES_LIT("go"),
        .htlhash = {9, 8, 7},
        .htlhash_known = true,
        .n_segments = 2,
        .segments = {{0, 0x1000, 0x400000}, {0x1000, 0x2000, 0x402000}},
    };
}

static void test_executables(void **state)
{
    struct fixture *fixture = *state;
    struct executable_facts known = facts();
    const struct executable_facts *read;
    int64_t id = executable(fixture, 1);
    assert_int_equal(executable(fixture, 1), id);
    assert_int_not_equal(executable(fixture, 2), id);
    assert_int_equal(stacks_executable_get(stacks_of(fixture), id, &read), -ENOENT);
    assert_int_equal(stacks_executable_get(stacks_of(fixture), 99, &read), -ENOENT);
    assert_int_equal(stacks_executable_facts(stacks_of(fixture), 99, &known), -ENOENT);
    assert_int_equal(stacks_executable_facts(stacks_of(fixture), id, &known), 0);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(stacks_executable_get(stacks_of(fixture), id, &read), 0);
        assert_true(bytes_is(read->path, "/usr/bin/shop"));
        assert_true(bytes_equal(read->build_id, known.build_id));
        assert_true(bytes_is(read->go_build_id, "go"));
        assert_memory_equal(read->htlhash, known.htlhash, 16);
        assert_true(read->htlhash_known);
        assert_int_equal(read->n_segments, 2);
        assert_int_equal(executable_segment_of(read, 0x1fff)->vaddr, 0x402000);
        assert_int_equal(executable_segment_of(read, 0xfff)->vaddr, 0x400000);
        assert_null(executable_segment_of(read, 0x3000));
        restart(fixture);
    }
    for (uint8_t i = 0; i < 255; i++)
        executable(fixture, i);
    assert_int_equal(executable(fixture, 1), id);
}

static void add_frame(struct fnv128 *fnv, const uint8_t hash[16], const char *decimal)
{
    fnv128_add(fnv, hash, 16);
    fnv128_add(fnv, decimal, strlen(decimal));
}

static bool ready(struct fixture *fixture, int64_t stack)
{
    bool is_ready = false;
    assert_int_equal(stacks_public_id_ready(stacks_of(fixture), stack, &is_ready), 0);
    return is_ready;
}

/* A public id is ready once its executables are known, or it was asked for all the same. */
static void test_public_id_ready(void **state)
{
    struct fixture *fixture = *state;
    struct executable_facts known = facts(), unhashed = facts();
    bool is_ready;
    uint8_t id[16];
    int64_t exe = executable(fixture, 1), dark = executable(fixture, 2);
    const struct frame frames[] = {{STACK_FRAME_KERNEL, 0, 1}, {STACK_FRAME_NATIVE, exe, 2}},
                       darker[] = {{STACK_FRAME_NATIVE, exe, 3}, {STACK_FRAME_NATIVE, dark, 4}};
    int64_t stack = intern(fixture, frames, 2, true), other = intern(fixture, darker, 2, true);
    assert_false(ready(fixture, stack));
    unhashed.htlhash_known = false;
    assert_int_equal(stacks_executable_facts(stacks_of(fixture), exe, &unhashed), 0);
    assert_false(ready(fixture, stack));
    assert_int_equal(stacks_executable_facts(stacks_of(fixture), exe, &known), 0);
    assert_true(ready(fixture, stack));
    assert_false(ready(fixture, other));
    assert_int_equal(stacks_public_id(stacks_of(fixture), other, id), 0);
    assert_true(ready(fixture, other));
    restart(fixture);
    assert_true(ready(fixture, other));
    assert_int_equal(stacks_public_id_ready(stacks_of(fixture), 4711, &is_ready), -ENOENT);
}

/* htlhash and decimal ELF address, leaf first; fixed once it was told. */
static void test_public_id(void **state)
{
    struct fixture *fixture = *state;
    struct executable_facts known = facts();
    static const uint8_t unknown[16];
    uint8_t expected[16], id[16];
    struct fnv128 fnv;
    int64_t exe = executable(fixture, 1), dark = executable(fixture, 2);
    assert_int_equal(stacks_executable_facts(stacks_of(fixture), exe, &known), 0);
    const struct frame frames[] = {
        {STACK_FRAME_KERNEL, 0, 18446744071578845201u},
        {STACK_FRAME_NATIVE, exe, 0x1010},
        {STACK_FRAME_NATIVE, exe, 0x9999},
        {STACK_FRAME_NATIVE, dark, 77},
    };
    int64_t stack = intern(fixture, frames, 4, true);
    fnv128_init(&fnv);
    add_frame(&fnv, unknown, "17");            /* its offset in the page */
    add_frame(&fnv, known.htlhash, "4202512"); /* 0x402010 */
    add_frame(&fnv, known.htlhash, "39321");   /* in no segment: the offset */
    add_frame(&fnv, unknown, "77");
    fnv128_finish(&fnv, expected);
    assert_int_equal(stacks_public_id(stacks_of(fixture), stack, id), 0);
    assert_memory_equal(id, expected, 16);
    assert_int_equal(stacks_executable_facts(stacks_of(fixture), dark, &known), 0); /* too late */
    restart(fixture);
    assert_int_equal(stacks_public_id(stacks_of(fixture), stack, id), 0);
    assert_memory_equal(id, expected, 16);
    assert_int_equal(stacks_public_id(stacks_of(fixture), 4711, id), -ENOENT);
}

static void test_names(void **state)
{
    struct fixture *fixture = *state;
    static char endless[STACKS_NAME_MAX + 10];
    int64_t exe = executable(fixture, 1);
    memset(endless, 'x', sizeof(endless));
    const struct frame_name names[] = {
        {.address = 0x10,
         .function = BYTES_LIT("main"),
         .file = BYTES_LIT("main.c"),
         .line = 12,
         .system_name = BYTES_LIT("_Z4mainv")},
        {.address = UINT64_MAX, .function = BYTES_LIT("top")},
        {.address = 0x30, .function = BYTES(endless, sizeof(endless))},
    };
    struct frame frame = {STACK_FRAME_NATIVE, exe, 0x10};
    struct frame_name name;
    assert_int_equal(stacks_name(stacks_of(fixture), &frame, &name), -ENOENT);
    assert_int_equal(stacks_set_names(stacks_of(fixture), exe, names, 3), 0);
    assert_int_equal(stacks_name(stacks_of(fixture), &frame, &name), 0);
    assert_true(bytes_is(name.function, "main"));
    assert_true(bytes_is(name.file, "main.c"));
    assert_true(bytes_is(name.system_name, "_Z4mainv"));
    assert_int_equal(name.line, 12);
    frame.address = UINT64_MAX;
    assert_int_equal(stacks_name(stacks_of(fixture), &frame, &name), 0);
    assert_true(bytes_is(name.function, "top"));
    assert_int_equal(name.file.len, 0);
    assert_int_equal(name.system_name.len, 0);
    frame.address = 0x30;
    assert_int_equal(stacks_name(stacks_of(fixture), &frame, &name), 0);
    assert_int_equal(name.function.len, STACKS_NAME_MAX);
    const struct frame_name better = {.address = 0x10, .function = BYTES_LIT("better"), .line = 1};
    assert_int_equal(stacks_set_names(stacks_of(fixture), exe, &better, 1), 0);
    frame.address = 0x10;
    restart(fixture);
    assert_int_equal(stacks_name(stacks_of(fixture), &frame, &name), 0);
    assert_true(bytes_is(name.function, "better"));
}

/* Several of one address in a row are what was inlined there. */
static void test_inlined(void **state)
{
    struct fixture *fixture = *state;
    struct frame_name many[STACKS_INLINED_MAX + 4], inlined[STACKS_INLINED_MAX], name;
    int64_t exe = executable(fixture, 1);
    const struct frame_name names[] = {
        {.address = 8, .function = BYTES_LIT("alone")},
        {.address = 0x10,
         .function = BYTES_LIT("inner"),
         .file = BYTES_LIT("inner.h"),
         .line = 7,
         .system_name = BYTES_LIT("_Z5innerv")},
        {.address = 0x10, .function = BYTES_LIT("middle"), .line = 70000},
        {.address = 0x10,
         .function = BYTES_LIT("outer"),
         .file = BYTES_LIT("outer.c"),
         .line = 12,
         .system_name = BYTES_LIT("_Z5outerv")},
    };
    struct frame frame = {STACK_FRAME_NATIVE, exe, 0x10};
    assert_int_equal(stacks_set_names(stacks_of(fixture), exe, names, 4), 0);
    restart(fixture);
    assert_int_equal(stacks_name(stacks_of(fixture), &frame, &name), 0);
    assert_true(bytes_is(name.function, "outer"));
    assert_int_equal(name.line, 12);
    assert_int_equal(stacks_inlined(&name, inlined), 2);
    assert_true(bytes_is(inlined[0].function, "inner"));
    assert_true(bytes_is(inlined[0].file, "inner.h"));
    assert_true(bytes_is(inlined[0].system_name, "_Z5innerv"));
    assert_int_equal(inlined[0].line, 7);
    assert_true(bytes_is(inlined[1].function, "middle"));
    assert_int_equal(inlined[1].line, 70000);
    frame.address = 8;
    assert_int_equal(stacks_name(stacks_of(fixture), &frame, &name), 0);
    assert_int_equal(stacks_inlined(&name, inlined), 0);
    for (size_t i = 0; i < STACKS_INLINED_MAX + 4; i++)
        many[i] = (struct frame_name){.address = 8, .line = (int64_t)i};
    assert_int_equal(stacks_set_names(stacks_of(fixture), exe, many, STACKS_INLINED_MAX + 4), 0);
    assert_int_equal(stacks_name(stacks_of(fixture), &frame, &name), 0);
    assert_int_equal(name.line, STACKS_INLINED_MAX + 3);
    assert_int_equal(stacks_inlined(&name, inlined), STACKS_INLINED_MAX);
    name.inlined.len--; /* damaged */
    assert_int_equal(stacks_inlined(&name, inlined), 0);
}

static void generation(struct fixture *fixture, int64_t referred)
{
    struct id_set set = {0};
    if (referred)
        assert_int_equal(id_set_add(&set, referred), 0);
    assert_int_equal(stacks_collect_begin(stacks_of(fixture), FIXTURE_T0, &set), 0);
    assert_null(set.ids); /* taken over */
    for (int i = 0; i < 50; i++)
        assert_int_equal(stacks_collect(stacks_of(fixture)), 0);
}

static bool has_name(struct fixture *fixture, int64_t exe)
{
    struct frame frame = {STACK_FRAME_NATIVE, exe, 0x10};
    struct frame_name name;
    return !stacks_name(stacks_of(fixture), &frame, &name);
}

/* What nothing refers to goes with its executable and names; what is used or referred to stays. */
static void test_collect(void **state)
{
    struct fixture *fixture = *state;
    const struct frame_name names[] = {{.address = 0x10, .function = BYTES_LIT("f")}};
    const struct frame *read;
    int64_t exe[3], stack[3];
    size_t n;
    for (uint8_t i = 0; i < 3; i++) {
        exe[i] = executable(fixture, i);
        struct frame frame = {STACK_FRAME_NATIVE, exe[i], 0x10};
        stack[i] = intern(fixture, &frame, 1, true);
        assert_int_equal(stacks_set_names(stacks_of(fixture), exe[i], names, 1), 0);
    }
    for (unsigned i = 0; i < 1000; i++) /* more than one step sweeps */
        fixture_stack(fixture, i);
    for (int round = 0; round < 4; round++) {
        generation(fixture, stack[1]);
        struct frame frame = {STACK_FRAME_NATIVE, exe[2], 0x10};
        assert_int_equal(intern(fixture, &frame, 1, true),
                         stack[2]); /* looked after once a generation */
        if (round == 1)
            restart(fixture);
    }
    assert_int_equal(stacks_frames(stacks_of(fixture), stack[0], &read, &n), -ENOENT);
    assert_int_equal(stacks_frames(stacks_of(fixture), stack[1], &read, &n), 0);
    assert_false(has_name(fixture, exe[0]));
    assert_true(has_name(fixture, exe[1]));
    assert_true(has_name(fixture, exe[2]));
    assert_int_not_equal(executable(fixture, 0), exe[0]); /* a rowid never comes back */
    assert_int_equal(executable(fixture, 1), exe[1]);
    assert_true(stats_find("spanprof_store_stacks_removed_total", "") >= 1001);
}

/* A row that its key does not find any more goes too, and does not hold up the others. */
static void test_collect_damaged(void **state)
{
    struct fixture *fixture = *state;
    const struct frame *read;
    size_t n;
    int64_t damaged = fixture_stack(fixture, 1), other = fixture_stack(fixture, 2);
    restart(fixture); /* what is in memory is not looked up */
    assert_int_equal(db_exec(store_db(fixture->store), "PRAGMA ignore_check_constraints = ON;"
                                                       "UPDATE stack SET hash = x'01' WHERE id ="
                                                       " (SELECT min(id) FROM stack)"),
                     0);
    for (int round = 0; round < 4; round++)
        generation(fixture, damaged);
    assert_int_equal(stacks_frames(stacks_of(fixture), damaged, &read, &n), -ENOENT);
    assert_int_equal(stacks_frames(stacks_of(fixture), other, &read, &n), -ENOENT);
}

static void test_collect_due(void **state)
{
    struct fixture *fixture = *state;
    struct id_set none = {0};
    assert_true(stacks_collect_due(stacks_of(fixture), FIXTURE_T0));
    stacks_collect_begin(stacks_of(fixture), FIXTURE_T0, &none);
    assert_false(stacks_collect_due(stacks_of(fixture), FIXTURE_T0 + 600 * FIXTURE_SECOND));
    assert_int_equal(stacks_collect(stacks_of(fixture)), 0); /* swept to the end */
    assert_false(stacks_collect_due(stacks_of(fixture), FIXTURE_T0 + 599 * FIXTURE_SECOND));
    assert_true(stacks_collect_due(stacks_of(fixture), FIXTURE_T0 + 600 * FIXTURE_SECOND));
    assert_true(stacks_collect_due(stacks_of(fixture), FIXTURE_T0 - 1)); /* the clock went back */
}

static void test_rollback(void **state)
{
    struct fixture *fixture = *state;
    struct frame frame = {STACK_FRAME_NATIVE, executable(fixture, 7), 1};
    int64_t id = intern(fixture, &frame, 1, true);
    store_fail(fixture->store, -EIO);
    assert_int_equal(store_end(fixture->store), -EIO);
    fixture_begin(fixture);
    const struct frame *read;
    size_t n;
    assert_int_equal(stacks_frames(stacks_of(fixture), id, &read, &n), -ENOENT);
    assert_int_equal(executable(fixture, 8), frame.executable); /* so the old rowid is void */
}

/* Frames that cannot be read back are not shown as some other stack. */
static void test_damaged(void **state)
{
    struct fixture *fixture = *state;
    const struct frame *read;
    const struct executable_facts *known;
    size_t n;
    int64_t stack = fixture_stack(fixture, 1), exe = executable(fixture, 9);
    assert_int_equal(db_exec(store_db(fixture->store), "UPDATE stack SET frames = x'ffffff';"
                                                       "UPDATE executable SET facts = x'01'"),
                     0);
    assert_int_equal(stacks_executable_get(stacks_of(fixture), exe, &known), 0);
    assert_int_equal(known->path.len, 0);
    assert_int_equal(stacks_frames(stacks_of(fixture), stack, &read, &n), -EUCLEAN);
    assert_int_equal(store_end(fixture->store), -EUCLEAN); /* put aside */
    fixture_begin(fixture);
    fixture_stack(fixture, 1);
}

int main(void)
{
#define TEST(name)                                                                                 \
    cmocka_unit_test_setup_teardown(name, fixture_set_up_in_transaction,                           \
                                    fixture_tear_down_in_transaction)
    const struct CMUnitTest tests[] = {
        TEST(test_intern),    TEST(test_limits),          TEST(test_executables),
        TEST(test_public_id), TEST(test_public_id_ready), TEST(test_names),
        TEST(test_inlined),   TEST(test_collect),         TEST(test_collect_due),
        TEST(test_rollback),  TEST(test_damaged),         TEST(test_collect_damaged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
