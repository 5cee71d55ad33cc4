/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks of a real store, as a reading connection shows them. */
#include "store/query/history_reader.h"
#include "store/stacks/stacks_unfinished.h"
#include "test/support/fixtures/named_code.h"
#include "test/support/fixtures/store_fixture.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <cmocka.h>

struct rig {
    struct fixture fixture;
    struct db *db;
    struct history_reader *reader;
    const struct history_frame *const *frames; /* of the last show() */
    size_t n;
};

static int set_up(void **state)
{
    struct rig *rig = calloc(1, sizeof(*rig));
    fixture_make(&rig->fixture);
    fixture_open(&rig->fixture);
    assert_int_equal(db_open_reader(&rig->fixture.settings.db, &rig->db), 0);
    assert_int_equal(history_reader_open(rig->db, &rig->reader), 0);
    fixture_begin(&rig->fixture);
    *state = rig;
    return 0;
}

static int tear_down(void **state)
{
    struct rig *rig = *state;
    history_reader_close(rig->reader);
    db_close(rig->db);
    fixture_remove(&rig->fixture);
    free(rig);
    return 0;
}

static struct stacks *stacks_of(struct rig *rig)
{
    return store_stacks(rig->fixture.store);
}

/* At file offset 0x1000 of it lies ELF address 0x401000. */
static int64_t executable(struct rig *rig, const char *path, const char *go_build_id)
{
    uint8_t identity[16];
    int64_t id;
    const struct executable_facts facts = {
        .path = BYTES_STR(path),
        .build_id = BYTES_LIT("\x01\x02\x03"),
        .go_build_id = BYTES_STR(go_build_id),
        .n_segments = 1,
        .segments = {{.file_offset = 0x1000, .size = 0x100000, .vaddr = 0x401000}},
    };
    bytes_siphash128(facts.path, (const uint8_t[16]){0}, identity);
    assert_int_equal(stacks_executable(stacks_of(rig), identity, &id), 0);
    assert_int_equal(stacks_executable_facts(stacks_of(rig), id, &facts), 0);
    return id;
}

static void name(struct rig *rig, int64_t executable, uint64_t address, const char *function,
                 const char *file)
{
    const struct frame_name names[] = {
        {.address = address, .function = BYTES_STR(function), .file = BYTES_STR(file), .line = 7}};
    assert_int_equal(stacks_set_names(stacks_of(rig), executable, names, 1), 0);
}

static int64_t intern(struct rig *rig, const struct frame *frames, size_t n)
{
    int64_t id;
    bool is_new;
    assert_int_equal(stacks_intern(stacks_of(rig), frames, n, &id, &is_new), 0);
    return id;
}

static void show(struct rig *rig, int64_t stack)
{
    if (db_in_transaction(store_db(rig->fixture.store)))
        fixture_commit(&rig->fixture);
    assert_int_equal(history_frames(rig->reader, stack, &rig->frames, &rig->n), 0);
}

static void assert_text(struct bytes text, const char *expected)
{
    char copy[256];
    assert_true(text.len < sizeof(copy));
    snprintf(copy, sizeof(copy), "%.*s", (int)text.len, text.len ? (const char *)text.data : "");
    assert_string_equal(copy, expected);
}

static void assert_frame(struct rig *rig, size_t i, const char *function,
                         enum history_frame_type type)
{
    assert_true(i < rig->n);
    assert_text(rig->frames[i]->function, function);
    assert_int_equal(rig->frames[i]->type, type);
}

