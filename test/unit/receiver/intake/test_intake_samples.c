/* SPDX-License-Identifier: Apache-2.0 */
/* Records become samples: addresses places, processes facts. */
#include "base/stats.h"
#include "test/support/rigs/samples_rig.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#define KERNEL_TEXT UINT64_C(0xffffffff81000000)

static const uint8_t kernel_build_id[20] = {0xab, 0xcd, 1};

static void assert_frame(const struct frame *frame, enum frame_kind kind, bool has_executable,
                         uint64_t address)
{
    assert_int_equal(frame->kind, kind);
    assert_int_equal(frame->executable != 0, has_executable);
    assert_int_equal(frame->address, has_executable ? address : address % STACKS_PAGE_BYTES);
}

static void tell_kernel(struct samples_rig *rig, uint64_t text_start)
{
    samples_rig_answer(
        rig, &(struct symbolizer_message){.kind = SYMBOLIZER_KERNEL,
                                          .kernel = {.text_start = text_start,
                                                     .text_end = text_start + 0x1000000,
                                                     .build_id = BYTES(kernel_build_id, 20)}});
}

/* ---- frames ---- */

static void test_user_frames(void **state)
{
    struct samples_rig *rig = *state;
    struct samples_rig_left left;
    struct symbolizer_message asked;
    struct record_parts parts =
        samples_rig_user(3, (uint64_t[]){LIB + 0x100, APP + 0x204, APP + 0x100});
    samples_rig_add(rig, &parts, 1);
    assert_int_equal(samples_rig_leave(rig, &left), 1);
    assert_int_equal(left.n_frames, 3);
    assert_frame(&left.frames[0], STACK_FRAME_NATIVE, true, 0x100);
    assert_frame(&left.frames[1], STACK_FRAME_NATIVE, true, APP_OFFSET + 0x203); /* the call */
    assert_frame(&left.frames[2], STACK_FRAME_NATIVE, true, APP_OFFSET + 0x0ff);
    samples_rig_executable(rig, left.frames[0].executable, LIB_PATH);
    samples_rig_executable(rig, left.frames[1].executable, APP_PATH);
    assert_int_equal(left.frames[2].executable, left.frames[1].executable);

    assert_int_equal(samples_rig_requests(rig, SYMBOLIZER_NAMES_WANTED, &asked), 2);
    samples_rig_add(rig, &parts, 1); /* a known stack is not asked for again */
    assert_int_equal(samples_rig_requests(rig, SYMBOLIZER_NAMES_WANTED, NULL), 0);
}

/* Addresses of one executable go together, sorted, each once. */
static void test_names_wanted(void **state)
{
    struct samples_rig *rig = *state;
    struct symbolizer_message asked;
    struct record_parts parts[2] = {
        samples_rig_user(3, (uint64_t[]){APP + 0x900, APP + 0x101, APP + 0x501}),
        samples_rig_user(2, (uint64_t[]){APP + 0x700, APP + 0x101}),
    };
    samples_rig_add(rig, parts, 2);
    assert_int_equal(samples_rig_requests(rig, SYMBOLIZER_NAMES_WANTED, &asked), 1);
    assert_string_equal(asked.names_wanted.executable.mapping.path, APP_PATH);
    const uint64_t expected[] = {0x1100, 0x1500, 0x1700, 0x1900};
    assert_int_equal(asked.names_wanted.n, 4);
    for (size_t i = 0; i < 4; i++) { /* in the order of their bytes: little-endian */
        bool found = false;
        for (size_t j = 0; j < 4; j++)
            found |= asked.names_wanted.addresses[j] == expected[i];
        assert_true(found);
    }
}

/* Code made at run time, or mapped unheard: the tick found it executable. */
static void test_no_mapping(void **state)
{
    struct samples_rig *rig = *state;
    struct samples_rig_left left;
    struct record_parts parts =
        samples_rig_user(5, (uint64_t[]){APP, 0x5000, APP + 0x11, 0x1234, 0x7ffffffff000});
    samples_rig_add(rig, &parts, 1);
    samples_rig_leave(rig, &left);
    assert_int_equal(left.n_frames, 5);
    assert_frame(&left.frames[1], STACK_FRAME_NATIVE, false, 0x4fff);
    assert_frame(&left.frames[2], STACK_FRAME_NATIVE, true, APP_OFFSET + 0x10);
    assert_frame(&left.frames[3], STACK_FRAME_NATIVE, false, 0x1233);
    assert_frame(&left.frames[4], STACK_FRAME_NATIVE, false, 0x7fffffffefff);

    parts = samples_rig_user(3, (uint64_t[]){0x5000, 0x6000, 0});
    samples_rig_add(rig, &parts, 1);
    samples_rig_leave(rig, &left);
    assert_int_equal(left.n_frames, 3);
    assert_frame(&left.frames[0], STACK_FRAME_NATIVE, false, 0x5000);
    assert_frame(&left.frames[2], STACK_FRAME_NATIVE, false, 0);
}

