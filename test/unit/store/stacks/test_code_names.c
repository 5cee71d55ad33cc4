/* SPDX-License-Identifier: Apache-2.0 */
/* Frames that are known by a name alone: in the dictionary, and as they are exported. */
#include "agent-bpf/record_frame.h"
#include "store/stacks/stacks_unfinished.h"
#include "test/support/fixtures/named_code.h"
#include "test/support/fixtures/stacks_fixture.h"
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

static struct frame named(struct fixture *fixture, const char *function)
{
    int64_t id;
    assert_int_equal(fixture_named(fixture_stacks(fixture), BYTES_STR(function), &id), 0);
    return (struct frame){STACK_FRAME_SPECIAL, FRAME_NAMED, (uint64_t)id};
}

static int64_t intern_named(struct fixture *fixture, const char *function)
{
    struct frame frame = named(fixture, function);
    return fixture_intern(fixture, &frame, 1);
}

static void assert_name(struct fixture *fixture, const struct frame *frame, const char *function)
{
    struct frame_name name;
    int outcome = stacks_name(fixture_stacks(fixture), frame, &name);
    assert_int_equal(outcome, function ? 0 : -ENOENT);
    if (!function)
        return;
    assert_true(bytes_is(name.function, function));
    assert_int_equal(name.file.len + name.system_name.len, 0);
    assert_int_equal(name.line, 0);
}

/* A name makes a stack another, and nothing else does. */
static void test_identity(void **state)
{
    struct fixture *fixture = *state;
    const struct frame hot = named(fixture, "JS:*hot /srv/app.js:1:13");
    const struct frame other = named(fixture, "JS:*hot /srv/app.js:1:14");
    const struct frame unnamed = {STACK_FRAME_NATIVE, 0, hot.address};
    int64_t stack = fixture_intern(fixture, &hot, 1);
    assert_int_not_equal(fixture_intern(fixture, &other, 1), stack);
    assert_int_not_equal(fixture_intern(fixture, &unnamed, 1), stack);
    restart(fixture);
    const struct frame again = named(fixture, "JS:*hot /srv/app.js:1:13");
    assert_true(again.address == hot.address);
    assert_int_equal(fixture_intern(fixture, &again, 1), stack);
    assert_name(fixture, &hot, "JS:*hot /srv/app.js:1:13");
    assert_name(fixture, &other, "JS:*hot /srv/app.js:1:14");
    assert_name(fixture, &unnamed, NULL);
}

/* A frame of a runtime: its functions with their places, innermost first. */
static struct frame with_lines(struct fixture *fixture, int64_t line)
{
    const struct frame_name names[] = {
        {.function = BYTES_LIT("inner"), .file = BYTES_LIT("a.py"), .line = 7, .column = 3},
        {.function = BYTES_LIT("outer"),
         .file = BYTES_LIT("b.py"),
         .line = line,
         .column = 5,
         .start_line = 40,
         .system_name = BYTES_LIT("outer()V")}};
    int64_t id;
    assert_int_equal(stacks_named(fixture_stacks(fixture), BYTES_LIT("cpython"), names, 2, &id), 0);
    return (struct frame){STACK_FRAME_SPECIAL, FRAME_NAMED, (uint64_t)id};
}

static void test_lines(void **state)
{
    struct fixture *fixture = *state;
    const struct frame frame = with_lines(fixture, 42), other = with_lines(fixture, 43);
    struct frame_name name, inlined[STACKS_INLINED_MAX];
    uint8_t ids[2][16];
    assert_true(frame.address != other.address);
    int64_t stack = fixture_intern(fixture, &frame, 1);
    assert_int_equal(stacks_public_id(fixture_stacks(fixture), stack, ids[0]), 0);
    stack = fixture_intern(fixture, &other, 1);
    assert_int_equal(stacks_public_id(fixture_stacks(fixture), stack, ids[1]), 0);
    assert_memory_not_equal(ids[0], ids[1], 16);
    restart(fixture);
    assert_true(with_lines(fixture, 42).address == frame.address);
    assert_int_equal(stacks_name(fixture_stacks(fixture), &frame, &name), 0);
    assert_true(bytes_is(name.function, "outer") && bytes_is(name.file, "b.py"));
    assert_true(bytes_is(name.system_name, "outer()V") && bytes_is(name.type, "cpython"));
    assert_true(name.line == 42 && name.column == 5 && name.start_line == 40);
    assert_int_equal(stacks_inlined(&name, inlined), 1);
    assert_true(bytes_is(inlined[0].function, "inner") && bytes_is(inlined[0].file, "a.py"));
    assert_true(inlined[0].line == 7 && inlined[0].column == 3 && !inlined[0].start_line);
}

