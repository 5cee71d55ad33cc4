/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks of records: whole ones, cut ones, and those whose rest the analyst finds. */
#include "base/stats.h"
#include "receiver/intake_stacks.h"
#include "store/id_set.h"
#include "test/support/fail_alloc.h"
#include "test/support/samples_rig.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#define JIT UINT64_C(0x7e0000000000) /* mapped by nobody */

/* ---- records ---- */

struct copied {
    struct record_stack stack;
    uint64_t words[RECORD_STACK_MAX / 8];
};

static struct copied *copied_at(uint64_t pc, bool is_return)
{
    struct copied *copied = calloc(1, sizeof(*copied));
    assert_non_null(copied);
    copied->stack =
        (struct record_stack){.pc = pc, .start = 0x7ffd00000000, .is_return = is_return};
    return copied;
}

static void push(struct copied *copied, uint64_t word)
{
    copied->words[copied->stack.size / 8] = word;
    copied->stack.size += 8;
}

static struct record_parts with_user(size_t n, const uint64_t *user)
{
    struct record_parts parts = samples_rig_record(RIG_PID);
    parts.n_user = n;
    memcpy(parts.user, user, n * sizeof(*user));
    return parts;
}

/* Two frames, the rest wanted from APP + 0x301 on, a return address. */
static struct record_parts unfinished(struct copied **copied)
{
    struct record_parts parts = with_user(2, (uint64_t[]){LIB + 0x100, LIB + 0x201});
    *copied = copied_at(APP + 0x301, true);
    push(*copied, 0);
    push(*copied, APP + 0x401);
    parts.head.end = UNWIND_END_WANTED;
    parts.head.flags |= RECORD_FLAG_TRUNCATED;
    parts.stack = BYTES((const void *)*copied, sizeof((*copied)->stack) + (*copied)->stack.size);
    return parts;
}

static uint64_t add_unfinished(struct samples_rig *rig)
{
    struct copied *copied;
    struct analyst_message asked;
    struct record_parts parts = unfinished(&copied);
    samples_rig_add(rig, &parts, 1);
    assert_int_equal(samples_rig_requests(rig, ANALYST_UNWIND_WANTED, &asked), 1);
    free(copied);
    return asked.unwind_wanted.ticket;
}

/* ---- answers ---- */

static void answer(struct samples_rig *rig, uint64_t ticket, enum unwind_end end, size_t n,
                   struct analyst_unwound_frame *frames)
{
    samples_rig_answer(rig, &(struct analyst_message){.kind = ANALYST_UNWOUND,
                                                      .unwound = {.ticket = ticket,
                                                                  .end = (uint8_t)end,
                                                                  .n = (uint32_t)n,
                                                                  .frames = frames}});
}

static void answer_usual(struct samples_rig *rig, uint64_t ticket)
{
    answer(rig, ticket, UNWIND_END_OF_STACK, 2,
           (struct analyst_unwound_frame[]){{APP + 0x301, 1}, {APP + 0x401, 1}});
}

/* The process gives no names to code that lies in no file. */
static void answer_nameless(struct samples_rig *rig)
{
    struct analyst_message asked;
    assert_int_equal(samples_rig_requests(rig, ANALYST_CODE_WANTED, &asked), 1);
    samples_rig_answer(rig, &(struct analyst_message){
                                .kind = ANALYST_CODE,
                                .code = {.ticket = asked.code_wanted.ticket, .pid = RIG_PID}});
}

/* Samples that a profile window would take. */
static size_t leave(struct samples_rig *rig, struct samples_rig_left *last)
{
    return samples_rig_leave_settled(rig, last);
}

static int64_t counted(const char *name, const char *labels)
{
    int64_t n = stats_find(name, labels);
    assert_true(n >= 0);
    return n;
}

static int64_t truncated(const char *reason)
{
    char labels[64];
    snprintf(labels, sizeof(labels), "reason=\"%s\"", reason);
    return counted("spanprof_stacks_truncated_total", labels);
}

static int64_t given_up(const char *reason)
{
    char labels[64];
    snprintf(labels, sizeof(labels), "reason=\"%s\"", reason);
    return counted("spanprof_stacks_promises_given_up_total", labels);
}

static int64_t not_promised(const char *reason)
{
    char labels[64];
    snprintf(labels, sizeof(labels), "reason=\"%s\"", reason);
    return counted("spanprof_stacks_not_promised_total", labels);
}

static void assert_frame(const struct frame *frame, bool has_executable, uint64_t address)
{
    assert_int_equal(frame->kind, STACK_FRAME_NATIVE);
    assert_int_equal(frame->executable != 0, has_executable);
    assert_int_equal(frame->address, address);
}

