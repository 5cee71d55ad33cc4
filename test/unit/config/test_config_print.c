/* SPDX-License-Identifier: Apache-2.0 */
/* With -u as its argument it writes docs/configuration.md anew instead of testing. */
#include "config/keys/format.h"
#include "config/keys/keys.h"
#include "test_config.h"

#define REFERENCE SPANPROF_SOURCE_DIR "/docs/configuration.md"

/* Every key that can be written, with a value that is not its default. */
static const char everything[] =
    "receivers:\n"
    "  otlp/main:\n"
    "    protocols:\n"
    "      grpc:\n"
    "        endpoint: \"[::1]:14317\"\n"
    "        transport: tcp6\n"
    "        socket_mode: \"0660\"\n"
    "        max_recv_msg_size_mib: 5\n"
    "        max_concurrent_streams: 101\n"
    "        max_connections: 11\n"
    "        keepalive:\n"
    "          server_parameters:\n"
    "            max_connection_idle: 1m\n"
    "            max_connection_age: 2m\n"
    "            max_connection_age_grace: 3s\n"
    "            time: 4m\n"
    "            timeout: 5s\n"
    "        auth:\n"
    "          authenticator: bearertokenauth/senders\n"
    "        tls:\n"
    "          cert_file: /etc/tls/tls.crt\n"
    "          cert_pem: \"\"\n"
    "          key_file: /etc/tls/tls.key\n"
    "          key_pem: \"\"\n"
    "          min_version: \"1.3\"\n"
    "          max_version: \"1.3\"\n"
    "          reload_interval: 30s\n"
    "          client_ca_file: /etc/tls/ca.crt\n"
    "          client_ca_file_reload: true\n"
    "      http:\n"
    "        endpoint: unix:///run/spanprof/http.sock\n"
    "        transport: unix\n"
    "        socket_mode: \"0600\"\n"
    "        max_request_body_size: 4096\n"
    "        idle_timeout: 1m30s\n"
    "        max_connections: 12\n"
    "        cors:\n"
    "          allowed_origins: [\"https://*.example.com\"]\n"
    "          allowed_headers: [X-Key]\n"
    "          exposed_headers: [Retry-After]\n"
    "          max_age: 600\n"
    "        auth:\n"
    "          authenticator: bearertokenauth/senders\n"
    "        tls:\n"
    "          cert_file: \"\"\n"
    "          cert_pem: \"the certificate\\x0a\"\n"
    "          key_file: \"\"\n"
    "          key_pem: \"[REDACTED]\"\n"
    "          min_version: \"1.2\"\n"
    "          max_version: \"1.2\"\n"
    "          reload_interval: 0s\n"
    "          client_ca_file: \"\"\n"
    "          client_ca_file_reload: false\n"
    "  sampler:\n"
    "    frequency: 49\n"
    "    ring_size_mib: 16\n"
    "    unwind_tables_mib: 48\n"
    "    drain_interval: 50ms\n"
    "    include:\n"
    "      pids: [\"1\", \"4194304\"]\n"
    "      comms: [\"a b\"]\n"
    "      executables: [python3.11]\n"
    "      cgroups: [/system.slice/ssh.service]\n"
    "      containers: [0123456789ab]\n"
    "    exclude:\n"
    "      pids: [\"2\"]\n"
    "      comms: [stress]\n"
    "      executables: [stress-ng, b]\n"
    "      cgroups: [/a, /b]\n"
    "      containers: [abcdef012345]\n"
    "    probability: 0.25\n"
    "    probability_interval: 2m\n"
    "    max_cpu_percent: 1.5\n"
    "    contexts:\n"
    "      otel: false\n"
    "      elastic: false\n"
    "      go_labels: false\n"
    "      custom_labels: false\n"
    "      otel_nodejs: false\n"
    "      obi: false\n"
    "      elastic_correlation: false\n"
    "      obi_map: /sys/fs/bpf/mine\n"
    "      trace_id_labels: [traceID, \"the trace\"]\n"
    "      span_id_labels: [spanID]\n"
    "    symbols:\n"
    "      lines: false\n"
    "    runtimes:\n"
    "      frames: false\n"
    "      cache_mib: 24\n"
    "processors:\n"
    "  join:\n"
    "    wait: 2s\n"
    "    span_totals_ttl: 2m\n"
    "    max_pending_mib: 1\n"
    "    max_span_totals_mib: 2\n"
    "    max_recent_spans: 3\n"
    "    max_recent_mib: 4\n"
    "    top_stacks: 16\n"
    "    span_attributes: [a.b, \"c d\", \"$$x\", \"5\"]\n"
    "    forwarders:\n"
    "      users: [otelcol]\n"
    "      cgroups: [/system.slice/otelcol.service]\n"
    "      sockets: [\"unix:///run/spanprof/collector.sock\"]\n"
    "exporters:\n"
    "  otlp_grpc:\n"
    "    endpoint: unix:///run/otelcol/otlp.sock\n"
    "    socket_users: [otelcol, \"10001\"]\n"
    "    tls:\n"
    "      insecure: false\n"
    "      insecure_skip_verify: true\n"
    "      ca_file: \"\"\n"
    "      ca_pem: \"the CA\"\n"
    "      include_system_ca_certs_pool: true\n"
    "      server_name_override: backend.example\n"
    "      cert_file: mine.crt\n"
    "      cert_pem: \"\"\n"
    "      key_file: mine.key\n"
    "      key_pem: \"\"\n"
    "      min_version: \"1.2\"\n"
    "      max_version: \"1.3\"\n"
    "      reload_interval: 1m\n"
    "    timeout: 7s\n"
    "    compression: none\n"
    "    headers: {authorization: \"[REDACTED]\", x-a: \"[REDACTED]\"}\n"
    "    retry_on_failure:\n"
    "      enabled: false\n"
    "      initial_interval: 1s\n"
    "      randomization_factor: 0.25\n"
    "      multiplier: 2\n"
    "      max_interval: 10s\n"
    "      max_elapsed_time: 1h\n"
    "    sending_queue:\n"
    "      enabled: true\n"
    "      storage: sqlite_storage/x\n"
    "      num_consumers: 3\n"
    "    max_request_size: 100000\n"
    "    authority: other.example\n"
    "    keepalive:\n"
    "      time: 11s\n"
    "      timeout: 12s\n"
    "      permit_without_stream: true\n"
    "  otlp_http:\n"
    "    endpoint: \"https://backend:443/otlp\"\n"
    "    traces_endpoint: \"http://[::1]:4318/t?x=y\"\n"
    "    metrics_endpoint: \"https://m:80\"\n"
    "    logs_endpoint: \"https://l:4318/\"\n"
    "    profiles_endpoint: \"https://p:4318/p\"\n"
    "    encoding: json\n"
    "    tls:\n"
    "      insecure: false\n"
    "      insecure_skip_verify: true\n"
    "      ca_file: ca.pem\n"
    "      ca_pem: \"\"\n"
    "      include_system_ca_certs_pool: true\n"
    "      server_name_override: backend.example\n"
    "      cert_file: mine.crt\n"
    "      cert_pem: \"\"\n"
    "      key_file: mine.key\n"
    "      key_pem: \"\"\n"
    "      min_version: \"1.3\"\n"
    "      max_version: \"1.3\"\n"
    "      reload_interval: 1m\n"
    "    timeout: 8s\n"
    "    compression: zstd\n"
    "    headers: {authorization: \"[REDACTED]\"}\n"
    "    retry_on_failure:\n"
    "      enabled: false\n"
    "      initial_interval: 1s\n"
    "      randomization_factor: 0.25\n"
    "      multiplier: 2\n"
    "      max_interval: 10s\n"
    "      max_elapsed_time: 1h\n"
    "    sending_queue:\n"
    "      enabled: true\n"
    "      storage: sqlite_storage/x\n"
    "      num_consumers: 4\n"
    "    max_request_size: 100001\n"
    "    idle_conn_timeout: 1m\n"
    "    disable_keep_alives: true\n"
    "  debug:\n"
    "    verbosity: detailed\n"
    "  file:\n"
    "    path: /var/log/otlp.json\n"
    "    format: proto\n"
    "    compression: zstd\n"
    "    append: false\n"
    "    create_directory: true\n"
    "    flush_interval: 0s\n"
    "    rotation:\n"
    "      max_megabytes: 7\n"
    "      max_days: 8\n"
    "      max_backups: 9\n"
    "      localtime: true\n"
    "extensions:\n"
    "  sqlite_storage/x:\n"
    "    directory: \"a \\\"b\\\" \\\\ $$c: #é\"\n"
    "    fsync: full\n"
    "    max_size_mib: 99\n"
    "    when_full: drop_oldest\n"
    "  health_check:\n"
    "    endpoint: 127.0.0.1:13134\n"
    "    path: /health\n"
    "  pages:\n"
    "    endpoint: 10.0.0.1:9798\n"
    "    socket: /run/spanprof/pages.sock\n"
    "    allowed_hosts: [node1.example]\n"
    "    auth:\n"
    "      required: true\n"
    "      token: \"\"\n"
    "      token_file: /etc/spanprof/token\n"
    "    tls:\n"
    "      cert_file: pages.crt\n"
    "      cert_pem: \"\"\n"
    "      key_file: pages.key\n"
    "      key_pem: \"\"\n"
    "      min_version: \"1.3\"\n"
    "      max_version: \"1.3\"\n"
    "      reload_interval: 1h\n"
    "      client_ca_file: \"\"\n"
    "      client_ca_file_reload: false\n"
    "    costs:\n"
    "      watt_per_core: 5.5\n"
    "      pue: 1.2\n"
    "      co2_t_per_kwh: 0.0004\n"
    "      usd_per_core_hour: 0.03\n"
    "  history:\n"
    "    retention: 2h\n"
    "    max_size_mib: 8\n"
    "    max_spans_per_second: 0\n"
    "  bearertokenauth/senders:\n"
    "    scheme: Token\n"
    "    token: \"\"\n"
    "    tokens: []\n"
    "    filename: /etc/spanprof/tokens\n"
    "service:\n"
    "  extensions: [sqlite_storage/x, health_check, pages, history, bearertokenauth/senders]\n"
    "  pipelines:\n"
    "    traces/all:\n"
    "      receivers: [otlp/main]\n"
    "      processors: [join]\n"
    "      exporters: [otlp_grpc, otlp_http, debug, file]\n"
    "    profiles:\n"
    "      receivers: [sampler]\n"
    "      processors: [join]\n"
    "      exporters: [debug]\n"
    "  telemetry:\n"
    "    logs:\n"
    "      level: error\n"
    "      encoding: json\n"
    "    metrics:\n"
    "      level: none\n"
    "      address: 0.0.0.0:9999\n"
    "      spans: true\n"
    "  user: nobody\n";

