/* SPDX-License-Identifier: Apache-2.0 */
/* What the symbolizer says: of executables, names and the kernel to the dictionary, the rest to the
 * process table. */
#include "agent-bpf/executable_identity.h"
#include "test/support/rigs/samples_rig.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

static const uint8_t build_id[20] = {1, 2, 3};
static const uint8_t htlhash[16] = {9, 8, 7};

static void app_identity(uint8_t identity[16])
{
    struct process_event event = samples_rig_mapping(RIG_PID, APP, APP_OFFSET, APP_PATH);
    assert_true(executable_identity(&event.mapping, identity));
}

static struct symbolizer_message executable_found(void)
{
    struct symbolizer_message message = {
        .kind = SYMBOLIZER_EXECUTABLE,
        .executable = {.found = 1,
                       .build_id = BYTES(build_id, 20),
                       .go_build_id = BYTES_LIT("go/1"),
                       .n_segments = 1,
                       .segments = {{.file_offset = 0x1000, .size = 0x10000, .vaddr = 0x401000}}}};
    app_identity(message.executable.identity);
    memcpy(message.executable.htlhash, htlhash, 16);
    return message;
}

static void add_sample(struct samples_rig *rig, struct samples_rig_left *left)
{
    struct record_parts parts = {
        .head = {.pid = RIG_PID, .comm = "app"}, .n_user = 1, .user = {APP + 0x100}};
    samples_rig_add(rig, &parts, 1);
    assert_int_equal(samples_rig_leave(rig, left), 1);
}

static int64_t app_row(struct samples_rig *rig)
{
    uint8_t identity[16];
    int64_t id;
    app_identity(identity);
    fixture_begin(&rig->fixture);
    assert_int_equal(stacks_executable(store_stacks(rig->fixture.store), identity, &id), 0);
    fixture_commit(&rig->fixture);
    return id;
}

static void assert_known(const struct executable_facts *facts)
{
    assert_true(facts->htlhash_known);
    assert_memory_equal(facts->htlhash, htlhash, 16);
    assert_true(bytes_equal(facts->build_id, BYTES(build_id, 20)));
    assert_true(bytes_is(facts->go_build_id, "go/1"));
    assert_int_equal(facts->n_segments, 1);
    assert_int_equal(facts->segments[0].vaddr, 0x401000);
    assert_int_equal(facts->segments[0].size, 0x10000);
    assert_int_equal(facts->segments[0].file_offset, 0x1000);
}

/* The kernel reports the path, the symbolizer the rest: both stay, in whichever order they come. */
static void test_executable_after_sample(void **state)
{
    struct samples_rig *rig = *state;
    struct samples_rig_left left;
    struct symbolizer_message message = executable_found();
    add_sample(rig, &left);
    assert_false(samples_rig_executable(rig, app_row(rig), APP_PATH)->htlhash_known);
    samples_rig_answer(rig, &message);
    assert_known(samples_rig_executable(rig, app_row(rig), APP_PATH));
}

static void test_executable_before_sample(void **state)
{
    struct samples_rig *rig = *state;
    struct samples_rig_left left;
    struct symbolizer_message message = executable_found();
    samples_rig_answer(rig, &message);
    assert_known(samples_rig_executable(rig, app_row(rig), ""));
    add_sample(rig, &left);
    assert_int_equal(left.frames[0].executable, app_row(rig));
    assert_known(samples_rig_executable(rig, app_row(rig), APP_PATH));
}

static void test_executable_not_found(void **state)
{
    struct samples_rig *rig = *state;
    struct samples_rig_left left;
    struct symbolizer_message message = executable_found();
    add_sample(rig, &left);
    message.executable = (struct symbolizer_executable){0};
    app_identity(message.executable.identity);
    samples_rig_answer(rig, &message);
    assert_false(samples_rig_executable(rig, app_row(rig), APP_PATH)->htlhash_known);
}

static bool name_of(struct samples_rig *rig, const struct frame *frame, const char *function,
                    int64_t line)
{
    struct frame_name name;
    int error = stacks_name(store_stacks(rig->fixture.store), frame, &name);
    return error == 0 && bytes_is(name.function, function) && name.line == line;
}

static bool inlined_into(struct samples_rig *rig, const struct frame *frame, const char *function,
                         int64_t line)
{
    struct frame_name name, inlined[STACKS_INLINED_MAX];
    int error = stacks_name(store_stacks(rig->fixture.store), frame, &name);
    return error == 0 && stacks_inlined(&name, inlined) == 1 &&
           bytes_is(inlined[0].function, function) && inlined[0].line == line;
}

