/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records that another thread changes at full speed while they are read: against both ABIs, so that
 * few reads succeed, but those give no mixture of two states. An argument: seconds for each format
 * instead of 2.5 (a million reads take some ten minutes).
 */
#define FREQUENCY  1000
#define FOUND_MIN  10 /* fewer show nothing; how many there are in a round is chance */
#define ROUNDS_MAX 10
#include "contexts_fixture.h"

static uint32_t duration_ms = 2500;

struct torn_writer {
    pthread_t thread;
    void *record;
    bool elastic;
    uint64_t written;
};

/* All ids of a record are of one number, which never comes again. */
static void write_elastic(volatile struct elastic *record, uint64_t number)
{
    record->valid = 0;
    atomic_thread_fence(memory_order_seq_cst);
    memcpy((void *)record->trace_id, &number, 8);
    memcpy((void *)(record->trace_id + 8), &number, 8);
    memcpy((void *)record->span_id, &number, 8);
    memcpy((void *)record->local_root_id, &number, 8);
    atomic_thread_fence(memory_order_seq_cst);
    record->valid = 1;
}

static void write_otel(volatile struct published *record, uint64_t number)
{
    record->valid = 0;
    atomic_thread_fence(memory_order_seq_cst);
    memcpy((void *)record->trace_id, &number, 8);
    memcpy((void *)(record->trace_id + 8), &number, 8);
    memcpy((void *)record->span_id, &number, 8);
    atomic_thread_fence(memory_order_seq_cst);
    record->valid = 1;
}

static void *torn_main(void *argument)
{
    struct torn_writer *writer = argument;
    while (!stop_burning) {
        uint64_t number = 0x0101010101010101ULL + ++writer->written;
        if (writer->elastic)
            write_elastic(writer->record, number);
        else
            write_otel(writer->record, number);
    }
    return NULL;
}

struct mixed {
    uint32_t tid;
    unsigned found, torn, mixed;
    bool elastic;
};

static void judge_mixed(void *context, const struct record_header *record)
{
    struct mixed *mixed = context;
    if (record->tid != mixed->tid)
        return;
    mixed->torn += (record->flags & RECORD_FLAG_CONTEXT_TORN) != 0;
    if (!record->context_source)
        return;
    mixed->found++;
    if (memcmp(record->trace_id, record->trace_id + 8, 8) ||
        memcmp(record->trace_id, record->span_id, 8) ||
        (mixed->elastic && memcmp(record->trace_id, record->local_root_id, 8)))
        mixed->mixed++;
}

/* Each variable is tried as long as those before were torn. */
static void publish_often(struct fixture *fixture, uint8_t source)
{
    struct context_process process = {.count = CONTEXT_MAX_VARIABLES};
    for (int i = 0; i < CONTEXT_MAX_VARIABLES; i++)
        process.variables[i] = static_variable(source, &current_context);
    publish_reader(fixture, (uint32_t)getpid(), &process);
}

static void check_mixed(bool elastic)
{
    static struct published otel;
    static struct elastic record;
    struct fixture fixture;
    setup_size(&fixture, 4 << 20);
    otel = some_context(1);
    otel.attributes_size = 0;
    record = some_elastic();
    memset(otel.trace_id, 1, sizeof(otel.trace_id));
    memset(otel.span_id, 1, sizeof(otel.span_id));
    memset(record.trace_id, 1, sizeof(record.trace_id));
    memset(record.span_id, 1, sizeof(record.span_id));
    memset(record.local_root_id, 1, sizeof(record.local_root_id));
    struct torn_writer writer = {.record = elastic ? (void *)&record : (void *)&otel,
                                 .elastic = elastic};
    publish_often(&fixture, elastic ? CONTEXT_ELASTIC : CONTEXT_OTEL_THREAD);
    struct burner burner = {.context = writer.record, .cpu = -1};
    burner_start(&burner);
    assert_int_equal(pthread_create(&writer.thread, NULL, torn_main, &writer), 0);
    struct mixed mixed = {.tid = burner.tid, .elastic = elastic};
    for (int i = 0; i < ROUNDS_MAX && mixed.found < FOUND_MIN; i++)
        drain_for(&fixture, judge_mixed, &mixed, duration_ms);
    burner_stop(&burner);
    pthread_join(writer.thread, NULL);
    printf("%s: %u samples with ids, %u with torn reads, %u mixed; %llu written\n",
           elastic ? "elastic" : "otel", mixed.found, mixed.torn, mixed.mixed,
           (unsigned long long)writer.written);
    assert_true(mixed.found >= FOUND_MIN && mixed.torn > 0);
    assert_int_equal(mixed.mixed, 0);
    teardown(&fixture);
}

static void test_otel_record(void **state)
{
    (void)state;
    check_mixed(false);
}

static void test_elastic_record(void **state)
{
    (void)state;
    check_mixed(true);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_otel_record),
        cmocka_unit_test(test_elastic_record),
    };
    if (!bpf_test_possible())
        return BPF_TEST_SKIP;
    if (argc > 1)
        duration_ms = 1000 * (uint32_t)strtoul(argv[1], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
