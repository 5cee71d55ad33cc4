/* SPDX-License-Identifier: Apache-2.0 */
#include "test_config.h"

/* Keys that are wrong each by itself: lines added to the least valid configuration, from line 4 on.
 */
static const struct {
    const char *lines, *message;
} key_cases[] = {
    {"foo: 1\n", "4:1: unknown key \"foo\"; keys here: receivers, processors, exporters, "
                 "extensions, service"},
    {"connectors: {x: }\n", "4:1: unknown key \"connectors\"; there are no connectors in "
                            "spanprof; leave it out; keys here: receivers, processors, "
                            "exporters, extensions, service"},
    {"processors: {join: {wiat: 5s}}\n",
     "4:21: processors::join: unknown key \"wiat\"; did you mean \"wait\"? keys here: wait, "
     "span_totals_ttl, max_pending_mib, max_span_totals_mib, max_recent_spans, max_recent_mib, "
     "top_stacks, "
     "span_attributes, forwarders"},
    {"processors: {join: {wait.x: 5s}}\n",
     "4:21: processors::join: unknown key \"wait.x\"; did you mean \"wait\"? keys here: wait, "
     "span_totals_ttl, max_pending_mib, max_span_totals_mib, max_recent_spans, max_recent_mib, "
     "top_stacks, "
     "span_attributes, forwarders"},
    {"processors: {join: {forwarders: {cgroups: [otelcol]}}}\n",
     "4:43: processors::join::forwarders.cgroups: \"otelcol\" is not the path of a cgroup; write "
     "one like /system.slice/otelcol.service"},
    {"processors: {join: {wait: 5}}\n", "4:27: processors::join::wait: 5 (nanoseconds, without "
                                        "a unit) is out of range; write 10ms to 1h"},
    {"processors: {join: {wait: -5s}}\n",
     "4:27: processors::join::wait: expected a duration like 500ms, 5s or 1h30m, found a text "
     "\"-5s\""},
    {"processors: {join: {wait: [5s]}}\n",
     "4:27: processors::join::wait: expected a duration like 500ms, 5s or 1h30m, found a list"},
    {"processors: {join: {wait: 999999999999h}}\n",
     "4:27: processors::join::wait: 999999999999h is out of range; write 10ms to 1h"},
    {"processors: {join: {span_totals_ttl: 5s}}\n",
     "4:38: processors::join::span_totals_ttl: is shorter than wait; write at least the same"},
    {"processors: {join: {wait: 1h, span_totals_ttl: 59m}}\n",
     "4:48: processors::join::span_totals_ttl: is shorter than wait; write at least the same"},
    {"processors: {join: {top_stacks: 17}}\n",
     "4:33: processors::join::top_stacks: 17 is out of range; write 0 to 16"},
    {"processors: {join: {top_stacks: -1}}\n",
     "4:33: processors::join::top_stacks: -1 is out of range; write 0 to 16"},
    {"processors: {join: {top_stacks: 4294967297}}\n",
     "4:33: processors::join::top_stacks: 4294967297 is out of range; write 0 to 16"},
    {"processors: {join: {top_stacks: '5'}}\n",
     "4:33: processors::join::top_stacks: expected a whole number (without quotes), found a "
     "text in quotes, \"5\""},
    {"processors: {join: {top_stacks: 1.5}}\n",
     "4:33: processors::join::top_stacks: expected a whole number (without quotes), found a "
     "number with a fraction \"1.5\""},
    {"processors: {join: {span_attributes: [a, 5]}}\n",
     "4:42: processors::join::span_attributes: expected a text (numbers and true/false need "
     "quotes), found a number \"5\""},
    {"processors: {join: {span_attributes: 'a,a'}}\n",
     "4:38: processors::join::span_attributes: \"a\" stands twice; keep one"},
    {"processors: {join: {span_attributes: ['']}}\n",
     "4:39: processors::join::span_attributes: \"\" is empty or longer than 255 bytes; leave "
     "it "
     "out"},
    {"processors: {join: {span_attributes: {a: 1}}}\n",
     "4:38: processors::join::span_attributes: expected a list of texts like [a, b], found a "
     "map"},
    {"processors: {join: 5}\n", "4:20: processors::join: expected a map of keys, found a number"},
    {"processors: [join]\n", "4:13: processors: expected a map, found a list"},
    {"processors: {batch: }\n", "4:14: processors::batch: unknown processor type \"batch\"; "
                                "spanprof makes its batches itself; leave it out; processors "
                                "here: join"},
    {"processors: {foo/x: }\n",
     "4:14: processors::foo/x: unknown processor type \"foo\"; processors here: join"},
    {"processors: {5x: }\n", "4:14: processors: \"5x\" is no id; write type or type/name, where "
                             "the type begins with a letter and has letters, digits and _"},
    {"processors: {join/: }\n", "4:14: processors: \"join/\" has no name behind the /; write "
                                "type/name, without blanks and symbols in the name"},
    {"processors: {join/a b: }\n", "4:14: processors: \"join/a b\" has no name behind the /; "
                                   "write type/name, without blanks and symbols in the name"},
    {"processors: {join/a: , 'join / a': }\n",
     "4:24: processors::join / a: stands twice, with other blanks; keep one"},
    {"extensions: {file_storage: }\n",
     "4:14: extensions::file_storage: unknown extension type \"file_storage\"; spanprof's "
     "store "
     "is the extension `sqlite_storage`; extensions here: sqlite_storage, health_check, "
     "pages, history, bearertokenauth"},
};

