/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of code that lies in no file: asked for, named as its process has it, and no more so when
 * it may have moved. */
#include "agent-bpf/record_frame.h"
#include "base/stats.h"
#include "receiver/intake/intake_code.h"
#include "receiver/intake/intake_stacks.h"
#include "store/stacks/stacks.h"
#include "test/support/rigs/samples_rig.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#define JIT UINT64_C(0x7e0000000000) /* mapped from no file */

/* ---- records, and what the symbolizer has of them ---- */

static struct record_parts with_user(uint64_t time_ns, size_t n, const uint64_t *user)
{
    struct record_parts parts = samples_rig_record(RIG_PID);
    parts.head.time_ns = RECORD_T0 + time_ns;
    parts.n_user = n;
    if (n)
        memcpy(parts.user, user, n * sizeof(*user));
    return parts;
}

/* hot(), called by outer(), called by a file. */
static void add_usual(struct samples_rig *rig, uint64_t time_ns)
{
    struct record_parts parts =
        with_user(time_ns, 3, (uint64_t[]){JIT + 0x108, JIT + 0x201, APP + 0x301});
    samples_rig_add(rig, &parts, 1);
}

/* 0: nothing was asked for. */
static uint64_t asked_for(struct samples_rig *rig, struct symbolizer_message *asked)
{
    size_t n = samples_rig_requests(rig, SYMBOLIZER_CODE_WANTED, asked);
    assert_in_range(n, 0, 1);
    if (!n)
        return 0;
    assert_int_equal(asked->code_wanted.pid, RIG_PID);
    return asked->code_wanted.ticket;
}

static uint64_t ticket_of(struct samples_rig *rig)
{
    struct symbolizer_message asked;
    return asked_for(rig, &asked);
}

static void answer(struct samples_rig *rig, uint64_t ticket, uint32_t n,
                   struct symbolizer_code_range *ranges)
{
    samples_rig_answer(
        rig, &(struct symbolizer_message){.kind = SYMBOLIZER_CODE,
                                          .code = {.ticket = ticket,
                                                   .pid = RIG_PID,
                                                   .map = ranges ? CODE_MAP_READ : CODE_MAP_NONE,
                                                   .n = n,
                                                   .ranges = ranges}});
}

#define NAMED(offset, size, name)                                                                  \
    {                                                                                              \
        JIT + (offset), JIT + (offset) + (size)-1,                                                 \
        {                                                                                          \
            (const uint8_t *)(name), sizeof(name) - 1                                              \
        }                                                                                          \
    }

static void answer_usual(struct samples_rig *rig, uint64_t ticket)
{
    answer(
        rig, ticket, 2,
        (struct symbolizer_code_range[]){NAMED(0x100, 0x10, "hot"), NAMED(0x200, 0x10, "outer")});
}

/* How many samples a profile window would take. */
static size_t leave(struct samples_rig *rig, struct samples_rig_left *last)
{
    return samples_rig_leave_settled(rig, last);
}

static void assert_named(struct samples_rig *rig, const struct frame *frame, const char *function)
{
    struct frame_name name;
    assert_true(frame_is_named(frame));
    assert_int_equal(stacks_name(store_stacks(rig->fixture.store), frame, &name), 0);
    assert_true(bytes_is(name.function, function));
}

static void assert_address(const struct frame *frame, uint64_t address)
{
    assert_int_equal(frame->kind, STACK_FRAME_NATIVE);
    assert_int_equal(frame->executable, 0);
    assert_int_equal(frame->address, address % STACKS_PAGE_BYTES);
}

/* ---- tests ---- */

static uint64_t native(uint64_t address)
{
    return record_frame_native(address, true).words[0];
}