static void each_kind_of_frame(void **state)
{
    struct rig *rig = *state;
    int64_t shop = executable(rig, "/usr/bin/shop", ""), code;
    int64_t server = executable(rig, "/usr/bin/server", "go-build-id");
    int64_t kernel = executable(rig, "vmlinux", "");
    assert_int_equal(fixture_named(stacks_of(rig), BYTES_LIT("Lorg/Shop;::buy"), &code), 0);
    name(rig, kernel, 0x10, "do_syscall_64", "");
    name(rig, shop, 0x1040, "main", "shop.c");
    name(rig, server, 0x1040, "main.main", "main.go");
    name(rig, server, 0x1050, "_cgo_add", "add.c");
    name(rig, server, 0x1060, "runtime.asm", "");
    const struct frame frames[] = {
        {STACK_FRAME_KERNEL, kernel, 0x10},
        {STACK_FRAME_NATIVE, shop, 0x1040},
        {STACK_FRAME_NATIVE, shop, 0x2000},
        {STACK_FRAME_NATIVE, 0, 0x7f0000001000},
        {STACK_FRAME_NATIVE, server, 0x1040},
        {STACK_FRAME_NATIVE, server, 0x1050},
        {STACK_FRAME_NATIVE, server, 0x1060},
        {STACK_FRAME_SPECIAL, FRAME_NAMED, (uint64_t)code},
        {STACK_FRAME_SPECIAL, FRAME_TRUNCATION, 5},
    };
    show(rig, intern(rig, frames, sizeof(frames) / sizeof(*frames)));
    assert_int_equal(rig->n, 9);
    assert_frame(rig, 0, "do_syscall_64", HISTORY_FRAME_KERNEL);
    assert_frame(rig, 1, "main", HISTORY_FRAME_NATIVE);
    assert_frame(rig, 2, "[shop]", HISTORY_FRAME_NATIVE);
    assert_frame(rig, 3, "[unknown]", HISTORY_FRAME_NATIVE);
    assert_frame(rig, 4, "main.main", HISTORY_FRAME_GO);
    assert_frame(rig, 5, "_cgo_add", HISTORY_FRAME_NATIVE);
    assert_frame(rig, 6, "runtime.asm", HISTORY_FRAME_GO);
    assert_frame(rig, 7, "Lorg/Shop;::buy", HISTORY_FRAME_JIT);
    assert_frame(rig, 8, "[truncated: no_unwind_info]", HISTORY_FRAME_TRUNCATED);
    const struct history_frame *frame = rig->frames[1];
    assert_text(frame->file, "shop.c");
    assert_text(frame->module, "/usr/bin/shop");
    assert_int_equal(frame->line, 7);
    assert_int_equal(frame->address, 0x401040);
    assert_int_equal(frame->build_id_size, 3);
    assert_memory_equal(frame->build_id, "\x01\x02\x03", 3);
    assert_false(frame->unnamed || frame->inlined);
    assert_true(rig->frames[2]->unnamed && rig->frames[3]->unnamed);
}

static void inlined_functions_are_frames_of_their_own(void **state)
{
    struct rig *rig = *state;
    int64_t shop = executable(rig, "/usr/bin/shop", "");
    const struct frame_name names[] = {
        {.address = 0x1040, .function = BYTES_LIT("tax"), .file = BYTES_LIT("tax.h"), .line = 1},
        {.address = 0x1040, .function = BYTES_LIT("sum"), .file = BYTES_LIT("sum.h"), .line = 2},
        {.address = 0x1040, .function = BYTES_LIT("buy"), .file = BYTES_LIT("shop.c"), .line = 3},
    };
    assert_int_equal(stacks_set_names(stacks_of(rig), shop, names, 3), 0);
    name(rig, shop, 0x1080, "main", "shop.c");
    const struct frame frames[] = {{STACK_FRAME_NATIVE, shop, 0x1040},
                                   {STACK_FRAME_NATIVE, shop, 0x1080}};
    show(rig, intern(rig, frames, 2));
    assert_int_equal(rig->n, 4);
    static const char *const functions[] = {"tax", "sum", "buy", "main"};
    for (size_t i = 0; i < 4; i++) {
        assert_frame(rig, i, functions[i], HISTORY_FRAME_NATIVE);
        assert_int_equal(rig->frames[i]->inlined, i < 2);
        assert_int_equal(rig->frames[i]->line, i < 3 ? i + 1 : 7);
    }
}

