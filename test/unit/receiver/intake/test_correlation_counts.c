/* SPDX-License-Identifier: Apache-2.0 */
/* Samples become counts, and counts messages: of which samples, when, and with which stack id. */
#include "base/clock.h"
#include "base/stats.h"
#include "receiver/intake/correlation_counts.h"
#include "store/stacks/stacks_unfinished.h"
#include "test/support/fixtures/record_fixture.h"
#include "test/support/fixtures/store_fixture.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

#define PID  100
#define LATE (RECORD_T0 + CORRELATION_HOLD_NS) /* when nothing is held back any more */

struct bench {
    struct fixture fixture;
    struct correlation_counts *counts;
    struct buf messages;
};

static int set_up(void **state)
{
    static struct bench bench;
    bench = (struct bench){.messages = BUF_INIT(0)};
    fixture_make(&bench.fixture);
    fixture_open(&bench.fixture);
    assert_int_equal(correlation_counts_open(bench.fixture.store, &bench.counts), 0);
    *state = &bench;
    return 0;
}

static int tear_down(void **state)
{
    struct bench *bench = *state;
    correlation_counts_close(bench->counts);
    buf_close(&bench->messages);
    fixture_remove(&bench->fixture);
    return 0;
}

static struct record_header record(uint32_t pid, unsigned trace, unsigned root)
{
    struct record_header record = {
        .kind = RECORD_CPU, .context_source = CONTEXT_ELASTIC, .time_ns = RECORD_T0, .pid = pid};
    fixture_trace_id(trace, record.trace_id);
    fixture_span_id(root, record.local_root_id);
    return record;
}

static void add(struct bench *bench, const struct record_header *record, int64_t stack, size_t n)
{
    for (size_t i = 0; i < n; i++)
        correlation_counts_add(bench->counts, record, stack);
}

static size_t take(struct bench *bench, uint64_t now_ns)
{
    buf_clear(&bench->messages);
    fixture_begin(&bench->fixture);
    assert_int_equal(correlation_counts_take(bench->counts, now_ns, &bench->messages), 0);
    fixture_commit(&bench->fixture);
    return bench->messages.len / sizeof(struct correlation_message);
}

/* The count that was told for these; 0: none. */
static unsigned told(const struct bench *bench, const struct record_header *record,
                     const uint8_t stack_id[16])
{
    const struct correlation_message *messages = (const void *)bench->messages.data;
    for (size_t i = 0; i < bench->messages.len / sizeof(*messages); i++)
        if (messages[i].pid == record->pid &&
            memcmp(messages[i].said.trace_id, record->trace_id, 16) == 0 &&
            memcmp(messages[i].said.local_root_id, record->local_root_id, 8) == 0 &&
            memcmp(messages[i].said.stack_id, stack_id, 16) == 0)
            return messages[i].said.count;
    return 0;
}

static void public_id(struct bench *bench, int64_t stack, uint8_t id[16])
{
    fixture_begin(&bench->fixture);
    assert_int_equal(stacks_public_id(store_stacks(bench->fixture.store), stack, id), 0);
    fixture_commit(&bench->fixture);
}

static int64_t lost(const char *reason)
{
    char labels[64];
    snprintf(labels, sizeof(labels), "reason=\"%s\"", reason);
    return stats_find("spanprof_elastic_samples_lost_total", labels);
}

static void test_counts(void **state)
{
    struct bench *bench = *state;
    uint8_t id_1[16], id_2[16];
    int64_t stack_1 = fixture_stack(&bench->fixture, 1),
            stack_2 = fixture_stack(&bench->fixture, 2);
    struct record_header one = record(PID, 1, 1), other_root = record(PID, 1, 2),
                         other_trace = record(PID, 2, 1), other_process = record(PID + 1, 1, 1);
    add(bench, &one, stack_1, 3);
    add(bench, &other_root, stack_1, 4);
    add(bench, &other_trace, stack_1, 5);
    add(bench, &other_process, stack_1, 6);
    add(bench, &one, stack_2, 7);
    add(bench, &one, stack_1, 10);
    assert_int_equal(take(bench, LATE), 5);
    public_id(bench, stack_1, id_1);
    public_id(bench, stack_2, id_2);
    assert_int_equal(told(bench, &one, id_1), 13);
    assert_int_equal(told(bench, &other_root, id_1), 4);
    assert_int_equal(told(bench, &other_trace, id_1), 5);
    assert_int_equal(told(bench, &other_process, id_1), 6);
    assert_int_equal(told(bench, &one, id_2), 7);
    assert_int_equal(take(bench, LATE), 0); /* since the last message */
    add(bench, &one, stack_1, 2);
    assert_int_equal(take(bench, LATE), 1);
    assert_int_equal(told(bench, &one, id_1), 2);
}

