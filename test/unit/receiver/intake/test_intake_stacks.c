/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks of records: whole ones, cut ones, and those whose rest the symbolizer finds. */
#include "test/support/fixtures/unfinished_stack.h"

/* ---- what the tick found ---- */

/* The instruction that was interrupted is where it is; a call lies before the address behind it. */
static void test_exact(void **state)
{
    struct samples_rig *rig = *state;
    struct samples_rig_left left;
    struct record_parts parts =
        samples_rig_user(4, (uint64_t[]){LIB + 0x100, LIB + 0x201, APP + 0x300, APP + 0x401});
    parts.interrupted = 2; /* by a signal */
    samples_rig_add(rig, &parts, 1);
    assert_int_equal(leave(rig, &left), 1);
    assert_int_equal(left.n_frames, 4);
    assert_frame(&left.frames[0], true, 0x100);
    assert_frame(&left.frames[1], true, 0x200);
    assert_frame(&left.frames[2], true, APP_OFFSET + 0x300);
    assert_frame(&left.frames[3], true, APP_OFFSET + 0x400);
}

static void test_cut(void **state)
{
    static const char *const reasons[UNWIND_ENDS] = {NULL,          "depth",       "memory",
                                                     "no_progress", "bad_address", "no_unwind_info",
                                                     "not_loaded",  "foreign"};
    struct samples_rig *rig = *state;
    struct samples_rig_left left;
    int64_t stacks[UNWIND_ENDS];
    for (int end = 0; end < UNWIND_ENDS; end++) {
        struct record_parts parts = samples_rig_user(1, (uint64_t[]){APP + 0x100});
        int64_t before = end ? truncated(reasons[end]) : 0;
        parts.head.end = (uint8_t)end;
        samples_rig_add(rig, &parts, 1);
        assert_int_equal(leave(rig, &left), 1);
        stacks[end] = left.sample.stack;
        if (!end)
            continue;
        assert_cut(&left, 1, (enum unwind_end)end);
        assert_int_equal(truncated(reasons[end]) - before, 1);
        assert_int_not_equal(stacks[end], stacks[end - 1]);
    }
    struct record_parts parts = samples_rig_user(1, (uint64_t[]){APP + 0x100});
    parts.head.flags |= RECORD_FLAG_TRUNCATED; /* and no reason */
    samples_rig_add(rig, &parts, 1);
    assert_int_equal(leave(rig, &left), 1);
    assert_int_equal(left.sample.stack, stacks[UNWIND_END_TRUNCATED]);
}

/* Kernel and user frames as many as there may be, and the mark behind them. */
static void test_deepest(void **state)
{
    struct samples_rig *rig = *state;
    static struct samples_rig_left left;
    static struct record_parts parts;
    parts = samples_rig_record(RIG_PID);
    parts.n_kernel = RECORD_MAX_KERNEL_FRAMES;
    parts.n_user = RECORD_MAX_USER_FRAMES;
    for (size_t i = 0; i < RECORD_MAX_USER_FRAMES; i++)
        parts.user[i] = APP + 0x10 * i;
    parts.head.end = UNWIND_END_TRUNCATED;
    samples_rig_add(rig, &parts, 1);
    assert_int_equal(leave(rig, &left), 1);
    assert_cut(&left, RECORD_MAX_FRAMES, UNWIND_END_TRUNCATED);
}

/* ---- promises ---- */

static void test_promised(void **state)
{
    struct samples_rig *rig = *state;
    struct samples_rig_left left;
    int64_t fulfilled =
        counted("spanprof_stacks_unfinished_total", "what=\"frames\",result=\"finished\"");
    int64_t cut = truncated("not_loaded");
    uint64_t ticket = add_unfinished(rig);
    assert_int_equal(leave(rig, &left), 0);
    answer_usual(rig, ticket);
    assert_int_equal(leave(rig, &left), 1);
    assert_int_equal(left.n_frames, 4);
    assert_frame(&left.frames[0], true, 0x100);
    assert_frame(&left.frames[1], true, 0x200);
    assert_frame(&left.frames[2], true, APP_OFFSET + 0x300);
    assert_frame(&left.frames[3], true, APP_OFFSET + 0x400);
    samples_rig_executable(rig, left.frames[3].executable, APP_PATH);
    assert_int_equal(
        counted("spanprof_stacks_unfinished_total", "what=\"frames\",result=\"finished\"") -
            fulfilled,
        1);
    assert_int_equal(counted("spanprof_stacks_unfinished", "what=\"frames\""), 0);
    assert_int_equal(truncated("not_loaded"), cut);

    /* The same stack, from a tick that had its rows. */
    int64_t promised = left.sample.stack, canonical;
    struct record_parts whole =
        samples_rig_user(4, (uint64_t[]){LIB + 0x100, LIB + 0x201, APP + 0x301, APP + 0x401});
    samples_rig_add(rig, &whole, 1);
    assert_int_equal(leave(rig, &left), 1);
    assert_int_equal(stacks_canonical(store_stacks(rig->fixture.store), promised, &canonical), 0);
    assert_int_equal(left.sample.stack, canonical);
}