static void keys_tell_functions_apart(void **state)
{
    struct rig *rig = *state;
    int64_t shop = executable(rig, "/usr/bin/shop", "");
    int64_t other = executable(rig, "/usr/bin/other", "");
    name(rig, shop, 0x1040, "main", "a.c");
    name(rig, shop, 0x1044, "main", "a.c");
    name(rig, shop, 0x1048, "main", "b.c");
    name(rig, other, 0x1040, "main", "a.c");
    const struct frame frames[] = {{STACK_FRAME_NATIVE, shop, 0x1040},
                                   {STACK_FRAME_NATIVE, shop, 0x1044},
                                   {STACK_FRAME_NATIVE, shop, 0x1048},
                                   {STACK_FRAME_NATIVE, other, 0x1040}};
    int64_t stack = intern(rig, frames, 4);
    show(rig, stack);
    uint64_t key = rig->frames[0]->key;
    assert_true(key == rig->frames[1]->key);
    assert_false(key == rig->frames[2]->key);
    assert_false(key == rig->frames[3]->key);
}

/* Ids of an answer from before mean what they meant; those of the next one are of the new file. */
static void another_file_has_other_stacks(void **state)
{
    struct rig *rig = *state;
    const struct history_filter filter = {0};
    struct history_profile profile;
    struct arena arena;
    int64_t shop = executable(rig, "/usr/bin/shop", "");
    const struct frame frame = {STACK_FRAME_NATIVE, shop, 0x1040};
    name(rig, shop, 0x1040, "main", "a.c");
    int64_t stack = intern(rig, &frame, 1);
    show(rig, stack);
    assert_int_equal(db_renew(store_db(rig->fixture.store)), 0);
    show(rig, stack);
    assert_int_equal(rig->n, 1);
    arena_init(&arena, 1 << 20);
    assert_int_equal(history_profile(rig->reader, &filter, &arena, &profile), 0);
    arena_close(&arena);
    show(rig, stack);
    assert_int_equal(rig->n, 0);
}

static void a_fulfilled_promise_shows_what_it_is_the_same_as(void **state)
{
    struct rig *rig = *state;
    int64_t shop = executable(rig, "/usr/bin/shop", ""), promised;
    name(rig, shop, 0x1040, "leaf", "");
    name(rig, shop, 0x1080, "main", "");
    const struct frame frames[] = {{STACK_FRAME_NATIVE, shop, 0x1040},
                                   {STACK_FRAME_NATIVE, shop, 0x1080}};
    assert_int_equal(stacks_open_frames(stacks_of(rig), frames, 1, 0, &promised), 0);
    int64_t whole = intern(rig, frames, 2);
    assert_int_equal(stacks_finish_frames(stacks_of(rig), promised, whole), 0);
    show(rig, promised);
    assert_int_equal(rig->n, 2);
    assert_frame(rig, 0, "leaf", HISTORY_FRAME_NATIVE);
    assert_frame(rig, 1, "main", HISTORY_FRAME_NATIVE);
}

static void a_name_may_come_later(void **state)
{
    struct rig *rig = *state;
    int64_t shop = executable(rig, "/usr/bin/shop", "");
    const struct frame frame = {STACK_FRAME_NATIVE, shop, 0x1040};
    int64_t stack = intern(rig, &frame, 1);
    show(rig, stack);
    assert_frame(rig, 0, "[shop]", HISTORY_FRAME_NATIVE);
    uint64_t key = rig->frames[0]->key;
    fixture_begin(&rig->fixture);
    name(rig, shop, 0x1040, "main", "shop.c");
    show(rig, stack);
    nanosleep(&(struct timespec){.tv_sec = 1, .tv_nsec = 10000000}, NULL);
    show(rig, stack);
    assert_frame(rig, 0, "main", HISTORY_FRAME_NATIVE);
    assert_false(rig->frames[0]->unnamed || rig->frames[0]->key == key);
}

static void texts_are_made_utf8(void **state)
{
    struct rig *rig = *state;
    int64_t shop = executable(rig, "/usr/bin/sh\xffop", "");
    name(rig, shop, 0x1040, "ma\xc3in\n", "a\x80.c");
    const struct frame frame = {STACK_FRAME_NATIVE, shop, 0x1040};
    show(rig, intern(rig, &frame, 1));
    assert_frame(rig, 0, "ma?in?", HISTORY_FRAME_NATIVE);
    assert_text(rig->frames[0]->file, "a?.c");
    assert_text(rig->frames[0]->module, "/usr/bin/sh?op");
}

static void an_unknown_stack_has_no_frames(void **state)
{
    struct rig *rig = *state;
    show(rig, 4711);
    assert_int_equal(rig->n, 0);
}