static void test_not_counted(void **state)
{
    struct bench *bench = *state;
    int64_t stack = fixture_stack(&bench->fixture, 1);
    struct record_header no_root = record(PID, 1, 1), no_trace = no_root, off_cpu = no_root;
    memset(no_root.local_root_id, 0, 8);
    memset(no_trace.trace_id, 0, 16);
    off_cpu.kind = RECORD_OFF_CPU;
    add(bench, &no_root, stack, 1);
    add(bench, &no_trace, stack, 1);
    add(bench, &off_cpu, stack, 1);
    for (int source = 0; source < CONTEXT_SOURCES; source++) {
        struct record_header other = record(PID, 1, 1);
        other.context_source = (uint8_t)source;
        if (source != CONTEXT_ELASTIC)
            add(bench, &other, stack, 1);
    }
    assert_int_equal(take(bench, LATE), 0);
}

/* 16 bits a message. */
static void test_split(void **state)
{
    struct bench *bench = *state;
    struct record_header one = record(PID, 1, 1);
    int64_t stack = fixture_stack(&bench->fixture, 1);
    add(bench, &one, stack, 2 * UINT16_MAX + 7);
    assert_int_equal(take(bench, LATE), 3);
    const struct correlation_message *messages = (const void *)bench->messages.data;
    assert_int_equal(messages[0].said.count, UINT16_MAX);
    assert_int_equal(messages[1].said.count, UINT16_MAX);
    assert_int_equal(messages[2].said.count, 7);
    add(bench, &one, stack, UINT16_MAX);
    assert_int_equal(take(bench, LATE), 1);
}

/* Its executable is being read: soon the id is what it will be for all time. */
static void test_held_back(void **state)
{
    struct bench *bench = *state;
    static const uint8_t identity[16] = {7};
    struct stacks *stacks = store_stacks(bench->fixture.store);
    struct executable_facts facts = {.htlhash = {1, 2, 3}, .htlhash_known = true};
    struct record_header one = record(PID, 1, 1);
    struct fnv128 fnv;
    uint8_t id[16];
    int64_t executable, stack, dark;
    bool is_new;
    fixture_begin(&bench->fixture);
    assert_int_equal(stacks_executable(stacks, identity, &executable), 0);
    struct frame frame = {STACK_FRAME_NATIVE, executable, 77}, other = frame;
    other.address = 78;
    assert_int_equal(stacks_intern(stacks, &frame, 1, &stack, &is_new), 0);
    assert_int_equal(stacks_intern(stacks, &other, 1, &dark, &is_new), 0);
    fixture_commit(&bench->fixture);

    add(bench, &one, stack, 3);
    assert_int_equal(take(bench, LATE - 1), 0);
    add(bench, &one, stack, 1);
    assert_int_equal(take(bench, RECORD_T0), 0);
    fixture_begin(&bench->fixture);
    assert_int_equal(stacks_executable_facts(stacks, executable, &facts), 0);
    fixture_commit(&bench->fixture);
    assert_int_equal(take(bench, RECORD_T0), 1);
    fnv128_init(&fnv);
    fnv128_add(&fnv, facts.htlhash, 16);
    fnv128_add(&fnv, "77", 2);
    fnv128_finish(&fnv, id);
    assert_int_equal(told(bench, &one, id), 4);

    facts.htlhash_known = false; /* it cannot be read: told all the same */
    fixture_begin(&bench->fixture);
    assert_int_equal(stacks_executable_facts(stacks, executable, &facts), 0);
    fixture_commit(&bench->fixture);
    add(bench, &one, dark, 1);
    assert_int_equal(take(bench, LATE - 1), 0);
    assert_int_equal(take(bench, LATE), 1);
}

