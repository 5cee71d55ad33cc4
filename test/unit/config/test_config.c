/* SPDX-License-Identifier: Apache-2.0 */
#include "test_config.h"

#define MS     UINT64_C(1000000)
#define SECOND (1000 * MS)
#define MINUTE (60 * SECOND)
#define MIB    (UINT64_C(1) << 20)

static void assert_endpoint(const struct config_endpoint *endpoint, const char *host, uint16_t port)
{
    assert_true(endpoint->set);
    assert_string_equal(endpoint->host, host);
    assert_int_equal(endpoint->port, port);
}

/* The documented defaults, written here once more: a changed default is a change for users. */
static void defaults_of_receivers(void **state)
{
    (void)state;
    struct config *config =
        load_valid("receivers: {otlp: {protocols: {grpc: , http: }}, sampler: }\n"
                   "exporters: {debug: }\n"
                   "service:\n"
                   "  pipelines:\n"
                   "    traces: {receivers: [otlp], exporters: [debug]}\n"
                   "    profiles: {receivers: [sampler], exporters: [debug]}\n",
                   NULL, NULL);
    const struct config_receiver_otlp *otlp =
        &config_find_receiver(config, CONFIG_RECEIVER_OTLP)->otlp;
    const struct config_receiver_sampler *sampler =
        &config_find_receiver(config, CONFIG_RECEIVER_SAMPLER)->sampler;
    assert_true(otlp->grpc.enabled && otlp->http.enabled);
    assert_endpoint(&otlp->grpc.endpoint, "localhost", 4317);
    assert_true(otlp->grpc.max_recv_msg_size_bytes == 4 * MIB);
    assert_int_equal(otlp->grpc.max_concurrent_streams, 100);
    assert_int_equal(otlp->grpc.max_connections, 1024);
    assert_endpoint(&otlp->http.endpoint, "localhost", 4318);
    assert_true(otlp->http.max_request_body_size_bytes == 20 * MIB);
    assert_true(otlp->http.idle_timeout_ns == MINUTE);
    assert_int_equal(otlp->http.max_connections, 1024);
    assert_int_equal(sampler->frequency, 97);
    assert_true(sampler->ring_size_bytes == 8 * MIB);
    assert_true(sampler->drain_interval_ns == 100 * MS);
    assert_true(sampler->probability == 1 && sampler->probability_interval_ns == MINUTE);
    assert_true(sampler->max_cpu_percent == 0);
    assert_int_equal(sampler->include.pids.count + sampler->include.comms.count, 0);
    assert_int_equal(sampler->exclude.executables.count + sampler->exclude.cgroups.count, 0);
    for (unsigned source = CONTEXT_NONE + 1; source < CONTEXT_SOURCES; source++)
        assert_true(sampler->contexts.sources[source]);
    assert_true(sampler->contexts.elastic_correlation);
    assert_string_equal(sampler->contexts.obi_map, "/sys/fs/bpf/otel/traces_ctx_v1");
    assert_null(sampler->contexts.trace_id_labels.items[0]);
    assert_null(sampler->contexts.span_id_labels.items[0]);
    assert_true(sampler->symbols.lines);
    config_close(config);
}

