/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declared once. Names and, where sensible, defaults are the Collector's, so that what one knows of
 * it holds here; where a default differs the sentence says so.
 */
#include "config/keys/keys.h"
#include "config/keys/keys_history.h"
#include "config/keys/keys_otlp.h"
#include "config/keys/keys_pages.h"

#define AT(type, field) offsetof(struct type, field), sizeof(((struct type *)0)->field)

const char *const config_class_names[CLASSES] = {"receivers", "processors", "exporters",
                                                 "extensions"};
const char *const config_class_singular[CLASSES] = {"receiver", "processor", "exporter",
                                                    "extension"};
const char *const config_signal_names[CONFIG_SIGNALS] = {
    [CONFIG_TRACES] = "traces",
    [CONFIG_PROFILES] = "profiles",
    [CONFIG_METRICS] = "metrics",
    [CONFIG_LOGS] = "logs",
};

const char *config_signal_name(enum config_signal signal)
{
    return config_signal_names[signal];
}

#define TRACES   (1U << CONFIG_TRACES)
#define PROFILES (1U << CONFIG_PROFILES)
#define METRICS  (1U << CONFIG_METRICS)
#define LOGS     (1U << CONFIG_LOGS)
#define ALL      (TRACES | PROFILES | METRICS | LOGS)

const struct config_component config_components[] = {
    {CONFIG_RECEIVER_OTLP, CLASS_RECEIVER, "otlp", NULL, ALL, "beta",
     "Receives spans, metrics, logs and profiles by OTLP over gRPC and over HTTP (protobuf "
     "and JSON), for the signals whose pipeline names it. At least one protocol must be "
     "named; a protocol that is not named is off, one without settings has its defaults. A "
     "request is acknowledged once it is on disk."},
    {CONFIG_RECEIVER_SAMPLER, CLASS_RECEIVER, "sampler", NULL, PROFILES, "alpha",
     "Samples the stacks of all processes on this node with eBPF, together with the trace "
     "and span that each thread works on. Needs root or CAP_BPF and CAP_PERFMON."},
    {CONFIG_PROCESSOR_JOIN, CLASS_PROCESSOR, "join", NULL, TRACES | PROFILES, "alpha",
     "Joins samples with the spans they were taken in. Name it in the traces and in the profiles "
     "pipeline: samples then carry their span's name and attributes, and spans their CPU time and "
     "top "
     "stacks. Samples of other profilers (an otlp receiver in the profiles pipeline) are joined by "
     "their Links or labels."},
    {CONFIG_EXPORTER_OTLP_GRPC, CLASS_EXPORTER, "otlp_grpc", "otlp", ALL, "beta",
     "Sends OTLP/gRPC, from a queue on disk: acknowledged data survives restarts and outages "
     "of the backend."},
    {CONFIG_EXPORTER_OTLP_HTTP, CLASS_EXPORTER, "otlp_http", "otlphttp", ALL, "beta",
     "Sends OTLP/HTTP (HTTP/1.1), in protobuf or JSON. Redirects are not followed."},
    {CONFIG_EXPORTER_DEBUG, CLASS_EXPORTER, "debug", NULL, ALL, "alpha",
     "Prints the output on stderr, for a first look."},
    {CONFIG_EXPORTER_FILE, CLASS_EXPORTER, "file", NULL, ALL, "alpha",
     "Writes to a file, one record for each request: a line of OTLP/JSON, which the "
     "Collector's otlp_json_file receiver reads. With format proto or with compression each "
     "record follows its length (4 bytes, big-endian). Requests that cannot be written wait "
     "in the store. The file and its directory must be writable for the user that the "
     "service runs as (service::user, otherwise the owner of the store's directory)."},
    {CONFIG_EXPORTER_NOP, CLASS_EXPORTER, "nop", NULL, ALL, "alpha",
     "Sends nothing, for a node without a backend: pages, history and scraping work as "
     "usual. It has no keys."},
    {CONFIG_EXTENSION_SQLITE_STORAGE, CLASS_EXTENSION, "sqlite_storage", NULL, 0, "alpha",
     "The store on disk: waiting samples and outgoing requests. There is exactly one; if none is "
     "configured, one with the defaults below is used."},
    {CONFIG_EXTENSION_HEALTH_CHECK, CLASS_EXTENSION, "health_check", NULL, 0, "alpha",
     "A page that answers 200 while requests are accepted, otherwise 503: while starting or "
     "stopping, while the store is full or out of service, and when it hangs. The gRPC "
     "receiver reports the same by grpc.health.v1.Health/Check, also without this extension."},
    {CONFIG_EXTENSION_PAGES, CLASS_EXTENSION, "pages", NULL, 0, "alpha",
     "Web pages: traces and where their CPU time went, functions, flame graphs, differences, "
     "and the status of this node; the same as JSON and for download. See docs/api.md."},
    {CONFIG_EXTENSION_HISTORY, CLASS_EXTENSION, "history", NULL, 0, "alpha",
     "The data behind the pages: recent samples and spans, in the store. If pages is used "
     "and no history is configured, one with the defaults below is used."},
};
const size_t config_components_count = sizeof(config_components) / sizeof(config_components[0]);

static const struct key_choice verbosities[] = {{"basic", VERBOSITY_BASIC},
                                                {"normal", VERBOSITY_NORMAL},
                                                {"detailed", VERBOSITY_DETAILED},
                                                {NULL, 0}};
