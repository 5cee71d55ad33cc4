/* SPDX-License-Identifier: Apache-2.0 */
/* Ticks, contexts and their end, on the real kernel, with this program's own threads as the load.
 */
#include "sampler_fixture.h"

static void test_ticks_carry_the_context(void **state)
{
    struct fixture fixture;
    (void)state;
    setup_size(&fixture, 4 << 20);
    struct published context = some_context(0x40);
    struct burner burner = {.context = &context, .cpu = -1};
    struct context_process reader = own_reader();
    publish_reader(&fixture, (uint32_t)getpid(), &reader);
    burner_start(&burner);
    struct span_total total = {.tid = burner.tid, .expected = context};
    observe(&fixture, &total, 2000);
    burner_stop(&burner);
    assert_true(total.samples > 100);
    assert_int_equal(total.wrong, 0);
    assert_true(total.exact * 100 >= total.samples * 99);
    assert_true(total.attributes * 100 >= total.samples * 99);
    assert_int_equal(total.known, total.samples);
    assert_true(total.in_burn * 100 >= total.samples * 80);
    sampler_count(fixture.sampler);
    assert_true(stats_find("spanprof_samples_total", "") >= (int64_t)total.samples);
    assert_true(stats_find("spanprof_sample_contexts_total", "outcome=\"found\"") > 100);
    teardown(&fixture);
}

static void check_reader(struct fixture *fixture, const struct context_process *reader, bool works)
{
    struct published context = some_context(0x50);
    struct burner burner = {.context = &context, .cpu = -1};
    publish_reader(fixture, (uint32_t)getpid(), reader);
    burner_start(&burner);
    struct span_total total = {.tid = burner.tid, .expected = context};
    observe(fixture, &total, 500);
    burner_stop(&burner);
    assert_true(total.samples > 20);
    assert_int_equal(total.wrong, 0);
    assert_int_equal(works ? total.without : total.exact, 0);
}

/* The executable's own block, looked up in glibc's DTV as a library's would be. */
static void test_dynamic_tls(void **state)
{
    struct fixture fixture;
    (void)state;
    setup_size(&fixture, 4 << 20);
    char **dtv = *(char ***)(void *)(thread_pointer() + DTV_OFFSET);
    char *block = dtv[2]; /* entry 1, two words each */
    struct context_process reader = {.count = 2};
    reader.variables[0] = (struct context_variable){/* a module that this thread has not */
                                                    .source = CONTEXT_OTEL_THREAD,
                                                    .thread_local_model = THREAD_LOCAL_DYNAMIC,
                                                    .dtv_entry_size = 16,
                                                    .module = 1ULL << 40,
                                                    .dtv_offset = DTV_OFFSET};
    reader.variables[1] =
        (struct context_variable){.source = CONTEXT_OTEL_THREAD,
                                  .thread_local_model = THREAD_LOCAL_DYNAMIC,
                                  .dtv_entry_size = 16,
                                  .module = 1,
                                  .dtv_offset = DTV_OFFSET,
                                  .offset = (const char *)&current_context - block};
    check_reader(&fixture, &reader, true);
    teardown(&fixture);
}

static uint64_t own_start_ticks(void)
{
    char text[1024] = "";
    FILE *file = fopen("/proc/self/stat", "re");
    assert_non_null(file);
    assert_non_null(fgets(text, sizeof(text), file));
    fclose(file);
    unsigned long long ticks = 0;
    char *at = strrchr(text, ')') + 2;
    for (int field = 3; field < 22; field++)
        at = strchr(at, ' ') + 1;
    assert_int_equal(sscanf(at, "%llu", &ticks), 1);
    return ticks;
}

static void test_reader_of_another_start(void **state)
{
    struct fixture fixture;
    (void)state;
    setup_size(&fixture, 4 << 20);
    struct context_process reader = own_reader();
    reader.process_start_ns = own_start_ticks() * CONTEXT_START_TICK_NS;
    check_reader(&fixture, &reader, true);
    reader.process_start_ns += CONTEXT_START_TICK_NS;
    check_reader(&fixture, &reader, false);
    sampler_count(fixture.sampler);
    assert_true(stats_find("spanprof_sample_contexts_total", "outcome=\"stale\"") > 20);
    teardown(&fixture);
}

static void check_garbage(struct fixture *fixture, const char *what, struct published *context)
{
    struct burner burner = {.context = context, .cpu = -1};
    burner_start(&burner);
    struct span_total total = {.tid = burner.tid};
    memset(&total.expected, 0xff, sizeof(total.expected));
    observe(fixture, &total, 300);
    burner_stop(&burner);
    if (total.samples < 10 || total.without != total.samples)
        fail_msg("%s: %d samples, %d without ids", what, (int)total.samples, (int)total.without);
}