#define NAME_128                                                                                   \
    "a234567890123456789012345678901234567890123456789012345678901234567890123456789012345678"     \
    "90123456789012345678901234567890123456789"

static void wrong_contexts(void **state)
{
    static const struct {
        const char *contexts, *message;
    } cases[] = {
        {"{otle: false}",
         "1:63: receivers::sampler::contexts: unknown key \"otle\"; did you mean "
         "\"otel\"? keys here: otel, elastic, "
         "go_labels, custom_labels, otel_nodejs, obi, elastic_correlation, obi_map, "
         "trace_id_labels, span_id_labels"},
        {"{otel: 1}", "1:69: receivers::sampler::contexts::otel: expected true or false (without "
                      "quotes), found a number \"1\""},
        {"{obi_map: fs/bpf}",
         "1:72: receivers::sampler::contexts::obi_map: \"fs/bpf\" is not an absolute path; write "
         "one like /sys/fs/bpf/otel/traces_ctx_v1, or obi: false to do without"},
        {"{obi_map: ''}", "1:72: receivers::sampler::contexts::obi_map: an empty text is out of "
                          "range; write 2 to 1024 bytes"},
        {"{trace_id_labels: [a, " NAME_128 "]}",
         "1:80: receivers::sampler::contexts::trace_id_labels: \"a2345678901234567890...\" is "
         "longer than 127 bytes, which is as much as is read of a label's name; leave it out"},
        {"{span_id_labels: [a, a]}",
         "1:83: receivers::sampler::contexts::span_id_labels: \"a\" stands twice; keep one"},
        {"{span_id_labels: 5}", "1:79: receivers::sampler::contexts::span_id_labels: expected a "
                                "list of texts like [a, b], found a number \"5\""},
        {"true", "1:62: receivers::sampler::contexts: expected a map of keys, found a boolean"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[1024], expected[1024];
        snprintf(text, sizeof(text),
                 "receivers: {otlp: {protocols: {grpc: }}, sampler: {contexts: %s}}\n"
                 "exporters: {debug: }\n"
                 "service: {pipelines: {traces: {receivers: [otlp], exporters: [debug]},\n"
                 "                      profiles: {receivers: [sampler], exporters: [debug]}}}\n",
                 cases[i].contexts);
        snprintf(expected, sizeof(expected), "c.yaml:%s\n", cases[i].message);
        expect_errors(text, NULL, expected);
    }
}

/* Within the braces of the sampler; places from 1:52 on. */
static void wrong_sampler(void **state)
{
    static const struct {
        const char *settings, *message;
    } cases[] = {
        {"include: {pids: [12, 0]}", "1:68: receivers::sampler::include::pids: \"0\" is not the "
                                     "number of a process; write one like 1234"},
        {"include: {pids: [12, init]}", "1:68: receivers::sampler::include::pids: \"init\" is not "
                                        "the number of a process; write one like 1234"},
        {"exclude: {comms: [sixteen-letters!]}",
         "1:69: receivers::sampler::exclude::comms: \"sixteen-letters!\" is longer than 15 bytes, "
         "where the kernel cuts names of threads"},
        {"exclude: {comms: [5]}", "1:70: receivers::sampler::exclude::comms: expected a text "
                                  "(numbers and true/false need quotes), found a number \"5\""},
        {"include: {executables: [/bin/sh]}",
         "1:75: receivers::sampler::include::executables: \"/bin/sh\" holds a /; write the file's "
         "name without directories"},
        {"include: {cgroups: [system.slice]}",
         "1:71: receivers::sampler::include::cgroups: \"system.slice\" is not a cgroup's path; "
         "write one like /system.slice/ssh.service"},
        {"exclude: {cgroups: [/a/../b]}",
         "1:71: receivers::sampler::exclude::cgroups: \"/a/../b\" is not a cgroup's path; write "
         "one like /system.slice/ssh.service"},
        {"exclude: {containers: [my-container]}",
         "1:74: receivers::sampler::exclude::containers: \"my-container\" is not a container's id; "
         "write 12 to 64 hex digits in lower case"},
        {"exclude: {containers: [abc]}",
         "1:74: receivers::sampler::exclude::containers: \"abc\" is not a container's id; write 12 "
         "to 64 hex digits in lower case"},
        {"exclude: {pid: [1]}",
         "1:62: receivers::sampler::exclude: unknown key \"pid\"; did you mean \"pids\"? keys "
         "here: pids, comms, executables, cgroups, containers"},
        {"probability: 0",
         "1:65: receivers::sampler::probability: 0 is out of range; write 0.0001 to 1"},
        {"probability: 2",
         "1:65: receivers::sampler::probability: 2 is out of range; write 0.0001 to 1"},
        {"max_cpu_percent: 101",
         "1:69: receivers::sampler::max_cpu_percent: 101 is out of range; write 0 to 100"},
        {"max_cpu_percent: -1",
         "1:69: receivers::sampler::max_cpu_percent: -1 is out of range; write 0 to 100"},
        {"probability_interval: 100ms",
         "1:74: receivers::sampler::probability_interval: 100ms is out of range; write 1s to 24h"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[1024], expected[1024];
        snprintf(text, sizeof(text),
                 "receivers: {otlp: {protocols: {grpc: }}, sampler: {%s}}\n"
                 "exporters: {debug: }\n"
                 "service: {pipelines: {traces: {receivers: [otlp], exporters: [debug]},\n"
                 "                      profiles: {receivers: [sampler], exporters: [debug]}}}\n",
                 cases[i].settings);
        snprintf(expected, sizeof(expected), "c.yaml:%s\n", cases[i].message);
        expect_errors(text, NULL, expected);
    }
}

static void wrong_keys(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(key_cases) / sizeof(key_cases[0]); i++) {
        char text[2048], expected[1024];
        snprintf(text, sizeof(text), MINIMAL "%s", key_cases[i].lines);
        snprintf(expected, sizeof(expected), "c.yaml:%s\n", key_cases[i].message);
        expect_errors(text, NULL, expected);
    }
}

/* Settings of the one exporter; places within the braces from 1:25 on. */
static const struct {
    const char *settings, *message;
} exporter_cases[] = {
    {"", "13: exporters::otlp_grpc: the key \"endpoint\" is missing; write its value (host:port "
         "or URL)"},
    {"endpoint: ", "25: exporters::otlp_grpc::endpoint: needs a value (host:port or URL)"},
    {"endpoint: 'https://b:1', tls: {insecure: true}",
     "66: exporters::otlp_grpc::tls::insecure: true means plain text, but the endpoint begins with "
     "https://; keep one of them"},
    {"endpoint: 'b:1', tls: {insecure: true, ca_file: x}",
     "58: exporters::otlp_grpc::tls::insecure: true means plain text, but ca_file stands beside "
     "it; keep one of them"},
    {"endpoint: 'http://b:1', tls: {ca_pem: x}",
     "63: exporters::otlp_grpc::tls::ca_pem: means TLS, but the endpoint begins with http://; "
     "write https:// or leave it out"},
    {"endpoint: 'b:1', tls: {cert_file: x}",
     "59: exporters::otlp_grpc::tls::cert_file: has no key; write key_file too"},
    {"endpoint: 'b:1', tls: {key_pem: x}",
     "47: exporters::otlp_grpc::tls::key_file: has no certificate; write cert_file too"},
    {"endpoint: 'b:1', tls: {ca_file: x, ca_pem: y}",
     "68: exporters::otlp_grpc::tls::ca_pem: stands beside ca_file; keep one of them"},
    {"endpoint: 'b:1', tls: {min_version: 1.3, max_version: '1.2'}",
     "79: exporters::otlp_grpc::tls::max_version: is older than min_version; write at least the "
     "same"},
    {"endpoint: 'b:1', tls: {min_version: 1.1}",
     "61: exporters::otlp_grpc::tls::min_version: expected one of 1.2, 1.3, found a number with a "
     "fraction \"1.1\""},
    {"endpoint: 'b:1', tls: {reload_interval: 10ms}",
     "65: exporters::otlp_grpc::tls::reload_interval: 10ms is out of range; write 0, or 1s to "
     "24h"},
    {"endpoint: 'http://b'", "35: exporters::otlp_grpc::endpoint: \"http://b\" has no port; "
                             "write host:port, for example localhost:4317"},
    {"endpoint: 'http://b:0'", "35: exporters::otlp_grpc::endpoint: \"http://b:0\" has port 0, "
                               "where nothing can be sent; "
                               "write host:port, for example localhost:4317"},
    {"endpoint: 'http://u:secret@b:1'",
     "35: exporters::otlp_grpc::endpoint: holds an @; an endpoint is host:port, credentials go "
     "to headers"},
    {"endpoint: 4317", "35: exporters::otlp_grpc::endpoint: expected a text host:port, for "
                       "example localhost:4317, found a number \"4317\""},
    {"endpoint: 'http://b:1', compression: snappy",
     "62: exporters::otlp_grpc::compression: expected one of gzip, zstd, none, found a text "
     "\"snappy\""},
    {"endpoint: 'http://b:1', sending_queue: {enabled: false}",
     "74: exporters::otlp_grpc::sending_queue::enabled: an exporter without a queue is not "
     "available; leave it out"},
    {"endpoint: 'http://b:1', sending_queue: {storage: file_storage}",
     "74: exporters::otlp_grpc::sending_queue::storage: \"file_storage\" is not the store in use; "
     "leave it out, queues are in the store anyway"},
    {"endpoint: 'http://b:1', auth: {authenticator: x}",
     "49: exporters::otlp_grpc: unknown key \"auth\"; write credentials in headers, for example "
     "{authorization: Bearer ...}; keys here: endpoint, socket_users, tls, timeout, compression, "
     "headers, "
     "retry_on_failure, sending_queue, max_request_size, read_buffer_size, write_buffer_size, "
     "authority, keepalive, wait_for_ready, balancer_name"},
    {"endpoint: 'http://b:1', socket_users: [12345, otelcol]",
     "63: exporters::otlp_grpc::socket_users: the endpoint is no socket's path, so it cannot be "
     "told who listens there; leave it out, and use tls"},
    {"endpoint: 'unix:///run/x.sock', socket_users: [a, '']",
     "75: exporters::otlp_grpc::socket_users: \"\" is empty or longer than 255 bytes; leave it "
     "out"},
    {"endpoint: 'b:1', tls: {cipher_suites: [x]}",
     "48: exporters::otlp_grpc::tls: unknown key \"cipher_suites\"; only suites with forward "
     "secrecy and authenticated encryption are used; leave it out; keys here: insecure, "
     "insecure_skip_verify, ca_file, ca_pem, include_system_ca_certs_pool, server_name_override, "
     "cert_file, cert_pem, key_file, key_pem, min_version, max_version, reload_interval"},
    {"endpoint: 'http://b:1', tls: {insecure: yes}",
     "65: exporters::otlp_grpc::tls::insecure: expected true or false (without quotes), found "
     "a "
     "text \"yes\""},
    {"endpoint: 'http://b:1', headers: {x: 5}",
     "62: exporters::otlp_grpc::headers: the header \"x\" needs a text, found a number; put "
     "numbers in quotes"},
    {"endpoint: 'http://b:1', headers: {x: \"se\\ncret\"}",
     "62: exporters::otlp_grpc::headers: the value of the header \"x\" is not one line of "
     "printable ASCII without blanks at its ends, at most 8192 bytes"},
    {"endpoint: 'http://b:1', headers: {':path': x}",
     "59: exporters::otlp_grpc::headers: the header \":path\" is no header name; use letters, "
     "digits, - _ and ."},
    {"endpoint: 'http://b:1', headers: {Content-Type: x}",
     "59: exporters::otlp_grpc::headers: the header \"content-type\" is the protocol's own; "
     "leave it out"},
    {"endpoint: 'http://b:1', headers: {x-bin: x}",
     "59: exporters::otlp_grpc::headers: the header \"x-bin\" ends with -bin; binary headers "
     "are not supported"},
    {"endpoint: 'http://b:1', headers: {grpc-timeout: x}",
     "59: exporters::otlp_grpc::headers: the header \"grpc-timeout\" begins with grpc-, which "
     "is gRPC's own; choose another name"},
    {"endpoint: 'http://b:1', headers: {x: a, X: b}",
     "65: exporters::otlp_grpc::headers: the header \"x\" stands twice; keep one"},
    {"endpoint: 'http://b:1', headers: [{name: x}]",
     "59: exporters::otlp_grpc::headers: expected an item like {name: authorization, value: "
     "...}, with these two keys"},
    {"endpoint: 'http://b:1', headers: x",
     "58: exporters::otlp_grpc::headers: expected a map of headers, found a text; write {name: "
     "value}"},
    {"endpoint: 'http://b:1', retry_on_failure: {multiplier: 0.5}",
     "80: exporters::otlp_grpc::retry_on_failure::multiplier: 0.5 is out of range; write 1 to "
     "100"},
    {"endpoint: 'http://b:1', retry_on_failure: {max_interval: 1s}",
     "82: exporters::otlp_grpc::retry_on_failure::max_interval: is shorter than "
     "initial_interval; write at least the same"},
    {"endpoint: 'http://b:1', retry_on_failure: {max_elapsed_time: 29s}",
     "86: exporters::otlp_grpc::retry_on_failure::max_elapsed_time: is shorter than "
     "initial_interval or max_interval; write at least the longer of them, or 0 for never "
     "giving up"},
    {"endpoint: 'http://b:1', retry_on_failure: 5",
     "67: exporters::otlp_grpc::retry_on_failure: expected a map of keys, found a number"},
};

static void wrong_exporters(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(exporter_cases) / sizeof(exporter_cases[0]); i++) {
        char text[2048], expected[1024];
        snprintf(text, sizeof(text),
                 "exporters: {otlp_grpc: {%s}}\n"
                 "receivers: {otlp: {protocols: {grpc: }}}\n"
                 "service: {pipelines: {traces: {receivers: [otlp], exporters: [otlp_grpc]}}}\n",
                 exporter_cases[i].settings);
        snprintf(expected, sizeof(expected), "c.yaml:1:%s\n", exporter_cases[i].message);
        expect_errors(text, NULL, expected);
    }
}