/* With the request go the copy as it is, and the mappings that it points into. */
static void test_asked(void **state)
{
    struct samples_rig *rig = *state;
    struct copied *copied;
    struct symbolizer_message asked;
    const struct symbolizer_unwind_wanted *wanted = &asked.unwind_wanted;
    samples_rig_map(rig, RIG_PID, LIB + 0x100000, 0, "/usr/lib/unused.so");
    struct record_parts parts = unfinished(&copied);
    push(copied, LIB + 0x10000); /* behind the last byte: of a call that does not return */
    push(copied, LIB - 8);       /* no mapping */
    push(copied, UINT64_MAX);
    push(copied, APP + 0x900);
    parts.stack.len = sizeof(copied->stack) + copied->stack.size;
    samples_rig_add(rig, &parts, 1);
    assert_int_equal(samples_rig_requests(rig, SYMBOLIZER_UNWIND_WANTED, &asked), 1);
    assert_int_equal(wanted->pid, RIG_PID);
    assert_int_equal(wanted->stack.len, parts.stack.len);
    assert_memory_equal(wanted->stack.data, copied, wanted->stack.len);
    assert_int_equal(wanted->n, 2);
    assert_string_equal(wanted->mappings[0].mapping.path, APP_PATH);
    assert_int_equal(wanted->mappings[0].mapping.start, APP);
    assert_int_equal(wanted->mappings[0].mapping.length, 0x10000);
    assert_int_equal(wanted->mappings[0].mapping.file_offset, APP_OFFSET);
    assert_string_equal(wanted->mappings[1].mapping.path, LIB_PATH);
    assert_int_equal(wanted->mappings[1].mapping.start, LIB);
    assert_int_equal(wanted->mappings[1].pid, RIG_PID);
    free(copied);
}

/* A message takes so many mappings and no more; the one of pc is among them. */
static void test_asked_of_many(void **state)
{
    struct samples_rig *rig = *state;
    struct copied *copied = copied_at(APP + 0x301, true);
    struct record_parts parts = samples_rig_user(1, (uint64_t[]){LIB + 0x100});
    struct symbolizer_message asked;
    char path[600];
    bool has_pc = false;
    memset(path, 'x', sizeof(path));
    for (uint64_t i = 0; i < 2 * SYMBOLIZER_MAPPINGS_MAX; i++) {
        path[0] = '/';
        path[sizeof(path) - 1 - i] = 0; /* each another file */
        samples_rig_map(rig, RIG_PID, JIT + i * 0x10000, 0, path);
        push(copied, JIT + i * 0x10000 + 8);
    }
    while (copied->stack.size < RECORD_STACK_MAX)
        push(copied, JIT + 8);
    parts.head.end = UNWIND_END_WANTED;
    parts.stack = BYTES((const void *)copied, sizeof(*copied));
    samples_rig_add(rig, &parts, 1);
    assert_int_equal(samples_rig_requests(rig, SYMBOLIZER_UNWIND_WANTED, &asked), 1);
    assert_in_range(asked.unwind_wanted.n, SYMBOLIZER_MAPPINGS_MAX / 2, SYMBOLIZER_MAPPINGS_MAX);
    for (uint32_t i = 0; i < asked.unwind_wanted.n; i++) {
        const struct symbolizer_executable_ref *refs = asked.unwind_wanted.mappings;
        has_pc |= refs[i].mapping.start == APP;
        assert_true(!i || refs[i].mapping.start > refs[i - 1].mapping.start);
    }
    assert_true(has_pc);
    free(copied);
}