static char *print(const struct config *config)
{
    struct buf out = BUF_INIT(0);
    assert_int_equal(config_print(config, &out), 0);
    assert_int_equal(buf_append(&out, "", 1), 0);
    return (char *)buf_release(&out, NULL);
}

static void everything_is_read_and_printed(void **state)
{
    (void)state;
    struct config *config = load_valid(everything, NULL, NULL);
    char *printed = print(config);
    assert_string_equal(printed, everything);
    free(printed);
    _cleanup_buf_ struct buf image = BUF_INIT(0);
    struct config *copy;
    assert_int_equal(config_pack(config, CONFIG_WITH_SECRETS, &image), 0);
    assert_int_equal(config_unpack(buf_bytes(&image), &copy), 0);
    assert_true(config_same(config, copy));
    config_close(copy);
    config_close(config);
    for (size_t i = 0; i < config_keys_count; i++) { /* so that a new key comes into this test */
        char line[128];
        snprintf(line, sizeof(line), " %s:", keys_name(&config_keys[i]));
        if (config_keys[i].owner != OWNER_ROOT && config_keys[i].kind != KEY_IGNORED)
            assert_non_null(strstr(everything, line));
    }
}

static void defaults_are_filled_in(void **state)
{
    (void)state;
    struct config *config = load_valid(MINIMAL, NULL, NULL);
    char *printed = print(config);
    assert_non_null(strstr(printed, "        max_recv_msg_size_mib: 4\n"));
    assert_non_null(strstr(printed, "extensions:\n  sqlite_storage:\n    directory: "
                                    "/var/lib/spanprof\n"));
    assert_null(strstr(printed, "http:")); /* a protocol that is off */
    config_close(config);
    config = load_valid(printed, NULL, NULL); /* and mean the same when read again */
    char *again = print(config);
    assert_string_equal(printed, again);
    free(printed);
    free(again);
    config_close(config);
}

