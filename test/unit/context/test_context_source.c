/* SPDX-License-Identifier: Apache-2.0 */
#include "context/context_source.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

/* On the wire and on disk: a number that has had a meaning keeps it. */
static void test_numbers(void **state)
{
    static const char *const names[] = {"none",          "otel_thread", "elastic",    "go_labels",
                                        "custom_labels", "obi",         "otel_nodejs"};
    (void)state;
    for (unsigned source = 0; source < sizeof(names) / sizeof(*names); source++)
        assert_string_equal(context_source_names[source], names[source]);
}

static void test_names(void **state)
{
    (void)state;
    assert_null(context_source_name(CONTEXT_NONE));
    assert_null(context_source_name(CONTEXT_SOURCES));
    assert_null(context_source_name(255));
    for (unsigned source = CONTEXT_NONE + 1; source < CONTEXT_SOURCES; source++) {
        assert_ptr_equal(context_source_name(source), context_source_names[source]);
        for (unsigned other = 0; other < source; other++)
            assert_string_not_equal(context_source_names[source], context_source_names[other]);
    }
}

static void test_kinds(void **state)
{
    (void)state;
    assert_int_equal(CONTEXT_VARIABLE_BITS & CONTEXT_MAP_BITS, 0);
    assert_int_equal(CONTEXT_VARIABLE_BITS | CONTEXT_MAP_BITS | CONTEXT_BIT(CONTEXT_NONE),
                     CONTEXT_BIT(CONTEXT_SOURCES) - 1);
    assert_int_equal(CONTEXT_MAP_BITS, CONTEXT_BIT(CONTEXT_OBI));
}

static void test_properties(void **state)
{
    (void)state;
    assert_int_equal(context_source_form(CONTEXT_NONE), CONTEXT_FORM_NONE);
    assert_int_equal(context_source_form(CONTEXT_OTEL_THREAD), CONTEXT_FORM_INDEXED);
    assert_int_equal(context_source_form(CONTEXT_OTEL_NODEJS), CONTEXT_FORM_INDEXED);
    assert_int_equal(context_source_form(CONTEXT_GO_LABELS), CONTEXT_FORM_LABELS);
    assert_int_equal(context_source_form(255), CONTEXT_FORM_NONE);
    assert_true(context_source_has_flags(CONTEXT_OTEL_THREAD));
    assert_true(context_source_has_flags(CONTEXT_ELASTIC));
    assert_false(context_source_has_flags(CONTEXT_OTEL_NODEJS));
    assert_false(context_source_has_flags(CONTEXT_OBI));
    assert_false(context_source_has_flags(CONTEXT_NONE));
    assert_false(context_source_has_flags(255));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_properties),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
