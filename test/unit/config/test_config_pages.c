/* SPDX-License-Identifier: Apache-2.0 */
#include "test/unit/config/test_config.h"

#define WITH(pages)                                                                                \
    "receivers: {otlp: {protocols: {grpc: }}}\n"                                                   \
    "exporters: {debug: }\n"                                                                       \
    "service: {extensions: [pages, sqlite_storage], pipelines: {traces: {receivers: [otlp], "      \
    "exporters: [debug]}}}\n"                                                                      \
    "extensions:\n"                                                                                \
    "  sqlite_storage: {directory: /var/x}\n"                                                      \
    "  pages: {" pages "}\n"

#define TLS   "tls: {cert_file: a, key_file: b}"
#define TOKEN "auth: {token: 0123456789abcdef}"

static const struct config_pages *pages_of(const struct config *config)
{
    return &config_find_extension(config, CONFIG_EXTENSION_PAGES)->pages;
}

static void defaults(void **state)
{
    (void)state;
    struct config *config = load_valid(WITH(""), NULL, NULL);
    const struct config_pages *pages = pages_of(config);
    assert_string_equal(pages->endpoint.host, "localhost");
    assert_int_equal(pages->endpoint.port, 9797);
    assert_true(pages->socket_endpoint.set);
    assert_string_equal(pages->socket_endpoint.host, "/var/x/spanprof.sock");
    assert_int_equal(pages->socket_endpoint.socket_mode, 0600);
    assert_int_equal(pages->socket_endpoint.transport, CONFIG_UNIX);
    assert_true(pages->costs.watt_per_core == 0 && pages->costs.pue == 1.7);
    assert_false(pages->tls.enabled);
    config_close(config);
}

/* It comes with the pages, and never takes more than half of the store. */
static void history(void **state)
{
    (void)state;
    struct config *config = load_valid(WITH(""), NULL, NULL);
    const struct config_history *settings =
        &config_find_extension(config, CONFIG_EXTENSION_HISTORY)->history;
    assert_int_equal(settings->retention_ns, UINT64_C(3600000000000));
    assert_int_equal(settings->max_size_bytes, 256 << 20);
    assert_int_equal(settings->max_spans_per_second, 500);
    config_close(config);
    config = load_valid(WITH(""), NULL, "extensions.sqlite_storage.max_size_mib=100");
    settings = &config_find_extension(config, CONFIG_EXTENSION_HISTORY)->history;
    assert_int_equal(settings->max_size_bytes, 50 << 20);
    config_close(config);
    expect_errors("receivers: {otlp: {protocols: {grpc: }}}\n"
                  "exporters: {debug: }\n"
                  "extensions: {sqlite_storage: , pages: , history: {max_size_mib: 600}}\n"
                  "service: {extensions: [sqlite_storage, pages, history], pipelines: {traces: "
                  "{receivers: [otlp], exporters: [debug]}}}\n",
                  NULL,
                  "c.yaml:3:65: extensions::history::max_size_mib: is more than half of "
                  "sqlite_storage::max_size_mib; write less here, or more there\n");
    expect_errors("receivers: {otlp: {protocols: {grpc: }}}\n"
                  "exporters: {debug: }\n"
                  "extensions: {sqlite_storage: , pages: , history: }\n"
                  "service: {extensions: [sqlite_storage, pages], pipelines: {traces: "
                  "{receivers: [otlp], exporters: [debug]}}}\n",
                  NULL,
                  "c.yaml:4:23: service::extensions: the history \"history\" is configured but not "
                  "in use; write extensions: [history] under service\n");
}

static void sockets(void **state)
{
    (void)state;
    struct config *config = load_valid(WITH("socket: none"), NULL, NULL);
    assert_false(pages_of(config)->socket_endpoint.set);
    config_close(config);
    config = load_valid(WITH("socket: /run/a.sock"), NULL, NULL);
    assert_string_equal(pages_of(config)->socket_endpoint.host, "/run/a.sock");
    config_close(config);
    expect_errors(WITH("socket: run/a.sock"), NULL,
                  "c.yaml:6:19: extensions::pages::socket: \"run/a.sock\" is no absolute path; "
                  "write one like /run/spanprof/spanprof.sock, or none\n");
}