static void secrets_are_not_printed(void **state)
{
    (void)state;
    setenv("TOKEN", "hunter2", 1);
    struct config *config =
        load_valid(MINIMAL,
                   "exporters:\n  otlp_grpc:\n    endpoint: http://b:1\n    headers:\n"
                   "      authorization: Bearer ${env:TOKEN}\n",
                   NULL);
    assert_string_equal(config->exporters[1].otlp.headers[0].value, "Bearer hunter2");
    char *printed = print(config);
    assert_non_null(strstr(printed, "headers: {authorization: \"[REDACTED]\"}\n"));
    assert_null(strstr(printed, "hunter2"));
    free(printed);
    config_close(config);
    config = load_valid(MINIMAL,
                        "exporters:\n  otlp_grpc:\n    endpoint: b:1\n    tls: {cert_file: c, "
                        "key_pem: \"hunter2\\nhunter3\"}\n",
                        NULL);
    assert_string_equal(config->exporters[1].otlp.tls.key_pem, "hunter2\nhunter3");
    printed = print(config);
    assert_non_null(strstr(printed, "key_pem: \"[REDACTED]\"\n"));
    assert_null(strstr(printed, "hunter"));
    free(printed);
    config_close(config);
    static const char tokens[] =
        "receivers: {otlp: {protocols: {grpc: }}}\n"
        "exporters: {debug: }\n"
        "extensions: {bearertokenauth/a: {token: 0123456789abcdef},\n"
        "             bearertokenauth/b: {tokens: [0123456789abcdef, 0123456789abcdeg]}}\n"
        "service: {extensions: [bearertokenauth/a, bearertokenauth/b],\n"
        "          pipelines: {traces: {receivers: [otlp], exporters: [debug]}}}\n";
    config = load_valid(tokens, NULL, NULL);
    printed = print(config);
    assert_null(strstr(printed, "0123456789"));
    assert_non_null(strstr(printed, "token: \"[REDACTED]\"\n"));
    assert_non_null(strstr(printed, "tokens: [\"[REDACTED]\", \"[REDACTED]\"]\n"));
    free(printed);
    config_close(config);
}