/* Receivers, and what stands under service, of an otherwise right configuration. */
static const struct {
    const char *receivers, *service, *message;
} service_cases[] = {
    {"otlp: {protocols: {grpc: }}", "",
     "1:1: service: is missing; without service: {pipelines: "
     "...} nothing would run"},
    {"otlp: {protocols: {grpc: }}", "service:\n",
     "4:1: service::pipelines: there is no pipeline; write for example pipelines: {traces: "
     "{receivers: [otlp], processors: [join], exporters: [otlp_grpc]}}"},
    {"otlp: {protocols: {grpc: }}", "service: {pipelines: {}}\n",
     "4:11: service::pipelines: there is no pipeline; write for example pipelines: {traces: "
     "{receivers: [otlp], processors: [join], exporters: [otlp_grpc]}}"},
    {"", "service: {pipelines: {traces: {receivers: [a], exporters: [debug]}}}\n",
     "1:1: receivers: no receiver is configured; write at least one, for example receivers: "
     "{otlp: {protocols: {grpc: }}}\n"
     "c.yaml:4:44: service::pipelines::traces::receivers: the receiver \"a\" is not "
     "configured; "
     "add it to receivers, or take it out here"},
    {"otlp: {protocols: {}}",
     "service: {pipelines: {traces: {receivers: [otlp], exporters: [debug]}}}\n",
     "1:31: receivers::otlp::protocols: names no protocol; write protocols: {grpc: , http: }, "
     "or "
     "one of them"},
    {"otlp: ", "service: {pipelines: {traces: {receivers: [otlp], exporters: [debug]}}}\n",
     "1:13: receivers::otlp: the key \"protocols\" is missing; write its value (map)"},
    {"otlp: {protocols: {grpc: }}",
     "service: {pipelines: {traces: {receivers: [otlp, otlp], exporters: []}}}\n",
     "4:50: service::pipelines::traces::receivers: the receiver \"otlp\" stands twice; keep "
     "one\n"
     "c.yaml:4:57: service::pipelines::traces::exporters: names no exporter; a pipeline needs "
     "at "
     "least one"},
    {"otlp: {protocols: {grpc: }}",
     "service: {pipelines: {traces: {receivers: [otlp], exporters: debug}}}\n",
     "4:62: service::pipelines::traces::exporters: expected a list of ids like [debug], found "
     "a "
     "text"},
    {"otlp: {protocols: {grpc: }}", "service: {pipelines: {traces: }}\n",
     "4:23: service::pipelines::traces: the key \"receivers\" is missing; write its value "
     "(list "
     "of ids)\n"
     "c.yaml:4:23: service::pipelines::traces: the key \"exporters\" is missing; write its "
     "value "
     "(list of ids)"},
    {"otlp: {protocols: {grpc: }}, sampler: ",
     "processors: {join: }\n"
     "service: {pipelines: {traces: {receivers: [sampler], exporters: [debug]}, metrics: "
     "{receivers: [otlp], processors: [join], exporters: [debug]}}}\n",
     "5:44: service::pipelines::traces::receivers: the receiver \"sampler\" has no traces; "
     "name "
     "it in the profiles pipeline only\n"
     "c.yaml:5:117: service::pipelines::metrics::processors: the processor \"join\" has no "
     "metrics; name it in the traces and the profiles pipelines only"},
    {"sampler: , sampler/b: ",
     "service: {pipelines: {profiles: {receivers: [sampler, sampler/b], exporters: "
     "[debug]}}}\n",
     "4:22: service::pipelines: more than one sampler is in use; there is one of it, so name "
     "the "
     "same everywhere"},
    {"otlp: {protocols: {grpc: }}",
     "service: {pipelines: {metrics: {receivers: [otlp], exporters: [debug]}, foo: , traces: "
     "{receivers: [otlp], exporters: [debug]}}}\n",
     "4:73: service::pipelines::foo: is no pipeline; write traces, profiles, metrics or logs"},
    {"otlp: {protocols: {grpc: }}",
     "service: {pipelines: {metrics: {receivers: [otlp], exporters: [debug]}, metrics/b: "
     "{receivers: [otlp], exporters: [debug]}}}\n",
     "4:73: service::pipelines::metrics/b: is a second metrics pipeline beside \"metrics\"; there "
     "is one a signal, so name all its receivers and exporters there"},
    {"otlp: {protocols: {grpc: }}",
     "service: {pipelines: {traces: {receivers: [otlp], exporters: [debug]}, traces/b: "
     "{receivers: [otlp], exporters: [debug]}}}\n",
     "4:72: service::pipelines::traces/b: is a second traces pipeline beside \"traces\"; there "
     "is one a signal, so name all its receivers and exporters there"},
    {"otlp: {protocols: {grpc: {endpoint: 'localhost:4318'}, http: }}",
     "service: {pipelines: {traces: {receivers: [otlp], exporters: [debug]}}}\n",
     "1:74: receivers::otlp::protocols::http::endpoint: localhost:4318 is taken by "
     "receivers::otlp::protocols::grpc::endpoint; choose another port"},
    {"otlp: {protocols: {grpc: {endpoint: /a.sock}, http: {endpoint: 'unix:///a.sock'}}}",
     "service: {pipelines: {traces: {receivers: [otlp], exporters: [debug]}}}\n",
     "1:76: receivers::otlp::protocols::http::endpoint: unix:///a.sock is taken by "
     "receivers::otlp::protocols::grpc::endpoint; choose another path"},
    {"otlp: {protocols: {grpc: {transport: unix}}}",
     "service: {pipelines: {traces: {receivers: [otlp], exporters: [debug]}}}\n",
     "1:50: receivers::otlp::protocols::grpc::transport: the endpoint is no path; write one like "
     "/run/spanprof/otlp.sock"},
    {"otlp: {protocols: {http: {transport: tcp4, endpoint: /a}}}",
     "service: {pipelines: {traces: {receivers: [otlp], exporters: [debug]}}}\n",
     "1:50: receivers::otlp::protocols::http::transport: the endpoint is a path; write unix, or "
     "leave it out"},
    {"otlp: {protocols: {http: {endpoint: 'unix:a.sock'}}}",
     "service: {pipelines: {traces: {receivers: [otlp], exporters: [debug]}}}\n",
     "1:49: receivers::otlp::protocols::http::endpoint: \"unix:a.sock\" is no absolute path of a "
     "socket; write one like unix:///run/spanprof/otlp.sock"},
    {"otlp: {protocols: {http: {cors: {allowed_origins: ['https://*.a*']}}}}",
     "service: {pipelines: {traces: {receivers: [otlp], exporters: [debug]}}}\n",
     "1:63: receivers::otlp::protocols::http::cors::allowed_origins: \"https://*.a*\" is no "
     "origin; "
     "write one like https://app.example.com or https://*.example.com, or *"},
    {"otlp: {protocols: {grpc: {endpoint: '0.0.0.0:8888'}}}",
     "service: {pipelines: {traces: {receivers: [otlp], exporters: [debug]}}}\n",
     "4:10: service::telemetry::metrics::address: localhost:8888 is taken by "
     "receivers::otlp::protocols::grpc::endpoint; choose another port"},
    {"otlp: {protocols: {grpc: }}",
     "service: {extensions: [sqlite_storage], pipelines: {traces: {receivers: [otlp], "
     "exporters: "
     "[debug]}}}\n",
     "4:24: service::extensions: the extension \"sqlite_storage\" is not configured; add it to "
     "extensions, or take it out here"},
    {"otlp: {protocols: {grpc: }}",
     "extensions: {sqlite_storage/a: , sqlite_storage/b: }\n"
     "service: {extensions: [sqlite_storage/a, sqlite_storage/b], pipelines: {traces: "
     "{receivers: "
     "[otlp], exporters: [debug]}}}\n",
     "5:23: service::extensions: more than one sqlite_storage is in use; there is one of it, "
     "so "
     "name the same everywhere"},
    {"otlp: {protocols: {grpc: }}",
     "extensions: {sqlite_storage: }\n"
     "service: {pipelines: {traces: {receivers: [otlp], exporters: [debug]}}}\n",
     "5:10: service::extensions: the store \"sqlite_storage\" is configured but not in use; "
     "write extensions: [sqlite_storage] under service"},
    {"otlp: {protocols: {grpc: }}",
     "extensions: {health_check: {path: health}}\n"
     "service: {extensions: [health_check], pipelines: {traces: {receivers: [otlp], "
     "exporters: [debug]}}}\n",
     "4:35: extensions::health_check::path: \"health\" does not begin with a slash; write one like "
     "/health"},
    {"otlp: {protocols: {grpc: {auth: {authenticator: bearertokenauth}}}}",
     "extensions: {bearertokenauth: {token: 0123456789abcdef}}\n"
     "service: {pipelines: {traces: {receivers: [otlp], exporters: [debug]}}}\n",
     "1:61: receivers::otlp::protocols::grpc::auth::authenticator: bearertokenauth is no extension "
     "bearertokenauth in service::extensions; configure one there"},
    {"otlp: {protocols: {grpc: }}",
     "extensions: {bearertokenauth: {token: short}}\n"
     "service: {extensions: [bearertokenauth], pipelines: {traces: {receivers: [otlp], "
     "exporters: [debug]}}}\n",
     "4:39: extensions::bearertokenauth::token: holds no token of 16 to 512 letters and digits; "
     "make one with `openssl rand -hex 16`"},
    {"otlp: {protocols: {grpc: }}",
     "extensions: {bearertokenauth: {token: 0123456789abcdef, filename: /x}}\n"
     "service: {extensions: [bearertokenauth], pipelines: {traces: {receivers: [otlp], "
     "exporters: [debug]}}}\n",
     "4:39: extensions::bearertokenauth: needs one of token, tokens and filename; write one of "
     "them"},
};

