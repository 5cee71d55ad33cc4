/* SPDX-License-Identifier: Apache-2.0 */
/* One tenant takes what it can get: others find entries and time all the same. */
#include "agent-bpf/symbolizer/runtime_shares.h"
#include "agent-bpf/runtimes/runtime_process.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define REQUEST_NS (50 * NS_PER_MS)

static struct runtime_shares shares;

static int make(void **state)
{
    (void)state;
    return runtime_shares_open(&shares);
}

static unsigned take_entries(uint64_t tenant, unsigned wanted)
{
    unsigned n = 0;
    while (n < wanted && runtime_shares_take_entry(&shares, tenant))
        n++;
    return n;
}

static void entries(void **state)
{
    (void)state;
    unsigned n = take_entries(1, UINT32_MAX);
    assert_in_range(n, RUNTIME_PROCESSES_MAX / 2, RUNTIME_PROCESSES_MAX * 4 / 5);
    assert_int_equal(take_entries(2, 100), 100);
    assert_int_equal(take_entries(3, 100), 100);
    assert_int_equal(take_entries(1, 1), 0);
    for (unsigned i = 0; i < n; i++)
        runtime_shares_give_entry(&shares, 1);
    assert_true(take_entries(2, 1000) == 1000);
}

/* Requests that take as long as they may, until it gets no time. */
static uint64_t use_time(uint64_t tenant, uint64_t now_ns)
{
    uint64_t used_ns = 0;
    for (; runtime_shares_have_time(&shares, tenant, now_ns); used_ns += REQUEST_NS)
        runtime_shares_spend(&shares, tenant, now_ns, now_ns + REQUEST_NS);
    return used_ns;
}

static void time_of_a_window(void **state)
{
    uint64_t now_ns = 1000 * RUNTIME_WINDOW_NS;
    (void)state;
    uint64_t used_ns = use_time(1, now_ns);
    assert_in_range(used_ns, RUNTIME_TIME_NS / 2, RUNTIME_TIME_NS);
    assert_true(runtime_shares_have_time(&shares, 2, now_ns + used_ns));
    runtime_shares_spend(&shares, 2, now_ns, now_ns + NS_PER_MS);
    assert_false(runtime_shares_have_time(&shares, 1, now_ns + RUNTIME_WINDOW_NS - 1));
    assert_true(runtime_shares_have_time(&shares, 1, now_ns + RUNTIME_WINDOW_NS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup(entries, make),
                                       cmocka_unit_test_setup(time_of_a_window, make)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