static void test_named(void **state)
{
    struct samples_rig *rig = *state;
    struct samples_rig_left left;
    struct symbolizer_message asked;
    add_usual(rig, 0);
    uint64_t ticket = asked_for(rig, &asked);
    assert_true(ticket);
    assert_int_equal(asked.code_wanted.n, 2);
    assert_true(asked.code_wanted.frames[0].words[0] == native(JIT + 0x108));
    assert_true(asked.code_wanted.frames[1].words[0] ==
                native(JIT + 0x200)); /* the call, not behind it */
    assert_int_equal(leave(rig, &left), 0);
    answer_usual(rig, ticket);
    assert_int_equal(leave(rig, &left), 1);
    assert_int_equal(left.n_frames, 3);
    assert_named(rig, &left.frames[0], "hot");
    assert_named(rig, &left.frames[1], "outer");
    assert_int_equal(left.frames[2].address, APP_OFFSET + 0x300);
    int64_t stack = left.sample.stack;

    /* Elsewhere in what is known by now: the same stack, and nobody is asked. */
    struct record_parts parts =
        with_user(5, 3, (uint64_t[]){JIT + 0x10f, JIT + 0x210, APP + 0x301});
    samples_rig_add(rig, &parts, 1);
    assert_int_equal(ticket_of(rig), 0);
    assert_int_equal(leave(rig, &left), 1);
    int64_t canonical;
    assert_int_equal(stacks_canonical(store_stacks(rig->fixture.store), stack, &canonical), 0);
    assert_int_equal(left.sample.stack, canonical);
}

/* What is asked for once is each address. */
static void test_recursion(void **state)
{
    struct samples_rig *rig = *state;
    static struct samples_rig_left left;
    static struct record_parts parts;
    struct symbolizer_message asked;
    parts = samples_rig_record(RIG_PID);
    parts.head.time_ns = RECORD_T0;
    parts.n_user = RECORD_MAX_USER_FRAMES;
    parts.n_kernel = RECORD_MAX_KERNEL_FRAMES;
    for (size_t i = 0; i < RECORD_MAX_USER_FRAMES; i++)
        parts.user[i] = JIT + 0x105 + i % 2;
    parts.head.end = UNWIND_END_TRUNCATED;
    samples_rig_add(rig, &parts, 1);
    uint64_t ticket = asked_for(rig, &asked);
    assert_int_equal(asked.code_wanted.n, 2);
    answer(rig, ticket, 1, (struct symbolizer_code_range[]){NAMED(0x100, 0x10, "hot")});
    assert_int_equal(leave(rig, &left), 1);
    assert_int_equal(left.n_frames, RECORD_MAX_FRAMES + 1);
    assert_named(rig, &left.frames[RECORD_MAX_KERNEL_FRAMES], "hot");
    assert_named(rig, &left.frames[RECORD_MAX_FRAMES - 1], "hot");
    assert_true(frame_is_truncation(&left.frames[RECORD_MAX_FRAMES]));

    for (size_t i = 0; i < RECORD_MAX_USER_FRAMES; i++)
        parts.user[i] = JIT + 0x1001 + 0x10 * i;
    samples_rig_add(rig, &parts, 1);
    ticket = asked_for(rig, &asked);
    assert_int_equal(asked.code_wanted.n, RECORD_MAX_USER_FRAMES);
    answer(rig, ticket, 1, (struct symbolizer_code_range[]){NAMED(0x1000, 0x10000, "all")});
    assert_int_equal(leave(rig, &left), 1);
    assert_named(rig, &left.frames[RECORD_MAX_FRAMES - 1], "all");
}

/* Code moves: what was known a while ago is asked for again, and told samples keep their names. */
static void test_moved(void **state)
{
    struct samples_rig *rig = *state;
    struct samples_rig_left left;
    add_usual(rig, 0);
    answer_usual(rig, ticket_of(rig));
    add_usual(rig, CODE_KEEP_NS - 1);
    assert_int_equal(ticket_of(rig), 0);
    add_usual(rig, CODE_KEEP_NS);
    uint64_t ticket = ticket_of(rig);
    assert_true(ticket);
    answer(
        rig, ticket, 2,
        (struct symbolizer_code_range[]){NAMED(0x100, 0x20, "new"), NAMED(0x200, 0x10, "outer")});
    add_usual(rig, CODE_KEEP_NS + 1);
    assert_int_equal(ticket_of(rig), 0);
    assert_int_equal(leave(rig, &left), 4);
    assert_named(rig, &left.frames[0], "new");
    assert_int_equal(samples_rig_leave(rig, &left), 0);
}

