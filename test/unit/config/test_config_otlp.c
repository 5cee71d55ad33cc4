/* SPDX-License-Identifier: Apache-2.0 */
/* otlp_http, and what both OTLP exporters take of the Collector's keys. */
#include "base/clock.h"
#include "config/users.h"
#include "test_config.h"

#define SECOND NS_PER_SEC

#define HTTP_ONLY(settings)                                                                        \
    "exporters: {otlp_http: {" settings "}}\n"                                                     \
    "receivers: {otlp: {protocols: {grpc: }}}\n"                                                   \
    "service: {pipelines: {traces: {receivers: [otlp], exporters: [otlp_http]}}}\n"

static void urls(void **state)
{
    static const struct {
        const char *text, *host;
        uint16_t port;
        enum config_scheme scheme;
        const char *path;
    } cases[] = {
        {"http://b:4318", "b", 4318, CONFIG_SCHEME_HTTP, ""},
        {"http://b", "b", 80, CONFIG_SCHEME_HTTP, ""},
        {"https://b.example/", "b.example", 443, CONFIG_SCHEME_HTTPS, "/"},
        {"https://[::1]:5/x/y?z=%20", "::1", 5, CONFIG_SCHEME_HTTPS, "/x/y?z=%20"},
        {"http://[fe80::1]", "fe80::1", 80, CONFIG_SCHEME_HTTP, ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[512];
        snprintf(text, sizeof(text), HTTP_ONLY("traces_endpoint: '%s'"), cases[i].text);
        struct config *config = load_valid(text, NULL, NULL);
        const struct config_url *url = &config->exporters[0].otlp.urls[CONFIG_TRACES];
        assert_string_equal(url->endpoint.host, cases[i].host);
        assert_int_equal(url->endpoint.port, cases[i].port);
        assert_int_equal(url->endpoint.scheme, cases[i].scheme);
        assert_string_equal(url->path, cases[i].path);
        assert_int_equal(config->exporters[0].otlp.tls.insecure,
                         cases[i].scheme == CONFIG_SCHEME_HTTP);
        config_close(config);
    }
}

static void defaults(void **state)
{
    (void)state;
    struct config *config = load_valid(HTTP_ONLY("endpoint: 'https://b'"), NULL, NULL);
    const struct config_exporter_otlp *otlp = &config->exporters[0].otlp;
    assert_int_equal(config->exporters[0].type, CONFIG_EXPORTER_OTLP_HTTP);
    assert_true(otlp->timeout_ns == 30 * SECOND && otlp->compression == CONFIG_GZIP);
    assert_true(otlp->retry.enabled && otlp->retry.max_elapsed_time_ns == 0);
    assert_int_equal(otlp->num_consumers, 10);
    assert_true(!otlp->json && !otlp->tls.insecure && !otlp->disable_keep_alives);
    assert_true(otlp->idle_conn_timeout_ns == 90 * SECOND);
    config_close(config);
    config = load_valid(HTTP_ONLY("endpoint: 'https://b', logs_endpoint: 'http://b'"), NULL, NULL);
    assert_false(config->exporters[0].otlp.tls.insecure); /* for one of them */
    config_close(config);
}

/* Of these a Collector's configuration may hold any; what they are about is said. */
static void without_effect(void **state)
{
    (void)state;
    struct config *config = load_valid(
        "exporters: {otlp_grpc: {endpoint: 'http://b:1', write_buffer_size: 1, sending_queue: "
        "{num_consumers: 4, queue_size: 10, batch: {max_size: 5, anything: [x]}}}}\n"
        "receivers: {otlp: {protocols: {grpc: }}}\n"
        "service: {pipelines: {traces: {receivers: [otlp], exporters: [otlp_grpc]}}}\n",
        NULL, NULL);
    assert_int_equal(config->exporters[0].otlp.num_consumers, 4);
    assert_int_equal(config->n_warnings, 3);
    assert_non_null(strstr(config->warnings[1], "exporters::otlp_grpc::sending_queue::queue_size:"
                                                " has no effect. The size of all queues"));
    assert_non_null(strstr(config->warnings[2], "sending_queue::batch: has no effect."));
    config_close(config);
}

static void keepalive(void **state)
{
    (void)state;
    struct config *config =
        load_valid("exporters: {otlp_grpc: {endpoint: 'http://b:1', keepalive: {timeout: 3s}},\n"
                   "            otlp_grpc/x: {endpoint: 'http://b:1'}}\n"
                   "receivers: {otlp: {protocols: {grpc: }}}\n"
                   "service: {pipelines: {traces: {receivers: [otlp], exporters: [otlp_grpc]}}}\n",
                   NULL, NULL);
    const struct config_keepalive *keepalive = &config->exporters[0].otlp.keepalive;
    assert_true(keepalive->enabled && !keepalive->permit_without_stream);
    assert_true(keepalive->time_ns == 10 * SECOND && keepalive->timeout_ns == 3 * SECOND);
    assert_false(config->exporters[1].otlp.keepalive.enabled);
    config_close(config);
}

static void users(void **state)
{
    (void)state;
    struct config *config = load_valid(
        "exporters: {otlp_grpc: {endpoint: 'unix:///run/x', socket_users: [12345, daemon, no "
        "one]}}\n"
        "processors: {join: {forwarders: {users: 12346}}}\n"
        "receivers: {otlp: {protocols: {grpc: }}}\n"
        "service: {pipelines: {traces: {receivers: [otlp], processors: [join], exporters: "
        "[otlp_grpc]}}}\n",
        NULL, NULL);
    const struct config_users *listeners = &config->exporters[0].otlp.socket_users;
    const struct config_users *forwarders = &config->processors[0].join.forwarders.users;
    config->exporters[0].otlp.socket_users.n_ids = 1000; /* as an image may say */
    users_find(config);
    assert_int_equal(listeners->names.count, 3);
    assert_int_equal(listeners->n_ids, 2);
    assert_true(users_have(listeners, 12345) && users_have(listeners, 1));
    assert_false(users_have(listeners, 0) || users_have(listeners, 12346));
    assert_true(forwarders->n_ids == 1 && users_have(forwarders, 12346));
    config_close(config);
}

/* Places within the braces from 1:25 on. */
static void wrong(void **state)
{
    static const struct {
        const char *settings, *message;
    } cases[] = {
        {"", "24: exporters::otlp_http: there is no URL for traces; write endpoint, or "
             "traces_endpoint"},
        {"logs_endpoint: 'http://b'", "24: exporters::otlp_http: there is no URL for traces; write "
                                      "endpoint, or traces_endpoint"},
        {"endpoint: 'b:4318'",
         "35: exporters::otlp_http::endpoint: \"b:4318\" is not a URL that begins with http:// or "
         "https://; write it like http://localhost:4318"},
        {"endpoint: 'http://'",
         "35: exporters::otlp_http::endpoint: \"http://\" has no host; write localhost:4317 for "
         "this node, 0.0.0.0:4317 or [::]:4317 for all addresses"},
        {"endpoint: 'http://b:0'",
         "35: exporters::otlp_http::endpoint: \"http://b:0\" has port 0, where nothing can be "
         "sent; write it like http://localhost:4318"},
        {"endpoint: 'http://b:1x/y'",
         "35: exporters::otlp_http::endpoint: \"http://b:1x/y\" has a port that is not a number of "
         "0 to 65535; write host:port, for example localhost:4317"},
        {"endpoint: 'http://u:secret@b'",
         "35: exporters::otlp_http::endpoint: holds an @; credentials go to headers"},
        {"endpoint: 'http://b/x?y'",
         "35: exporters::otlp_http::endpoint: has a ?, but the signal's path is put behind it; "
         "write complete URLs: traces_endpoint..."},
        {"endpoint: 'http://b/#x'",
         "35: exporters::otlp_http::endpoint: \"http://b/#x\" has a ? without a path before it, or "
         "a #; write it like http://localhost:4318"},
        {"endpoint: \"http://b/x y\"",
         "35: exporters::otlp_http::endpoint: \"http://b/x y\" has a path with blanks or other "
         "characters that must be written as %XX"},
        {"endpoint: 'https://b', tls: {insecure: true}",
         "64: exporters::otlp_http::tls::insecure: true means plain text, but the endpoint begins "
         "with https://; keep one of them"},
        {"endpoint: 'http://b', tls: {ca_file: x}",
         "62: exporters::otlp_http::tls::ca_file: means TLS, but the endpoint begins with http://; "
         "write https:// or leave it out"},
        {"endpoint: 'http://b', headers: {content-encoding: x}",
         "57: exporters::otlp_http::headers: the header \"content-encoding\" is the protocol's "
         "own; leave it out"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[1024], expected[1024];
        snprintf(text, sizeof(text), HTTP_ONLY("%s"), cases[i].settings);
        snprintf(expected, sizeof(expected), "c.yaml:1:%s\n", cases[i].message);
        expect_errors(text, NULL, expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(urls),      cmocka_unit_test(defaults), cmocka_unit_test(without_effect),
        cmocka_unit_test(keepalive), cmocka_unit_test(users),    cmocka_unit_test(wrong),
    };
    return cmocka_run_group_tests_name("config_otlp", tests, enter_directory, leave_directory);
}