static void defaults_of_join_and_exporters(void **state)
{
    (void)state;
    struct config *config =
        load_valid(MINIMAL "processors: {join: }\n",
                   "exporters: {otlp_grpc: {endpoint: 'b:1', tls: {insecure: true}}}", NULL);
    const struct config_processor_join *join = &config->processors[0].join;
    assert_true(join->wait_ns == MINUTE && join->span_totals_ttl_ns == 60 * MINUTE);
    assert_true(join->max_pending_bytes == 32 * MIB && join->max_span_totals_bytes == 16 * MIB);
    assert_int_equal(join->max_recent_spans, 65536);
    assert_int_equal(join->max_recent_bytes, 16 << 20);
    assert_int_equal(join->top_stacks, 5);
    assert_int_equal(join->span_attributes.count, 9);
    assert_string_equal(join->span_attributes.items[1], "http.route");
    assert_null(join->span_attributes.items[9]);
    assert_int_equal(config->exporters[0].debug.verbosity, VERBOSITY_BASIC);
    const struct config_exporter_otlp *otlp = &config->exporters[1].otlp;
    assert_endpoint(&otlp->endpoint, "b", 1);
    assert_true(otlp->tls.insecure && otlp->compression == CONFIG_GZIP && otlp->retry.enabled);
    assert_true(otlp->timeout_ns == 5 * SECOND && otlp->retry.initial_interval_ns == 5 * SECOND);
    assert_true(otlp->retry.randomization_factor == 0.5 && otlp->retry.multiplier == 1.5);
    assert_true(otlp->retry.max_interval_ns == 30 * SECOND && otlp->retry.max_elapsed_time_ns == 0);
    assert_int_equal(otlp->n_headers, 0);
    assert_true(otlp->max_request_size_bytes == 4 * MIB - 65536);
    config_close(config);
}

static void defaults_of_service_and_store(void **state)
{
    (void)state;
    struct config *config = load_valid(MINIMAL, NULL, NULL);
    assert_int_equal(config->service.log_level, LOG_LEVEL_INFO);
    assert_true(config->service.metrics_enabled);
    assert_endpoint(&config->service.metrics_address, "localhost", 8888);
    assert_string_equal(config->service.user, "");
    const struct config_extension *store =
        config_find_extension(config, CONFIG_EXTENSION_SQLITE_STORAGE);
    assert_string_equal(store->id, "sqlite_storage"); /* none is configured: this is the default */
    assert_string_equal(store->sqlite_storage.directory, "/var/lib/spanprof");
    assert_false(store->sqlite_storage.fsync_full);
    assert_true(store->sqlite_storage.max_size_bytes == 1024 * MIB);
    assert_false(config->receivers[0].otlp.http.enabled); /* absent: off */
    assert_null(config_find_receiver(config, CONFIG_RECEIVER_SAMPLER));
    assert_null(config_find_processor(config, CONFIG_PROCESSOR_JOIN));
    assert_null(config_find_pipeline(config, CONFIG_PROFILES));
    assert_int_equal(config->n_warnings, 0);
    config_close(config);
}

static void the_shipped_configuration(void **state)
{
    const struct config_source source = {CONFIG_SOURCE_FILE,
                                         SPANPROF_SOURCE_DIR "/config/spanprof.yaml"};
    struct config *config;
    struct buf errors = BUF_INIT(0);
    (void)state;
    setenv("SPANPROF_STATE_DIR", "./var", 1);
    unsetenv("SPANPROF_BACKEND");
    assert_int_equal(config_load(&source, 1, &config, &errors), 0);
    assert_int_equal(config->n_warnings, 0);
    const struct config_pipeline *traces = config_find_pipeline(config, CONFIG_TRACES);
    const struct config_pipeline *profiles = config_find_pipeline(config, CONFIG_PROFILES);
    assert_string_equal(config->receivers[traces->receivers[0]].id, "otlp");
    assert_string_equal(config->receivers[profiles->receivers[0]].id, "sampler");
    assert_int_equal(traces->n_processors, 1);
    assert_int_equal(traces->processors[0], profiles->processors[0]);
    assert_string_equal(config->exporters[traces->exporters[0]].id, "otlp_grpc");
    assert_endpoint(&config->exporters[0].otlp.endpoint, "localhost", 14317);
    assert_string_equal(config->extensions[0].sqlite_storage.directory, "./var");
    assert_endpoint(&config->receivers[0].otlp.grpc.endpoint, "localhost", 4317);
    assert_endpoint(&config->receivers[0].otlp.http.endpoint, "localhost", 4318);
    config_close(config);
}