static void assert_cut(const struct samples_rig_left *left, size_t n, enum unwind_end end)
{
    assert_int_equal(left->n_frames, n + 1);
    assert_true(frame_is_truncation(&left->frames[n]));
    assert_int_equal(left->frames[n].address, end);
}

/* ---- what the tick found ---- */

/* The instruction that was interrupted is where it is; a call lies before the address behind it. */
static void test_exact(void **state)
{
    struct samples_rig *rig = *state;
    struct samples_rig_left left;
    struct record_parts parts =
        with_user(4, (uint64_t[]){LIB + 0x100, LIB + 0x201, APP + 0x300, APP + 0x401});
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
        struct record_parts parts = with_user(1, (uint64_t[]){APP + 0x100});
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
    struct record_parts parts = with_user(1, (uint64_t[]){APP + 0x100});
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
    assert_cut(&left, RECORD_MAX_FRAME_WORDS, UNWIND_END_TRUNCATED);
}

/* ---- promises ---- */

static void test_promised(void **state)
{
    struct samples_rig *rig = *state;
    struct samples_rig_left left;
    int64_t fulfilled = counted("spanprof_stacks_promises_fulfilled_total", "");
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
    assert_int_equal(counted("spanprof_stacks_promises_fulfilled_total", "") - fulfilled, 1);
    assert_int_equal(counted("spanprof_stacks_promises_open", ""), 0);
    assert_int_equal(truncated("not_loaded"), cut);

    /* The same stack, from a tick that had its rows. */
    int64_t promised = left.sample.stack, canonical;
    struct record_parts whole =
        with_user(4, (uint64_t[]){LIB + 0x100, LIB + 0x201, APP + 0x301, APP + 0x401});
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
    struct analyst_message asked;
    const struct analyst_unwind_wanted *wanted = &asked.unwind_wanted;
    samples_rig_map(rig, RIG_PID, LIB + 0x100000, 0, "/usr/lib/unused.so");
    struct record_parts parts = unfinished(&copied);
    push(copied, LIB + 0x10000); /* behind the last byte: of a call that does not return */
    push(copied, LIB - 8);       /* no mapping */
    push(copied, UINT64_MAX);
    push(copied, APP + 0x900);
    parts.stack.len = sizeof(copied->stack) + copied->stack.size;
    samples_rig_add(rig, &parts, 1);
    assert_int_equal(samples_rig_requests(rig, ANALYST_UNWIND_WANTED, &asked), 1);
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
    struct record_parts parts = with_user(1, (uint64_t[]){LIB + 0x100});
    struct analyst_message asked;
    char path[600];
    bool has_pc = false;
    memset(path, 'x', sizeof(path));
    for (uint64_t i = 0; i < 2 * ANALYST_MAPPINGS_MAX; i++) {
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
    assert_int_equal(samples_rig_requests(rig, ANALYST_UNWIND_WANTED, &asked), 1);
    assert_in_range(asked.unwind_wanted.n, ANALYST_MAPPINGS_MAX / 2, ANALYST_MAPPINGS_MAX);
    for (uint32_t i = 0; i < asked.unwind_wanted.n; i++) {
        const struct analyst_executable_ref *refs = asked.unwind_wanted.mappings;
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
    struct analyst_message asked;
    struct record_parts parts = unfinished(&copied);
    parts.user[0] = LIB + 0x1000;
    samples_rig_add(rig, &parts, 1);
    free(copied);
    assert_int_equal(samples_rig_requests(rig, ANALYST_NAMES_WANTED, &asked), 2);
    answer(rig, 1, UNWIND_END_OF_STACK, 3,
           (struct analyst_unwound_frame[]){{APP + 0x301, 1}, {APP + 0x401, 1}, {APP + 0x501, 1}});
    assert_int_equal(samples_rig_requests(rig, ANALYST_NAMES_WANTED, &asked), 1);
    assert_int_equal(asked.names_wanted.n, 2);
}

/* What the analyst could not follow either says so. */
static void test_answer_cut(void **state)
{
    struct samples_rig *rig = *state;
    struct samples_rig_left left;
    int64_t before = truncated("memory"), unknown = truncated("no_unwind_info");
    answer(rig, add_unfinished(rig), UNWIND_END_NO_MEMORY, 2,
           (struct analyst_unwound_frame[]){{APP + 0x301, 1}, {JIT + 1, 1}});
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
           (struct analyst_unwound_frame[]){{APP + 0x301, 1}, {LIB + 0x500, 0}, {APP + 0x401, 1}});
    assert_int_equal(leave(rig, &left), 1);
    assert_frame(&left.frames[3], true, 0x500);
    assert_frame(&left.frames[4], true, APP_OFFSET + 0x400);
}

static void test_answer_too_deep(void **state)
{
    struct samples_rig *rig = *state;
    static struct samples_rig_left left;
    static struct analyst_unwound_frame frames[RECORD_MAX_USER_FRAMES];
    for (size_t i = 0; i < RECORD_MAX_USER_FRAMES; i++)
        frames[i] = (struct analyst_unwound_frame){APP + 16 * i + 1, 1};
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
    process_table_expire(rig->table, RECORD_T0 + STACKS_PROMISE_NS);
    answer_usual(rig, ticket);
    assert_int_equal(leave(rig, &left), 1);
    assert_frame(&left.frames[3], true, APP_OFFSET + 0x400);
}

static void test_late(void **state)
{
    struct samples_rig *rig = *state;
    struct samples_rig_left left;
    int64_t late = given_up("late"), cut = truncated("not_loaded");
    uint64_t ticket = add_unfinished(rig);
    samples_expire(rig->samples, RECORD_T0 + STACKS_PROMISE_NS - 1);
    assert_int_equal(leave(rig, &left), 0);
    samples_expire(rig->samples, RECORD_T0 + STACKS_PROMISE_NS);
    assert_int_equal(given_up("late") - late, 1);
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
    int64_t unknown = not_promised("process_unknown");
    struct record_parts parts = unfinished(&copied);
    parts.head.pid = 555;
    samples_rig_add(rig, &parts, 1);
    assert_int_equal(leave(rig, &left), 1);
    assert_cut(&left, 3, UNWIND_END_WANTED);
    int64_t stack = left.sample.stack;
    samples_rig_add(rig, &parts, 1);
    assert_int_equal(leave(rig, &left), 1);
    assert_int_equal(left.sample.stack, stack);
    assert_int_equal(not_promised("process_unknown") - unknown, 2);
    parts.head.pid = 0; /* of another pid namespace */
    samples_rig_add(rig, &parts, 1);
    free(copied);
    parts = unfinished(&copied);
    parts.head.end = UNWIND_END_OF_STACK; /* the copy is for those who compare */
    parts.head.flags = 0;
    samples_rig_add(rig, &parts, 1);
    assert_int_equal(leave(rig, &left), 2);
    assert_int_equal(left.n_frames, 2);
    assert_int_equal(samples_rig_requests(rig, ANALYST_UNWIND_WANTED, NULL), 0);
    free(copied);
}

static void test_full(void **state)
{
    struct samples_rig *rig = *state;
    struct samples_rig_left left;
    struct copied *copied;
    struct record_parts parts = unfinished(&copied);
    int64_t full = not_promised("full");
    size_t n = 0;
    while (copied->stack.size < RECORD_STACK_MAX)
        push(copied, 0);
    parts.stack.len = sizeof(*copied);
    while (not_promised("full") == full && n++ < STACKS_PROMISED_MAX)
        samples_rig_add(rig, &parts, 1);
    assert_in_range(n, STACKS_PROMISED_BYTES / 40000, STACKS_PROMISED_BYTES / RECORD_STACK_MAX);
    assert_int_equal(leave(rig, &left), 1);
    assert_cut(&left, 3, UNWIND_END_WANTED);
    samples_expire(rig->samples, RECORD_T0 + STACKS_PROMISE_NS); /* room again */
    samples_rig_add(rig, &parts, 1);
    assert_int_equal(counted("spanprof_stacks_promises_open", ""), 1);
    free(copied);
}

/* ---- when the store forgets ---- */

static void test_rolled_back(void **state)
{
    struct samples_rig *rig = *state;
    struct samples_rig_left left;
    struct store *store = rig->fixture.store;
    int64_t before = given_up("rolled_back");
    uint64_t ticket = add_unfinished(rig); /* this one is committed */
    fixture_begin(&rig->fixture);
    store_fail(store, -EIO);
    assert_int_equal(store_end(store), -EIO);
    samples_forget(rig->samples);
    assert_int_equal(given_up("rolled_back") - before, 1);
    assert_int_equal(leave(rig, &left), 1);
    assert_cut(&left, 3, UNWIND_END_WANTED);
    uint64_t second = add_unfinished(rig);
    assert_int_not_equal(second, ticket); /* though rows come again */
    answer(rig, ticket, UNWIND_END_UNKNOWN, 0, NULL);
    assert_int_equal(leave(rig, &left), 0);
    answer_usual(rig, second);
    assert_int_equal(leave(rig, &left), 1);
    assert_int_equal(left.n_frames, 4);
}

static void forget_executables(struct samples_rig *rig)
{
    struct stacks *stacks = store_stacks(rig->fixture.store);
    for (int generation = 0; generation < 4; generation++) {
        struct id_set none = {0};
        fixture_begin(&rig->fixture);
        assert_int_equal(stacks_collect_begin(stacks, FIXTURE_T0, &none), 0);
        for (int step = 0; step < 10; step++)
            assert_int_equal(stacks_collect(stacks), 0);
        fixture_commit(&rig->fixture);
    }
}

static void test_executable_forgotten(void **state)
{
    struct samples_rig *rig = *state;
    struct samples_rig_left left;
    int64_t before = given_up("executable_forgotten");
    uint64_t ticket = add_unfinished(rig);
    forget_executables(rig);
    answer_usual(rig, ticket);
    assert_int_equal(given_up("executable_forgotten") - before, 1);
    samples_rig_leave_settled(rig, NULL); /* its stack is no more */
    struct copied *copied;
    struct analyst_message asked;
    struct record_parts parts = unfinished(&copied);
    samples_rig_add(rig, &parts, 1); /* though the process table remembers the rows */
    free(copied);
    assert_int_equal(samples_rig_requests(rig, ANALYST_UNWIND_WANTED, &asked), 2); /* in vain */
    answer_usual(rig, asked.unwind_wanted.ticket - 1);
    assert_int_equal(leave(rig, &left), 0);
    answer_usual(rig, asked.unwind_wanted.ticket);
    assert_int_equal(leave(rig, &left), 1);
    assert_int_equal(left.n_frames, 4);
}

/* ---- without memory ---- */

/* As jobs of the writer are: what fails is rolled back. */
static int add_in_batch(struct samples_rig *rig, const struct record_header *record)
{
    struct store *store = rig->fixture.store;
    int error = store_begin(store);
    if (error)
        return error;
    error = join_batch_begin(store_join(store));
    error = error ? error : samples_add(rig->samples, record, (int64_t)(FIXTURE_T0 - RECORD_T0));
    error = error ? error : join_batch_commit(store_join(store));
    samples_want_names(rig->samples);
    if (error)
        store_fail(store, error);
    return store_end(store);
}

static int answer_in_batch(struct samples_rig *rig, uint64_t ticket)
{
    struct store *store = rig->fixture.store;
    struct analyst_unwound_frame frames[] = {{APP + 0x301, 1}, {APP + 0x401, 1}};
    int error = store_begin(store);
    if (error)
        return error;
    error = samples_answer(
        rig->samples,
        &(struct analyst_message){.kind = ANALYST_UNWOUND,
                                  .unwound = {.ticket = ticket, .n = 2, .frames = frames}});
    if (error)
        store_fail(store, error);
    return store_end(store);
}

static bool run_with(struct samples_rig *rig, unsigned nth_fails)
{
    static struct record_made made;
    struct samples_rig_left left;
    struct copied *copied;
    struct record_parts parts = unfinished(&copied);
    const struct record_header *record = record_make(&made, &parts);
    fail_alloc_at(nth_fails);
    int not_added = add_in_batch(rig, record);
    if (not_added)
        samples_forget(rig->samples);
    int not_answered = answer_in_batch(rig, 1);
    if (not_answered)
        samples_forget(rig->samples);
    bool hit = fail_alloc_hit();
    free(copied);
    samples_expire(rig->samples, RECORD_T0 + STACKS_PROMISE_NS);
    assert_int_equal(counted("spanprof_stacks_promises_open", ""), 0);
    assert_int_equal(leave(rig, &left), not_added ? 0 : 1);
    if (!not_added)
        assert_true(left.n_frames == 4); /* whole, or two, that of pc, and the mark */
    return hit;
}

static void test_no_memory(void **state)
{
    unsigned n = 1;
    (void)state;
    for (bool hit = true; hit; n++) {
        void *rig;
        samples_rig_setup(&rig);
        hit = run_with(rig, n);
        samples_rig_teardown(&rig);
    }
    assert_in_range(n, 20, 500);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, samples_rig_setup, samples_rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_exact),
        TEST(test_cut),
        TEST(test_deepest),
        TEST(test_promised),
        TEST(test_asked),
        TEST(test_asked_of_many),
        TEST(test_names),
        TEST(test_answer_cut),
        TEST(test_answer_exact),
        TEST(test_answer_too_deep),
        TEST(test_answer_unasked),
        TEST(test_process_gone),
        TEST(test_late),
        TEST(test_not_asked),
        TEST(test_full),
        TEST(test_rolled_back),
        TEST(test_executable_forgotten),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
