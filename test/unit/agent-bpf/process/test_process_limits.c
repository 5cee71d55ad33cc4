/* SPDX-License-Identifier: Apache-2.0 */
/* The process table at its limits, without memory, and after events were lost. */
#include "test/support/faults/fail_alloc.h"
#include "test/support/fixtures/process_fixture.h"

#define SEC UINT64_C(1000000000)

static void short_lived_leave_nothing(void **state)
{
    (void)state;
    int64_t most = 0;
    for (uint32_t i = 0; i < 100000; i++) {
        uint64_t time = i * UINT64_C(1000000); /* 1000 a second */
        uint32_t pid = 2 + i % 32000;
        apply(PROCESS_FORKED, pid, 1, time);
        apply(PROCESS_EXECED, pid, 1, time + 1);
        map(pid, time + 2, 0x1000, 0x1000, 0, "/bin/true");
        map(pid, time + 3, 0x9000, 0x1000, 0, "/lib/libc.so.6");
        apply(PROCESS_EXITED, pid, 0, time + 4);
        if (i % 100)
            continue;
        process_table_expire(table, time);
        take();
        assert_int_equal(taken[SYMBOLIZER_PROCESS_WANTED], 0); /* they were gone by then */
        most = table_bytes() > most ? table_bytes() : most;
    }
    process_table_expire(table, 200 * SEC);
    take();
    assert_int_equal(table_processes(), 0);
    assert_true(table_bytes() < 1024); /* two executables, known for a while yet */
    assert_true(most < 10u << 20);
}

static void idle_executables_are_bounded(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 20000; i++) {
        char path[32];
        snprintf(path, sizeof(path), "/bin/%u", i);
        map(10, i, 0x1000, 0x1000, 0, path);
    }
    assert_true(table_bytes() < 4096 * 300 + 8192);
}

static void limits(void **state)
{
    (void)state;
    int64_t full = stats_find("spanprof_process_table_full_total", "limit=\"mappings\"");
    struct process_event event;
    int error = 0;
    for (uint64_t i = 0; i < PROCESS_MAPPINGS_MAX + 10; i++) {
        event = mapped(10, i, 0x1000 * (2 * i + 1), 0x1000, 0, "/lib/a.so");
        error = process_table_apply(table, &event);
    }
    assert_int_equal(error, -ENOSPC);
    assert_int_equal(stats_find("spanprof_process_table_full_total", "limit=\"mappings\"") - full,
                     10);
    expect_at(10, 9999, 0x1000, "/lib/a.so", 0);
    event = mapped(10, 9999, UINT64_MAX - 5, 100, 0, "/lib/a.so");
    assert_int_equal(process_table_apply(table, &event), -EINVAL);
    int64_t forgotten = stats_find("spanprof_processes_forgotten_total", "");
    for (uint32_t pid = 100; pid < 100 + PROCESS_TABLE_MAX; pid++)
        apply(PROCESS_FORKED, pid, 1, pid);
    assert_int_equal(stats_find("spanprof_processes_forgotten_total", "") - forgotten, 1);
    apply(PROCESS_EXITED, 100, 0, 200000); /* makes room at once */
    apply(PROCESS_FORKED, 50, 1, 200001);
    assert_int_equal(table_processes(), PROCESS_TABLE_MAX);
}

static void exec_loop_is_bounded(void **state)
{
    (void)state;
    for (uint64_t i = 1; i < 10000; i++) {
        apply(PROCESS_EXECED, 10, 0, 10 * i);
        map(10, 10 * i + 1, 0x1000, 0x1000, 0, "/bin/a");
    }
    assert_true(table_processes() <= 9);
}