/* One that names nothing is asked ever more rarely. */
static void test_nameless_process(void **state)
{
    struct samples_rig *rig = *state;
    struct samples_rig_left left;
    uint64_t time_ns = 0, wait_ns = CODE_NONE_NS;
    for (int i = 0; i < 5; i++) {
        add_usual(rig, time_ns);
        uint64_t ticket = ticket_of(rig);
        assert_true(ticket);
        answer(rig, ticket, 0, NULL);
        add_usual(rig, time_ns + wait_ns - 1);
        assert_int_equal(ticket_of(rig), 0);
        assert_int_equal(leave(rig, &left), 2);
        assert_address(&left.frames[0], JIT + 0x108);
        time_ns += wait_ns;
        wait_ns = i + 1 < CODE_NONE_DOUBLED ? 2 * wait_ns : wait_ns;
    }
    add_usual(rig, time_ns); /* now it does */
    answer_usual(rig, ticket_of(rig));
    assert_int_equal(leave(rig, &left), 1);
    assert_named(rig, &left.frames[0], "hot");
}

/* Nothing is named in a gap, and nobody is asked for what lies in it. */
static void test_nameless_code(void **state)
{
    struct samples_rig *rig = *state;
    struct samples_rig_left left;
    add_usual(rig, 0);
    answer(rig, ticket_of(rig), 2,
           (struct symbolizer_code_range[]){NAMED(0x110, 0x1000, "outer"), NAMED(0, 0x110, "")});
    assert_int_equal(leave(rig, &left), 1);
    assert_address(&left.frames[0], JIT + 0x108);
    assert_named(rig, &left.frames[1], "outer");
    struct record_parts parts = with_user(5, 1, (uint64_t[]){JIT + 0x77});
    samples_rig_add(rig, &parts, 1);
    assert_int_equal(ticket_of(rig), 0);
}

/* Stacks of one batch ask together, for each frame once, and one answer is for all of them. */
static void test_one_request(void **state)
{
    struct samples_rig *rig = *state;
    struct samples_rig_left left;
    struct symbolizer_message asked;
    const struct record_parts parts[] = {
        with_user(0, 3, (uint64_t[]){JIT + 0x108, JIT + 0x201, APP + 0x301}),
        with_user(1, 2, (uint64_t[]){JIT + 0x201, JIT + 0x109}),
        with_user(2, 2, (uint64_t[]){APP + 0x301, JIT + 0x201})};
    samples_rig_add(rig, parts, 3);
    uint64_t ticket = asked_for(rig, &asked);
    assert_true(ticket);
    /* 0x108 as the place of a tick, 0x200 as that of a call; then the other way round */
    assert_int_equal(asked.code_wanted.n, 3);
    assert_int_equal(leave(rig, &left), 0);
    answer_usual(rig, ticket);
    assert_int_equal(leave(rig, &left), 3);
    assert_named(rig, &left.frames[1], "outer");
    assert_int_equal(stats_find("spanprof_stacks_unfinished", "what=\"frames\""), 0);
}

#define MANY 50 /* frames: two such stacks go into one request, three do not */

static void test_full_request(void **state)
{
    struct samples_rig *rig = *state;
    struct symbolizer_message asked;
    struct record_parts parts[3];
    uint64_t user[MANY];
    for (size_t i = 0; i < 3; i++) {
        for (size_t at = 0; at < MANY; at++)
            user[at] = JIT + 0x1000 * (i + 1) + 0x10 * at;
        parts[i] = with_user(i, MANY, user);
    }
    samples_rig_add(rig, parts, 3);
    assert_int_equal(samples_rig_requests(rig, SYMBOLIZER_CODE_WANTED, &asked), 2);
    assert_int_equal(asked.code_wanted.n, MANY);
    answer(rig, asked.code_wanted.ticket, 0, NULL);
    assert_int_equal(stats_find("spanprof_stacks_unfinished", "what=\"frames\""), 2);
    samples_rig_roll_back(rig); /* those that still wait */
    answer(rig, asked.code_wanted.ticket - 1, 0, NULL);
    assert_int_equal(stats_find("spanprof_stacks_unfinished", "what=\"frames\""), 0);
}