static void test_garbage_gives_no_ids(void **state)
{
    struct fixture fixture;
    (void)state;
    setup_size(&fixture, 4 << 20);
    struct context_process reader = own_reader();
    publish_reader(&fixture, (uint32_t)getpid(), &reader);
    struct published invalid = some_context(1), unset = some_context(2), half = some_context(3);
    invalid.valid = 2;
    unset.valid = 0;
    memset(half.span_id, 0, sizeof(half.span_id));
    char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_int_equal(munmap(pages + 4096, 4096), 0);
    struct published good = some_context(4);
    struct published *cut = (void *)(pages + 4096 - 20); /* ends outside */
    memcpy(cut, &good, 20);
    struct published *huge = (void *)(pages + 4096 - 64); /* its attributes end outside */
    struct published big = good;
    big.attributes_size = UINT16_MAX;
    check_garbage(&fixture, "wild pointer", (void *)0xdeadbeef000);
    check_garbage(&fixture, "non-canonical pointer", (void *)0xdeadbeefdeadbeef);
    check_garbage(&fixture, "kernel pointer", (void *)0xffffffff81000000);
    check_garbage(&fixture, "page zero", (void *)8);
    check_garbage(&fixture, "valid is 2", &invalid);
    check_garbage(&fixture, "valid is 0", &unset);
    check_garbage(&fixture, "trace id alone", &half);
    check_garbage(&fixture, "cut by the end of memory", cut);
    memcpy(huge, &big, 28);
    check_garbage(&fixture, "attributes beyond memory", huge);
    struct context_process wild = reader;
    wild.count = UINT32_MAX;
    for (int i = 0; i < CONTEXT_MAX_VARIABLES; i++)
        wild.variables[i] = (struct context_variable){.source = CONTEXT_OTEL_THREAD,
                                                      .thread_local_model = (uint8_t)i,
                                                      .offset = INT64_MIN + i,
                                                      .module = UINT64_MAX,
                                                      .dtv_offset = INT64_MAX,
                                                      .dtv_entry_size = 255};
    publish_reader(&fixture, (uint32_t)getpid(), &wild);
    check_garbage(&fixture, "reader that points anywhere", &good);
    munmap(pages, 4096);
    teardown(&fixture);
}

/* Attributes of any size are cut, not refused. */
static void test_long_attributes_are_cut(void **state)
{
    struct fixture fixture;
    (void)state;
    setup_size(&fixture, 4 << 20);
    struct context_process reader = own_reader();
    publish_reader(&fixture, (uint32_t)getpid(), &reader);
    struct published context = some_context(0x60);
    context.attributes_size = RECORD_MAX_ATTRIBUTES + 100;
    struct burner burner = {.context = &context, .cpu = -1};
    burner_start(&burner);
    struct span_total total = {.tid = burner.tid, .expected = context};
    total.expected.attributes_size = RECORD_MAX_ATTRIBUTES;
    observe(&fixture, &total, 400);
    burner_stop(&burner);
    assert_true(total.samples > 20);
    assert_int_equal(total.attributes, total.samples);
    teardown(&fixture);
}

/* The fixed-record style of the ABI: valid = 0, change, valid = 1, as fast as can be. */
static void switch_contexts(struct burner *burner)
{
    struct published *context = burner->context;
    for (int i = 0; i < 200000; i++) {
        context->valid = 0;
        atomic_signal_fence(memory_order_seq_cst);
        memset(context->trace_id, i & 1 ? 0x11 : 0x22, 16);
        memset(context->span_id, i & 1 ? 0x11 : 0x22, 8);
        atomic_signal_fence(memory_order_seq_cst);
        context->valid = 1;
        atomic_signal_fence(memory_order_seq_cst);
    }
}

static void judge_whole(void *context, const struct record_header *record)
{
    struct span_total *total = context;
    if (record->tid != total->tid)
        return;
    total->samples++;
    if (!record->context_source)
        total->without++;
    else if (!memcmp(record->trace_id, record->trace_id + 8, 8) &&
             !memcmp(record->trace_id, record->span_id, 8))
        total->exact++;
    else
        total->wrong++;
}