/* Names are asked for at once of what is known, and of the rest when it is. */
static void test_names(void **state)
{
    struct samples_rig *rig = *state;
    struct copied *copied;
    struct symbolizer_message asked;
    struct record_parts parts = unfinished(&copied);
    parts.user[0] = LIB + 0x1000;
    samples_rig_add(rig, &parts, 1);
    free(copied);
    assert_int_equal(samples_rig_requests(rig, SYMBOLIZER_NAMES_WANTED, &asked), 2);
    answer(rig, 1, UNWIND_END_OF_STACK, 3,
           (struct record_frame[]){record_frame_native(APP + 0x301, 1),
                                   record_frame_native(APP + 0x401, 1),
                                   record_frame_native(APP + 0x501, 1)});
    assert_int_equal(samples_rig_requests(rig, SYMBOLIZER_NAMES_WANTED, &asked), 1);
    assert_int_equal(asked.names_wanted.n, 2);
}

/* What the symbolizer could not follow either says so. */
static void test_answer_cut(void **state)
{
    struct samples_rig *rig = *state;
    struct samples_rig_left left;
    int64_t before = truncated("memory"), unknown = truncated("no_unwind_info");
    answer(rig, add_unfinished(rig), UNWIND_END_NO_MEMORY, 2,
           (struct record_frame[]){record_frame_native(APP + 0x301, 1),
                                   record_frame_native(JIT + 1, 1)});
    answer_nameless(rig);
    assert_int_equal(leave(rig, &left), 1);
    assert_cut(&left, 4, UNWIND_END_NO_MEMORY);
    assert_frame(&left.frames[3], false, JIT);
    assert_int_equal(truncated("memory") - before, 1);

    answer(rig, add_unfinished(rig), UNWIND_END_UNKNOWN, 0, NULL);
    assert_int_equal(leave(rig, &left), 1);
    assert_cut(&left, 3, UNWIND_END_UNKNOWN);
    assert_frame(&left.frames[2], true, APP_OFFSET + 0x300);
    assert_int_equal(truncated("no_unwind_info") - unknown, 1);
}

static void test_answer_exact(void **state)
{
    struct samples_rig *rig = *state;
    struct samples_rig_left left;
    answer(rig, add_unfinished(rig), UNWIND_END_OF_STACK, 3,
           (struct record_frame[]){record_frame_native(APP + 0x301, 1),
                                   record_frame_native(LIB + 0x500, 0),
                                   record_frame_native(APP + 0x401, 1)});
    assert_int_equal(leave(rig, &left), 1);
    assert_frame(&left.frames[3], true, 0x500);
    assert_frame(&left.frames[4], true, APP_OFFSET + 0x400);
}

static void test_answer_too_deep(void **state)
{
    struct samples_rig *rig = *state;
    static struct samples_rig_left left;
    static struct record_frame frames[RECORD_MAX_USER_FRAMES];
    for (size_t i = 0; i < RECORD_MAX_USER_FRAMES; i++)
        frames[i] = record_frame_native(APP + 16 * i + 1, 1);
    answer(rig, add_unfinished(rig), UNWIND_END_OF_STACK, RECORD_MAX_USER_FRAMES, frames);
    assert_int_equal(leave(rig, &left), 1);
    assert_cut(&left, RECORD_MAX_USER_FRAMES, UNWIND_END_TRUNCATED);
}

/* Nobody's ticket, one that was answered: nothing happens. */
static void test_answer_unasked(void **state)
{
    struct samples_rig *rig = *state;
    struct samples_rig_left left;
    answer_usual(rig, 4711);
    uint64_t ticket = add_unfinished(rig);
    answer_usual(rig, ticket);
    answer(rig, ticket, UNWIND_END_UNKNOWN, 0, NULL);
    assert_int_equal(leave(rig, &left), 1);
    assert_int_equal(left.n_frames, 4);
}