/* Of a store with a long path there is none, and that is said. */
static void long_directory(void **state)
{
    char set[256] = "extensions.sqlite_storage.directory=/";
    struct config *config;
    struct buf errors = BUF_INIT(0);
    (void)state;
    memset(set + strlen(set), 'x', 100);
    assert_int_equal(load_texts(WITH(""), NULL, set, &config, &errors), 0);
    assert_false(pages_of(config)->socket_endpoint.set);
    assert_int_equal(config->n_warnings, 1);
    buf_close(&errors);
    config_close(config);
}

static void reachable_from_elsewhere(void **state)
{
    static const char *const good[] = {WITH("endpoint: '127.1.2.3:1'"), WITH("endpoint: '[::1]:1'"),
                                       WITH("endpoint: '0.0.0.0:1', " TLS ", " TOKEN),
                                       WITH("endpoint: '0.0.0.0:1', " TLS),
                                       WITH("endpoint: 'node:1', " TLS ", auth: {token_file: /t}")};
    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        config_close(load_valid(good[i], NULL, NULL));
    expect_errors(WITH("endpoint: '0.0.0.0:1'"), NULL,
                  "c.yaml:6:21: extensions::pages::endpoint: 0.0.0.0:1 can be reached from "
                  "elsewhere, which needs a token and TLS: write tls: {cert_file: ..., "
                  "key_file: ...} too; or write localhost:1\n");
    expect_errors(WITH("endpoint: '[::]:1', " TLS ", auth: {required: false}"), NULL,
                  "c.yaml:6:21: extensions::pages::endpoint: [::]:1 can be reached from "
                  "elsewhere, which needs a token and TLS: write auth: {required: true}; or "
                  "write localhost:1\n");
    expect_errors(WITH("endpoint: '10.0.0.1:1', " TOKEN), NULL,
                  "c.yaml:6:21: extensions::pages::endpoint: 10.0.0.1:1 can be reached from "
                  "elsewhere, which needs a token and TLS: write tls: {cert_file: ..., key_file: "
                  "...} too; or write localhost:1\n");
}

static void wrong_values(void **state)
{
    (void)state;
    expect_errors(WITH("auth: {token: short}"), NULL,
                  "c.yaml:6:25: extensions::pages::auth::token: is no token; write at least 16 "
                  "letters and digits, for example from `openssl rand -hex 16`\n");
    expect_errors(WITH("auth: {token: 0123456789abcdef, token_file: /t}"), NULL,
                  "c.yaml:6:55: extensions::pages::auth::token_file: stands beside token; keep "
                  "one\n");
    expect_errors(WITH("auth: {token: 0123456789abcdef, required: false}"), NULL,
                  "c.yaml:6:53: extensions::pages::auth::required: is false beside a token; remove "
                  "one of them\n");
    expect_errors(WITH("allowed_hosts: ['a:1']"), NULL,
                  "c.yaml:6:26: extensions::pages::allowed_hosts: \"a:1\" is no host name; write "
                  "one like node1.example, without port\n");
    expect_errors(WITH("tls: {cert_file: a}"), NULL,
                  "c.yaml:6:28: extensions::pages::tls::cert_file: has no key; write key_file "
                  "too\n");
    expect_errors(WITH("endpoint: 'localhost:8888'"), NULL,
                  "c.yaml:3:10: service::telemetry::metrics::address: localhost:8888 is taken by "
                  "extensions::pages::endpoint; choose another port\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults),
        cmocka_unit_test(history),
        cmocka_unit_test(sockets),
        cmocka_unit_test(long_directory),
        cmocka_unit_test(reachable_from_elsewhere),
        cmocka_unit_test(wrong_values),
    };
    return cmocka_run_group_tests(tests, enter_directory, leave_directory);
}