/* Processes that were never sampled are evicted before one that was. */
static void bytes_are_limited(void **state)
{
    (void)state;
    int64_t forgotten = stats_find("spanprof_processes_forgotten_total", "");
    for (uint64_t i = 0; i < 2000; i++)
        map(2, i, 0x1000 * (2 * i + 1), 0x1000, 0, "/lib/a.so");
    process_table_sampled(table, 2, 1, 4000);
    for (uint32_t pid = 3; pid < 6000; pid++) { /* each its own copy, by changing it */
        apply(PROCESS_FORKED, pid, 2, 5000);
        map(pid, 5001, 0x1000, 0x1000, 0, "/lib/b.so");
        assert_true(table_bytes() <= PROCESS_TABLE_BYTES_MAX);
    }
    assert_in_range(stats_find("spanprof_processes_forgotten_total", "") - forgotten, 5000, 5990);
    expect_at(2, 6000, 0x1000, "/lib/a.so", 0);
    expect_at(5999, 6000, 0x1000, "/lib/b.so", 0);
    expect_none(3, 6000, 0x1000);
}

/* A cgroup with many large processes, all sampled, evicts its own. */
static void cgroups_have_shares(void **state)
{
    enum { HONEST = 20, FLOOD = 3000 };
    (void)state;
    for (uint32_t pid = 100; pid < 100 + HONEST; pid++) {
        map(pid, 10, 0x1000, 0x1000, 0, "/bin/honest");
        process_table_sampled(table, pid, 1, 20);
    }
    for (uint64_t i = 0; i < 2000; i++)
        map(2, i, 0x1000 * (2 * i + 1), 0x1000, 0, "/lib/a.so");
    for (uint32_t pid = 1000; pid < 1000 + FLOOD; pid++) {
        apply(PROCESS_FORKED, pid, 2, 5000);
        map(pid, 5001, 0x1000, 0x1000, 0, "/lib/b.so");
        process_table_sampled(table, pid, 2, 6000 + pid);
    }
    for (uint32_t pid = 100; pid < 100 + HONEST; pid++)
        expect_at(pid, 7000, 0x1000, "/bin/honest", 0);
    expect_none(1000, 20000, 0x1000);
    expect_at(1000 + FLOOD - 1, 20000, 0x1000, "/lib/b.so", 0);
    /* One that was forgotten is asked about again. */
    take();
    process_table_sampled(table, 1000, 2, 30000);
    process_table_request_changed(table);
    take();
    assert_int_equal(taken[SYMBOLIZER_MAPPINGS_WANTED], 1);
    assert_int_equal(taken[SYMBOLIZER_PROCESS_WANTED], 1);
}

static void requests_are_limited(void **state)
{
    (void)state;
    int64_t dropped =
        stats_find("spanprof_process_requests_dropped_total", "reason=\"queue_full\"");
    for (uint32_t i = 0; i < SYMBOLIZER_QUEUE_MAX + 100; i++) {
        char path[32];
        snprintf(path, sizeof(path), "/bin/%u", i);
        map(10 + i % 32, i, 0x1000, 0x1000, 0, path);
    }
    assert_int_equal(
        stats_find("spanprof_process_requests_dropped_total", "reason=\"queue_full\"") - dropped,
        100);
    take();
    assert_int_equal(taken[SYMBOLIZER_EXECUTABLE_WANTED], SYMBOLIZER_QUEUE_MAX);
}

/* Also not by forking and by exec. */
static void one_process_has_a_budget(void **state)
{
    (void)state;
    int64_t spent =
        stats_find("spanprof_process_requests_dropped_total", "reason=\"process_budget\"");
    for (uint32_t i = 0; i < 1500; i++) {
        char path[32];
        snprintf(path, sizeof(path), "/bin/%u", i);
        apply(PROCESS_FORKED, 11 + i, 10 + i, 3 * i + 1);
        apply(PROCESS_EXECED, 11 + i, 0, 3 * i + 2);
        map(11 + i, 3 * i + 3, 0x1000, 0x1000, 0, path);
    }
    assert_int_equal(
        stats_find("spanprof_process_requests_dropped_total", "reason=\"process_budget\"") - spent,
        1500 - 1024);
    take();
    assert_int_equal(taken[SYMBOLIZER_EXECUTABLE_WANTED], 1024);
    map(5000, 9999, 0x1000, 0x1000, 0, "/bin/other");
    take();
    assert_int_equal(taken[SYMBOLIZER_EXECUTABLE_WANTED], 1);
}