/* A frame that never got its names says what it is of. What its owner had in it is not kept. */
static void test_unnamed(void **state)
{
    struct fixture *fixture = *state;
    struct frame frame = {STACK_FRAME_SPECIAL, FRAME_UNNAMED, FRAME_PYTHON};
    int64_t stack = fixture_intern(fixture, &frame, 1);
    struct frame_name name;
    frame.address |= UINT64_C(77) << STACKS_UNNAMED_BITS;
    assert_int_equal(fixture_intern(fixture, &frame, 1), stack);
    frame.address = FRAME_PYTHON;
    assert_int_equal(stacks_name(fixture_stacks(fixture), &frame, &name), 0);
    assert_true(bytes_is(name.function, RECORD_FRAME_UNREADABLE) && bytes_is(name.type, "cpython"));
}

/* Any bytes may be in the file. */
static void test_damaged(void **state)
{
    struct frame_name name = {0};
    const uint8_t body[] = {0, 3, 'j', 'v', 'm', 1, 'f', 200};
    (void)state;
    assert_int_equal(stacks_decode_code_name(BYTES_LIT("of version 10"), &name), 0);
    assert_true(bytes_is(name.function, "of version 10") && bytes_is(name.type, "jit"));
    for (size_t n = 1; n <= sizeof(body); n++)
        assert_int_equal(stacks_decode_code_name(BYTES(body, n), &name), -EUCLEAN);
}

static void test_bounds(void **state)
{
    struct fixture *fixture = *state;
    static char name[STACKS_NAME_MAX + 2];
    struct frame_name found;
    memset(name, 'n', STACKS_NAME_MAX + 1);
    const struct frame frame = named(fixture, name);
    assert_int_equal(stacks_name(fixture_stacks(fixture), &frame, &found), 0);
    assert_int_equal(found.function.len, STACKS_NAME_MAX);

    const struct frame nobody = {STACK_FRAME_SPECIAL, FRAME_NAMED, 4711};
    int64_t id;
    bool is_new;
    assert_name(fixture, &nobody, NULL);
    assert_int_equal(stacks_intern(fixture_stacks(fixture), &nobody, 1, &id, &is_new), -ESTALE);
    assert_int_equal(stacks_open_frames(fixture_stacks(fixture), &nobody, 1, 0, &id), -ESTALE);
    /* A truncation has no name, though its number is that of one. */
    const struct frame end = {STACK_FRAME_SPECIAL, FRAME_TRUNCATION, frame.address};
    assert_name(fixture, &end, NULL);
}

/* The same on every node: of the name, whatever its row. */
static void test_public_id(void **state)
{
    struct fixture *fixture = *state;
    static const uint8_t no_file[16];
    uint8_t expected[16], name[16], found[16];
    bool ready = false;
    named(fixture, "another, so that the row is not the first");
    const struct frame frames[] = {named(fixture, "hot"), {STACK_FRAME_NATIVE, 0, 77}};
    int64_t stack = fixture_intern(fixture, frames, 2);
    assert_int_equal(stacks_public_id_ready(fixture_stacks(fixture), stack, &ready), 0);
    assert_true(ready);
    assert_int_equal(stacks_public_id(fixture_stacks(fixture), stack, found), 0);
    struct fnv128 fnv;
    fnv128_init(&fnv);
    fnv128_add(&fnv, "hot", 3);
    fnv128_finish(&fnv, name);
    fnv128_init(&fnv);
    fnv128_add(&fnv, name, 16);
    fnv128_add(&fnv, "0", 1);
    fnv128_add(&fnv, no_file, 16);
    fnv128_add(&fnv, "77", 2);
    fnv128_finish(&fnv, expected);
    assert_memory_equal(found, expected, 16);
}

/* A name goes with the last stack that has it: not before, also when the stack is only referred to
 * or is what a promise became. */
