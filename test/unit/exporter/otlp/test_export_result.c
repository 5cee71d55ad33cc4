/* SPDX-License-Identifier: Apache-2.0 */
/* The whole table of failures, each status and code there is. */
#include "exporter/otlp/export_result.h"
#include "proto/http/h2.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

static void test_grpc(void **state)
{
    static const enum export_verdict expected[GRPC_STATUS_COUNT] = {
        [GRPC_OK] = EXPORT_OK,
        [GRPC_CANCELLED] = EXPORT_RETRY,
        [GRPC_UNKNOWN] = EXPORT_DROP,
        [GRPC_INVALID_ARGUMENT] = EXPORT_DROP,
        [GRPC_DEADLINE_EXCEEDED] = EXPORT_RETRY,
        [GRPC_NOT_FOUND] = EXPORT_DROP,
        [GRPC_ALREADY_EXISTS] = EXPORT_DROP,
        [GRPC_PERMISSION_DENIED] = EXPORT_DROP,
        [GRPC_RESOURCE_EXHAUSTED] = EXPORT_DROP,
        [GRPC_FAILED_PRECONDITION] = EXPORT_DROP,
        [GRPC_ABORTED] = EXPORT_RETRY,
        [GRPC_OUT_OF_RANGE] = EXPORT_RETRY,
        [GRPC_UNIMPLEMENTED] = EXPORT_DROP,
        [GRPC_INTERNAL] = EXPORT_DROP,
        [GRPC_UNAVAILABLE] = EXPORT_RETRY,
        [GRPC_DATA_LOSS] = EXPORT_RETRY,
        [GRPC_UNAUTHENTICATED] = EXPORT_DROP,
    };
    (void)state;
    for (enum grpc_status status = 0; status < GRPC_STATUS_COUNT; status++) {
        assert_int_equal(export_verdict_grpc(status, false), expected[status]);
        assert_int_equal(export_verdict_grpc(status, true),
                         status == GRPC_RESOURCE_EXHAUSTED ? EXPORT_RETRY : expected[status]);
    }
}

static void test_too_big(void **state)
{
    static const char *const messages[] = {
        "grpc: received message larger than max (5 vs. 4)",
        "gRPC message exceeds maximum size 4: 5",
        "Received message exceeds the maximum configured message size.",
        "Error, decoded message length too large: found 5 bytes, the limit is: 4 bytes",
        "the request is too big",
        "the message is larger than allowed",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(messages) / sizeof(messages[0]); i++) {
        assert_true(export_is_too_big(GRPC_RESOURCE_EXHAUSTED, messages[i]));
        assert_true(export_is_too_big(GRPC_OUT_OF_RANGE, messages[i]));
        assert_false(export_is_too_big(GRPC_UNAVAILABLE, messages[i]));
    }
    assert_false(export_is_too_big(GRPC_RESOURCE_EXHAUSTED, "quota exceeded"));
    assert_false(export_is_too_big(GRPC_RESOURCE_EXHAUSTED, ""));
}

static void test_h2(void **state)
{
    /* NO_ERROR to HTTP_1_1_REQUIRED, RFC 9113, 7 */
    static const char expected[] = "RDDDDDDRRDRRDR";
    (void)state;
    for (uint32_t error = 0; error < sizeof(expected) - 1; error++) {
        assert_int_equal(export_verdict_h2(error, false),
                         expected[error] == 'R' ? EXPORT_RETRY : EXPORT_DROP);
        assert_int_equal(export_verdict_h2(error, true), EXPORT_RETRY);
    }
    assert_int_equal(export_verdict_h2(H2_CONNECTION_LOST, false), EXPORT_RETRY);
    assert_int_equal(export_verdict_h2(0x1234, false), EXPORT_DROP);
}

static void test_http(void **state)
{
    (void)state;
    for (unsigned status = 200; status < 600; status++) {
        bool retry = status == 429 || status == 502 || status == 503 || status == 504 ||
                     (status >= 300 && status < 400);
        assert_int_equal(export_verdict_http(status), status < 300 ? EXPORT_OK
                                                      : retry      ? EXPORT_RETRY
                                                                   : EXPORT_DROP);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grpc),
        cmocka_unit_test(test_too_big),
        cmocka_unit_test(test_h2),
        cmocka_unit_test(test_http),
    };
    return cmocka_run_group_tests_name("export_result", tests, NULL, NULL);
}
