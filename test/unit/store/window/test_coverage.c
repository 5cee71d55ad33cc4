/* SPDX-License-Identifier: Apache-2.0 */
#include "store/window/coverage.h"
#include "context/context_source.h"
#include "context/publisher_state.h"
#include "context/runtime.h"
#include "proto/wire.h"
#include "test/support/faults/fail_alloc.h"
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

static const struct peer sender = {.cgroup_id = 77, .uid = 1000};
static struct coverage *coverage;
static struct coverage_process list[COVERAGE_PROCESSES_MAX];

static int setup(void **state)
{
    (void)state;
    return coverage_open(&coverage);
}

static int teardown(void **state)
{
    (void)state;
    coverage_close(coverage);
    return 0;
}

/* A Resource: KeyValue {key, AnyValue {string or int}} each; pid 0: without. */
static struct buf resource_of(const char *service, uint64_t pid)
{
    struct buf resource = BUF_INIT(0), value = BUF_INIT(0), pair = BUF_INIT(0);
    if (service) {
        assert_int_equal(wire_put_bytes(&value, 1, BYTES_STR(service)), 0);
        assert_int_equal(wire_put_bytes(&pair, 1, BYTES_LIT("service.name")), 0);
        assert_int_equal(wire_put_bytes(&pair, 2, buf_bytes(&value)), 0);
        assert_int_equal(wire_put_bytes(&resource, 1, buf_bytes(&pair)), 0);
    }
    buf_clear(&value);
    buf_clear(&pair);
    if (pid) {
        assert_int_equal(wire_put_varint(&value, 3, pid), 0);
        assert_int_equal(wire_put_bytes(&pair, 1, BYTES_LIT("process.pid")), 0);
        assert_int_equal(wire_put_bytes(&pair, 2, buf_bytes(&value)), 0);
        assert_int_equal(wire_put_bytes(&resource, 1, buf_bytes(&pair)), 0);
    }
    buf_close(&value);
    buf_close(&pair);
    return resource;
}

static void note_spans(struct coverage *to, struct bytes resource, uint64_t n, uint64_t now_ns)
{
    struct coverage_service service;
    coverage_service_of(resource, &service);
    coverage_spans(to, &sender, &service, n, now_ns);
}

static const struct coverage_process *find(uint32_t pid)
{
    size_t n = coverage_list(coverage, list, COVERAGE_PROCESSES_MAX);
    for (size_t i = 0; i < n; i++)
        if (list[i].pid == pid)
            return &list[i];
    return NULL;
}

static void test_counts(void **state)
{
    _cleanup_buf_ struct buf shop = resource_of("shop", 0);
    struct coverage_sample sample = {.pid = 7,
                                     .own_pid = 1,
                                     .start_ns = 5,
                                     .resource = buf_bytes(&shop),
                                     .publishes = true,
                                     .attached = true,
                                     .has_ids = true,
                                     .source = CONTEXT_OBI,
                                     .program = {.runtime = RUNTIME_JAVA}};
    (void)state;
    coverage_sample(coverage, &sample, 1);
    sample.unsampled = true;
    coverage_sample(coverage, &sample, 2);
    sample = (struct coverage_sample){
        .pid = 7,
        .start_ns = 5,
        .unreadable = true,
        .program = {.runtime = RUNTIME_JAVA, .publisher = PUBLISHER_LOADED, .publishes = 3}};
    coverage_sample(coverage, &sample, 3);
    note_spans(coverage, buf_bytes(&shop), 40, 3);
    note_spans(coverage, buf_bytes(&shop), 2, 4);
    const struct coverage_process *process = find(7);
    assert_non_null(process);
    assert_string_equal(process->service, "shop");
    assert_int_equal(process->samples, 3);
    assert_int_equal(process->has_ids, 2);
    assert_int_equal(process->unsampled, 1);
    assert_int_equal(process->unreadable, 1);
    assert_int_equal(process->spans, 42);
    assert_int_equal(process->unproven, 0);
    coverage_unproven(coverage, 7);
    coverage_unproven(coverage, 8); /* not known */
    assert_int_equal(find(7)->unproven, 1);
    assert_int_equal(find(7)->code_map, COVERAGE_CODE_NOT_SEEN);
    coverage_code(coverage, 7, COVERAGE_CODE_MAP);
    coverage_code(coverage, 8, COVERAGE_CODE_MAP); /* not known */
    assert_int_equal(find(7)->code_map, COVERAGE_CODE_MAP);
    assert_false(process->publishes);
    assert_int_equal(process->seen_ns, 3);
    assert_int_equal(process->source, CONTEXT_OBI); /* of the last that had ids */
    assert_int_equal(process->program.runtime, RUNTIME_JAVA);
    assert_int_equal(process->program.publisher, PUBLISHER_LOADED);
    assert_int_equal(process->program.publishes, 3);
    assert_false(process->sends_spans); /* its service's; whose they are is not known */
}