static void test_collected(void **state)
{
    struct fixture *fixture = *state;
    struct frame gone = named(fixture, "gone"), referred = named(fixture, "referred");
    struct frame used = named(fixture, "used"), promised = named(fixture, "promised");
    int64_t stack = fixture_intern(fixture, &referred, 1), promise;
    fixture_intern(fixture, &gone, 1);
    assert_int_equal(stacks_open_frames(fixture_stacks(fixture), &promised, 1, 0, &promise), 0);
    for (int round = 0; round < 4; round++) {
        fixture_intern(fixture, &used, 1);
        fixture_generation(fixture, stack);
        if (round == 1)
            restart(fixture);
    }
    assert_name(fixture, &gone, NULL);
    assert_name(fixture, &promised, NULL);
    assert_name(fixture, &referred, "referred");
    assert_name(fixture, &used, "used");
    assert_true(named(fixture, "gone").address != gone.address); /* a rowid never comes back */

    struct frame kept = named(fixture, "kept");
    assert_int_equal(stacks_open_frames(fixture_stacks(fixture), &used, 1, 0, &promise), 0);
    assert_int_equal(
        stacks_finish_frames(fixture_stacks(fixture), promise, fixture_intern(fixture, &kept, 1)),
        0);
    for (int round = 0; round < 4; round++)
        fixture_generation(fixture, promise);
    assert_name(fixture, &kept, "kept");
}

static void test_rolled_back(void **state)
{
    struct fixture *fixture = *state;
    const struct frame lost = named(fixture, "lost");
    store_fail(fixture->store, -EIO);
    assert_int_equal(store_end(fixture->store), -EIO);
    fixture_begin(fixture);
    assert_name(fixture, &lost, NULL);
    const struct frame next = named(fixture, "next");
    assert_name(fixture, &next, "next");
}

/* NULL: there is none of that name. */
static const ProfilesLocation *location_of(const ProfilesDictionary *dictionary,
                                           const char *function)
{
    for (size_t i = 0; i < dictionary->n_location_table; i++) {
        const ProfilesLocation *location = dictionary->location_table[i];
        int32_t at = location->n_lines ? location->lines[0]->function_index : 0;
        int32_t name = at ? dictionary->function_table[at]->name_strindex : 0;
        if (!strcmp(dictionary->string_table[name], function))
            return location;
    }
    return NULL;
}

static void test_exported(void **state)
{
    struct fixture *fixture = *state;
    static const char *const names[] = {"hot", "outer"};
    int64_t process = fixture_process(fixture, 10, BYTES(NULL, 0));
    for (unsigned i = 0; i < 2; i++) {
        int64_t stack = intern_named(fixture, names[i]);
        struct sample sample =
            fixture_sample(FIXTURE_T0, (struct fixture_ids){0, 0, 0}, stack, process);
        fixture_commit(fixture);
        fixture_add(fixture, &sample);
        fixture_begin(fixture);
    }
    fixture_commit(fixture);
    ProfilesRequest *request = fixture_window(fixture, FIXTURE_T0 + FIXTURE_SECOND + FIXTURE_WAIT);
    fixture_begin(fixture);
    const ProfilesDictionary *dictionary = request->dictionary;
    assert_int_equal(dictionary->n_stack_table, 3); /* with the empty one */
    for (unsigned i = 0; i < 2; i++) {
        const ProfilesLocation *location = location_of(dictionary, names[i]);
        assert_non_null(location);
        assert_int_equal(location->mapping_index, 0);
        assert_int_equal(location->address, 0);
        assert_int_equal(location->n_attribute_indices, 1);
        const ProfilesAttribute *attribute =
            dictionary->attribute_table[location->attribute_indices[0]];
        assert_string_equal(dictionary->string_table[attribute->key_strindex],
                            "profile.frame.type");
        assert_string_equal(attribute->value->string_value, "jit");
    }
    fixture_window_close(request);
}

int main(void)
{
#define TEST(name)                                                                                 \
    cmocka_unit_test_setup_teardown(name, fixture_set_up_in_transaction,                           \
                                    fixture_tear_down_in_transaction)
    const struct CMUnitTest tests[] = {
        TEST(test_identity),    TEST(test_lines),     TEST(test_unnamed),   TEST(test_damaged),
        TEST(test_bounds),      TEST(test_public_id), TEST(test_lines),     TEST(test_bounds),
        TEST(test_public_id),   TEST(test_unnamed),   TEST(test_bounds),    TEST(test_public_id),
        TEST(test_damaged),     TEST(test_bounds),    TEST(test_public_id), TEST(test_collected),
        TEST(test_rolled_back), TEST(test_exported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
