/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/contexts/environment.h"
#include "context/runtime.h"
#include "proto/otlp/otlp_spans.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

static struct environment *environment;

#define PARSE(literal) parse(BYTES(literal, sizeof(literal))) /* with the last NUL */

static int parse(struct bytes block)
{
    free(environment);
    return environment_parse(block, &environment);
}

static int close_environment(void **state)
{
    (void)state;
    free(environment);
    environment = NULL;
    return 0;
}

static void expect(const char *key, const char *value)
{
    struct bytes key_value, text;
    assert_non_null(environment);
    assert_true(otlp_resource_attribute(environment->attributes, key, &key_value));
    assert_true(otlp_key_value_string(key_value, &text));
    if (!bytes_is(text, value))
        fail_msg("%s is %.*s", key, (int)text.len, (const char *)text.data);
}

static void names(void **state)
{
    (void)state;
    assert_int_equal(PARSE("PATH=/bin\0OTEL_SERVICE_NAME=shop\0OTEL_SERVICE_NAME=second"), 0);
    assert_true(bytes_is(environment->service_name, "shop"));
    assert_int_equal(environment->attributes.len, 0);
    assert_int_equal(PARSE("XOTEL_SERVICE_NAME=shop\0OTEL_SERVICE_NAMES=shop\0OTEL_SERVICE_NAME"),
                     0);
    assert_null(environment);
    assert_int_equal(PARSE("OTEL_SERVICE_NAME=\0NOMAD_TASK_NAME=web\0K_SERVICE=hello"), 0);
    assert_int_equal(environment->service_name.len, 0);
    assert_true(bytes_is(environment->platform_name, "hello"));
    assert_int_equal(parse(BYTES_LIT("OTEL_SERVICE_NAME=cut sho")), 0); /* no NUL: more followed */
    assert_null(environment);
    assert_int_equal(parse((struct bytes){0}), 0);
    assert_null(environment);
    assert_int_equal(PARSE("OTEL_SERVICE_NAME=\xff\0K_SERVICE=\xff"), ENVIRONMENT_MALFORMED);
    assert_null(environment);
}

static void attributes(void **state)
{
    (void)state;
    assert_int_equal(PARSE("OTEL_RESOURCE_ATTRIBUTES=service.name=a, team = core ,b%2Cc=1%3D2%20x,"
                           "url=http://x/?a=b,empty=,"),
                     0);
    expect("service.name", "a");
    expect("team", "core");
    expect("b,c", "1=2 x");
    expect("url", "http://x/?a=b");
    expect("empty", "");
}

static void malformed(void **state)
{
    (void)state;
    static const char *const bad[] = {"a=1,b",  "a=1,=2", "a=%", "a=%4",    "a=%zz",        "a=%ff",
                                      "a=b%00", "%00=b",  "a",   "a=1, =2", "good=1,a=\xff"};
    char block[256];
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        int len = snprintf(block, sizeof(block),
                           "OTEL_RESOURCE_ATTRIBUTES=%s%cOTEL_SERVICE_NAME=shop", bad[i], 0);
        assert_int_equal(parse(BYTES(block, (size_t)len + 1)), ENVIRONMENT_MALFORMED);
        assert_int_equal(environment->attributes.len, 0); /* void as a whole */
        assert_true(bytes_is(environment->service_name, "shop"));
    }
}

static void limits(void **state)
{
    (void)state;
    char *block = calloc(1, ENVIRONMENT_MAX);
    const char name[] = "OTEL_RESOURCE_ATTRIBUTES=";
    size_t len = sizeof(name) - 1;
    memcpy(block, name, len);
    for (int i = 0; i < ENVIRONMENT_ATTRIBUTES_MAX; i++)
        len += (size_t)sprintf(block + len, "key%d=%d,", i, i);
    assert_int_equal(parse(BYTES(block, len + 1)), 0);
    expect("key127", "127");
    sprintf(block + len, "one=more");
    assert_int_equal(parse(BYTES(block, ENVIRONMENT_MAX)), ENVIRONMENT_MALFORMED);
    memset(block + sizeof(name) - 1, 'k', ENVIRONMENT_MAX - sizeof(name));
    assert_int_equal(parse(BYTES(block, ENVIRONMENT_MAX)), ENVIRONMENT_MALFORMED);
    block[sizeof(name) + 10] = '=';
    assert_int_equal(parse(BYTES(block, ENVIRONMENT_MAX)), ENVIRONMENT_MALFORMED);
    block[sizeof(name) + 11 + ENVIRONMENT_TEXT_MAX] = 0;
    assert_int_equal(parse(BYTES(block, ENVIRONMENT_MAX)), 0);
    memcpy(block, "OTEL_SERVICE_NAME=", 18);
    assert_int_equal(parse(BYTES(block, ENVIRONMENT_MAX)), ENVIRONMENT_MALFORMED);
    assert_null(environment);
    free(block);
}

/* What `spanprof exec` sets is recognised, and what the publishers themselves read. */
static void switches(void **state)
{
    (void)state;
    assert_int_equal(PARSE("PYTHONPATH=/usr/lib/spanprof/publishers/python:/srv/shop\0"
                           "NODE_OPTIONS=--require /opt/publishers/node/preload.js"),
                     0);
    assert_int_equal(environment->switched_on,
                     RUNTIME_BIT(RUNTIME_PYTHON) | RUNTIME_BIT(RUNTIME_NODE));
    assert_false(environment->switched_off);
    assert_int_equal(PARSE("PYTHONPATH=/srv/shop\0NODE_OPTIONS=\0"
                           "OTEL_JAVAAGENT_EXTENSIONS=/publishers/python"),
                     0);
    assert_null(environment);
    assert_int_equal(PARSE("SPANPROF_CONTEXT=off"), 0);
    assert_true(environment->switched_off);
    assert_int_equal(environment->switched_on, 0);
    assert_int_equal(PARSE("SPANPROF_CONTEXT=of\0SPANPROF_CONTEXT=off\0=publishers/python"), 0);
    assert_null(environment);
}

int main(void)
{
#define T(name) cmocka_unit_test_teardown(name, close_environment)
    const struct CMUnitTest tests[] = {T(names), T(attributes), T(malformed), T(limits),
                                       T(switches)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