static void wrong_services(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(service_cases) / sizeof(service_cases[0]); i++) {
        char text[2048], expected[1024];
        snprintf(text, sizeof(text), "%s%s%s\nexporters: {debug: }\n#\n%s",
                 *service_cases[i].receivers ? "receivers: {" : "", service_cases[i].receivers,
                 *service_cases[i].receivers ? "}" : "", service_cases[i].service);
        snprintf(expected, sizeof(expected), "c.yaml:%s\n", service_cases[i].message);
        if (!*service_cases[i].receivers) /* the file begins at its first key */
            memcpy(expected + 7, "2:1", 3);
        expect_errors(text, NULL, expected);
    }
}

static void two_exporters_to_one_file(void **state)
{
    (void)state;
    expect_errors("receivers: {otlp: {protocols: {grpc: }}}\n"
                  "exporters: {file: {path: /a}, file/b: {path: /a}, file/c: {path: /b}, "
                  "file/unused: {path: /a}}\n"
                  "service: {pipelines: {traces: {receivers: [otlp], exporters: [file, file/b, "
                  "file/c]}}}\n",
                  NULL,
                  "c.yaml:2:46: exporters::file/b::path: /a is written by file; choose another "
                  "file, or name one exporter in several pipelines\n");
}

/* Everything that is wrong is said at once, in the order of the file. */
static void all_errors_together(void **state)
{
    (void)state;
    expect_errors(
        "service:\n"
        "  telemetry: {logs: {level: loud}}\n"
        "  pipelines:\n"
        "    traces: {receivers: [otlp, nix], exporters: [debug]}\n"
        "exporters:\n"
        "  debug: {verbosity: much}\n"
        "receivers:\n"
        "  otlp:\n"
        "    protocols:\n"
        "      grpc: {endpoint: nowhere, max_connections: 0}\n"
        "      http: {idle_timeout: '${env:1}'}\n",
        NULL,
        "c.yaml:2:29: service::telemetry::logs::level: expected one of debug, info, warn, "
        "error, found a text \"loud\"\n"
        "c.yaml:4:32: service::pipelines::traces::receivers: the receiver \"nix\" is not "
        "configured; add it to receivers, or take it out here\n"
        "c.yaml:6:22: exporters::debug::verbosity: expected one of basic, normal, "
        "detailed, found a text \"much\"\n"
        "c.yaml:10:24: receivers::otlp::protocols::grpc::endpoint: \"nowhere\" has no "
        "port; write host:port, for example localhost:4317\n"
        "c.yaml:10:50: receivers::otlp::protocols::grpc::max_connections: 0 is out of "
        "range; write 1 to 65536\n"
        "c.yaml:11:28: receivers::otlp::protocols::http::idle_timeout: \"1\" is not the "
        "name of an environment variable (letters, digits, _, no digit first); write "
        "${env:NAME}, or $$ for a plain $\n");
}