static void test_names(void **state)
{
    struct samples_rig *rig = *state;
    struct samples_rig_left left;
    struct symbolizer_name names[] = {
        {.address = APP_OFFSET + 0x100, .function = BYTES_LIT("inlined"), .line = 7},
        {.address = APP_OFFSET + 0x100, .function = BYTES_LIT("hot"), .line = 12},
        {.address = APP_OFFSET + 0x200, .function = BYTES_LIT("cold")}};
    struct symbolizer_message message = {.kind = SYMBOLIZER_NAMES,
                                         .names = {.n = 3, .names = names}};
    app_identity(message.names.identity);
    add_sample(rig, &left);
    assert_int_equal(samples_rig_requests(rig, SYMBOLIZER_NAMES_WANTED, NULL), 1);
    samples_rig_answer(rig, &message);
    assert_true(name_of(rig, &left.frames[0], "hot", 12));
    assert_true(inlined_into(rig, &left.frames[0], "inlined", 7));
    struct frame other = left.frames[0];
    other.address = APP_OFFSET + 0x200;
    assert_true(name_of(rig, &other, "cold", 0));

    /* A stack that is new, of addresses that are named already: nothing to ask. */
    struct record_parts parts = {
        .head = {.pid = RIG_PID}, .n_user = 2, .user = {APP + 0x100, APP + 0x201}};
    samples_rig_add(rig, &parts, 1);
    assert_int_equal(samples_rig_requests(rig, SYMBOLIZER_NAMES_WANTED, NULL), 0);
}

static void test_kernel_names(void **state)
{
    struct samples_rig *rig = *state;
    struct samples_rig_left left;
    struct symbolizer_name names[] = {{.address = 0x500, .function = BYTES_LIT("schedule")}};
    struct symbolizer_message message = {.kind = SYMBOLIZER_KERNEL_NAMES,
                                         .names = {.n = 1, .names = names}};
    samples_rig_answer(rig, &message); /* of a kernel not told of: nothing happens */
    samples_rig_answer(rig,
                       &(struct symbolizer_message){.kind = SYMBOLIZER_KERNEL,
                                                    .kernel = {.text_start = 0xffffffff81000000,
                                                               .text_end = 0xffffffff82000000}});
    struct record_parts parts = {
        .head = {.pid = RIG_PID}, .n_kernel = 1, .kernel = {0xffffffff81000500}};
    samples_rig_add(rig, &parts, 1);
    samples_rig_leave(rig, &left);
    assert_false(name_of(rig, &left.frames[0], "schedule", 0));
    samples_rig_answer(rig, &message);
    assert_true(name_of(rig, &left.frames[0], "schedule", 0));
    /* without a build id it has no file id */
    assert_false(samples_rig_executable(rig, left.frames[0].executable, "vmlinux")->htlhash_known);
}

/* A hostile symbolizer may tell of as many names as fit a message, of whatever it likes. */
static void test_names_of_nothing(void **state)
{
    struct samples_rig *rig = *state;
    struct symbolizer_name names[SYMBOLIZER_NAMES_MAX];
    for (size_t i = 0; i < SYMBOLIZER_NAMES_MAX; i++)
        names[i] = (struct symbolizer_name){.address = UINT64_MAX - i, .function = BYTES_LIT("f")};
    struct symbolizer_message message = {.kind = SYMBOLIZER_NAMES,
                                         .names = {.n = SYMBOLIZER_NAMES_MAX, .names = names}};
    samples_rig_answer(rig, &message);
    samples_rig_answer(rig, &(struct symbolizer_message){.kind = SYMBOLIZER_NAMES});
    samples_rig_answer(rig, &(struct symbolizer_message){.kind = SYMBOLIZER_EXECUTABLE,
                                                         .executable = {.found = 1}});
}

static void test_process_table(void **state)
{
    struct samples_rig *rig = *state;
    struct samples_rig_left left;
    struct symbolizer_message event = {.kind = SYMBOLIZER_EVENT,
                                       .event = samples_rig_mapping(300, APP, 0, "/bin/scanned")};
    samples_rig_answer(rig, &event);
    struct record_parts parts = {.head = {.pid = 300}, .n_user = 1, .user = {APP + 4}};
    samples_rig_add(rig, &parts, 1);
    samples_rig_leave(rig, &left);
    samples_rig_executable(rig, left.frames[0].executable, "/bin/scanned");

    samples_rig_answer(rig, &(struct symbolizer_message){.kind = SYMBOLIZER_GONE,
                                                         .process = {300, RECORD_T0 + 1}});
    process_table_expire(rig->table, RECORD_T0 + 2 * PROCESS_GRACE_NS);
    samples_rig_add(rig, &parts, 1);
    samples_rig_leave(rig, &left);
    assert_int_equal(left.frames[0].executable, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, samples_rig_setup, samples_rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_executable_after_sample),
        TEST(test_executable_before_sample),
        TEST(test_executable_not_found),
        TEST(test_names),
        TEST(test_kernel_names),
        TEST(test_names_of_nothing),
        TEST(test_process_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