static const struct key_choice file_formats[] = {
    {"json", CONFIG_FILE_JSON}, {"proto", CONFIG_FILE_PROTO}, {NULL, 0}};
static const struct key_choice file_compressions[] = {{"none", 0}, {"zstd", 1}, {NULL, 0}};
static const struct key_choice when_full[] = {{"refuse", 0}, {"drop_oldest", 1}, {NULL, 0}};
static const struct key_choice fsyncs[] = {{"normal", 0}, {"full", 1}, {NULL, 0}};
static const struct key_choice log_formats[] = {
    {"console", LOG_CONSOLE}, {"json", LOG_JSON}, {NULL, 0}};
static const struct key_choice log_levels[] = {{"debug", LOG_LEVEL_DEBUG},
                                               {"info", LOG_LEVEL_INFO},
                                               {"warn", LOG_LEVEL_WARN},
                                               {"error", LOG_LEVEL_ERROR},
                                               {NULL, 0}};
static const struct key_choice metrics_levels[] = {
    {"none", 0}, {"normal", 1}, {"basic", 1}, {"detailed", 1}, {NULL, 0}};

static const struct key_choice transports[] = {{"tcp", CONFIG_TCP},
                                               {"tcp4", CONFIG_TCP4},
                                               {"tcp6", CONFIG_TCP6},
                                               {"unix", CONFIG_UNIX},
                                               {NULL, 0}};
static const struct key_choice socket_modes[] = {
    {"0666", 0666}, {"0660", 0660}, {"0600", 0600}, {NULL, 0}};

#define GRPC(field)    AT(config_receiver_otlp, grpc.field)
#define HTTP(field)    AT(config_receiver_otlp, http.field)
#define SAMPLER(field) AT(config_receiver_sampler, field)
#define JOIN(field)    AT(config_processor_join, field)
#define TO_FILE(field) AT(config_exporter_file, field)
#define STORE(field)   AT(config_sqlite_storage, field)
#define HEALTH(field)  AT(config_health_check, field)
#define SERVICE(field) AT(config_service, field)

#define GRPC_TLS(field) GRPC(tls.field)
#define HTTP_TLS(field) HTTP(tls.field)