static void test_empty_and_full_stack(void **state)
{
    struct samples_rig *rig = *state;
    struct record_parts parts = samples_rig_record(RIG_PID);
    samples_rig_add(rig, &parts, 1);
    parts.n_kernel = RECORD_MAX_KERNEL_FRAMES;
    parts.n_user = RECORD_MAX_USER_FRAMES;
    for (size_t i = 0; i < RECORD_MAX_KERNEL_FRAMES; i++) {
        parts.kernel[i] = KERNEL_TEXT + 0x10 * i;
        parts.user[i] = APP + 0x10 * i;
    }
    samples_rig_add(rig, &parts, 1);
    static struct samples_rig_left left;
    assert_int_equal(samples_rig_leave(rig, &left), 2);
    assert_int_equal(left.n_frames, RECORD_MAX_FRAMES);
}

static struct record_parts in_kernel(void)
{
    struct record_parts parts = samples_rig_user(2, (uint64_t[]){APP + 0x100, APP + 0x201});
    parts.n_kernel = 2;
    parts.kernel[0] = KERNEL_TEXT + 0x500;
    parts.kernel[1] = KERNEL_TEXT + 0x801;
    return parts;
}

static void test_kernel_frames(void **state)
{
    struct samples_rig *rig = *state;
    struct samples_rig_left left;
    struct symbolizer_message asked;
    struct record_parts parts = in_kernel();
    samples_rig_add(rig, &parts, 1); /* the symbolizer has not told of the kernel */
    samples_rig_leave(rig, &left);
    assert_frame(&left.frames[0], STACK_FRAME_KERNEL, false, KERNEL_TEXT + 0x500);
    assert_int_equal(samples_rig_requests(rig, SYMBOLIZER_KERNEL_NAMES_WANTED, NULL), 0);

    tell_kernel(rig, KERNEL_TEXT);
    samples_rig_add(rig, &parts, 1);
    samples_rig_leave(rig, &left);
    assert_int_equal(left.n_frames, 4);
    assert_frame(&left.frames[0], STACK_FRAME_KERNEL, true, 0x500);
    assert_frame(&left.frames[1], STACK_FRAME_KERNEL, true, 0x800);
    assert_frame(&left.frames[2], STACK_FRAME_NATIVE, true, APP_OFFSET + 0x100); /* exact */
    assert_frame(&left.frames[3], STACK_FRAME_NATIVE, true, APP_OFFSET + 0x200);
    assert_int_equal(samples_rig_requests(rig, SYMBOLIZER_KERNEL_NAMES_WANTED, &asked), 1);
    assert_int_equal(asked.names_wanted.n, 2);

    const struct executable_facts *facts =
        samples_rig_executable(rig, left.frames[0].executable, "vmlinux");
    assert_true(bytes_equal(facts->build_id, BYTES(kernel_build_id, 20)));
    assert_true(facts->htlhash_known);
    char hex[41];
    uint8_t expected[16];
    struct fnv128 fnv;
    bytes_to_hex(BYTES(kernel_build_id, 20), hex);
    fnv128_init(&fnv);
    fnv128_add(&fnv, hex, 40);
    fnv128_finish(&fnv, expected);
    assert_memory_equal(facts->htlhash, expected, 16);
}