static void a_damaged_stack_has_no_frames(void **state)
{
    struct rig *rig = *state;
    const struct frame frame = {STACK_FRAME_NATIVE, executable(rig, "/usr/bin/shop", ""), 0x1040};
    int64_t stack = intern(rig, &frame, 1);
    fixture_commit(&rig->fixture);
    assert_int_equal(db_exec(store_db(rig->fixture.store), "UPDATE stack SET frames = x'ffffff';"
                                                           "UPDATE executable SET facts = x'0102'"),
                     0);
    show(rig, stack);
    assert_int_equal(rig->n, 0);
}

/* More than is remembered, each stack as it should be. */
static void memory_is_bounded(void **state)
{
    struct rig *rig = *state;
    static char function[STACKS_NAME_MAX + 1];
    const size_t n = HISTORY_FRAMES_BYTES / STACKS_NAME_MAX + 1000;
    int64_t shop = executable(rig, "/usr/bin/shop", ""), first = 0, last = 0;
    memset(function, 'f', STACKS_NAME_MAX);
    for (size_t i = 0; i < n; i++) {
        const struct frame frame = {STACK_FRAME_NATIVE, shop, 0x1000 + i};
        int len = snprintf(function, sizeof(function), "%zu", i);
        function[len] = '_';
        name(rig, shop, frame.address, function, "");
        last = intern(rig, &frame, 1);
        first = first ? first : last;
    }
    show(rig, first);
    uint64_t key = rig->frames[0]->key;
    for (int64_t stack = first; stack <= last; stack++) {
        char expected[32];
        int len = snprintf(expected, sizeof(expected), "%lld_", (long long)(stack - first));
        show(rig, stack);
        assert_int_equal(rig->n, 1);
        assert_int_equal(rig->frames[0]->function.len, STACKS_NAME_MAX);
        assert_memory_equal(rig->frames[0]->function.data, expected, (size_t)len);
    }
    show(rig, first);
    assert_true(rig->frames[0]->key == key);
}

static void a_stack_that_is_too_much_alone_is_cut(void **state)
{
    struct rig *rig = *state;
    static struct frame frames[STACKS_FRAMES_MAX];
    static struct frame_name names[STACKS_INLINED_MAX + 1];
    static char texts[STACKS_INLINED_MAX + 1][STACKS_NAME_MAX];
    const size_t n = HISTORY_FRAMES_BYTES / sizeof(texts) + 10;
    int64_t shop = executable(rig, "/usr/bin/shop", "");
    for (size_t i = 0; i < n; i++) {
        frames[i] = (struct frame){STACK_FRAME_NATIVE, shop, 0x1000 + i};
        for (size_t k = 0; k <= STACKS_INLINED_MAX; k++) {
            memset(texts[k], 'f', sizeof(texts[k]));
            snprintf(texts[k], sizeof(texts[k]), "%zu-%zu", i, k);
            texts[k][strlen(texts[k])] = '_';
            names[k] = (struct frame_name){.address = frames[i].address,
                                           .function = BYTES(texts[k], sizeof(texts[k]))};
        }
        assert_int_equal(stacks_set_names(stacks_of(rig), shop, names, STACKS_INLINED_MAX + 1), 0);
    }
    int64_t much = intern(rig, frames, n), little = intern(rig, frames, 1);
    for (int round = 0; round < 2; round++) {
        show(rig, much);
        assert_in_range(rig->n, n / 2 * (STACKS_INLINED_MAX + 1), n * (STACKS_INLINED_MAX + 1));
        show(rig, little);
        assert_int_equal(rig->n, STACKS_INLINED_MAX + 1);
    }
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_kind_of_frame),
        TEST(inlined_functions_are_frames_of_their_own),
        TEST(keys_tell_functions_apart),
        TEST(another_file_has_other_stacks),
        TEST(a_fulfilled_promise_shows_what_it_is_the_same_as),
        TEST(a_name_may_come_later),
        TEST(texts_are_made_utf8),
        TEST(an_unknown_stack_has_no_frames),
        TEST(a_damaged_stack_has_no_frames),
        TEST(memory_is_bounded),
        TEST(a_stack_that_is_too_much_alone_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
