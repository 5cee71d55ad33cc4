/* SPDX-License-Identifier: Apache-2.0 */
#include "receiver/bearer.h"
#include "test/support/faults/fail_alloc.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#define FIRST  "0123456789abcdef"
#define SECOND "another-token.of_some+length~/=="

static bool allows(const struct bearer *bearer, const char *authorization)
{
    return bearer_allows(bearer, BYTES_STR(authorization));
}

static void test_tokens(void **state)
{
    struct bearer *bearer;
    (void)state;
    assert_int_equal(bearer_open("Bearer", &bearer), 0);
    assert_false(allows(bearer, "Bearer " FIRST)); /* none is set */
    assert_int_equal(bearer_set(bearer, BYTES_LIT("\n" FIRST "\r\n" SECOND "\n")), 0);
    assert_true(allows(bearer, "Bearer " FIRST));
    assert_true(allows(bearer, "bearer " SECOND));
    static const char *const others[] = {"",
                                         "Bearer",
                                         "Bearer ",
                                         FIRST,
                                         "Basic " FIRST,
                                         "Bearer  " FIRST,
                                         "Bearer " FIRST " ",
                                         "Bearer " FIRST "\n" SECOND,
                                         "Bearer 0123456789abcde",
                                         "Bearer 0123456789abcdef0123456789abcdef",
                                         "Bearer 0123456789abcdeF",
                                         "Bearer\t" FIRST};
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
        assert_false(allows(bearer, others[i]));
    assert_int_equal(bearer_set(bearer, BYTES_LIT(SECOND)), 0);
    assert_false(allows(bearer, "Bearer " FIRST));
    bearer_close(bearer);
}

/* What is no token leaves the earlier ones in force. */
static void test_no_tokens(void **state)
{
    struct bearer *bearer;
    char many[(BEARER_TOKENS_MAX + 1) * (BEARER_TOKEN_MIN + 1) + 1] = "", large[1000];
    (void)state;
    assert_int_equal(bearer_open("Token", &bearer), 0);
    assert_int_equal(bearer_set(bearer, BYTES_LIT(FIRST)), 0);
    for (int i = 0; i <= BEARER_TOKENS_MAX; i++)
        snprintf(many + i * (BEARER_TOKEN_MIN + 1), BEARER_TOKEN_MIN + 2, "%016d\n", i);
    memset(large, 'x', sizeof(large));
    const struct bytes bad[] = {BYTES_LIT(""),
                                BYTES_LIT("\n\r\n"),
                                BYTES_LIT("short"),
                                BYTES_LIT(FIRST "\nshort"),
                                BYTES_LIT("a token with blanks"),
                                BYTES_LIT("0123456789abcdef\xc3\xa4"),
                                BYTES_STR(many),
                                BYTES(large, BEARER_TOKEN_MAX + 1)};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        assert_int_equal(bearer_set(bearer, bad[i]), -EINVAL);
    assert_true(allows(bearer, "Token " FIRST));
    assert_int_equal(bearer_set(bearer, BYTES(large, BEARER_TOKEN_MAX)), 0);
    assert_int_equal(bearer_set(bearer, BYTES(many, strlen(many) - BEARER_TOKEN_MIN - 1)), 0);
    assert_true(allows(bearer, "Token 0000000000000063"));
    bearer_close(bearer);
    bearer_close(NULL);
}

static void test_no_memory(void **state)
{
    struct bearer *bearer;
    (void)state;
    fail_alloc_at(1);
    assert_int_equal(bearer_open("Bearer", &bearer), -ENOMEM);
    assert_true(fail_alloc_hit());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_no_tokens),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
