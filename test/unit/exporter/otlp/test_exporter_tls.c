/* SPDX-License-Identifier: Apache-2.0 */
/* An exporter whose backend has TLS; what cannot be sent waits. */
#include "base/stats.h"
#include "proto/tls/tls.h"
#include "test/support/net/certificates.h"
#include "test/support/rigs/exporter_rig.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

struct secure {
    struct rig *rig;
    struct certificate ca, other_ca, server;
    struct tls_context *backend;
};

static int setup(void **state)
{
    struct secure *at = calloc(1, sizeof(*at));
    char why[TLS_WHY_MAX];
    if (!at || exporter_rig_setup((void **)&at->rig))
        return -1;
    certificate_make(&at->ca, &(struct certificate_wish){.name = "ca", .ca = true});
    certificate_make(&at->other_ca, &(struct certificate_wish){.name = "other", .ca = true});
    certificate_make(
        &at->server,
        &(struct certificate_wish){.name = "server", .issuer = &at->ca, .host = "backend.example"});
    const struct tls_settings settings = {.server = true,
                                          .name = "the backend",
                                          .max_version = TLS_1_3,
                                          .alpn = "h2",
                                          .alpn_required = true};
    *state = at;
    exporter_close(at->rig->exporter);
    at->rig->exporter = NULL;
    at->rig->config.otlp.tls.insecure = false;
    return tls_context_open(&settings,
                            &(struct tls_material){.certificate = certificate_pem(&at->server),
                                                   .key = certificate_key(&at->server)},
                            &at->backend, why);
}

static int teardown(void **state)
{
    struct secure *at = *state;
    struct tls_context *client = at->rig->tls;
    int error = exporter_rig_teardown((void **)&at->rig);
    tls_context_close(client);
    tls_context_close(at->backend);
    certificate_free(&at->server);
    certificate_free(&at->other_ca);
    certificate_free(&at->ca);
    free(at);
    return error;
}

static void start(struct secure *at, const struct certificate *ca)
{
    char why[TLS_WHY_MAX];
    const struct tls_settings settings = {.name = "the exporter",
                                          .max_version = TLS_1_3,
                                          .alpn = "h2",
                                          .alpn_required = true,
                                          .server_name = "backend.example"};
    at->rig->config.otlp.tls.server_name_override = "backend.example";
    assert_int_equal(tls_context_open(&settings, &(struct tls_material){.cas = certificate_pem(ca)},
                                      &at->rig->tls, why),
                     0);
    exporter_rig_start(at->rig);
}

static bool has(const struct backend_request *request, const char *line)
{
    _cleanup_buf_ struct buf text = BUF_INIT(0);
    assert_int_equal(buf_append_bytes(&text, buf_bytes(&request->headers)), 0);
    assert_int_equal(buf_append(&text, "", 1), 0);
    return strstr((const char *)text.data, line);
}

static void test_sent(void **state)
{
    struct secure *at = *state;
    at->rig->backend.gate.context = at->backend;
    start(at, &at->ca);
    rig_put(at->rig, SIGNAL_TRACES, "hello");
    struct backend_request *request = rig_await(at->rig, TRACES, 0);
    assert_true(rig_message_is(request, "hello"));
    assert_true(has(request, ":scheme: https\n"));
    assert_true(has(request, ":authority: backend.example\n"));
    rig_await_empty(at->rig);
}

static void test_hung_up_and_sent_again(void **state)
{
    struct secure *at = *state;
    at->rig->backend.gate.context = at->backend;
    start(at, &at->ca);
    rig_put(at->rig, SIGNAL_TRACES, "first");
    rig_await(at->rig, TRACES, 0);
    rig_await_empty(at->rig);
    backend_leave(&at->rig->backend);
    rig_put(at->rig, SIGNAL_TRACES, "second");
    rig_pause(at->rig, 100);
    backend_return(&at->rig->backend);
    assert_true(rig_message_is(rig_await(at->rig, TRACES, 1), "second"));
    rig_await_empty(at->rig);
}

static int64_t untrusted(void)
{
    return stats_find("spanprof_tls_handshakes_total",
                      "role=\"client\",outcome=\"untrusted_certificate\"");
}

/* As when the CA is added to the file, and that is read again. */
static void test_waits_until_trusted(void **state)
{
    struct secure *at = *state;
    char why[TLS_WHY_MAX];
    int64_t before = untrusted();
    at->rig->backend.gate.context = at->backend;
    start(at, &at->other_ca);
    rig_put(at->rig, SIGNAL_TRACES, "hello");
    rig_pause(at->rig, 300);
    assert_true(untrusted() > before + 1); /* tried again */
    assert_int_equal(at->rig->backend.n_requests, 0);
    assert_false(rig_is_empty(at->rig));
    assert_int_equal(tls_context_reload(at->rig->tls,
                                        &(struct tls_material){.cas = certificate_pem(&at->ca)},
                                        why),
                     0);
    assert_true(rig_message_is(rig_await(at->rig, TRACES, 0), "hello"));
    rig_await_empty(at->rig);
}

static void test_backend_without_tls(void **state)
{
    struct secure *at = *state;
    start(at, &at->ca);
    rig_put(at->rig, SIGNAL_TRACES, "hello");
    rig_pause(at->rig, 200);
    assert_int_equal(at->rig->backend.n_requests, 0);
    at->rig->backend.gate.context = at->backend;
    assert_true(rig_message_is(rig_await(at->rig, TRACES, 0), "hello"));
}

#define RIG_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(test_sent),
        RIG_TEST(test_hung_up_and_sent_again),
        RIG_TEST(test_waits_until_trusted),
        RIG_TEST(test_backend_without_tls),
    };
    return cmocka_run_group_tests_name("exporter_tls", tests, NULL, NULL);
}