static void ids_and_aliases(void **state)
{
    (void)state;
    struct config *config =
        load_valid("receivers: {'otlp / a ': {protocols: {grpc: }}}\n"
                   "exporters:\n"
                   "  otlp: {endpoint: 'http://[::1]:4317/'}\n"
                   "  debug/unused:\n"
                   "service: {pipelines: {traces/x: {receivers: [otlp/a], exporters: [otlp]}}}\n",
                   NULL, NULL);
    assert_string_equal(config->receivers[0].id, "otlp/a");
    assert_true(config->receivers[0].used);
    assert_int_equal(config->exporters[0].type, CONFIG_EXPORTER_OTLP_GRPC);
    assert_endpoint(&config->exporters[0].otlp.endpoint, "::1", 4317);
    assert_true(config->exporters[0].otlp.tls.insecure); /* http:// says so */
    assert_false(config->exporters[1].used);
    assert_string_equal(config->pipelines[0].id, "traces/x");
    assert_int_equal(config->n_warnings, 1);
    assert_string_equal(config->warnings[0],
                        "c.yaml:3:3: exporters::otlp: \"otlp\" is an old name of "
                        "the exporter \"otlp_grpc\"");
    config_close(config);
}

/* What is kept by one is found by the other. */
static void other_ids(void **state)
{
    static const struct {
        enum config_type type;
        const char *id, *other;
    } ids[] = {{CONFIG_EXPORTER_OTLP_GRPC, "otlp", "otlp_grpc"},
               {CONFIG_EXPORTER_OTLP_GRPC, "otlp_grpc/a", "otlp/a"},
               {CONFIG_EXPORTER_OTLP_HTTP, "otlphttp/a/b", "otlp_http/a/b"},
               {CONFIG_EXPORTER_OTLP_HTTP, "otlp_http", "otlphttp"},
               {CONFIG_EXPORTER_FILE, "file/otlp", NULL}};
    (void)state;
    for (size_t i = 0; i < sizeof(ids) / sizeof(*ids); i++) {
        struct config_exporter exporter = {.type = ids[i].type};
        char other[CONFIG_NAME_MAX];
        snprintf(exporter.id, sizeof(exporter.id), "%s", ids[i].id);
        assert_int_equal(config_other_id(&exporter, other), ids[i].other != NULL);
        if (ids[i].other)
            assert_string_equal(other, ids[i].other);
    }
}

static void headers_as_map_and_as_list(void **state)
{
    static const char *const written[] = {
        "{Authorization: Bearer x, x-empty: '', x-n: '1'}",
        "[{name: authorization, value: Bearer x}, {name: X-Empty, value: ''}, {name: x-n, value: "
        "'1'}]",
    };
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        char text[1024];
        snprintf(text, sizeof(text),
                 "exporters: {otlp_grpc: {endpoint: 'http://b:1', headers: %s}}", written[i]);
        struct config *config = load_valid(MINIMAL, text, NULL);
        const struct config_exporter_otlp *otlp = &config->exporters[1].otlp;
        assert_int_equal(otlp->n_headers, 3);
        assert_string_equal(otlp->headers[0].name, "authorization");
        assert_string_equal(otlp->headers[0].value, "Bearer x");
        assert_string_equal(otlp->headers[1].name, "x-empty");
        assert_string_equal(otlp->headers[1].value, "");
        assert_string_equal(otlp->headers[2].value, "1");
        config_close(config);
    }
}

/* Collectors take 0 in these places for what happens without a word; so it is written there. */
static void zeros_of_the_collector(void **state)
{
    (void)state;
    struct config *config = load_valid(
        MINIMAL,
        "receivers: {otlp: {protocols: {grpc: {max_concurrent_streams: 0, endpoint: '127.0.0.1:0', "
        "keepalive: {server_parameters: {timeout: 0}}}, http: {idle_timeout: 0, endpoint: "
        "'127.0.0.1:0'}}}}\n"
        "exporters: {otlp_grpc: {endpoint: 'http://b:1', timeout: 0}}\n",
        NULL);
    const struct config_receiver_otlp *otlp = &config->receivers[0].otlp;
    assert_int_equal(otlp->grpc.max_concurrent_streams, 100);
    assert_true(otlp->grpc.keepalive.timeout_ns == 20 * SECOND);
    assert_true(otlp->http.idle_timeout_ns == 0);
    assert_true(config->exporters[1].otlp.timeout_ns == 0);
    config_close(config);
}

