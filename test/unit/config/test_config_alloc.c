/* SPDX-License-Identifier: Apache-2.0 */
/* Loading with the n-th allocation failing, for each n: an outcome, and nothing left behind. */
#include "test/support/faults/fail_alloc.h"
#include "test_config.h"

static const char text[] =
    "receivers:\n"
    "  otlp: {protocols: {grpc: }}\n"
    "exporters:\n"
    "  otlp:\n"
    "    endpoint: ${env:UNSET:-http://b:1}\n"
    "    headers: {Authorization: \"x${env:UNSET}\"}\n"
    "processors: {join: {span_attributes: \"a, b\"}}\n"
    "service: {pipelines: {traces: {receivers: [otlp], processors: [join], exporters: [otlp]}}}\n";

static void each_allocation_may_fail(void **state)
{
    static const struct config_source sources[] = {
        {CONFIG_SOURCE_FILE, "c.yaml"},
        {CONFIG_SOURCE_SET, "processors.join.wait=5s"},
    };
    unsigned n = 0;
    (void)state;
    unsetenv("UNSET");
    write_text("c.yaml", text);
    for (bool failed = true; failed; n++) {
        struct config *config = NULL;
        struct buf errors = BUF_INIT(0), out = BUF_INIT(0);
        fail_alloc_at(n + 1);
        int error = config_load(sources, 2, &config, &errors);
        if (!error)
            error = config_print(config, &out);
        failed = fail_alloc_hit();
        assert_true(failed ? error == -ENOMEM || error == -EINVAL : error == 0);
        assert_true(!failed || error == -ENOMEM || errors.len > 0);
        config_close(config);
        buf_close(&errors);
        buf_close(&out);
    }
    assert_true(n > 5); /* that the wrappers are in place */
}

static void no_memory_for_the_manual(void **state)
{
    (void)state;
    for (bool failed = true, first = true; failed; first = false) {
        struct buf out = BUF_INIT(0);
        fail_alloc_at(first ? 1 : 100000);
        int error = config_print_reference(&out);
        failed = fail_alloc_hit();
        assert_int_equal(error, failed ? -ENOMEM : 0);
        buf_close(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_allocation_may_fail),
        cmocka_unit_test(no_memory_for_the_manual),
    };
    return cmocka_run_group_tests(tests, enter_directory, leave_directory);
}