static struct record_parts unfinished(struct record_stack *stack)
{
    *stack = (struct record_stack){.pc = APP + 0x301, .start = 0x7ffd00000000, .is_return = 1};
    struct record_parts parts = with_user(0, 1, (uint64_t[]){LIB + 0x100});
    parts.head.end = UNWIND_END_WANTED;
    parts.head.flags |= RECORD_FLAG_TRUNCATED;
    parts.stack = BYTES((const void *)stack, sizeof(*stack));
    return parts;
}

/* What the symbolizer unwound may be code without a file: then its names are still to come. */
static void test_unwound(void **state)
{
    struct samples_rig *rig = *state;
    struct samples_rig_left left;
    struct record_stack stack;
    struct symbolizer_message asked;
    struct record_parts parts = unfinished(&stack);
    samples_rig_add(rig, &parts, 1);
    assert_int_equal(samples_rig_requests(rig, SYMBOLIZER_UNWIND_WANTED, &asked), 1);
    struct record_frame frames[] = {record_frame_native(APP + 0x301, 1),
                                    record_frame_native(JIT + 0x109, 1)};
    uint64_t ticket = asked.unwind_wanted.ticket;
    answer(rig, ticket, 0, NULL); /* to what was not asked */
    assert_int_equal(leave(rig, &left), 0);
    const struct symbolizer_message unwound = {
        .kind = SYMBOLIZER_UNWOUND,
        .unwound = {.ticket = ticket, .end = UNWIND_END_NO_MEMORY, .n = 2, .frames = frames}};
    samples_rig_answer(rig, &unwound);
    uint64_t next = ticket_of(rig);
    assert_true(next);
    samples_rig_answer(rig, &unwound); /* again: too late */
    assert_int_equal(leave(rig, &left), 0);
    assert_int_equal(stats_find("spanprof_stacks_unfinished", "what=\"frames\""), 1);
    answer_usual(rig, next);
    assert_int_equal(leave(rig, &left), 1);
    assert_int_equal(left.n_frames, 4);
    assert_named(rig, &left.frames[2], "hot");
    assert_true(frame_is_truncation(&left.frames[3]));
    assert_int_equal(stats_find("spanprof_stacks_unfinished", "what=\"frames\""), 0);
}

/* Nobody answers: the addresses are what is known. */
static void test_late(void **state)
{
    struct samples_rig *rig = *state;
    struct samples_rig_left left;
    add_usual(rig, 0);
    uint64_t ticket = ticket_of(rig);
    fixture_begin(&rig->fixture);
    assert_int_equal(intake_samples_expire(rig->samples, RECORD_T0 + QUESTIONS_FRAMES_NS), 0);
    fixture_commit(&rig->fixture);
    assert_int_equal(leave(rig, &left), 1);
    assert_int_equal(left.n_frames, 3);
    assert_address(&left.frames[0], JIT + 0x108);
    answer_usual(rig, ticket);
    assert_int_equal(leave(rig, &left), 0);
}

