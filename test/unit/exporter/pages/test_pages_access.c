/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/pages/pages_access.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

static struct config_pages config = {.endpoint = {.host = "node1.example"},
                                     .allowed_hosts = {.items = {"spanprof.internal"}, .count = 1}};

static void test_hosts(void **state)
{
    static const char *const known[] = {
        "localhost",  "localhost:9797", "LOCALHOST.:1",  "127.0.0.1:9797",   "10.1.2.3",
        "[::1]:9797", "[fe80::1]",      "node1.example", "Node1.Example:80", "spanprof.internal"};
    static const char *const unknown[] = {"",
                                          "evil.example",
                                          "localhost.evil.example",
                                          "127.0.0.1.evil.example",
                                          "[::1",
                                          "[::1]evil",
                                          "localhost:80@evil",
                                          "node1.example.evil",
                                          "localhost ",
                                          "[localhost]",
                                          "127.1",
                                          "0x7f000001",
                                          "::1",
                                          "[::1]:port",
                                          "localhost:9797:1",
                                          "node1"};
    (void)state;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (!pages_access_knows_host(&config, known[i]))
            fail_msg("%s is not known", known[i]);
    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++)
        if (pages_access_knows_host(&config, unknown[i]))
            fail_msg("%s is known", unknown[i]);
    assert_false(pages_access_knows_host(&config, NULL));
}

static void test_tokens(void **state)
{
    (void)state;
    assert_true(pages_access_has_token("secret", "Bearer secret"));
    assert_true(pages_access_has_token("secret", "bearer secret"));
    assert_false(pages_access_has_token("secret", NULL));
    assert_false(pages_access_has_token("secret", ""));
    assert_false(pages_access_has_token("secret", "Bearer "));
    assert_false(pages_access_has_token("secret", "Bearer secre"));
    assert_false(pages_access_has_token("secret", "Bearer secrets"));
    assert_false(pages_access_has_token("secret", "Bearer secretsecret"));
    assert_false(pages_access_has_token("secret", "Basic secret"));
    assert_false(pages_access_has_token("secret", "secret"));
}

/* base64 of USER:PASSWORD */
static void test_passwords(void **state)
{
    (void)state;
    assert_true(pages_access_has_token("secret", "Basic bm9kZTpzZWNyZXQ=")); /* node:secret */
    assert_true(pages_access_has_token("secret", "basic OnNlY3JldA=="));     /* :secret */
    assert_false(pages_access_has_token("secret", "Basic bm9kZTpzZWNyZQ=="));
    assert_false(pages_access_has_token("secret", "Basic c2VjcmV0")); /* no user */
    assert_false(pages_access_has_token("secret", "Basic bm9kZTo="));
    assert_false(pages_access_has_token("secret", "Basic "));
    assert_false(pages_access_has_token("secret", "Basic !"));
    char longest[4096] = "Basic ";
    memset(longest + 6, 'A', sizeof(longest) - 7);
    assert_false(pages_access_has_token("secret", longest));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_hosts), cmocka_unit_test(test_tokens),
                                       cmocka_unit_test(test_passwords)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