static void components_are_listed(void **state)
{
    struct buf out = BUF_INIT(0);
    (void)state;
    assert_int_equal(config_print_components(&out), 0);
    assert_int_equal(buf_append(&out, "", 1), 0);
    assert_string_equal((char *)out.data, "receivers:\n"
                                          "  - name: otlp\n"
                                          "    stability:\n"
                                          "      traces: beta\n"
                                          "      profiles: beta\n"
                                          "      metrics: beta\n"
                                          "      logs: beta\n"
                                          "  - name: sampler\n"
                                          "    stability:\n"
                                          "      profiles: alpha\n"
                                          "processors:\n"
                                          "  - name: join\n"
                                          "    stability:\n"
                                          "      traces: alpha\n"
                                          "      profiles: alpha\n"
                                          "exporters:\n"
                                          "  - name: otlp_grpc\n"
                                          "    aliases: [otlp]\n"
                                          "    stability:\n"
                                          "      traces: beta\n"
                                          "      profiles: beta\n"
                                          "      metrics: beta\n"
                                          "      logs: beta\n"
                                          "  - name: otlp_http\n"
                                          "    aliases: [otlphttp]\n"
                                          "    stability:\n"
                                          "      traces: beta\n"
                                          "      profiles: beta\n"
                                          "      metrics: beta\n"
                                          "      logs: beta\n"
                                          "  - name: debug\n"
                                          "    stability:\n"
                                          "      traces: alpha\n"
                                          "      profiles: alpha\n"
                                          "      metrics: alpha\n"
                                          "      logs: alpha\n"
                                          "  - name: file\n"
                                          "    stability:\n"
                                          "      traces: alpha\n"
                                          "      profiles: alpha\n"
                                          "      metrics: alpha\n"
                                          "      logs: alpha\n"
                                          "  - name: nop\n"
                                          "    stability:\n"
                                          "      traces: alpha\n"
                                          "      profiles: alpha\n"
                                          "      metrics: alpha\n"
                                          "      logs: alpha\n"
                                          "extensions:\n"
                                          "  - name: sqlite_storage\n"
                                          "    stability:\n"
                                          "      extension: alpha\n"
                                          "  - name: health_check\n"
                                          "    stability:\n"
                                          "      extension: alpha\n"
                                          "  - name: pages\n"
                                          "    stability:\n"
                                          "      extension: alpha\n"
                                          "  - name: history\n"
                                          "    stability:\n"
                                          "      extension: alpha\n"
                                          "  - name: bearertokenauth\n"
                                          "    stability:\n"
                                          "      extension: alpha\n");
    buf_close(&out);
}