/* Another program has other code at that address. */
static void test_other_program(void **state)
{
    struct samples_rig *rig = *state;
    struct samples_rig_left left;
    add_usual(rig, 0);
    answer_usual(rig, ticket_of(rig));
    struct process_event exec = {.kind = PROCESS_EXECED, .time_ns = RECORD_T0 + 10, .pid = RIG_PID};
    assert_int_equal(process_table_apply(rig->table, &exec), 0);
    struct process_event mapped = samples_rig_mapping(RIG_PID, APP, APP_OFFSET, APP_PATH);
    mapped.time_ns = RECORD_T0 + 20;
    assert_int_equal(process_table_apply(rig->table, &mapped), 0);
    add_usual(rig, 30);
    assert_true(ticket_of(rig));
    assert_int_equal(leave(rig, &left), 1); /* the first */
    assert_named(rig, &left.frames[0], "hot");

    struct record_parts parts = with_user(30, 1, (uint64_t[]){JIT + 0x108});
    parts.head.pid = 4711; /* of which no mapping is known */
    samples_rig_add(rig, &parts, 1);
    assert_int_equal(ticket_of(rig), 0);
}

static void test_rolled_back(void **state)
{
    struct samples_rig *rig = *state;
    struct samples_rig_left left;
    add_usual(rig, 0);
    answer_usual(rig, ticket_of(rig));
    intake_samples_forget(rig->samples); /* rowids of names are void */
    add_usual(rig, 5);
    uint64_t ticket = ticket_of(rig);
    assert_true(ticket);
    answer_usual(rig, ticket);
    assert_int_equal(leave(rig, &left), 2);
    assert_named(rig, &left.frames[0], "hot");
}

/* ---- the cache by itself ---- */

static int64_t forgotten(const char *limit)
{
    char labels[64];
    snprintf(labels, sizeof(labels), "limit=\"%s\"", limit);
    return stats_find("spanprof_code_forgotten_total", labels);
}

static void tell_of(struct samples_rig *rig, struct code *code, uint64_t cgroup_id, uint32_t pid,
                    uint64_t start, uint64_t last)
{
    const struct code_program program = {.pid = pid, .since_ns = 1, .cgroup_id = cgroup_id};
    struct symbolizer_code_range range = {start, last, BYTES_LIT("f")};
    const struct symbolizer_code told = {.map = CODE_MAP_READ, .n = 1, .ranges = &range};
    fixture_begin(&rig->fixture);
    assert_int_equal(intake_code_answer(code, &program, 1, &told, store_stacks(rig->fixture.store)),
                     0);
    fixture_commit(&rig->fixture);
}

static void tell(struct samples_rig *rig, struct code *code, uint32_t pid, uint64_t start,
                 uint64_t last)
{
    tell_of(rig, code, 0, pid, start, last);
}

static enum code_state state_of(struct code *code, uint32_t pid, uint64_t address)
{
    int64_t name;
    return intake_code_find(code, &(struct code_program){.pid = pid, .since_ns = 1}, 1, address,
                            &name);
}

/* Names in the perf map of a runtime that is the only one of its process are of its type. */
static void test_types(void **state)
{
    struct samples_rig *rig = *state;
    struct stacks *stacks = store_stacks(rig->fixture.store);
    struct symbolizer_code_range range = {0x10, 0x1f, BYTES_LIT("f")};
    const struct frame_name name = {.function = range.function};
    const struct symbolizer_code told = {
        .map = CODE_MAP_READ, .runtime = RUNTIME_BEAM, .n = 1, .ranges = &range};
    const struct code_program program = {.pid = 1, .since_ns = 1};
    int64_t beam = 0, found = 0;
    struct code *code;
    assert_false(intake_code_open(&code));
    fixture_begin(&rig->fixture);
    assert_int_equal(intake_code_answer(code, &program, 1, &told, stacks), 0);
    assert_int_equal(stacks_named(stacks, BYTES_LIT("beam"), &name, 1, &beam), 0);
    fixture_commit(&rig->fixture);
    assert_true(intake_code_find(code, &program, 1, 0x10, &found) == CODE_NAMED && found == beam);
    intake_code_close(code);
}