static void test_kernel_addresses_hidden(void **state)
{
    struct samples_rig *rig = *state;
    struct samples_rig_left left;
    struct record_parts parts = in_kernel();
    tell_kernel(rig, 0);
    samples_rig_add(rig, &parts, 1);
    samples_rig_leave(rig, &left);
    assert_frame(&left.frames[0], STACK_FRAME_KERNEL, false, KERNEL_TEXT + 0x500);
    assert_int_equal(samples_rig_requests(rig, SYMBOLIZER_KERNEL_NAMES_WANTED, NULL), 0);

    tell_kernel(rig, KERNEL_TEXT + 0x600); /* and one below the text */
    samples_rig_add(rig, &parts, 1);
    samples_rig_leave(rig, &left);
    assert_frame(&left.frames[0], STACK_FRAME_KERNEL, false, KERNEL_TEXT + 0x500);
    assert_frame(&left.frames[1], STACK_FRAME_KERNEL, true, 0x200);
}

/* ---- processes ---- */

static void test_fields(void **state)
{
    struct samples_rig *rig = *state;
    struct samples_rig_left left;
    struct record_parts parts = samples_rig_record(RIG_PID);
    parts.head.kind = RECORD_OFF_CPU;
    parts.head.state = 2;
    parts.head.time_ns = RECORD_T0 + 5;
    samples_rig_add(rig, &parts, 1);
    samples_rig_leave(rig, &left);
    assert_int_equal(left.sample.time_unix_ns, FIXTURE_T0 + 5);
    assert_int_equal(left.sample.value_ns, 10000000);
    assert_int_equal(left.sample.period_ns, 10000000);
    assert_int_equal(left.sample.kind, SAMPLE_OFF_CPU);
    assert_int_equal(left.sample.state, 2);
    assert_int_equal(left.sample.cpu, 3);
    assert_int_equal(left.sample.tid, 8);
    assert_string_equal(left.sample.comm, "worker");
}

static void check_thread_name(struct samples_rig *rig, const char *name, const char *expected)
{
    struct samples_rig_left left;
    struct record_parts parts = samples_rig_record(RIG_PID);
    memset(parts.head.comm, 0, sizeof(parts.head.comm));
    memcpy(parts.head.comm, name, strnlen(name, sizeof(parts.head.comm)));
    samples_rig_add(rig, &parts, 1);
    assert_int_equal(samples_rig_leave(rig, &left), 1);
    assert_int_equal(strnlen(left.sample.comm, SAMPLE_COMM), strlen(expected));
    assert_memory_equal(left.sample.comm, expected, strlen(expected));
}

static void test_thread_names_are_utf8(void **state)
{
    struct samples_rig *rig = *state;
    check_thread_name(rig, "", "");
    check_thread_name(rig, "a\tb", "a\tb");
    check_thread_name(rig,
                      "gr\xc3\xb6\xc3\x9f"
                      "en-stra\xc3\x9f",
                      "gr\xc3\xb6\xc3\x9f"
                      "en-stra\xc3\x9f");
    check_thread_name(rig,
                      "gr\xc3\xb6\xc3\x9f"
                      "ere-stra\xc3",
                      "gr\xc3\xb6\xc3\x9f"
                      "ere-stra"); /* cut by the kernel */
    check_thread_name(rig,
                      "work\xff"
                      "er \xc3",
                      "work?er ");
    check_thread_name(rig, "\xff\xff", "??");
    check_thread_name(rig, "sixteen letters!", "sixteen letters!");
}

static void test_unknown_process(void **state)
{
    struct samples_rig *rig = *state;
    struct samples_rig_left left;
    struct record_parts parts = samples_rig_record(200);
    memcpy(parts.head.comm, "sixteen\x1b letters", 16); /* no NUL, and not to be shown as it is */
    parts.n_user = 1;
    parts.user[0] = APP; /* another process's */
    samples_rig_add(rig, &parts, 1);
    assert_int_equal(samples_rig_requests(rig, SYMBOLIZER_PROCESS_WANTED, NULL), 1);
    samples_rig_leave(rig, &left);
    assert_int_equal(left.facts.pid, 200);
    assert_int_equal(left.facts.own_pid, 7);
    assert_int_equal(left.facts.start_ns, 90000000200);
    assert_string_equal(left.executable_name, "sixteen? letters");
    assert_int_equal(left.facts.executable_path.len, 0);
    assert_frame(&left.frames[0], STACK_FRAME_NATIVE, false, APP);
}