/* Whether SIGHUP brought anything new: also in what is never printed. */
static void the_same_or_not(void **state)
{
#define OUT(headers) "exporters: {debug: , otlp_grpc: {endpoint: 'b:1', headers: {" headers "}}}\n"
#define IN(pem)      "receivers: {otlp: {protocols: {grpc: {tls: {cert_pem: c, key_pem: " pem "}}}}}\n"
#define REST         "service: {pipelines: {traces: {receivers: [otlp], exporters: [otlp_grpc]}}}\n"
#define TOKENS(last) "extensions: {bearertokenauth: {tokens: [0123456789abcde" last "]}}\n"
    static const char *const texts[] = {
        IN("k") OUT("a: b") REST,
        IN("k") OUT("a: c") REST,
        IN("k") OUT("a: b, d: e") REST,
        IN("l") OUT("a: b") REST,
        IN("k") OUT("a: b") REST "processors: {join: }\n",
        IN("k") OUT("a: b") REST TOKENS("f"),
        IN("k") OUT("a: b") REST TOKENS("g"),
        MINIMAL,
    };
    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        for (size_t j = 0; j < sizeof(texts) / sizeof(texts[0]); j++) {
            struct config *a = load_valid(texts[i], NULL, NULL);
            struct config *b = load_valid(texts[j], NULL, NULL);
            assert_int_equal(config_same(a, b), i == j);
            config_close(a);
            config_close(b);
        }
}

/* What the readers rely on; a table cannot be checked by the compiler. */
static void the_table_is_sound(void **state)
{
    (void)state;
    for (size_t i = 0; i < config_keys_count; i++) {
        const struct config_key *key = &config_keys[i];
        const char *dot = strrchr(key->path, '.');
        assert_true(strlen(key->help) > 10);
        assert_true(key->help[strlen(key->help) - 1] == '.');
        assert_null(strpbrk(key->help, "|\n")); /* a cell of a Markdown table */
        if ((key->kind == KEY_CHOICE) != (key->choices != NULL))
            fail_msg("%s: choices", key->path);
        char parent[128] = "";
        if (dot) {
            char prefix[128] = "";
            memcpy(parent, key->path, (size_t)(dot - key->path));
            const char *up = strrchr(parent, '.');
            memcpy(prefix, parent, up ? (size_t)(up - parent) : 0);
            const struct config_key *section = keys_find(key->owner, prefix, up ? up + 1 : parent);
            assert_non_null(section);
            assert_int_equal(section->kind, KEY_SECTION);
        }
        assert_ptr_equal(keys_find(key->owner, parent, keys_name(key)),
                         key); /* no twin before it */
    }
}

static char *make_reference(void)
{
    struct buf out = BUF_INIT(0);
    assert_int_equal(config_print_reference(&out), 0);
    assert_int_equal(buf_append(&out, "", 1), 0);
    return (char *)buf_release(&out, NULL);
}

static void the_reference_is_up_to_date(void **state)
{
    static char found[1 << 17];
    char *made = make_reference();
    (void)state;
    FILE *file = fopen(REFERENCE, "rb");
    assert_non_null(file);
    size_t n = fread(found, 1, sizeof(found) - 1, file);
    fclose(file);
    found[n] = 0;
    if (strcmp(found, made) != 0)
        print_error("docs/configuration.md is stale: run test_config_print -u\n");
    assert_string_equal(found, made);
    free(made);
}

static int update_reference(void)
{
    char *made = make_reference();
    FILE *file = fopen(REFERENCE, "wb");
    int error = !file || fputs(made, file) < 0 || fclose(file);
    free(made);
    if (error)
        perror(REFERENCE);
    return error;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_is_read_and_printed),
        cmocka_unit_test(defaults_are_filled_in),
        cmocka_unit_test(secrets_are_not_printed),
        cmocka_unit_test(components_are_listed),
        cmocka_unit_test(the_same_or_not),
        cmocka_unit_test(the_table_is_sound),
        cmocka_unit_test(the_reference_is_up_to_date),
    };
    if (argc == 2 && strcmp(argv[1], "-u") == 0)
        return update_reference();
    return cmocka_run_group_tests(tests, enter_directory, leave_directory);
}