static void scenario(void)
{
    struct process_event event = {.kind = PROCESS_EXECED, .pid = 10, .time_ns = 100};
    process_table_apply(table, &event);
    for (uint64_t i = 0; i < 40; i++) {
        char path[32];
        snprintf(path, sizeof(path), "/bin/%u", (unsigned)i);
        event = mapped(10, 101 + i, 0x1000 * (2 * i + 1), 0x1000, 0, path);
        process_table_apply(table, &event);
    }
    event =
        (struct process_event){.kind = PROCESS_FORKED, .pid = 11, .parent_pid = 10, .time_ns = 200};
    process_table_apply(table, &event);
    event = mapped(11, 201, 0x1800, 0x10000, 0, "/lib/x.so");
    process_table_apply(table, &event);
    struct bytes keys[2] = {BYTES_LIT("http.route"), BYTES_LIT("user.id")};
    struct symbolizer_message context = {.kind = SYMBOLIZER_CONTEXT,
                                         .context = {.pid = 11,
                                                     .time_ns = 250,
                                                     .publishes = 2,
                                                     .resource = BYTES(resource, sizeof(resource)),
                                                     .n_keys = 2,
                                                     .keys = keys}};
    process_table_answer(table, &context);
    process_table_sampled(table, 12, 1, 300);
    event = (struct process_event){.kind = PROCESS_EXITED, .pid = 11, .time_ns = 400};
    process_table_apply(table, &event);
    struct list requests = LIST_INIT(requests);
    process_table_request_changed(table);
    symbolizer_queue_take(&queue, &requests);
    symbolizer_requests_free(&requests);
    process_table_expire(table, 400 + PROCESS_GRACE_NS);
}

static void without_memory(void **state)
{
    (void)state;
    unsigned n = 1;
    for (;; n++) {
        fail_alloc_at(n);
        scenario();
        bool hit = fail_alloc_hit();
        process_table_close(table); /* asserts that nothing is left */
        assert_int_equal(process_table_open(&queue, &table), 0);
        if (!hit)
            break;
    }
    assert_true(n > 50);
}

/* After a loss, of each process that is sampled, and of no other. */
static void losses_ask_for_mappings(void **state)
{
    (void)state;
    for (uint32_t pid = 10; pid < 13; pid++)
        apply(PROCESS_EXECED, pid, 0, 100);
    process_table_sampled(table, 10, 1, 150);
    take();
    assert_int_equal(taken[SYMBOLIZER_MAPPINGS_WANTED], 0);
    apply(PROCESS_LOST, 0, 0, 300);
    apply(PROCESS_EXECED, 12, 0, 400); /* since then all is known of it */
    process_table_sampled(table, 10, 1, 500);
    process_table_sampled(table, 10, 1, 501);
    process_table_sampled(table, 12, 1, 500);
    take();
    assert_int_equal(taken[SYMBOLIZER_MAPPINGS_WANTED], 1);
    process_table_sampled(table, 10, 1, 600);
    take();
    assert_int_equal(taken[SYMBOLIZER_MAPPINGS_WANTED], 0);
    process_table_sampled(table, 11, 1, 700);
    take();
    assert_int_equal(taken[SYMBOLIZER_MAPPINGS_WANTED], 1);
    apply(PROCESS_LOST, 0, 0, 800);
    process_table_sampled(table, 10, 1, 900); /* not again so soon */
    take();
    assert_int_equal(taken[SYMBOLIZER_MAPPINGS_WANTED], 0);
    process_table_sampled(table, 10, 1, clock_monotonic_ns() + 11 * SEC);
    take();
    assert_int_equal(taken[SYMBOLIZER_MAPPINGS_WANTED], 1);
}

int main(void)
{
    list_init(&last_requests);
#define T(name) cmocka_unit_test_setup_teardown(name, open_table, close_table)
    const struct CMUnitTest tests[] = {
        T(short_lived_leave_nothing),
        T(idle_executables_are_bounded),
        T(limits),
        T(exec_loop_is_bounded),
        T(bytes_are_limited),
        T(cgroups_have_shares),
        T(requests_are_limited),
        T(one_process_has_a_budget),
        T(without_memory),
        T(losses_ask_for_mappings),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    symbolizer_requests_free(&last_requests);
    return failed;
}