static void test_limits(void **state)
{
    struct samples_rig *rig = *state;
    struct code *code;
    int64_t ranges = forgotten("ranges"), processes = forgotten("processes");
    assert_int_equal(intake_code_open(&code), 0);
    for (unsigned i = 0; i < CODE_RANGES_MAX; i++)
        tell(rig, code, 1, 0x10 * i, 0x10 * i + 7);
    assert_int_equal(state_of(code, 1, 7), CODE_NAMED);
    assert_int_equal(state_of(code, 1, 8), CODE_UNKNOWN);
    assert_int_equal(state_of(code, 1, 0x10 * CODE_RANGES_MAX - 16), CODE_NAMED);
    assert_int_equal(state_of(code, 1, 0x10 * CODE_RANGES_MAX), CODE_UNKNOWN);
    assert_int_equal(forgotten("ranges"), ranges);
    tell(rig, code, 1, 0x10 * CODE_RANGES_MAX, 0x10 * CODE_RANGES_MAX);
    assert_int_equal(forgotten("ranges") - ranges, 1);
    assert_int_equal(state_of(code, 1, 7), CODE_UNKNOWN);
    assert_int_equal(state_of(code, 1, 0x10 * CODE_RANGES_MAX), CODE_NAMED);

    tell(rig, code, 2, 0, 0);
    assert_int_equal(state_of(code, 1, 0x10 * CODE_RANGES_MAX), CODE_NAMED); /* used again */
    for (uint32_t pid = 3; pid <= CODE_PROCESSES_MAX + 1; pid++)
        tell(rig, code, pid, 0, 0);
    assert_int_equal(forgotten("processes") - processes, 1);
    assert_int_equal(state_of(code, 2, 0), CODE_UNKNOWN);
    assert_int_equal(state_of(code, 1, 0x10 * CODE_RANGES_MAX), CODE_NAMED);
    intake_code_close(code);
}

/* A cgroup with processes without end drops its own, also if another one's is older. */
static void test_tenants(void **state)
{
    struct samples_rig *rig = *state;
    struct code *code;
    assert_int_equal(intake_code_open(&code), 0);
    tell_of(rig, code, 1, 1, 0, 0);
    for (uint32_t pid = 2; pid <= 2 * CODE_PROCESSES_MAX; pid++)
        tell_of(rig, code, 2, pid, 0, 0);
    assert_int_equal(state_of(code, 1, 0), CODE_NAMED);
    assert_int_equal(state_of(code, 2, 0), CODE_UNKNOWN);
    assert_int_equal(state_of(code, 2 * CODE_PROCESSES_MAX, 0), CODE_NAMED);
    intake_code_close(code);
}

/* Whatever overlaps what is told goes. */
static void test_overlaps(void **state)
{
    struct samples_rig *rig = *state;
    struct code *code;
    assert_int_equal(intake_code_open(&code), 0);
    for (unsigned i = 1; i <= 5; i++)
        tell(rig, code, 1, 0x10 * i, 0x10 * i + 7);
    tell(rig, code, 1, 0x27, 0x40);
    const struct {
        uint64_t address;
        enum code_state state;
    } cases[] = {{0x17, CODE_NAMED},   {0x20, CODE_UNKNOWN}, {0x26, CODE_UNKNOWN},
                 {0x27, CODE_NAMED},   {0x38, CODE_NAMED},   {0x40, CODE_NAMED},
                 {0x41, CODE_UNKNOWN}, {0x50, CODE_NAMED},   {0x58, CODE_UNKNOWN}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        assert_int_equal(state_of(code, 1, cases[i].address), cases[i].state);
    tell(rig, code, 1, 0, UINT64_MAX);
    assert_int_equal(state_of(code, 1, 0x58), CODE_NAMED);
    assert_int_equal(state_of(code, 1, UINT64_MAX), CODE_NAMED);
    intake_code_close(code);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, samples_rig_setup, samples_rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_named),         TEST(test_recursion),        TEST(test_moved),
        TEST(test_nameless_code), TEST(test_nameless_process), TEST(test_unwound),
        TEST(test_late),          TEST(test_other_program),    TEST(test_rolled_back),
        TEST(test_limits),        TEST(test_tenants),          TEST(test_types),
        TEST(test_overlaps),      TEST(test_one_request),      TEST(test_full_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