static void test_switching_is_never_read_mixed(void **state)
{
    struct fixture fixture;
    (void)state;
    setup_size(&fixture, 4 << 20);
    struct context_process reader = own_reader();
    publish_reader(&fixture, (uint32_t)getpid(), &reader);
    struct published context = some_context(0x11);
    memset(context.span_id, 0x11, 8);
    struct burner burner = {.context = &context, .cpu = -1, .step = switch_contexts};
    burner_start(&burner);
    struct span_total total = {.tid = burner.tid};
    for (int i = 0; i < 40; i++) {
        sleep_ms(50);
        ring_drain(fixture.ring, ring_position(fixture.ring), judge_whole, &total, NULL);
    }
    burner_stop(&burner);
    assert_true(total.exact > 50);
    assert_int_equal(total.wrong, 0);
    teardown(&fixture);
}

static void test_exit_and_exec_remove_the_reader(void **state)
{
    struct fixture fixture;
    (void)state;
    setup_size(&fixture, 1 << 20);
    struct context_process reader = own_reader();
    pid_t killed = fork();
    if (killed == 0)
        pause();
    int go[2];
    assert_int_equal(pipe(go), 0);
    pid_t execs = fork();
    if (execs == 0) {
        char byte;
        (void)!read(go[0], &byte, 1);
        execl("/bin/sleep", "sleep", "30", (char *)NULL);
        _exit(1);
    }
    publish_reader(&fixture, (uint32_t)killed, &reader);
    publish_reader(&fixture, (uint32_t)execs, &reader);
    publish_reader(&fixture, (uint32_t)getpid(), &reader);
    kill(killed, SIGKILL);
    assert_true(WAIT_FOR(!has_reader(&fixture, (uint32_t)killed), 2000));
    assert_true(has_reader(&fixture, (uint32_t)execs));
    assert_int_equal(write(go[1], "x", 1), 1);
    assert_true(WAIT_FOR(!has_reader(&fixture, (uint32_t)execs), 2000));
    kill(execs, SIGKILL);
    waitpid(killed, NULL, 0);
    waitpid(execs, NULL, 0);
    struct burner burner = {.cpu = -1};
    burner_start(&burner);
    burner_stop(&burner); /* one thread's end is not the process's */
    assert_true(has_reader(&fixture, (uint32_t)getpid()));
    close(go[0]);
    close(go[1]);
    teardown(&fixture);
}

#define RING_HEADER_BYTES 8 /* the kernel's, before each record */

struct drained {
    uint64_t records;
    uint64_t bytes; /* of the ring */
};

static int64_t lost_now(struct fixture *fixture)
{
    sampler_count(fixture->sampler);
    return stats_find("spanprof_samples_lost_total", "reason=\"ring_full\"");
}

static void count_record(void *context, const struct record_header *record)
{
    struct drained *drained = context;
    drained->records++;
    drained->bytes += RING_HEADER_BYTES + ((record->size + 7) & ~7u);
}

/* How many go in depends on their sizes, and those on whatever runs here. But each tick is either
 * in the ring or counted as lost, and one is lost only if there is no room. */
static void test_lost_are_counted(void **state)
{
    struct fixture fixture;
    struct drained all = {0}, more = {0};
    (void)state;
    int64_t stored = stats_find("spanprof_samples_total", "");
    setup_size(&fixture, 1); /* the smallest there is */
    assert_int_equal(sampler_ring_size(fixture.sampler), SAMPLER_RING_MIN);
    int64_t lost = lost_now(&fixture);
    struct burner burner = {.cpu = -1};
    burner_start(&burner);
    assert_true(WAIT_FOR(lost_now(&fixture) - lost > 10, 20000));
    burner_stop(&burner);
    cpu_events_close(&fixture.cpus); /* no tick any more */
    sampler_count(fixture.sampler);
    stored = stats_find("spanprof_samples_total", "") - stored;
    ring_drain(fixture.ring, ring_position(fixture.ring), count_record, &all, NULL);
    ring_drain(fixture.ring, ring_position(fixture.ring), count_record, &more, NULL);
    assert_int_equal(more.records, 0);
    assert_int_equal(all.records, stored);
    assert_true(all.bytes <= SAMPLER_RING_MIN);
    assert_true(all.bytes + RING_HEADER_BYTES + RECORD_MAX_SIZE > SAMPLER_RING_MIN);
    teardown(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ticks_carry_the_context),
        cmocka_unit_test(test_dynamic_tls),
        cmocka_unit_test(test_reader_of_another_start),
        cmocka_unit_test(test_garbage_gives_no_ids),
        cmocka_unit_test(test_long_attributes_are_cut),
        cmocka_unit_test(test_switching_is_never_read_mixed),
        cmocka_unit_test(test_exit_and_exec_remove_the_reader),
        cmocka_unit_test(test_lost_are_counted),
    };
    if (!bpf_test_possible())
        return BPF_TEST_SKIP;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