static void components_have_a_limit(void **state)
{
    char text[4096] = MINIMAL "processors: {", *end = text + strlen(text);
    (void)state;
    for (int i = 0; i <= CONFIG_COMPONENTS_MAX; i++)
        end += sprintf(end, "join/%02d: , ", i);
    strcpy(end, "}\n");
    expect_errors(text, NULL, "c.yaml:4:190: processors::join/16: more than 16 processors\n");
}

static void lists_have_a_limit(void **state)
{
    char text[4096] = MINIMAL "processors: {join: {span_attributes: '", *end = text + strlen(text);
    (void)state;
    for (int i = 0; i <= CONFIG_LIST_MAX; i++)
        end += sprintf(end, "a%02d,", i);
    strcpy(end - 1, "'}}\n");
    expect_errors(
        text, NULL,
        "c.yaml:4:38: processors::join::span_attributes: \"a64\" is one too many; at most "
        "64 items\n");
}

static void headers_have_a_limit(void **state)
{
    char text[4096], *end;
    (void)state;
    end =
        stpcpy(text, "receivers: {otlp: {protocols: {grpc: }}}\n"
                     "service: {pipelines: {traces: {receivers: [otlp], exporters: [otlp_grpc]}}}\n"
                     "exporters: {otlp_grpc: {endpoint: 'http://b:1', headers: {");
    for (int i = 0; i <= CONFIG_LIST_MAX; i++)
        end += sprintf(end, "h%02d: x, ", i);
    strcpy(end, "}}}\n");
    expect_errors(text, NULL,
                  "c.yaml:3:571: exporters::otlp_grpc::headers: more than 64 headers\n");
}

