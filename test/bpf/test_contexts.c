/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every form of context but the OTel one alone (test_sampler.c), on the real kernel: this program's
 * own threads publish it in their memory, the test writes the entry that the symbolizer would.
 */
#include "contexts_fixture.h"

/* ---- Elastic ---- */

static struct expected expect_elastic(const struct elastic *record)
{
    struct expected expected = {.source = CONTEXT_ELASTIC, .trace_flags = record->flags};
    memcpy(expected.trace_id, record->trace_id, 16);
    memcpy(expected.span_id, record->span_id, 8);
    memcpy(expected.local_root_id, record->local_root_id, 8);
    return expected;
}

static void test_elastic(void **state)
{
    struct fixture fixture;
    (void)state;
    setup_size(&fixture, 4 << 20);
    publish_source(&fixture, CONTEXT_ELASTIC);
    struct elastic good = some_elastic(), bad = good;
    struct expected expected = expect_elastic(&good);
    check(&fixture, "static", &good, NULL, &expected);
    good.minor_version = 7; /* what was appended does not matter */
    good.valid = 200;
    memset(good.local_root_id, 0, 8);
    expected = expect_elastic(&good);
    check(&fixture, "later version, no root", &good, NULL, &expected);

    check(&fixture, "no record", NULL, NULL, &nothing);
    bad.present = 0;
    check(&fixture, "no trace", &bad, NULL, &nothing);
    bad.valid = 0;
    check(&fixture, "being changed", &bad, NULL, &torn);
    bad = good;
    bad.present = 2;
    check(&fixture, "neither present nor not", &bad, NULL, &torn);
    bad = good;
    bad.minor_version = 0;
    check(&fixture, "no version", &bad, NULL, &torn);
    bad = good;
    memset(bad.trace_id, 0, 16);
    check(&fixture, "no trace id", &bad, NULL, &torn);
    bad = good;
    memset(bad.span_id, 0, 8);
    check(&fixture, "no span id", &bad, NULL, &torn);
    check(&fixture, "wild pointer", (void *)0xdeadbeef000, NULL, &torn);
    check(&fixture, "kernel pointer", (void *)0xffffffff81000000, NULL, &torn);
    teardown(&fixture);
}

static void test_elastic_in_a_library(void **state)
{
    struct fixture fixture;
    (void)state;
    setup_size(&fixture, 4 << 20);
    char **dtv = *(char ***)(void *)(thread_pointer() + DTV_OFFSET);
    struct context_process process = {.count = 1};
    process.variables[0] = (struct context_variable){
        .source = CONTEXT_ELASTIC,
        .thread_local_model = THREAD_LOCAL_DYNAMIC,
        .dtv_entry_size = 16,
        .module = 1,
        .dtv_offset = DTV_OFFSET,
        .offset = (const char *)&current_context - dtv[2], /* module 1, two words an entry */
    };
    publish_reader(&fixture, (uint32_t)getpid(), &process);
    struct elastic good = some_elastic();
    struct expected expected = expect_elastic(&good);
    check(&fixture, "dynamic", &good, NULL, &expected);
    teardown(&fixture);
}

/* ---- several sources ---- */

static const struct custom_label one_label[] = {{8, "trace_id", 2, "ab"}};
static struct custom_set one_label_set = {.storage = one_label, .count = 1, .capacity = 1};
static const struct expected one_label_read = {
    .attributes_source = CONTEXT_CUSTOM_LABELS, .size = 12, .attributes = "\010\002trace_idab"};

static void publish_two(struct fixture *fixture, uint8_t first, uint8_t second)
{
    struct context_process process = {.count = 2};
    process.variables[0] = static_variable(first, &current_context);
    process.variables[1] = static_variable(second, &second_context);
    publish_reader(fixture, (uint32_t)getpid(), &process);
}

static struct expected expect_otel(const struct published *record)
{
    struct expected expected = {.source = CONTEXT_OTEL_THREAD, .trace_flags = record->flags};
    memcpy(expected.trace_id, record->trace_id, 16);
    memcpy(expected.span_id, record->span_id, 8);
    return expected;
}