const struct config_key config_keys[] = {
    {OWNER_ROOT, "receivers", KEY_BUILT, 0, NOWHERE, NULL, 0, 0, NULL,
     "Where data comes from: a map from component ids to their settings."},
    {OWNER_ROOT, "processors", KEY_BUILT, 0, NOWHERE, NULL, 0, 0, NULL,
     "What happens to data in between."},
    {OWNER_ROOT, "exporters", KEY_BUILT, 0, NOWHERE, NULL, 0, 0, NULL, "Where data goes."},
    {OWNER_ROOT, "extensions", KEY_BUILT, 0, NOWHERE, NULL, 0, 0, NULL,
     "Components that are in no pipeline, such as the store."},
    {OWNER_ROOT, "service", KEY_BUILT, 0, NOWHERE, NULL, 0, 0, NULL,
     "Which of these are used, and how: see Service and Pipelines."},

    {CONFIG_RECEIVER_OTLP, "protocols", KEY_SECTION, KEY_REQUIRED, NOWHERE, NULL, 0, 0, NULL,
     "The protocols to listen for; at least one of grpc and http."},
    {CONFIG_RECEIVER_OTLP, "protocols.grpc", KEY_SECTION, 0, GRPC(enabled), NULL, 0, 0, NULL,
     "OTLP/gRPC. Absent: off. Empty: on, with defaults."},
    {CONFIG_RECEIVER_OTLP, "protocols.grpc.endpoint", KEY_LISTEN, KEY_PATH_TOO, GRPC(endpoint),
     "localhost:4317", 0, 0, NULL,
     "Address to listen on, as host:port; [::1]:4317 for IPv6; or the path of a Unix socket."},
    {CONFIG_RECEIVER_OTLP, "protocols.grpc.transport", KEY_CHOICE, 0, GRPC(transport), "tcp", 0, 0,
     transports,
     "tcp: both families; tcp4, tcp6: one of them; unix: endpoint is the path of a Unix "
     "socket. The form unix:///run/spanprof/otlp.sock needs no transport."},
    {CONFIG_RECEIVER_OTLP, "protocols.grpc.socket_mode", KEY_CHOICE, KEY_NUMBERS_TOO,
     GRPC(socket_mode), "0666", 0, 0, socket_modes,
     "Who may connect to a Unix socket: 0666 everyone who can reach its directory, 0660 "
     "owner and group, 0600 the owner, which is the user that starts spanprof. The Collector "
     "uses the umask."},
    {CONFIG_RECEIVER_OTLP, "protocols.grpc.max_recv_msg_size_mib", KEY_MIB, KEY_ZERO_IS_DEFAULT,
     GRPC(max_recv_msg_size_bytes), "4", 1, 256, NULL,
     "Largest request in MiB, before and after decompression; 0 means the default."},
    {CONFIG_RECEIVER_OTLP, "protocols.grpc.max_concurrent_streams", KEY_COUNT, KEY_ZERO_IS_DEFAULT,
     GRPC(max_concurrent_streams), "100", 1, 10000, NULL,
     "Requests at a time on one connection; 0 means the default. The Collector has no limit by "
     "default."},
    {CONFIG_RECEIVER_OTLP, "protocols.grpc.max_connections", KEY_COUNT, 0, GRPC(max_connections),
     "1024", 1, 65536, NULL, "Connections at a time; further ones are closed at once."},
    {CONFIG_RECEIVER_OTLP, "protocols.grpc.keepalive", KEY_SECTION, 0, NOWHERE, NULL, 0, 0, NULL,
     "How long connections last."},
    {CONFIG_RECEIVER_OTLP, "protocols.grpc.keepalive.server_parameters", KEY_SECTION, 0, NOWHERE,
     NULL, 0, 0, NULL, "As in gRPC."},
    {CONFIG_RECEIVER_OTLP, "protocols.grpc.keepalive.server_parameters.max_connection_idle",
     KEY_DURATION, KEY_ZERO_ALLOWED, GRPC(keepalive.max_connection_idle_ns), "15m", SECOND,
     24 * HOUR, NULL,
     "A connection without calls for this long is closed gracefully; 0: never, the "
     "Collector's default."},
    {CONFIG_RECEIVER_OTLP, "protocols.grpc.keepalive.server_parameters.max_connection_age",
     KEY_DURATION, KEY_ZERO_ALLOWED, GRPC(keepalive.max_connection_age_ns), "0s", SECOND,
     8760 * HOUR, NULL,
     "A connection of this age, 10 % more or less, is closed gracefully, so that clients are "
     "rebalanced from time to time; 0: never."},
    {CONFIG_RECEIVER_OTLP, "protocols.grpc.keepalive.server_parameters.max_connection_age_grace",
     KEY_DURATION, KEY_ZERO_ALLOWED, GRPC(keepalive.max_connection_age_grace_ns), "0s", MS,
     24 * HOUR, NULL,
     "Time for calls still in progress at max_connection_age before the connection is "
     "closed; 0: no limit."},
    {CONFIG_RECEIVER_OTLP, "protocols.grpc.keepalive.server_parameters.time", KEY_DURATION,
     KEY_ZERO_ALLOWED, GRPC(keepalive.time_ns), "2h", SECOND, 24 * HOUR, NULL,
     "Silence after which a PING is sent to the client; 0: never."},
    {CONFIG_RECEIVER_OTLP, "protocols.grpc.keepalive.server_parameters.timeout", KEY_DURATION,
     KEY_ZERO_IS_DEFAULT, GRPC(keepalive.timeout_ns), "20s", MS, HOUR, NULL,
     "Time to wait for the answer to that PING before the connection is closed; 0 means the "
     "default."},
    {CONFIG_RECEIVER_OTLP, "protocols.grpc.keepalive.enforcement_policy", KEY_IGNORED, 0, NOWHERE,
     NULL, 0, 0, NULL, "A flood of PINGs always ends the connection."},
    {CONFIG_RECEIVER_OTLP, "protocols.grpc.read_buffer_size", KEY_IGNORED, 0, NOWHERE, NULL, 0, 0,
     NULL, "Buffers have a fixed size."},
    {CONFIG_RECEIVER_OTLP, "protocols.grpc.write_buffer_size", KEY_IGNORED, 0, NOWHERE, NULL, 0, 0,
     NULL, "Buffers have a fixed size."},
    {CONFIG_RECEIVER_OTLP, "protocols.grpc.include_metadata", KEY_IGNORED, 0, NOWHERE, NULL, 0, 0,
     NULL, "Request headers are not passed on."},
    TLS_SERVER_KEYS(CONFIG_RECEIVER_OTLP, "protocols.grpc.tls", GRPC_TLS),
    {CONFIG_RECEIVER_OTLP, "protocols.http", KEY_SECTION, 0, HTTP(enabled), NULL, 0, 0, NULL,
     "OTLP/HTTP. Absent: off. Empty: on, with defaults."},
    {CONFIG_RECEIVER_OTLP, "protocols.http.endpoint", KEY_LISTEN, KEY_PATH_TOO, HTTP(endpoint),
     "localhost:4318", 0, 0, NULL,
     "Address to listen on, as host:port, or the path of a Unix socket."},
    {CONFIG_RECEIVER_OTLP, "protocols.http.transport", KEY_CHOICE, 0, HTTP(transport), "tcp", 0, 0,
     transports,
     "tcp: both families; tcp4, tcp6: one of them; unix: endpoint is the path of a Unix "
     "socket. The form unix:///run/spanprof/otlp.sock needs no transport."},
    {CONFIG_RECEIVER_OTLP, "protocols.http.socket_mode", KEY_CHOICE, KEY_NUMBERS_TOO,
     HTTP(socket_mode), "0666", 0, 0, socket_modes,
     "Who may connect to a Unix socket: 0666 everyone who can reach its directory, 0660 "
     "owner and group, 0600 the owner, which is the user that starts spanprof. The Collector "
     "uses the umask."},
    {CONFIG_RECEIVER_OTLP, "protocols.http.max_request_body_size", KEY_BYTES, KEY_ZERO_IS_DEFAULT,
     HTTP(max_request_body_size_bytes), "20971520", 1024, 268435456, NULL,
     "Largest body in bytes, before and after decompression; 0 means the default."},
    {CONFIG_RECEIVER_OTLP, "protocols.http.idle_timeout", KEY_DURATION, KEY_ZERO_ALLOWED,
     HTTP(idle_timeout_ns), "1m", SECOND, HOUR, NULL,
     "A connection without a request for this long is closed; 0 means an hour (in the "
     "Collector: no limit)."},
    {CONFIG_RECEIVER_OTLP, "protocols.http.max_connections", KEY_COUNT, 0, HTTP(max_connections),
     "1024", 1, 65536, NULL, "Connections at a time; further ones are closed at once."},
    {CONFIG_RECEIVER_OTLP, "protocols.http.cors", KEY_SECTION, 0, NOWHERE, NULL, 0, 0, NULL,
     "Which web pages may send from a browser (CORS)."},
    {CONFIG_RECEIVER_OTLP, "protocols.http.cors.allowed_origins", KEY_TEXTS, KEY_MAY_BE_EMPTY,
     HTTP(cors.allowed_origins), "", 0, 0, NULL,
     "Origins, for example https://app.example.com; one * in each matches anything. Without "
     "any, browsers refuse cross-origin requests."},
    {CONFIG_RECEIVER_OTLP, "protocols.http.cors.allowed_headers", KEY_TEXTS, KEY_MAY_BE_EMPTY,
     HTTP(cors.allowed_headers), "", 0, 0, NULL,
     "Headers that pages may set in addition to Accept, Content-Type and X-Requested-With; * "
     "for all."},
    {CONFIG_RECEIVER_OTLP, "protocols.http.cors.exposed_headers", KEY_TEXTS, KEY_MAY_BE_EMPTY,
     HTTP(cors.exposed_headers), "", 0, 0, NULL, "Response headers that pages may read."},
    {CONFIG_RECEIVER_OTLP, "protocols.http.cors.max_age", KEY_COUNT, 0, HTTP(cors.max_age_s), "0",
     0, 86400, NULL,
     "Seconds for which a browser may cache the answer to a preflight request; 0: the "
     "browser's default."},
    {CONFIG_RECEIVER_OTLP, "protocols.http.include_metadata", KEY_IGNORED, 0, NOWHERE, NULL, 0, 0,
     NULL, "Request headers are not passed on."},
    {CONFIG_RECEIVER_OTLP, "protocols.http.compression_algorithms", KEY_IGNORED, 0, NOWHERE, NULL,
     0, 0, NULL, "Identity, gzip, zstd and deflate are always accepted."},
    TLS_SERVER_KEYS(CONFIG_RECEIVER_OTLP, "protocols.http.tls", HTTP_TLS),

    {CONFIG_RECEIVER_SAMPLER, "frequency", KEY_COUNT, 0, SAMPLER(frequency), "97", 1, 1000, NULL,
     "Samples per second on each busy CPU. A prime avoids running in step with periodic "
     "work."},
    {CONFIG_RECEIVER_SAMPLER, "ring_size_mib", KEY_MIB, KEY_POWER_OF_TWO, SAMPLER(ring_size_bytes),
     "8", 1, 256, NULL,
     "Ring buffer between kernel and program for samples not yet read; when it is full, "
     "samples are lost and counted."},
    {CONFIG_RECEIVER_SAMPLER, "unwind_tables_mib", KEY_MIB, 0, SAMPLER(unwind_table_bytes), "32", 1,
     4096, NULL,
     "Kernel memory for unwind tables, filled as samples touch code; when it is full, the "
     "least recently used tables are evicted."},
    {CONFIG_RECEIVER_SAMPLER, "drain_interval", KEY_DURATION, 0, SAMPLER(drain_interval_ns),
     "100ms", MS, 5 * SECOND, NULL,
     "How often samples are read; they are also read when spans arrive."},
    {CONFIG_RECEIVER_SAMPLER, "include", KEY_SECTION, 0, NOWHERE, NULL, 0, 0, NULL,
     "What is sampled; without any of these, everything. A thread is sampled if any value of "
     "any of these keys matches it. Threads left out are counted in "
     "spanprof_samples_filtered_total."},
    {CONFIG_RECEIVER_SAMPLER, "include.pids", KEY_TEXTS, KEY_MAY_BE_EMPTY | KEY_NUMBERS_TOO,
     SAMPLER(include.pids), "", 0, 0, NULL,
     "Processes by pid, in the PID namespace that spanprof runs in; their children are not "
     "included."},
    {CONFIG_RECEIVER_SAMPLER, "include.comms", KEY_TEXTS, KEY_MAY_BE_EMPTY, SAMPLER(include.comms),
     "", 0, 0, NULL, "Threads by full name, as in /proc/PID/task/TID/comm."},
    {CONFIG_RECEIVER_SAMPLER, "include.executables", KEY_TEXTS, KEY_MAY_BE_EMPTY,
     SAMPLER(include.executables), "", 0, 0, NULL,
     "Programs by file name, without directories; for scripts the interpreter's. Kernel "
     "threads have none."},
    {CONFIG_RECEIVER_SAMPLER, "include.cgroups", KEY_TEXTS, KEY_MAY_BE_EMPTY,
     SAMPLER(include.cgroups), "", 0, 0, NULL,
     "cgroups with everything below them, as paths in the unified hierarchy (cgroup v2), for "
     "example /system.slice/ssh.service. They may be created and removed at any time: a new "
     "one is seen within 2 seconds."},
    {CONFIG_RECEIVER_SAMPLER, "include.containers", KEY_TEXTS, KEY_MAY_BE_EMPTY,
     SAMPLER(include.containers), "", 0, 0, NULL,
     "Containers by id, or at least its first 12 digits, as in the name of their cgroup "
     "(v2). A new one is seen within 2 seconds."},
    {CONFIG_RECEIVER_SAMPLER, "exclude", KEY_SECTION, 0, NOWHERE, NULL, 0, 0, NULL,
     "What is not sampled, even if include matches it."},
    {CONFIG_RECEIVER_SAMPLER, "exclude.pids", KEY_TEXTS, KEY_MAY_BE_EMPTY | KEY_NUMBERS_TOO,
     SAMPLER(exclude.pids), "", 0, 0, NULL, "As include.pids, but excluded."},
    {CONFIG_RECEIVER_SAMPLER, "exclude.comms", KEY_TEXTS, KEY_MAY_BE_EMPTY, SAMPLER(exclude.comms),
     "", 0, 0, NULL, "As include.comms, but excluded."},
    {CONFIG_RECEIVER_SAMPLER, "exclude.executables", KEY_TEXTS, KEY_MAY_BE_EMPTY,
     SAMPLER(exclude.executables), "", 0, 0, NULL, "As include.executables, but excluded."},
    {CONFIG_RECEIVER_SAMPLER, "exclude.cgroups", KEY_TEXTS, KEY_MAY_BE_EMPTY,
     SAMPLER(exclude.cgroups), "", 0, 0, NULL, "As include.cgroups, but excluded."},
    {CONFIG_RECEIVER_SAMPLER, "exclude.containers", KEY_TEXTS, KEY_MAY_BE_EMPTY,
     SAMPLER(exclude.containers), "", 0, 0, NULL, "As include.containers, but excluded."},
    {CONFIG_RECEIVER_SAMPLER, "probability", KEY_RATIO, 0, SAMPLER(probability), "1", 0.0001, 1,
     NULL,
     "Chance that this node samples, drawn again for each probability_interval, so that a "
     "share of many nodes samples at any time. Samples are not scaled up; "
     "spanprof_sampling_active is 1 while sampling."},
    {CONFIG_RECEIVER_SAMPLER, "probability_interval", KEY_DURATION, 0,
     SAMPLER(probability_interval_ns), "1m", SECOND, 24 * HOUR, NULL,
     "How long one draw of probability is valid."},
    {CONFIG_RECEIVER_SAMPLER, "max_cpu_percent", KEY_RATIO, 0, SAMPLER(max_cpu_percent), "0", 0,
     100, NULL,
     "CPU time that spanprof may use, in all its processes and in its ticks in the kernel, "
     "in percent of all CPUs of this node. Above it the frequency is lowered, then raised "
     "again slowly. Samples carry the true period. 0: no limit."},
    {CONFIG_RECEIVER_SAMPLER, "contexts", KEY_SECTION, 0, NOWHERE, NULL, 0, 0, NULL,
     "Where the trace and span of a thread are read from; if a process has several, the "
     "first in this order counts."},
#define SOURCE_KEY(symbol, id, number, key, form, flags, help)                                     \
    {CONFIG_RECEIVER_SAMPLER,                                                                      \
     "contexts." #key,                                                                             \
     KEY_BOOL,                                                                                     \
     0,                                                                                            \
     SAMPLER(contexts.sources[CONTEXT_##symbol]),                                                  \
     "true",                                                                                       \
     0,                                                                                            \
     0,                                                                                            \
     NULL,                                                                                         \
     help},
    CONTEXT_SOURCE_ROWS(SOURCE_KEY){
        CONFIG_RECEIVER_SAMPLER, "contexts.elastic_correlation", KEY_BOOL, 0,
        SAMPLER(contexts.elastic_correlation), "true", 0, 0, NULL,
        "Report to Elastic's agents which stacks were seen in their spans, so that they write "
        "them on the spans."},
    {CONFIG_RECEIVER_SAMPLER, "contexts.obi_map", KEY_TEXT, 0, SAMPLER(contexts.obi_map),
     "/sys/fs/bpf/otel/traces_ctx_v1", 2, 1024, NULL,
     "Where that map is pinned; an absolute path. It may appear and disappear at any time."},
    {CONFIG_RECEIVER_SAMPLER, "contexts.trace_id_labels", KEY_TEXTS, KEY_MAY_BE_EMPTY,
     SAMPLER(contexts.trace_id_labels), "", 0, 0, NULL,
     "Additional names of labels that hold a trace id in 32 hex digits, for go_labels and "
     "custom_labels. Always known: trace_id, otel_traceid, otel.traceid, otel.trace_id, and "
     "`trace id`."},
    {CONFIG_RECEIVER_SAMPLER, "contexts.span_id_labels", KEY_TEXTS, KEY_MAY_BE_EMPTY,
     SAMPLER(contexts.span_id_labels), "", 0, 0, NULL,
     "Additional names of labels that hold a span id in 16 hex digits. Always known: "
     "span_id, otel_spanid, otel.spanid, otel.span_id, profile_id, and as decimal numbers "
     "`span id` and `local root span id`."},
    {CONFIG_RECEIVER_SAMPLER, "symbols", KEY_SECTION, 0, NOWHERE, NULL, 0, 0, NULL,
     "How frames are named."},
    {CONFIG_RECEIVER_SAMPLER, "symbols.lines", KEY_BOOL, 0, SAMPLER(symbols.lines), "true", 0, 0,
     NULL,
     "Look up source files, lines and inlined functions if an executable or its debug file "
     "has DWARF. Stripped programs cost nothing extra; false saves memory and makes profiles "
     "smaller where most programs have DWARF."},

    {CONFIG_PROCESSOR_JOIN, "wait", KEY_DURATION, 0, JOIN(wait_ns), "1m", 10 * MS, HOUR, NULL,
     "How long a sample waits for its span before it is exported without the span's name."},
    {CONFIG_PROCESSOR_JOIN, "span_totals_ttl", KEY_DURATION, 0, JOIN(span_totals_ttl_ns), "1h",
     SECOND, 24 * HOUR, NULL,
     "How long the totals of a running span are kept after its last sample; at least wait. "
     "Spans that idle for longer are annotated with less than their CPU time."},
    {CONFIG_PROCESSOR_JOIN, "max_pending_mib", KEY_MIB, 0, JOIN(max_pending_bytes), "64", 1, 4096,
     NULL,
     "Memory for waiting samples; beyond it the oldest are exported early, without the "
     "span's name."},
    {CONFIG_PROCESSOR_JOIN, "max_span_totals_mib", KEY_MIB, 0, JOIN(max_span_totals_bytes), "32", 1,
     4096, NULL,
     "Memory for the totals of running spans; beyond it those longest without a sample are "
     "dropped."},
    {CONFIG_PROCESSOR_JOIN, "max_recent_spans", KEY_COUNT, 0, JOIN(max_recent_spans), "65536", 1,
     1048576, NULL, "Matched spans that are kept for late samples."},
    {CONFIG_PROCESSOR_JOIN, "top_stacks", KEY_COUNT, 0, JOIN(top_stacks), "5", 0, 16, NULL,
     "Number of most frequent stacks whose ids are written on a span; 0 for none."},
    {CONFIG_PROCESSOR_JOIN, "span_attributes", KEY_TEXTS, KEY_MAY_BE_EMPTY, JOIN(span_attributes),
     "http.request.method, http.route, rpc.service, rpc.method, messaging.operation.name, "
     "messaging.destination.name, db.system.name, db.operation.name, db.collection.name",
     0, CONFIG_LIST_MAX, NULL,
     "Attributes of a span that are copied to its samples, and by which the pages can "
     "filter; [] for none. Choose attributes with few distinct values."},

    OTLP_GRPC_KEYS(CONFIG_EXPORTER_OTLP_GRPC),
    OTLP_HTTP_KEYS(CONFIG_EXPORTER_OTLP_HTTP),

    {CONFIG_EXPORTER_DEBUG, "verbosity", KEY_CHOICE, 0, AT(config_exporter_debug, verbosity),
     "basic", 0, 0, verbosities,
     "basic: one line for each request; normal: also one for each span or sample, with ids "
     "and attributes; detailed: every field. At most 64 KiB for each request."},

    {CONFIG_EXPORTER_FILE, "path", KEY_TEXT, KEY_REQUIRED, TO_FILE(path), NULL, 1, 3000, NULL,
     "The file. If it is moved or removed, a new one is created."},
    {CONFIG_EXPORTER_FILE, "format", KEY_CHOICE, 0, TO_FILE(format), "json", 0, 0, file_formats,
     "json: OTLP/JSON; proto: the protobuf encoding of the request."},
    {CONFIG_EXPORTER_FILE, "compression", KEY_CHOICE, 0, TO_FILE(zstd), "none", 0, 0,
     file_compressions, "zstd: each record is a zstd frame."},
    {CONFIG_EXPORTER_FILE, "append", KEY_BOOL, 0, TO_FILE(append), "true", 0, 0, NULL,
     "false: the file is truncated when the service starts, unless there is rotation. That "
     "is the Collector's default but not spanprof's, because every restart would lose what "
     "was written."},
    {CONFIG_EXPORTER_FILE, "create_directory", KEY_BOOL, 0, TO_FILE(create_directory), "false", 0,
     0, NULL, "Create the directories of path if they are missing."},
    {CONFIG_EXPORTER_FILE, "flush_interval", KEY_DURATION, KEY_ZERO_ALLOWED,
     TO_FILE(flush_interval_ns), "1s", MS, HOUR, NULL,
     "Records are written at once and synced to disk after this time at the latest: a loss "
     "of power may lose that much. 0: a request counts as sent only when it is on disk."},
    {CONFIG_EXPORTER_FILE, "rotation", KEY_SECTION, 0, TO_FILE(rotation.enabled), NULL, 0, 0, NULL,
     "Absent: one file that grows. Present: a full file is renamed, with the time before its "
     "extension (data-2026-11-21T15-04-05.678.json), and a new one is started."},
    {CONFIG_EXPORTER_FILE, "rotation.max_megabytes", KEY_MIB, 0, TO_FILE(rotation.max_bytes), "100",
     1, 1048576, NULL,
     "Largest size of the file in MiB; a larger record gets a file of its "
     "own."},
    {CONFIG_EXPORTER_FILE, "rotation.max_days", KEY_COUNT, 0, TO_FILE(rotation.max_days), "0", 0,
     36500, NULL, "Backups older than this are removed, by the time in their name; 0: never."},
    {CONFIG_EXPORTER_FILE, "rotation.max_backups", KEY_COUNT, 0, TO_FILE(rotation.max_backups),
     "100", 0, 60000, NULL, "Number of newest backups to keep; 0: all."},
    {CONFIG_EXPORTER_FILE, "rotation.localtime", KEY_BOOL, 0, TO_FILE(rotation.localtime), "false",
     0, 0, NULL, "true: the time in file names is local; false: UTC."},

    {CONFIG_EXTENSION_SQLITE_STORAGE, "directory", KEY_TEXT, 0, STORE(directory),
     "/var/lib/spanprof", 1, 4000, NULL,
     "Directory of the database; created if it is "
     "missing."},
    {CONFIG_EXTENSION_SQLITE_STORAGE, "fsync", KEY_CHOICE, 0, STORE(fsync_full), "normal", 0, 0,
     fsyncs,
     "normal: acknowledged data survives a crash of the program; full: also a loss of power, "
     "with one fsync for each commit."},
    {CONFIG_EXTENSION_SQLITE_STORAGE, "max_size_mib", KEY_MIB, 0, STORE(max_size_bytes), "1024", 16,
     1048576, NULL,
     "Largest size of the database; when_full says what happens when it is "
     "reached."},
    {CONFIG_EXTENSION_SQLITE_STORAGE, "when_full", KEY_CHOICE, 0, STORE(drop_oldest), "refuse", 0,
     0, when_full,
     "What happens when max_size_mib or the disk is full. refuse: senders get a retryable "
     "error. drop_oldest: the oldest waiting requests are dropped for the new ones, and "
     "counted."},

    {CONFIG_EXTENSION_HEALTH_CHECK, "endpoint", KEY_LISTEN, 0, HEALTH(endpoint), "localhost:13133",
     0, 0, NULL, "Address of the page, as host:port."},
    {CONFIG_EXTENSION_HEALTH_CHECK, "path", KEY_TEXT, 0, HEALTH(path), "/", 1, 256, NULL,
     "Path of the page, beginning with a slash."},

    HISTORY_KEYS,

    PAGES_KEYS,

    {OWNER_SERVICE, "extensions", KEY_BUILT, 0, NOWHERE, NULL, 0, 0, NULL,
     "List of the extensions in use."},
    {OWNER_SERVICE, "pipelines", KEY_BUILT, 0, NOWHERE, NULL, 0, 0, NULL,
     "Map from signals (traces, profiles, metrics, logs) to their pipelines, one each."},
    {OWNER_SERVICE, "telemetry", KEY_SECTION, 0, NOWHERE, NULL, 0, 0, NULL,
     "spanprof's own telemetry."},
    {OWNER_SERVICE, "telemetry.logs", KEY_SECTION, 0, NOWHERE, NULL, 0, 0, NULL,
     "Its log, on stderr."},
    {OWNER_SERVICE, "telemetry.logs.level", KEY_CHOICE, 0, SERVICE(log_level), "info", 0, 0,
     log_levels, "Records below this level are left out."},
    {OWNER_SERVICE, "telemetry.logs.encoding", KEY_CHOICE, 0, SERVICE(log_format), "console", 0, 0,
     log_formats, "console: readable lines; json: one object per line."},
    {OWNER_SERVICE, "telemetry.metrics", KEY_SECTION, 0, NOWHERE, NULL, 0, 0, NULL,
     "Its counters, on a page for Prometheus."},
    {OWNER_SERVICE, "telemetry.metrics.level", KEY_CHOICE, 0, SERVICE(metrics_enabled), "normal", 0,
     0, metrics_levels, "none: no page. All other levels give the same page."},
    {OWNER_SERVICE, "telemetry.metrics.address", KEY_LISTEN, 0, SERVICE(metrics_address),
     "localhost:8888", 0, 0, NULL, "Address of the page, as host:port."},
    {OWNER_SERVICE, "telemetry.metrics.spans", KEY_BOOL, 0, SERVICE(span_metrics), "false", 0, 0,
     NULL,
     "CPU seconds by service and span name, with the most recently sampled trace as "
     "exemplar, at /metrics/spans (OpenMetrics)."},
    {OWNER_SERVICE, "user", KEY_TEXT, KEY_MAY_BE_EMPTY, SERVICE(user), "", 0, 64, NULL,
     "Account that the service process runs as, which talks to the network; without it, the "
     "owner of the store's directory."},

    {OWNER_PIPELINE, "receivers", KEY_BUILT, KEY_REQUIRED, NOWHERE, NULL, 0, 0, NULL,
     "List of receivers; at least one."},
    {OWNER_PIPELINE, "processors", KEY_BUILT, 0, NOWHERE, NULL, 0, 0, NULL,
     "List of processors, in their order; may be left out."},
    {OWNER_PIPELINE, "exporters", KEY_BUILT, KEY_REQUIRED, NOWHERE, NULL, 0, 0, NULL,
     "List of exporters; at least one. Each gets everything."},
};
const size_t config_keys_count = sizeof(config_keys) / sizeof(config_keys[0]);

static const struct config_hint hints[] = {
    {-1 - CLASS_RECEIVER, "profiling", "spanprof's own sampler is the receiver `sampler`"},
    {-1 - CLASS_PROCESSOR, "batch", "spanprof makes its batches itself; leave it out"},
    {-1 - CLASS_PROCESSOR, "memory_limiter",
     "memory is bounded by each component's own limits; leave it out"},
    {CONFIG_EXTENSION_HEALTH_CHECK, "response_body",
     "the body says what is wrong; go by the status, and leave it out"},
    {CONFIG_EXTENSION_HEALTH_CHECK, "check_collector_pipeline",
     "the store's state is looked at anyway; leave it out"},
    {CONFIG_EXTENSION_HEALTH_CHECK, "tls", "the page has no TLS; keep it on this node"},
    {-1 - CLASS_EXTENSION, "file_storage", "spanprof's store is the extension `sqlite_storage`"},
    OTLP_HINTS(CONFIG_EXPORTER_OTLP_GRPC),
    OTLP_HINTS(CONFIG_EXPORTER_OTLP_HTTP),
    {CONFIG_EXPORTER_OTLP_HTTP, "keepalive", "write idle_conn_timeout or disable_keep_alives"},
    {CONFIG_EXPORTER_FILE, "group_by",
     "all goes to one file; use several exporters, named file/NAME"},
    {CONFIG_EXPORTER_FILE, "encoding", "use format: json or proto"},
    {CONFIG_EXPORTER_FILE, "directory_permissions",
     "directories are made with 0755 less the umask; leave it out"},
    TLS_HINTS(CONFIG_RECEIVER_OTLP, "protocols.grpc.tls"),
    TLS_HINTS(CONFIG_RECEIVER_OTLP, "protocols.http.tls"),
    TLS_HINTS(CONFIG_EXPORTER_OTLP_GRPC, "tls"),
    TLS_HINTS(CONFIG_EXPORTER_OTLP_HTTP, "tls"),
    TLS_HINTS(CONFIG_EXTENSION_PAGES, "tls"),
    {CONFIG_RECEIVER_OTLP, "protocols.grpc.tls.ca_file", NOT_CA_FILE},
    {CONFIG_RECEIVER_OTLP, "protocols.http.tls.ca_file", NOT_CA_FILE},
    {CONFIG_EXTENSION_PAGES, "tls.ca_file", NOT_CA_FILE},
    {OWNER_ROOT, "connectors", "there are no connectors in spanprof; leave it out"},
    {OWNER_SERVICE, "telemetry.metrics.readers",
     "the page's address is service::telemetry::metrics::address"},
    {OWNER_SERVICE, "telemetry.traces", "spanprof traces nothing of itself; leave it out"},
    {OWNER_SERVICE, "telemetry.resource", "spanprof's own resource is fixed; leave it out"},
};

const char *keys_hint(int owner, const char *dotted)
{
    for (size_t i = 0; i < sizeof(hints) / sizeof(hints[0]); i++)
        if (hints[i].owner == owner && strcmp(hints[i].path, dotted) == 0)
            return hints[i].text;
    return NULL;
}

const struct config_component *keys_component(enum config_class class, const char *type)
{
    for (size_t i = 0; i < config_components_count; i++) {
        const struct config_component *component = &config_components[i];
        if (component->class == class &&
            (strcmp(component->name, type) == 0 ||
             (component->alias && strcmp(component->alias, type) == 0)))
            return component;
    }
    return NULL;
}

const struct config_component *keys_component_of(enum config_type type)
{
    for (size_t i = 0; i < config_components_count; i++)
        if (config_components[i].type == type)
            return &config_components[i];
    return NULL;
}

const char *keys_name(const struct config_key *key)
{
    const char *dot = strrchr(key->path, '.');
    return dot ? dot + 1 : key->path;
}

const struct config_key *keys_next(int owner, const char *prefix, const struct config_key *key)
{
    size_t len = strlen(prefix);
    for (key = key ? key + 1 : config_keys; key < config_keys + config_keys_count; key++) {
        size_t parent = (size_t)(keys_name(key) - key->path);
        if (key->owner == owner && parent == (len ? len + 1 : 0) &&
            strncmp(key->path, prefix, len) == 0)
            return key;
    }
    return NULL;
}

const struct config_key *keys_find(int owner, const char *prefix, const char *name)
{
    const struct config_key *key = NULL;
    while ((key = keys_next(owner, prefix, key)))
        if (strcmp(keys_name(key), name) == 0)
            return key;
    return NULL;
}

const struct config_key *keys_find_renamed(int owner, const char *prefix, const char *old_name)
{
    static const struct {
        int owner;
        const char *old_name, *name;
    } renamed[] = {
        {CONFIG_PROCESSOR_JOIN, "tally_ttl", "span_totals_ttl"},
        {CONFIG_PROCESSOR_JOIN, "max_tally_mib", "max_span_totals_mib"},
    };
    for (size_t i = 0; i < sizeof(renamed) / sizeof(renamed[0]) && !*prefix; i++)
        if (renamed[i].owner == owner && strcmp(renamed[i].old_name, old_name) == 0)
            return keys_find(owner, prefix, renamed[i].name);
    return NULL;
}