/* The process has ended meanwhile, and its pid is another's: its mappings are still known. */
static void test_process_gone(void **state)
{
    struct samples_rig *rig = *state;
    struct samples_rig_left left;
    uint64_t ticket = add_unfinished(rig);
    const struct process_event exec = {
        .kind = PROCESS_EXECED, .pid = RIG_PID, .time_ns = RECORD_T0 + 1000};
    assert_int_equal(process_table_apply(rig->table, &exec), 0);
    process_table_expire(rig->table, RECORD_T0 + QUESTIONS_FRAMES_NS);
    answer_usual(rig, ticket);
    assert_int_equal(leave(rig, &left), 1);
    assert_frame(&left.frames[3], true, APP_OFFSET + 0x400);
}

static void test_late(void **state)
{
    struct samples_rig *rig = *state;
    struct samples_rig_left left;
    int64_t late = unfinished_count("late"), cut = truncated("not_loaded");
    uint64_t ticket = add_unfinished(rig);
    assert_int_equal(intake_samples_expire(rig->samples, RECORD_T0 + QUESTIONS_FRAMES_NS - 1), 0);
    assert_int_equal(leave(rig, &left), 0);
    assert_int_equal(intake_samples_expire(rig->samples, RECORD_T0 + QUESTIONS_FRAMES_NS), 0);
    assert_int_equal(unfinished_count("late") - late, 1);
    assert_int_equal(truncated("not_loaded") - cut, 1);
    answer_usual(rig, ticket);
    assert_int_equal(leave(rig, &left), 1);
    assert_cut(&left, 3, UNWIND_END_WANTED);
    assert_frame(&left.frames[2], true, APP_OFFSET + 0x300);
}

/* Not asked: what the tick found is the stack, one for all such samples. */
static void test_not_asked(void **state)
{
    struct samples_rig *rig = *state;
    struct samples_rig_left left;
    struct copied *copied;
    int64_t unknown = unfinished_count("process_unknown");
    struct record_parts parts = unfinished(&copied);
    parts.head.pid = 555;
    samples_rig_add(rig, &parts, 1);
    assert_int_equal(leave(rig, &left), 1);
    assert_cut(&left, 3, UNWIND_END_WANTED);
    int64_t stack = left.sample.stack;
    samples_rig_add(rig, &parts, 1);
    assert_int_equal(leave(rig, &left), 1);
    assert_int_equal(left.sample.stack, stack);
    assert_int_equal(unfinished_count("process_unknown") - unknown, 2);
    parts.head.pid = 0; /* of another pid namespace */
    samples_rig_add(rig, &parts, 1);
    free(copied);
    parts = unfinished(&copied);
    parts.head.end = UNWIND_END_OF_STACK; /* the copy is for those who compare */
    parts.head.flags = 0;
    samples_rig_add(rig, &parts, 1);
    assert_int_equal(leave(rig, &left), 2);
    assert_int_equal(left.n_frames, 2);
    assert_int_equal(samples_rig_requests(rig, SYMBOLIZER_UNWIND_WANTED, NULL), 0);
    free(copied);
}

static void test_full(void **state)
{
    struct samples_rig *rig = *state;
    struct samples_rig_left left;
    struct copied *copied;
    struct record_parts parts = unfinished(&copied);
    int64_t full = unfinished_count("full");
    size_t n = 0;
    while (copied->stack.size < RECORD_STACK_MAX)
        push(copied, 0);
    parts.stack.len = sizeof(*copied);
    while (unfinished_count("full") == full && n++ < QUESTIONS_MAX)
        samples_rig_add(rig, &parts, 1);
    assert_in_range(n, QUESTIONS_BYTES_MAX / 40000, QUESTIONS_BYTES_MAX / RECORD_STACK_MAX);
    assert_int_equal(leave(rig, &left), 1);
    assert_cut(&left, 3, UNWIND_END_WANTED);
    assert_int_equal(intake_samples_expire(rig->samples, RECORD_T0 + QUESTIONS_FRAMES_NS),
                     0); /* room again */
    samples_rig_add(rig, &parts, 1);
    assert_int_equal(counted("spanprof_stacks_unfinished", "what=\"frames\""), 1);
    free(copied);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, samples_rig_setup, samples_rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_exact),          TEST(test_cut),
        TEST(test_deepest),        TEST(test_promised),
        TEST(test_asked),          TEST(test_asked_of_many),
        TEST(test_names),          TEST(test_answer_cut),
        TEST(test_answer_exact),   TEST(test_answer_too_deep),
        TEST(test_answer_unasked), TEST(test_process_gone),
        TEST(test_late),           TEST(test_not_asked),
        TEST(test_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