/* An id that no sample leaves with is of no use: it is waited for the promised one. */
static void test_promised(void **state)
{
    struct bench *bench = *state;
    struct stacks *stacks = store_stacks(bench->fixture.store);
    struct record_header one = record(PID, 1, 1);
    const struct frame frame = {STACK_FRAME_NATIVE, 0, 1};
    int64_t whole = fixture_stack(&bench->fixture, 1), first, second;
    uint8_t id[16], own[16];
    fixture_begin(&bench->fixture);
    assert_int_equal(stacks_open_frames(stacks, &frame, 1, 0, &first), 0);
    assert_int_equal(stacks_open_frames(stacks, &frame, 1, 0, &second), 0);
    fixture_commit(&bench->fixture);
    add(bench, &one, first, 2);
    add(bench, &one, second, 1);
    assert_int_equal(take(bench, LATE), 0);
    fixture_begin(&bench->fixture);
    assert_int_equal(stacks_finish_frames(stacks, first, whole), 0);
    fixture_commit(&bench->fixture);
    public_id(bench, whole, id);
    assert_int_equal(take(bench, LATE), 1);
    assert_int_equal(told(bench, &one, id), 2);
    stacks_close_frames(stacks, second, STACK_LATE);
    assert_int_equal(take(bench, LATE), 1);
    public_id(bench, second, own);
    assert_int_equal(told(bench, &one, own), 1);
}

static void test_limit(void **state)
{
    struct bench *bench = *state;
    int64_t stack = fixture_stack(&bench->fixture, 1), before = lost("full");
    for (unsigned trace = 1; trace <= CORRELATION_COUNTS_MAX; trace++) {
        struct record_header one = record(PID, trace, 1);
        add(bench, &one, stack, 1);
    }
    assert_int_equal(lost("full"), before);
    struct record_header more = record(PID, CORRELATION_COUNTS_MAX + 1, 1),
                         known = record(PID, 1, 1);
    add(bench, &more, stack, 3);
    add(bench, &known, stack, 3);
    assert_int_equal(lost("full"), before + 3);
    assert_int_equal(take(bench, LATE), CORRELATION_COUNTS_MAX);
    add(bench, &more, stack, 3);
    assert_int_equal(take(bench, LATE), 1);
}

/* Rows of a transaction that was rolled back may soon be those of other stacks. */
static void test_rolled_back(void **state)
{
    struct bench *bench = *state;
    struct record_header one = record(PID, 1, 1);
    int64_t stack = fixture_stack(&bench->fixture, 1), before = lost("rolled_back");
    add(bench, &one, stack, 5);
    assert_int_equal(store_begin(bench->fixture.store), 0);
    store_fail(bench->fixture.store, -EIO);
    assert_int_not_equal(store_end(bench->fixture.store), 0);
    add(bench, &one, fixture_stack(&bench->fixture, 1), 2);
    assert_int_equal(take(bench, LATE), 1);
    assert_int_equal(
        ((const struct correlation_message *)(const void *)bench->messages.data)->said.count, 2);
    assert_int_equal(lost("rolled_back"), before + 5);
}

static void test_forgotten_stack(void **state)
{
    struct bench *bench = *state;
    struct record_header one = record(PID, 1, 1);
    int64_t before = lost("stack");
    add(bench, &one, 4711, 5);
    assert_int_equal(take(bench, RECORD_T0), 0);
    assert_int_equal(lost("stack"), before + 5);
    add(bench, &one, 4711, 1);
    assert_int_equal(take(bench, LATE), 0);
    assert_int_equal(lost("stack"), before + 6);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_counts),      TEST(test_not_counted),     TEST(test_split),
        TEST(test_held_back),   TEST(test_promised),        TEST(test_limit),
        TEST(test_rolled_back), TEST(test_forgotten_stack),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