/* A variable that is not set is often why something is missing. */
static void warnings_follow_the_errors(void **state)
{
    (void)state;
    unsetenv("UNSET");
    expect_errors("receivers: {otlp: {protocols: {grpc: }}}\n"
                  "service: {pipelines: {traces: {receivers: [otlp], exporters: [otlp_grpc]}}}\n"
                  "exporters: {otlp_grpc: {endpoint: '${env:UNSET}'}}\n",
                  NULL,
                  "c.yaml:3:25: exporters::otlp_grpc::endpoint: needs a value (host:port or URL)\n"
                  "warning: c.yaml:3:35: exporters::otlp_grpc::endpoint: the environment variable "
                  "UNSET is not set; give it a default with ${env:UNSET:-text}\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_keys),
        cmocka_unit_test(wrong_contexts),
        cmocka_unit_test(wrong_sampler),
        cmocka_unit_test(wrong_exporters),
        cmocka_unit_test(wrong_services),
        cmocka_unit_test(two_exporters_to_one_file),
        cmocka_unit_test(all_errors_together),
        cmocka_unit_test(components_have_a_limit),
        cmocka_unit_test(lists_have_a_limit),
        cmocka_unit_test(headers_have_a_limit),
        cmocka_unit_test(warnings_follow_the_errors),
    };
    return cmocka_run_group_tests(tests, enter_directory, leave_directory);
}