static void test_precedence(void **state)
{
    struct fixture fixture;
    (void)state;
    setup_size(&fixture, 4 << 20);
    struct published otel = some_context(0x70), invalid = otel;
    struct elastic elastic = some_elastic();
    struct expected of_otel = expect_otel(&otel), of_elastic = expect_elastic(&elastic);
    struct expected with_labels = one_label_read;
    of_otel.size = otel.attributes_size;
    of_otel.attributes_source = CONTEXT_OTEL_THREAD;
    memcpy(of_otel.attributes, otel.attributes, otel.attributes_size);
    invalid.valid = 0;

    publish_two(&fixture, CONTEXT_OTEL_THREAD, CONTEXT_ELASTIC);
    check(&fixture, "the first of two", &otel, &elastic, &of_otel);
    check(&fixture, "the second, for the first says nothing", NULL, &elastic, &of_elastic);
    of_elastic.torn = true;
    check(&fixture, "the second, for the first is torn", &invalid, &elastic, &of_elastic);

    publish_two(&fixture, CONTEXT_OTEL_THREAD, CONTEXT_CUSTOM_LABELS);
    check(&fixture, "ids, no labels", &otel, &one_label_set, &of_otel);
    check(&fixture, "labels, no ids", NULL, &one_label_set, &one_label_read);
    with_labels.torn = true;
    check(&fixture, "labels where ids are torn", &invalid, &one_label_set, &with_labels);

    publish_two(&fixture, CONTEXT_CUSTOM_LABELS, CONTEXT_OTEL_THREAD);
    with_labels = one_label_read;
    with_labels.source = CONTEXT_OTEL_THREAD;
    with_labels.trace_flags = otel.flags;
    memcpy(with_labels.trace_id, otel.trace_id, 16);
    memcpy(with_labels.span_id, otel.span_id, 8);
    check(&fixture, "labels, then ids: both, not their attributes", &one_label_set, &otel,
          &with_labels);

    publish_two(&fixture, CONTEXT_CUSTOM_LABELS, CONTEXT_CUSTOM_LABELS);
    check(&fixture, "the first labels", &one_label_set, &one_label_set, &one_label_read);
    check(&fixture, "the second labels", NULL, &one_label_set, &one_label_read);
    teardown(&fixture);
}

static void test_counts_and_publication_time(void **state)
{
    struct fixture fixture;
    uint64_t published_ns = 5;
    uint32_t pid = (uint32_t)getpid();
    (void)state;
    setup_size(&fixture, 4 << 20);
    struct elastic elastic = some_elastic(), bad = elastic;
    struct expected expected = expect_elastic(&elastic);
    struct context_process process = {
        .count = 1, .published_address = (uint64_t)(uintptr_t)&published_ns, .published_ns = 5};
    process.variables[0] = static_variable(CONTEXT_ELASTIC, &current_context);
    publish_reader(&fixture, pid, &process);
    check(&fixture, "as it was", &elastic, NULL, &expected);
    assert_int_equal(bpf_map_lookup_elem(sampler_contexts_fd(fixture.sampler), &pid, &process), 0);
    assert_true(process.n_found >= 20);
    assert_int_equal(process.n_torn, 0);
    published_ns = 6;
    expected.changed = true;
    check(&fixture, "published anew", &elastic, NULL, &expected);
    bad.valid = 0;
    check(&fixture, "anew, and torn", &bad, NULL,
          &(struct expected){.torn = true, .changed = true});
    assert_int_equal(bpf_map_lookup_elem(sampler_contexts_fd(fixture.sampler), &pid, &process), 0);
    assert_true(process.n_torn >= 20);
    process.published_address = 4096;
    publish_reader(&fixture, pid, &process);
    check(&fixture, "withdrawn", &elastic, NULL, &expected);
    teardown(&fixture);
}

/* Entries of random bytes: nothing is read that makes a record malformed, or a wrong id. */
static void test_entries_of_noise(void **state)
{
    struct fixture fixture;
    struct published otel = some_context(0x21);
    (void)state;
    setup_size(&fixture, 4 << 20);
    struct burner burner = {.context = &otel, .cpu = -1};
    burner_start(&burner);
    struct span_total total = {.tid = burner.tid, .expected = otel};
    uint64_t noise = 88172645463325252ULL;
    for (int round = 0; round < 60; round++) {
        struct context_process process;
        for (size_t i = 0; i < sizeof(process) / 8; i++) {
            noise ^= noise << 13, noise ^= noise >> 7, noise ^= noise << 17;
            memcpy((char *)&process + i * 8, &noise, 8);
        }
        process.process_start_ns = 0;
        for (int i = 0; i < CONTEXT_MAX_VARIABLES; i++) {
            process.variables[i].source = (uint8_t)(1 + (round + i) % CONTEXT_SOURCES);
            process.variables[i].thread_local_model = (uint8_t)(1 + (round + i) % 2);
            process.variables[i].go_form = (uint8_t)(1 + round % 2);
            if (i % 2 && process.variables[i].source != CONTEXT_OTEL_THREAD)
                process.variables[i].offset = (const char *)&current_context - thread_pointer();
        }
        publish_reader(&fixture, (uint32_t)getpid(), &process);
        drain_for(&fixture, judge, &total, 50);
    }
    burner_stop(&burner);
    assert_true(total.samples > 200);
    assert_int_equal(total.wrong, 0);
    teardown(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_elastic),          cmocka_unit_test(test_elastic_in_a_library),
        cmocka_unit_test(test_precedence),       cmocka_unit_test(test_counts_and_publication_time),
        cmocka_unit_test(test_entries_of_noise),
    };
    if (!bpf_test_possible())
        return BPF_TEST_SKIP;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
