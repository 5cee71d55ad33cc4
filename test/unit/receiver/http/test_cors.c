/* SPDX-License-Identifier: Apache-2.0 */
/* What browsers are told: the rules by themselves, and the server's answers. */
#include "receiver/http/cors.h"
#include "test/support/net/http_rig.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static struct config_list list_of(const char *first, const char *second)
{
    return (struct config_list){.items = {first, second}, .count = second ? 2 : first ? 1 : 0};
}

static void test_origins(void **state)
{
    static const struct {
        const char *pattern, *origin;
        bool allowed;
    } cases[] = {
        {"https://app.example", "https://app.example", true},
        {"https://app.example", "HTTPS://App.Example", true},
        {"https://app.example", "https://app.example.evil", false},
        {"https://app.example", "http://app.example", false},
        {"https://*.example", "https://a.b.example", true},
        {"https://*.example", "https://.example", true},
        {"https://*.example", "https://example", false},
        {"https://*.example", "https://a.example.evil", false},
        {"http://localhost:*", "http://localhost:3000", true},
        {"a*a", "a", false}, /* what is before and behind may not overlap */
        {"*", "null", true},
        {"https://app.example", NULL, false},
        {NULL, "https://app.example", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct config_cors cors = {.allowed_origins = list_of(cases[i].pattern, NULL)};
        assert_int_equal(cors_allows_origin(&cors, cases[i].origin), cases[i].allowed);
    }
}

static void test_headers(void **state)
{
    static const struct {
        const char *configured, *asked;
        bool allowed;
    } cases[] = {
        {NULL, NULL, true},
        {NULL, "content-type, X-Requested-With", true},
        {NULL, "x-api-key", false},
        {"X-Api-Key", "content-type,x-api-key", true},
        {"X-Api-Key", "x-api-key2", false},
        {"*", "anything, else", true},
        {"*", "a\rb", false}, /* no header's name: must not be echoed */
        {"*", "a:b", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct config_cors cors = {.allowed_headers = list_of(cases[i].configured, NULL)};
        assert_int_equal(cors_allows_headers(&cors, cases[i].asked), cases[i].allowed);
    }
}

#define ORIGIN    "Origin: https://app.example\r\n"
#define STRANGER  "Origin: https://evil.example\r\n"
#define PREFLIGHT "Access-Control-Request-Method: POST\r\n"

static struct talk ask(struct http_rig *rig, const char *lines, unsigned status)
{
    struct talk talk;
    talk_open(&talk, rig);
    talk_say(&talk, "OPTIONS", "/v1/traces", lines, (struct bytes){0});
    assert_int_equal(talk_hear(&talk), status);
    return talk;
}

static void test_off(void **state)
{
    struct talk talk = ask(*state, ORIGIN PREFLIGHT, 405);
    assert_false(talk_has(&talk, "Access-Control-Allow-Origin: https://app.example"));
    talk_close(&talk);
}

static void test_preflight(void **state)
{
    struct http_rig *rig = *state;
    rig->config.cors = (struct config_cors){.allowed_origins = list_of("https://app.example", NULL),
                                            .allowed_headers = list_of("x-key", NULL),
                                            .max_age_s = 600};
    struct talk talk =
        ask(rig, ORIGIN PREFLIGHT "Access-Control-Request-Headers: content-type,x-key\r\n", 204);
    assert_true(talk_has(&talk, "Access-Control-Allow-Origin: https://app.example"));
    assert_true(talk_has(&talk, "Access-Control-Allow-Credentials: true"));
    assert_true(talk_has(&talk, "Access-Control-Allow-Methods: POST"));
    assert_true(talk_has(&talk, "Access-Control-Allow-Headers: content-type,x-key"));
    assert_true(talk_has(&talk, "Access-Control-Max-Age: 600"));
    assert_true(talk_has(&talk, "Vary: Origin"));
    talk_close(&talk);

    talk = ask(rig, ORIGIN PREFLIGHT "Access-Control-Request-Headers: x-other\r\n", 204);
    assert_false(talk_has(&talk, "Access-Control-Allow-Methods: POST"));
    talk_close(&talk);

    talk = ask(rig, STRANGER PREFLIGHT, 204);
    assert_false(talk_has(&talk, "Access-Control-Allow-Origin: https://evil.example"));
    assert_false(talk_has(&talk, "Access-Control-Allow-Methods: POST"));
    assert_true(talk_has(&talk, "Vary: Origin"));
    talk_close(&talk);

    talk = ask(rig, PREFLIGHT, 405); /* nobody's page */
    talk_close(&talk);
    assert_int_equal(rig->intake.n_requests, 0);
}

/* Answers to what is sent; the connection goes on behind a preflight. */
static void test_requests(void **state)
{
    struct http_rig *rig = *state;
    rig->config.cors = (struct config_cors){.allowed_origins = list_of("*", NULL),
                                            .exposed_headers = list_of("Retry-After", NULL)};
    struct talk talk = ask(rig, ORIGIN PREFLIGHT, 204);
    assert_true(talk_has(&talk, "Access-Control-Allow-Origin: *"));
    assert_false(talk_has(&talk, "Access-Control-Allow-Credentials: true"));
    talk_forget(&talk);
    talk_say_traces(&talk, ORIGIN, BYTES_LIT("hello"));
    assert_int_equal(talk_hear(&talk), 200);
    assert_true(talk_has(&talk, "Access-Control-Allow-Origin: *"));
    assert_true(talk_has(&talk, "Access-Control-Expose-Headers: Retry-After"));
    talk_forget(&talk);
    rig->intake.outcome = INTAKE_BUSY; /* pages must be able to read that */
    talk_say_traces(&talk, ORIGIN, BYTES_LIT("hello"));
    assert_int_equal(talk_hear(&talk), 503);
    assert_true(talk_has(&talk, "Access-Control-Allow-Origin: *"));
    talk_close(&talk);
    assert_int_equal(rig->intake.n_requests, 2);
}

#define RIG_TEST(name) cmocka_unit_test_setup_teardown(name, http_rig_setup, http_rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_origins), cmocka_unit_test(test_headers), RIG_TEST(test_off),
        RIG_TEST(test_preflight),       RIG_TEST(test_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
