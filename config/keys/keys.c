/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declared once. Names and, where sensible, defaults are the Collector's, so that what one knows of
 * it holds here; where a default differs the sentence says so.
 */
#include "config/keys/keys.h"
#include "config/keys/keys_auth.h"
#include "config/keys/keys_history.h"
#include "config/keys/keys_otlp.h"
#include "config/keys/keys_pages.h"

/* Where a value goes; NOWHERE: the row has none. */
#define AT(type, field)                                                                            \
    .offset = offsetof(struct type, field), .size = sizeof(((struct type *)0)->field)

const char *const config_class_names[CLASSES] = {"receivers", "processors", "exporters",
                                                 "extensions"};
const char *const config_class_singular[CLASSES] = {"receiver", "processor", "exporter",
                                                    "extension"};
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
    {OWNER_ROOT, "receivers", KEY_BUILT,
     .help = "Where data comes from: a map from component ids to their settings."},
    {OWNER_ROOT, "processors", KEY_BUILT, .help = "What happens to data in between."},
    {OWNER_ROOT, "exporters", KEY_BUILT, .help = "Where data goes."},
    {OWNER_ROOT, "extensions", KEY_BUILT,
     .help = "Components that are in no pipeline, such as the store."},
    {OWNER_ROOT, "service", KEY_BUILT,
     .help = "Which of these are used, and how: see Service and Pipelines."},

    {CONFIG_RECEIVER_OTLP, "protocols", KEY_SECTION, .flags = KEY_REQUIRED,
     .help = "The protocols to listen for; at least one of grpc and http."},
    {CONFIG_RECEIVER_OTLP, "protocols.grpc", KEY_SECTION, GRPC(enabled),
     .help = "OTLP/gRPC. Absent: off. Empty: on, with defaults."},
    {CONFIG_RECEIVER_OTLP, "protocols.grpc.endpoint", KEY_LISTEN, .flags = KEY_PATH_TOO,
     GRPC(endpoint), .initial = "localhost:4317",
     .help =
         "Address to listen on, as host:port; [::1]:4317 for IPv6; or the path of a Unix socket."},
    {CONFIG_RECEIVER_OTLP, "protocols.grpc.transport", KEY_CHOICE, GRPC(transport),
     .initial = "tcp", .choices = transports,
     .help = "tcp: both families; tcp4, tcp6: one of them; unix: endpoint is the path of a Unix "
             "socket. The form unix:///run/spanprof/otlp.sock needs no transport."},
    {CONFIG_RECEIVER_OTLP, "protocols.grpc.socket_mode", KEY_CHOICE, .flags = KEY_NUMBERS_TOO,
     GRPC(socket_mode), .initial = "0666", .choices = socket_modes,
     .help = "Who may connect to a Unix socket: 0666 everyone who can reach its directory, 0660 "
             "owner and group, 0600 the owner, which is that of its directory, or the user that "
             "starts spanprof where that may not act as him. The Collector "
             "uses the umask."},
    {CONFIG_RECEIVER_OTLP, "protocols.grpc.max_recv_msg_size_mib", KEY_MIB,
     .flags = KEY_ZERO_IS_DEFAULT, GRPC(max_recv_msg_size_bytes), .initial = "4", .min = 1,
     .max = 256,
     .help = "Largest request in MiB, before and after decompression; 0 means the default."},
    {CONFIG_RECEIVER_OTLP, "protocols.grpc.max_concurrent_streams", KEY_COUNT,
     .flags = KEY_ZERO_IS_DEFAULT, GRPC(max_concurrent_streams), .initial = "100", .min = 1,
     .max = 10000,
     .help =
         "Requests at a time on one connection; 0 means the default. The Collector has no limit by "
         "default."},
    {CONFIG_RECEIVER_OTLP, "protocols.grpc.max_connections", KEY_COUNT, GRPC(max_connections),
     .initial = "1024", .min = 1, .max = 65536,
     .help = "Connections at a time; then one that is idle gives way to a new one."},
    {CONFIG_RECEIVER_OTLP, "protocols.grpc.keepalive", KEY_SECTION,
     .help = "How long connections last."},
    {CONFIG_RECEIVER_OTLP, "protocols.grpc.keepalive.server_parameters", KEY_SECTION,
     .help = "As in gRPC."},
    {CONFIG_RECEIVER_OTLP, "protocols.grpc.keepalive.server_parameters.max_connection_idle",
     KEY_DURATION, .flags = KEY_ZERO_ALLOWED, GRPC(keepalive.max_connection_idle_ns),
     .initial = "15m", .min = SECOND, .max = 24 * HOUR,
     .help = "A connection without calls for this long is closed gracefully; 0: never, the "
             "Collector's default."},
    {CONFIG_RECEIVER_OTLP, "protocols.grpc.keepalive.server_parameters.max_connection_age",
     KEY_DURATION, .flags = KEY_ZERO_ALLOWED, GRPC(keepalive.max_connection_age_ns),
     .initial = "0s", .min = SECOND, .max = 8760 * HOUR,
     .help =
         "A connection of this age, 10 % more or less, is closed gracefully, so that clients are "
         "rebalanced from time to time; 0: never."},
    {CONFIG_RECEIVER_OTLP, "protocols.grpc.keepalive.server_parameters.max_connection_age_grace",
     KEY_DURATION, .flags = KEY_ZERO_ALLOWED, GRPC(keepalive.max_connection_age_grace_ns),
     .initial = "0s", .min = MS, .max = 24 * HOUR,
     .help = "Time for calls still in progress at max_connection_age before the connection is "
             "closed; 0: no limit."},
    {CONFIG_RECEIVER_OTLP, "protocols.grpc.keepalive.server_parameters.time", KEY_DURATION,
     .flags = KEY_ZERO_ALLOWED, GRPC(keepalive.time_ns), .initial = "2h", .min = SECOND,
     .max = 24 * HOUR, .help = "Silence after which a PING is sent to the client; 0: never."},
    {CONFIG_RECEIVER_OTLP, "protocols.grpc.keepalive.server_parameters.timeout", KEY_DURATION,
     .flags = KEY_ZERO_IS_DEFAULT, GRPC(keepalive.timeout_ns), .initial = "20s", .min = MS,
     .max = HOUR,
     .help =
         "Time to wait for the answer to that PING before the connection is closed; 0 means the "
         "default."},
    {CONFIG_RECEIVER_OTLP, "protocols.grpc.keepalive.enforcement_policy", KEY_IGNORED,
     .help = "A flood of PINGs always ends the connection."},
    {CONFIG_RECEIVER_OTLP, "protocols.grpc.read_buffer_size", KEY_IGNORED,
     .help = "Buffers have a fixed size."},
    {CONFIG_RECEIVER_OTLP, "protocols.grpc.write_buffer_size", KEY_IGNORED,
     .help = "Buffers have a fixed size."},
    {CONFIG_RECEIVER_OTLP, "protocols.grpc.include_metadata", KEY_IGNORED,
     .help = "Request headers are not passed on."},
    AUTH_KEYS("protocols.grpc", GRPC),
    TLS_SERVER_KEYS(CONFIG_RECEIVER_OTLP, "protocols.grpc.tls", GRPC_TLS),
    {CONFIG_RECEIVER_OTLP, "protocols.http", KEY_SECTION, HTTP(enabled),
     .help = "OTLP/HTTP. Absent: off. Empty: on, with defaults."},
    {CONFIG_RECEIVER_OTLP, "protocols.http.endpoint", KEY_LISTEN, .flags = KEY_PATH_TOO,
     HTTP(endpoint), .initial = "localhost:4318",
     .help = "Address to listen on, as host:port, or the path of a Unix socket."},
    {CONFIG_RECEIVER_OTLP, "protocols.http.transport", KEY_CHOICE, HTTP(transport),
     .initial = "tcp", .choices = transports,
     .help = "tcp: both families; tcp4, tcp6: one of them; unix: endpoint is the path of a Unix "
             "socket. The form unix:///run/spanprof/otlp.sock needs no transport."},
    {CONFIG_RECEIVER_OTLP, "protocols.http.socket_mode", KEY_CHOICE, .flags = KEY_NUMBERS_TOO,
     HTTP(socket_mode), .initial = "0666", .choices = socket_modes,
     .help = "Who may connect to a Unix socket: 0666 everyone who can reach its directory, 0660 "
             "owner and group, 0600 the owner, which is that of its directory, or the user that "
             "starts spanprof where that may not act as him. The Collector "
             "uses the umask."},
    {CONFIG_RECEIVER_OTLP, "protocols.http.max_request_body_size", KEY_BYTES,
     .flags = KEY_ZERO_IS_DEFAULT, HTTP(max_request_body_size_bytes), .initial = "20971520",
     .min = 1024, .max = 268435456,
     .help = "Largest body in bytes, before and after decompression; 0 means the default."},
    {CONFIG_RECEIVER_OTLP, "protocols.http.idle_timeout", KEY_DURATION, .flags = KEY_ZERO_ALLOWED,
     HTTP(idle_timeout_ns), .initial = "1m", .min = SECOND, .max = HOUR,
     .help = "A connection without a request for this long is closed; 0 means an hour (in the "
             "Collector: no limit)."},
    {CONFIG_RECEIVER_OTLP, "protocols.http.max_connections", KEY_COUNT, HTTP(max_connections),
     .initial = "1024", .min = 1, .max = 65536,
     .help = "Connections at a time; then one that is idle gives way to a new one."},
    {CONFIG_RECEIVER_OTLP, "protocols.http.cors", KEY_SECTION,
     .help = "Which web pages may send from a browser (CORS)."},
    {CONFIG_RECEIVER_OTLP, "protocols.http.cors.allowed_origins", KEY_TEXTS,
     .flags = KEY_MAY_BE_EMPTY, HTTP(cors.allowed_origins), .initial = "",
     .help =
         "Origins, for example https://app.example.com; one * in each matches anything. Without "
         "any, browsers refuse cross-origin requests."},
    {CONFIG_RECEIVER_OTLP, "protocols.http.cors.allowed_headers", KEY_TEXTS,
     .flags = KEY_MAY_BE_EMPTY, HTTP(cors.allowed_headers), .initial = "",
     .help =
         "Headers that pages may set in addition to Accept, Content-Type and X-Requested-With; * "
         "for all."},
    {CONFIG_RECEIVER_OTLP, "protocols.http.cors.exposed_headers", KEY_TEXTS,
     .flags = KEY_MAY_BE_EMPTY, HTTP(cors.exposed_headers), .initial = "",
     .help = "Response headers that pages may read."},
    {CONFIG_RECEIVER_OTLP, "protocols.http.cors.max_age", KEY_COUNT, HTTP(cors.max_age_s),
     .initial = "0", .max = 86400,
     .help = "Seconds for which a browser may cache the answer to a preflight request; 0: the "
             "browser's default."},
    {CONFIG_RECEIVER_OTLP, "protocols.http.include_metadata", KEY_IGNORED,
     .help = "Request headers are not passed on."},
    {CONFIG_RECEIVER_OTLP, "protocols.http.compression_algorithms", KEY_IGNORED,
     .help = "Identity, gzip, zstd and deflate are always accepted."},
    AUTH_KEYS("protocols.http", HTTP),
    TLS_SERVER_KEYS(CONFIG_RECEIVER_OTLP, "protocols.http.tls", HTTP_TLS),

    {CONFIG_RECEIVER_SAMPLER, "frequency", KEY_COUNT, SAMPLER(frequency), .initial = "97", .min = 1,
     .max = 1000,
     .help = "Samples per second on each busy CPU. A prime avoids running in step with periodic "
             "work."},
    {CONFIG_RECEIVER_SAMPLER, "ring_size_mib", KEY_MIB, .flags = KEY_POWER_OF_TWO,
     SAMPLER(ring_size_bytes), .initial = "8", .min = 1, .max = 256,
     .help = "Ring buffer between kernel and program for samples not yet read; when it is full, "
             "samples are lost and counted."},
    {CONFIG_RECEIVER_SAMPLER, "unwind_tables_mib", KEY_MIB, SAMPLER(unwind_table_bytes),
     .initial = "32", .min = 1, .max = 4096,
     .help = "Kernel memory for unwind tables, filled as samples touch code; when it is full, the "
             "least recently used tables are evicted."},
    {CONFIG_RECEIVER_SAMPLER, "drain_interval", KEY_DURATION, SAMPLER(drain_interval_ns),
     .initial = "100ms", .min = MS, .max = 5 * SECOND,
     .help = "How often samples are read; they are also read when spans arrive."},
    {CONFIG_RECEIVER_SAMPLER, "include", KEY_SECTION,
     .help =
         "What is sampled; without any of these, everything. A thread is sampled if any value of "
         "any of these keys matches it. Threads left out are counted in "
         "spanprof_samples_filtered_total."},
    {CONFIG_RECEIVER_SAMPLER, "include.pids", KEY_TEXTS,
     .flags = KEY_MAY_BE_EMPTY | KEY_NUMBERS_TOO, SAMPLER(include.pids), .initial = "",
     .help = "Processes by pid, in the PID namespace that spanprof runs in; their children are not "
             "included."},
    {CONFIG_RECEIVER_SAMPLER, "include.comms", KEY_TEXTS, .flags = KEY_MAY_BE_EMPTY,
     SAMPLER(include.comms), .initial = "",
     .help = "Threads by full name, as in /proc/PID/task/TID/comm."},
    {CONFIG_RECEIVER_SAMPLER, "include.executables", KEY_TEXTS, .flags = KEY_MAY_BE_EMPTY,
     SAMPLER(include.executables), .initial = "",
     .help = "Programs by file name, without directories; for scripts the interpreter's. Kernel "
             "threads have none."},
    {CONFIG_RECEIVER_SAMPLER, "include.cgroups", KEY_TEXTS, .flags = KEY_MAY_BE_EMPTY,
     SAMPLER(include.cgroups), .initial = "",
     .help =
         "cgroups with everything below them, as paths in the unified hierarchy (cgroup v2), for "
         "example /system.slice/ssh.service. They may be created and removed at any time: a new "
         "one is seen within 2 seconds."},
    {CONFIG_RECEIVER_SAMPLER, "include.containers", KEY_TEXTS, .flags = KEY_MAY_BE_EMPTY,
     SAMPLER(include.containers), .initial = "",
     .help = "Containers by id, or at least its first 12 digits, as in the name of their cgroup "
             "(v2). A new one is seen within 2 seconds."},
    {CONFIG_RECEIVER_SAMPLER, "exclude", KEY_SECTION,
     .help = "What is not sampled, even if include matches it."},
    {CONFIG_RECEIVER_SAMPLER, "exclude.pids", KEY_TEXTS,
     .flags = KEY_MAY_BE_EMPTY | KEY_NUMBERS_TOO, SAMPLER(exclude.pids), .initial = "",
     .help = "As include.pids, but excluded."},
    {CONFIG_RECEIVER_SAMPLER, "exclude.comms", KEY_TEXTS, .flags = KEY_MAY_BE_EMPTY,
     SAMPLER(exclude.comms), .initial = "", .help = "As include.comms, but excluded."},
    {CONFIG_RECEIVER_SAMPLER, "exclude.executables", KEY_TEXTS, .flags = KEY_MAY_BE_EMPTY,
     SAMPLER(exclude.executables), .initial = "", .help = "As include.executables, but excluded."},
    {CONFIG_RECEIVER_SAMPLER, "exclude.cgroups", KEY_TEXTS, .flags = KEY_MAY_BE_EMPTY,
     SAMPLER(exclude.cgroups), .initial = "", .help = "As include.cgroups, but excluded."},
    {CONFIG_RECEIVER_SAMPLER, "exclude.containers", KEY_TEXTS, .flags = KEY_MAY_BE_EMPTY,
     SAMPLER(exclude.containers), .initial = "", .help = "As include.containers, but excluded."},
    {CONFIG_RECEIVER_SAMPLER, "probability", KEY_RATIO, SAMPLER(probability), .initial = "1",
     .min = 0.0001, .max = 1,
     .help = "Chance that this node samples, drawn again for each probability_interval, so that a "
             "share of many nodes samples at any time. Samples are not scaled up; "
             "spanprof_sampling_active is 1 while sampling."},
    {CONFIG_RECEIVER_SAMPLER, "probability_interval", KEY_DURATION,
     SAMPLER(probability_interval_ns), .initial = "1m", .min = SECOND, .max = 24 * HOUR,
     .help = "How long one draw of probability is valid."},
    {CONFIG_RECEIVER_SAMPLER, "max_cpu_percent", KEY_RATIO, SAMPLER(max_cpu_percent),
     .initial = "0", .max = 100,
     .help = "CPU time that spanprof may use, in all its processes and in its ticks in the kernel, "
             "in percent of all CPUs of this node. Above it the frequency is lowered, then raised "
             "again slowly. Samples carry the true period. 0: no limit."},
    {CONFIG_RECEIVER_SAMPLER, "contexts", KEY_SECTION,
     .help = "Where the trace and span of a thread are read from; if a process has several, the "
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
        CONFIG_RECEIVER_SAMPLER, "contexts.elastic_correlation", KEY_BOOL,
        SAMPLER(contexts.elastic_correlation), .initial = "true",
        .help =
            "Report to Elastic's agents which stacks were seen in their spans, so that they write "
            "them on the spans."},
    {CONFIG_RECEIVER_SAMPLER, "contexts.obi_map", KEY_TEXT, SAMPLER(contexts.obi_map),
     .initial = "/sys/fs/bpf/otel/traces_ctx_v1", .min = 2, .max = 1024,
     .help =
         "Where that map is pinned; an absolute path. It may appear and disappear at any time."},
    {CONFIG_RECEIVER_SAMPLER, "contexts.trace_id_labels", KEY_TEXTS, .flags = KEY_MAY_BE_EMPTY,
     SAMPLER(contexts.trace_id_labels), .initial = "",
     .help =
         "Additional names of labels that hold a trace id in 32 hex digits, for go_labels and "
         "custom_labels. Always known: trace_id, otel_traceid, otel.traceid, otel.trace_id, and "
         "`trace id`."},
    {CONFIG_RECEIVER_SAMPLER, "contexts.span_id_labels", KEY_TEXTS, .flags = KEY_MAY_BE_EMPTY,
     SAMPLER(contexts.span_id_labels), .initial = "",
     .help = "Additional names of labels that hold a span id in 16 hex digits. Always known: "
             "span_id, otel_spanid, otel.spanid, otel.span_id, profile_id, and as decimal numbers "
             "`span id` and `local root span id`."},
    {CONFIG_RECEIVER_SAMPLER, "symbols", KEY_SECTION, .help = "How frames are named."},
    {CONFIG_RECEIVER_SAMPLER, "symbols.lines", KEY_BOOL, SAMPLER(symbols.lines), .initial = "true",
     .help =
         "Look up source files, lines and inlined functions if an executable or its debug file "
         "has DWARF. Stripped programs cost nothing extra; false saves memory and makes profiles "
         "smaller where most programs have DWARF."},
    {CONFIG_RECEIVER_SAMPLER, "runtimes", KEY_SECTION,
     .help = "Frames of interpreters and virtual machines."},
    {CONFIG_RECEIVER_SAMPLER, "runtimes.frames", KEY_BOOL, SAMPLER(runtimes.frames),
     .initial = "true",
     .help = "Show functions, files and lines of programs in Python, Java and JavaScript as those "
             "see them; otherwise only what runs them."},
    {CONFIG_RECEIVER_SAMPLER, "runtimes.cache_mib", KEY_MIB, SAMPLER(runtimes.cache_bytes),
     .initial = "16", .min = 1, .max = 1024,
     .help = "Memory for what was read of their functions; when it is full, the least recently "
             "used is read again."},

    {CONFIG_PROCESSOR_JOIN, "wait", KEY_DURATION, JOIN(wait_ns), .initial = "1m", .min = 10 * MS,
     .max = HOUR,
     .help = "How long a sample waits for its span before it is exported without the span's name."},
    {CONFIG_PROCESSOR_JOIN, "span_totals_ttl", KEY_DURATION, JOIN(span_totals_ttl_ns),
     .initial = "1h", .min = SECOND, .max = 24 * HOUR,
     .help = "How long the totals of a running span are kept after its last sample; at least wait. "
             "Spans that idle for longer are annotated with less than their CPU time."},
    {CONFIG_PROCESSOR_JOIN, "max_pending_mib", KEY_MIB, JOIN(max_pending_bytes), .initial = "32",
     .min = 1, .max = 4096,
     .help = "Memory for waiting samples; beyond it the oldest are exported early, without the "
             "span's name."},
    {CONFIG_PROCESSOR_JOIN, "max_span_totals_mib", KEY_MIB, JOIN(max_span_totals_bytes),
     .initial = "16", .min = 1, .max = 4096,
     .help = "Memory for the totals of running spans; beyond it those longest without a sample are "
             "dropped. Each cgroup has a fair share."},
    {CONFIG_PROCESSOR_JOIN, "max_recent_spans", KEY_COUNT, JOIN(max_recent_spans),
     .initial = "65536", .min = 1, .max = 1048576,
     .help = "Matched spans that are kept for late samples."},
    {CONFIG_PROCESSOR_JOIN, "max_recent_mib", KEY_MIB, JOIN(max_recent_bytes), .initial = "16",
     .min = 1, .max = 4096,
     .help = "Memory for these spans. Each cgroup has a fair share; beyond it its own oldest are "
             "dropped."},
    {CONFIG_PROCESSOR_JOIN, "top_stacks", KEY_COUNT, JOIN(top_stacks), .initial = "5", .max = 16,
     .help = "Number of most frequent stacks whose ids are written on a span; 0 for none."},
    {CONFIG_PROCESSOR_JOIN, "span_attributes", KEY_TEXTS, .flags = KEY_MAY_BE_EMPTY,
     JOIN(span_attributes),
     .initial =
         "http.request.method, http.route, rpc.service, rpc.method, messaging.operation.name, "
         "messaging.destination.name, db.system.name, db.operation.name, db.collection.name",
     .max = CONFIG_LIST_MAX,
     .help = "Attributes of a span that are copied to its samples, and by which the pages can "
             "filter; [] for none. Choose attributes with few distinct values."},
    {CONFIG_PROCESSOR_JOIN, "forwarders", KEY_SECTION,
     .help = "Who sends spans that other processes made, such as a Collector in front of spanprof. "
             "What a span says of its process (its Resource) is believed if a forwarder sent it. "
             "Otherwise a span gets CPU time only from the container or service that sent it, or "
             "if it has the container.id or service.instance.id of the process."},
    {CONFIG_PROCESSOR_JOIN, "forwarders.users", KEY_TEXTS,
     .flags = KEY_MAY_BE_EMPTY | KEY_NUMBERS_TOO, JOIN(forwarders.users.names), .initial = "",
     .max = CONFIG_LIST_MAX,
     .help = "Users of this node, by name or number, whose processes forward. A container without "
             "a user namespace shares its numbers with the node, so do not name root."},
    {CONFIG_PROCESSOR_JOIN, "forwarders.cgroups", KEY_TEXTS, .flags = KEY_MAY_BE_EMPTY,
     JOIN(forwarders.cgroups), .initial = "", .max = CONFIG_LIST_MAX,
     .help = "Cgroups of this node whose processes forward, for example "
             "/system.slice/otelcol-contrib.service: paths in the unified hierarchy, without what "
             "is below."},
    {CONFIG_PROCESSOR_JOIN, "forwarders.sockets", KEY_TEXTS, .flags = KEY_MAY_BE_EMPTY,
     JOIN(forwarders.sockets), .initial = "", .max = CONFIG_LIST_MAX,
     .help = "Endpoints of otlp receivers, as written there, that only forwarders can reach: a "
             "Unix socket with socket_mode 0660, or one that only a Collector has mounted."},

    OTLP_GRPC_KEYS(CONFIG_EXPORTER_OTLP_GRPC),
    OTLP_HTTP_KEYS(CONFIG_EXPORTER_OTLP_HTTP),

    {CONFIG_EXPORTER_DEBUG, "verbosity", KEY_CHOICE, AT(config_exporter_debug, verbosity),
     .initial = "basic", .choices = verbosities,
     .help = "basic: one line for each request; normal: also one for each span or sample, with ids "
             "and attributes; detailed: every field. At most 64 KiB for each request."},

    {CONFIG_EXPORTER_FILE, "path", KEY_TEXT, .flags = KEY_REQUIRED, TO_FILE(path), .min = 1,
     .max = 3000, .help = "The file. If it is moved or removed, a new one is created."},
    {CONFIG_EXPORTER_FILE, "format", KEY_CHOICE, TO_FILE(format), .initial = "json",
     .choices = file_formats,
     .help = "json: OTLP/JSON; proto: the protobuf encoding of the request."},
    {CONFIG_EXPORTER_FILE, "compression", KEY_CHOICE, TO_FILE(zstd), .initial = "none",
     .choices = file_compressions, .help = "zstd: each record is a zstd frame."},
    {CONFIG_EXPORTER_FILE, "append", KEY_BOOL, TO_FILE(append), .initial = "true",
     .help = "false: the file is truncated when the service starts, unless there is rotation. That "
             "is the Collector's default but not spanprof's, because every restart would lose what "
             "was written."},
    {CONFIG_EXPORTER_FILE, "create_directory", KEY_BOOL, TO_FILE(create_directory),
     .initial = "false", .help = "Create the directories of path if they are missing."},
    {CONFIG_EXPORTER_FILE, "flush_interval", KEY_DURATION, .flags = KEY_ZERO_ALLOWED,
     TO_FILE(flush_interval_ns), .initial = "1s", .min = MS, .max = HOUR,
     .help = "Records are written at once and synced to disk after this time at the latest: a loss "
             "of power may lose that much. 0: a request counts as sent only when it is on disk."},
    {CONFIG_EXPORTER_FILE, "rotation", KEY_SECTION, TO_FILE(rotation.enabled),
     .help =
         "Absent: one file that grows. Present: a full file is renamed, with the time before its "
         "extension (data-2026-11-21T15-04-05.678.json), and a new one is started."},
    {CONFIG_EXPORTER_FILE, "rotation.max_megabytes", KEY_MIB, TO_FILE(rotation.max_bytes),
     .initial = "100", .min = 1, .max = 1048576,
     .help = "Largest size of the file in MiB; a larger record gets a file of its "
             "own."},
    {CONFIG_EXPORTER_FILE, "rotation.max_days", KEY_COUNT, TO_FILE(rotation.max_days),
     .initial = "0", .max = 36500,
     .help = "Backups older than this are removed, by the time in their name; 0: never."},
    {CONFIG_EXPORTER_FILE, "rotation.max_backups", KEY_COUNT, TO_FILE(rotation.max_backups),
     .initial = "100", .max = 60000, .help = "Number of newest backups to keep; 0: all."},
    {CONFIG_EXPORTER_FILE, "rotation.localtime", KEY_BOOL, TO_FILE(rotation.localtime),
     .initial = "false", .help = "true: the time in file names is local; false: UTC."},

    {CONFIG_EXTENSION_SQLITE_STORAGE, "directory", KEY_TEXT, STORE(directory),
     .initial = "/var/lib/spanprof", .min = 1, .max = 4000,
     .help = "Directory of the database; created if it is "
             "missing."},
    {CONFIG_EXTENSION_SQLITE_STORAGE, "fsync", KEY_CHOICE, STORE(fsync_full), .initial = "normal",
     .choices = fsyncs,
     .help =
         "normal: acknowledged data survives a crash of the program; full: also a loss of power, "
         "with one fsync for each commit."},
    {CONFIG_EXTENSION_SQLITE_STORAGE, "max_size_mib", KEY_MIB, STORE(max_size_bytes),
     .initial = "1024", .min = 16, .max = 1048576,
     .help = "Largest size of the database; when_full says what happens when it is "
             "reached."},
    {CONFIG_EXTENSION_SQLITE_STORAGE, "when_full", KEY_CHOICE, STORE(drop_oldest),
     .initial = "refuse", .choices = when_full,
     .help = "What happens when max_size_mib or the disk is full. refuse: senders get a retryable "
             "error. drop_oldest: the oldest waiting requests are dropped for the new ones, and "
             "counted."},

    {CONFIG_EXTENSION_HEALTH_CHECK, "endpoint", KEY_LISTEN, HEALTH(endpoint),
     .initial = "localhost:13133", .help = "Address of the page, as host:port."},
    {CONFIG_EXTENSION_HEALTH_CHECK, "path", KEY_TEXT, HEALTH(path), .initial = "/", .min = 1,
     .max = 256, .help = "Path of the page, beginning with a slash."},

    HISTORY_KEYS,

    BEARER_KEYS,

    PAGES_KEYS,

    {OWNER_SERVICE, "extensions", KEY_BUILT, .help = "List of the extensions in use."},
    {OWNER_SERVICE, "pipelines", KEY_BUILT,
     .help = "Map from signals (traces, profiles, metrics, logs) to their pipelines, one each."},
    {OWNER_SERVICE, "telemetry", KEY_SECTION, .help = "spanprof's own telemetry."},
    {OWNER_SERVICE, "telemetry.logs", KEY_SECTION, .help = "Its log, on stderr."},
    {OWNER_SERVICE, "telemetry.logs.level", KEY_CHOICE, SERVICE(log_level), .initial = "info",
     .choices = log_levels, .help = "Records below this level are left out."},
    {OWNER_SERVICE, "telemetry.logs.encoding", KEY_CHOICE, SERVICE(log_format),
     .initial = "console", .choices = log_formats,
     .help = "console: readable lines; json: one object per line."},
    {OWNER_SERVICE, "telemetry.metrics", KEY_SECTION,
     .help = "Its counters, on a page for Prometheus."},
    {OWNER_SERVICE, "telemetry.metrics.level", KEY_CHOICE, SERVICE(metrics_enabled),
     .initial = "normal", .choices = metrics_levels,
     .help = "none: no page. All other levels give the same page."},
    {OWNER_SERVICE, "telemetry.metrics.address", KEY_LISTEN, SERVICE(metrics_address),
     .initial = "localhost:8888", .help = "Address of the page, as host:port."},
    {OWNER_SERVICE, "telemetry.metrics.spans", KEY_BOOL, SERVICE(span_metrics), .initial = "false",
     .help = "CPU seconds by service and span name, with the most recently sampled trace as "
             "exemplar, at /metrics/spans (OpenMetrics)."},
    {OWNER_SERVICE, "user", KEY_TEXT, .flags = KEY_MAY_BE_EMPTY, SERVICE(user), .initial = "",
     .max = 64,
     .help =
         "Account that the service process runs as, which talks to the network; without it, the "
         "owner of the store's directory, and if that is root, spanprof or else nobody. Never "
         "root."},

    {OWNER_PIPELINE, "receivers", KEY_BUILT, .flags = KEY_REQUIRED,
     .help = "List of receivers; at least one."},
    {OWNER_PIPELINE, "processors", KEY_BUILT,
     .help = "List of processors, in their order; may be left out."},
    {OWNER_PIPELINE, "exporters", KEY_BUILT, .flags = KEY_REQUIRED,
     .help = "List of exporters; at least one. Each gets everything."},
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