static void test_kernel_thread(void **state)
{
    struct samples_rig *rig = *state;
    struct samples_rig_left left;
    struct record_parts parts = samples_rig_record(30);
    parts.head.flags = RECORD_FLAG_KERNEL_THREAD;
    memcpy(parts.head.comm, "kworker/3:1", 12);
    samples_rig_add(rig, &parts, 1);
    assert_int_equal(samples_rig_requests(rig, SYMBOLIZER_PROCESS_WANTED, NULL), 0);
    samples_rig_leave(rig, &left);
    assert_string_equal(left.executable_name, "kworker/3:1");

    parts = samples_rig_record(0); /* of a PID namespace that we do not see into */
    samples_rig_add(rig, &parts, 1);
    samples_rig_leave(rig, &left);
    assert_int_equal(left.facts.pid, 5000);
}

static void test_details(void **state)
{
    struct samples_rig *rig = *state;
    struct samples_rig_left before, after;
    struct record_parts parts = samples_rig_record(RIG_PID);
    samples_rig_add(rig, &parts, 1);
    samples_rig_leave(rig, &before);
    assert_string_equal(before.executable_path, APP_PATH); /* by its first mapping */
    samples_rig_details(rig, "/opt/\xff\nshop");
    samples_rig_add(rig, &parts, 1);
    samples_rig_leave(rig, &after);
    assert_int_not_equal(after.sample.process, before.sample.process);
    assert_string_equal(after.executable_path, "/opt/??shop");
    assert_string_equal(after.executable_name, "??shop");
    assert_int_equal(after.facts.start_ns, 90000000000);
    samples_rig_add(rig, &parts, 1); /* remembered */
    samples_rig_leave(rig, &before);
    assert_int_equal(after.sample.process, before.sample.process);
}

/* ---- when the store forgets ---- */

static void test_executable_forgotten(void **state)
{
    struct samples_rig *rig = *state;
    struct samples_rig_left left;
    struct record_parts parts = samples_rig_user(1, (uint64_t[]){APP + 0x100});
    struct stacks *stacks = store_stacks(rig->fixture.store);
    samples_rig_add(rig, &parts, 1);
    samples_rig_leave(rig, &left);
    int64_t before = left.frames[0].executable;
    const struct executable_facts *facts;
    assert_int_equal(samples_rig_requests(rig, SYMBOLIZER_NAMES_WANTED, NULL), 1);
    samples_rig_forget_executables(rig);
    assert_int_not_equal(stacks_executable_get(stacks, before, &facts), 0);
    samples_rig_add(rig, &parts, 1); /* though the process table remembers the row */
    samples_rig_leave(rig, &left);
    assert_int_not_equal(left.frames[0].executable, before);
    samples_rig_executable(rig, left.frames[0].executable, APP_PATH);
    assert_int_equal(samples_rig_requests(rig, SYMBOLIZER_NAMES_WANTED, NULL), 1);
}

static void test_rolled_back(void **state)
{
    struct samples_rig *rig = *state;
    struct samples_rig_left left;
    struct record_made made;
    struct record_parts parts = samples_rig_user(1, (uint64_t[]){APP + 0x100});
    struct store *store = rig->fixture.store;
    uint64_t generation = store_generation(store);
    fixture_begin(&rig->fixture);
    assert_int_equal(join_batch_begin(store_join(store)), 0);
    assert_int_equal(intake_samples_add(rig->samples, record_make(&made, &parts), 0), 0);
    assert_int_equal(join_batch_commit(store_join(store)), 0);
    store_fail(store, -EIO);
    assert_int_equal(store_end(store), -EIO);
    assert_int_not_equal(store_generation(store), generation);

    intake_samples_forget(rig->samples);
    samples_rig_add(rig, &parts, 1);
    assert_int_equal(samples_rig_leave(rig, &left), 1);
    assert_int_equal(left.facts.pid, RIG_PID);
    samples_rig_executable(rig, left.frames[0].executable, APP_PATH);
    assert_int_equal(samples_rig_requests(rig, SYMBOLIZER_NAMES_WANTED, NULL), 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, samples_rig_setup, samples_rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_user_frames),     TEST(test_names_wanted),
        TEST(test_no_mapping),      TEST(test_empty_and_full_stack),
        TEST(test_kernel_frames),   TEST(test_kernel_addresses_hidden),
        TEST(test_fields),          TEST(test_thread_names_are_utf8),
        TEST(test_unknown_process), TEST(test_kernel_thread),
        TEST(test_details),         TEST(test_executable_forgotten),
        TEST(test_rolled_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