/* Another process with the same pid begins anew. */
static void test_reused_pid(void **state)
{
    (void)state;
    coverage_sample(coverage, &(struct coverage_sample){.pid = 7, .start_ns = 5, .has_ids = true},
                    1);
    coverage_sample(coverage, &(struct coverage_sample){.pid = 7, .start_ns = 6}, 2);
    assert_int_equal(coverage_list(coverage, list, COVERAGE_PROCESSES_MAX), 1);
    assert_int_equal(find(7)->samples, 1);
    assert_int_equal(find(7)->has_ids, 0);
}

static void test_named_by_its_spans(void **state)
{
    _cleanup_buf_ struct buf shop = resource_of("shop", 12), other = resource_of("other", 13);
    (void)state;
    coverage_sample(coverage, &(struct coverage_sample){.pid = 70, .own_pid = 12, .cgroup_id = 77},
                    1);
    coverage_sample(coverage, &(struct coverage_sample){.pid = 71, .own_pid = 12, .cgroup_id = 78},
                    1);
    coverage_sample(coverage, &(struct coverage_sample){.pid = 13, .own_pid = 99}, 1);
    note_spans(coverage, buf_bytes(&shop), 3, 2);
    note_spans(coverage, buf_bytes(&other), 4, 2);
    assert_string_equal(find(70)->service, "shop");
    assert_int_equal(find(70)->spans, 3);
    assert_true(find(70)->sends_spans);
    assert_false(find(71)->sends_spans || find(13)->sends_spans);
    assert_string_equal(find(13)->service, "");
    assert_string_equal(find(71)->service, ""); /* number 12 of another container */
}

static void test_nothing_to_note(void **state)
{
    _cleanup_buf_ struct buf nobody = resource_of(NULL, 12);
    (void)state;
    coverage_sample(NULL, &(struct coverage_sample){.pid = 1}, 1);
    note_spans(NULL, buf_bytes(&nobody), 1, 1);
    coverage_sample(coverage, &(struct coverage_sample){.pid = 0}, 1);
    note_spans(coverage, buf_bytes(&nobody), 1, 1);
    note_spans(coverage, BYTES_LIT("\xff\xff\xff"), 1, 1);
    assert_int_equal(coverage_list(coverage, list, COVERAGE_PROCESSES_MAX), 0);
}

/* Whoever was noted last stays; long and odd names do no harm. */
static void test_limits(void **state)
{
    (void)state;
    for (uint32_t i = 1; i <= 3 * COVERAGE_PROCESSES_MAX; i++)
        coverage_sample(coverage, &(struct coverage_sample){.pid = i, .cgroup_id = 77}, i);
    assert_int_equal(coverage_list(coverage, list, COVERAGE_PROCESSES_MAX), COVERAGE_PROCESSES_MAX);
    assert_non_null(find(3 * COVERAGE_PROCESSES_MAX));
    assert_null(find(1));
    assert_int_equal(coverage_list(coverage, list, 5), 5);
    for (unsigned i = 0; i < 3 * COVERAGE_SERVICES_MAX; i++) {
        char name[300];
        snprintf(name, sizeof(name), "%u\n<script>%0250u", i, i);
        _cleanup_buf_ struct buf resource = resource_of(name, 3 * COVERAGE_PROCESSES_MAX);
        note_spans(coverage, buf_bytes(&resource), 1, i);
    }
    const char *service = find(3 * COVERAGE_PROCESSES_MAX)->service;
    assert_true(strlen(service) == COVERAGE_NAME_MAX - 1 && !strchr(service, '\n'));
}

static void *note(void *argument)
{
    for (uint32_t i = 1; i < 20000; i++)
        coverage_sample(coverage, &(struct coverage_sample){.pid = i % 1500 + 1, .has_ids = true},
                        i);
    return argument;
}

static void test_threads(void **state)
{
    pthread_t writer;
    (void)state;
    assert_int_equal(pthread_create(&writer, NULL, note, NULL), 0);
    for (int i = 0; i < 50; i++) {
        size_t n = coverage_list(coverage, list, COVERAGE_PROCESSES_MAX);
        for (size_t k = 0; k < n; k++)
            assert_int_equal(list[k].samples, list[k].has_ids);
    }
    assert_int_equal(pthread_join(writer, NULL), 0);
}

static void test_no_memory(void **state)
{
    struct coverage *none = NULL;
    (void)state;
    fail_alloc_at(1);
    assert_int_equal(coverage_open(&none), -ENOMEM);
    for (unsigned n = 1; n < 20; n++) { /* what cannot be noted is left out */
        fail_alloc_at(n);
        coverage_sample(coverage, &(struct coverage_sample){.pid = n}, n);
    }
    fail_alloc_at(0);
    coverage_sample(coverage, &(struct coverage_sample){.pid = 99}, 99);
    assert_non_null(find(99));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_counts, setup, teardown),
        cmocka_unit_test_setup_teardown(test_reused_pid, setup, teardown),
        cmocka_unit_test_setup_teardown(test_named_by_its_spans, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nothing_to_note, setup, teardown),
        cmocka_unit_test_setup_teardown(test_limits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_threads, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_memory, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