static void values_at_the_ends_of_their_ranges(void **state)
{
    (void)state;
    struct config *config =
        load_valid(MINIMAL,
                   "receivers: {otlp: {protocols: {grpc: {max_recv_msg_size_mib: 0, endpoint: "
                   "'127.0.0.1:0'}, http: {max_request_body_size: 0, endpoint: '127.0.0.1:0'}}},"
                   " sampler: {frequency: 1000, ring_size_mib: 256, drain_interval: 1ms}}\n"
                   "processors: {join: {top_stacks: 0, wait: 10ms, span_attributes: []}}\n"
                   "exporters: {otlp_grpc: {endpoint: 'http://b:1', retry_on_failure: "
                   "{max_elapsed_time: 30s, randomization_factor: 0, multiplier: 1}}}\n"
                   "service: {telemetry: {metrics: {level: none}}}\n",
                   NULL);
    assert_true(config->receivers[0].otlp.grpc.max_recv_msg_size_bytes == 4 * MIB);
    assert_true(config->receivers[0].otlp.http.max_request_body_size_bytes == 20 * MIB);
    assert_int_equal(config->receivers[0].otlp.grpc.endpoint.port, 0);
    assert_int_equal(config->receivers[1].sampler.frequency, 1000);
    assert_true(config->receivers[1].sampler.ring_size_bytes == 256 * MIB);
    assert_true(config->receivers[1].sampler.drain_interval_ns == MS);
    assert_int_equal(config->processors[0].join.span_attributes.count, 0);
    assert_int_equal(config->processors[0].join.top_stacks, 0);
    assert_true(config->exporters[1].otlp.retry.max_elapsed_time_ns == 30 * SECOND);
    assert_true(config->exporters[1].otlp.retry.multiplier == 1);
    assert_false(config->service.metrics_enabled);
    config_close(config);
}

static void old_names_of_keys_are_taken(void **state)
{
    (void)state;
    struct config *config =
        load_valid(MINIMAL "processors: {join: {tally_ttl: 2h, max_tally_mib: 16}}\n", NULL, NULL);
    assert_true(config->processors[0].join.span_totals_ttl_ns == 2 * 3600 * SECOND);
    assert_true(config->processors[0].join.max_span_totals_bytes == 16 * MIB);
    assert_int_equal(config->n_warnings, 2);
    assert_string_equal(config->warnings[0], "c.yaml:4:21: processors::join::tally_ttl: is the old "
                                             "name of \"span_totals_ttl\"");
    config_close(config);
}

static void half_a_join_warns(void **state)
{
    (void)state;
    struct config *config = load_valid(MINIMAL "processors: {join: }\n", NULL,
                                       "service.pipelines.traces.processors=[join]");
    assert_int_equal(config->n_warnings, 1);
    assert_string_equal(config->warnings[0],
                        "c.yaml:3:22: service::pipelines: join is in the traces pipeline only, so "
                        "samples and spans are not joined; name it in the profiles pipeline too");
    config_close(config);
}

static void closing_nothing(void **state)
{
    (void)state;
    config_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_of_receivers),
        cmocka_unit_test(defaults_of_join_and_exporters),
        cmocka_unit_test(defaults_of_service_and_store),
        cmocka_unit_test(the_shipped_configuration),
        cmocka_unit_test(ids_and_aliases),
        cmocka_unit_test(other_ids),
        cmocka_unit_test(headers_as_map_and_as_list),
        cmocka_unit_test(zeros_of_the_collector),
        cmocka_unit_test(values_at_the_ends_of_their_ranges),
        cmocka_unit_test(old_names_of_keys_are_taken),
        cmocka_unit_test(half_a_join_warns),
        cmocka_unit_test(closing_nothing),
    };
    return cmocka_run_group_tests(tests, enter_directory, leave_directory);
}
