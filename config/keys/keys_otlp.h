/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The keys that both OTLP exporters have. Private to keys.c. They bind to struct
 * config_exporter_otlp.
 */
#include "config/keys/keys.h"
#include "config/keys/keys_tls.h"

#define OUT(field)                                                                                 \
    offsetof(struct config_exporter_otlp, field), sizeof(((struct config_exporter_otlp *)0)->field)
#define OUT_TLS(field) OUT(tls.field)

static const struct key_choice compressions[] = {
    {"gzip", CONFIG_GZIP}, {"zstd", CONFIG_ZSTD}, {"none", CONFIG_UNCOMPRESSED}, {NULL, 0}};

#define OUT_KEY(owner, path, kind, flags, field, initial, min_, max_, choices, sentence)           \
    {                                                                                              \
        owner, path, kind, flags, field, initial, min_, max_, choices, sentence                    \
    }
#define OUT_SECTION(owner, path, sentence)                                                         \
    OUT_KEY(owner, path, KEY_SECTION, 0, NOWHERE, NULL, 0, 0, NULL, sentence)
/* Of the Collector: taken, with a warning that says why nothing follows from it. */
#define OUT_IGNORED(owner, path, why)                                                              \
    OUT_KEY(owner, path, KEY_IGNORED, 0, NOWHERE, NULL, 0, 0, NULL, why)

#define OTLP_RETRY_KEYS(owner)                                                                     \
    OUT_SECTION(owner, "retry_on_failure",                                                         \
                "What happens when the backend is away or asks for a retry."),                     \
        OUT_KEY(owner, "retry_on_failure.enabled", KEY_BOOL, 0, OUT(retry.enabled), "true", 0, 0,  \
                NULL, "false: a request that fails is dropped and counted."),                      \
        OUT_KEY(owner, "retry_on_failure.initial_interval", KEY_DURATION, 0,                       \
                OUT(retry.initial_interval_ns), "5s", MS, HOUR, NULL,                              \
                "Pause after the first failure."),                                                 \
        OUT_KEY(owner, "retry_on_failure.randomization_factor", KEY_RATIO, 0,                      \
                OUT(retry.randomization_factor), "0.5", 0, 1, NULL,                                \
                "Each pause is randomized by up to this share, down and up."),                     \
        OUT_KEY(owner, "retry_on_failure.multiplier", KEY_RATIO, 0, OUT(retry.multiplier), "1.5",  \
                1, 100, NULL, "Each pause is this many times as long as the one before."),         \
        OUT_KEY(owner, "retry_on_failure.max_interval", KEY_DURATION, 0,                           \
                OUT(retry.max_interval_ns), "30s", MS, 24 * HOUR, NULL,                            \
                "Longest pause; at least initial_interval."),                                      \
        OUT_KEY(owner, "retry_on_failure.max_elapsed_time", KEY_DURATION, KEY_ZERO_ALLOWED,        \
                OUT(retry.max_elapsed_time_ns), "0s", MS, 8760 * HOUR, NULL,                       \
                "A request is dropped after this time, and counted; 0 means never. That is "       \
                "the default here (5m in the Collector), because requests wait on disk. "          \
                "Otherwise at least max_interval.")

#define OTLP_QUEUE_KEYS(owner)                                                                     \
    OUT_SECTION(                                                                                   \
        owner, "sending_queue",                                                                    \
        "The queue that requests wait in. It is always in the store and shares the store's "       \
        "size."),                                                                                  \
        OUT_KEY(owner, "sending_queue.enabled", KEY_BOOL, 0, OUT(queue_enabled), "true", 0, 0,     \
                NULL, "Must be true."),                                                            \
        OUT_KEY(owner, "sending_queue.storage", KEY_TEXT, KEY_MAY_BE_EMPTY, OUT(queue_storage),    \
                "", 0, CONFIG_NAME_MAX - 1, NULL,                                                  \
                "The id of the store, or empty: the queue is in the store in either case."),       \
        OUT_KEY(owner, "sending_queue.num_consumers", KEY_COUNT, 0, OUT(num_consumers), "10", 1,   \
                100, NULL,                                                                         \
                "Requests of a signal in flight at a time. A second one is sent only if one "      \
                "request cannot hold everything that waits; 1 preserves the order."),              \
        OUT_IGNORED(owner, "sending_queue.queue_size",                                             \
                    "The size of all queues is sqlite_storage::max_size_mib."),                    \
        OUT_IGNORED(owner, "sending_queue.sizer",                                                  \
                    "The size of all queues is sqlite_storage::max_size_mib."),                    \
        OUT_IGNORED(owner, "sending_queue.wait_for_result",                                        \
                    "A request is acknowledged once it is in the store."),                         \
        OUT_IGNORED(owner, "sending_queue.block_on_overflow",                                      \
                    "When the store is full, senders get a retryable error."),                     \
        OUT_IGNORED(owner, "sending_queue.batch",                                                  \
                    "Waiting requests are joined up to max_request_size; spanprof does not "       \
                    "wait to fill a request.")

#define OTLP_COMMON_KEYS(owner, timeout)                                                           \
    OUT_KEY(owner, "timeout", KEY_DURATION, KEY_ZERO_ALLOWED, OUT(timeout_ns), timeout, 100 * MS,  \
            10 * MINUTE, NULL,                                                                     \
            "Time for one attempt, from request to answer; 0: no limit, spanprof waits until "     \
            "the connection ends."),                                                               \
        OUT_KEY(owner, "compression", KEY_CHOICE, 0, OUT(compression), "gzip", 0, 0, compressions, \
                "Compression of requests."),                                                       \
        OUT_KEY(owner, "headers", KEY_HEADERS, 0, OUT(n_headers), NULL, 0, CONFIG_LIST_MAX, NULL,  \
                "Sent with each request: a map, or a list of {name, value}. Values are never "     \
                "printed."),                                                                       \
        OTLP_RETRY_KEYS(owner), OTLP_QUEUE_KEYS(owner),                                            \
        OUT_KEY(owner, "max_request_size", KEY_BYTES, 0, OUT(max_request_size_bytes), "4128768",   \
                65536, 67108864, NULL,                                                             \
                "Largest request in bytes, before compression; the default is 64 KiB less "        \
                "than the 4 MiB that gRPC servers accept by default."),                            \
        OUT_IGNORED(owner, "read_buffer_size", "Buffers grow as needed."),                         \
        OUT_IGNORED(owner, "write_buffer_size", "Buffers grow as needed.")

#define OTLP_GRPC_KEYS(owner)                                                                      \
    OUT_KEY(owner, "endpoint", KEY_TARGET, KEY_REQUIRED, OUT(endpoint), NULL, 0, 0, NULL,          \
            "Where to send: host:port, http://host:port, or unix:///path of a socket."),           \
        OUT_KEY(owner, "socket_users", KEY_TEXTS, KEY_MAY_BE_EMPTY | KEY_NUMBERS_TOO,              \
                OUT(socket_users.names), "", 0, CONFIG_LIST_MAX, NULL,                             \
                "Users of this node, by name or number, who may listen at the endpoint's Unix "    \
                "socket, beside root; if another user does, nothing is sent. Empty: spanprof's "   \
                "own user, and the owner of the socket's directory where only root or spanprof's " \
                "user can have put that directory."),                                              \
        TLS_CLIENT_KEYS(owner, "tls", OUT_TLS), OTLP_COMMON_KEYS(owner, "5s"),                     \
        OUT_KEY(owner, "authority", KEY_TEXT, KEY_MAY_BE_EMPTY, OUT(authority), "", 0, 255, NULL,  \
                "The :authority of calls, if not the endpoint or tls::server_name_override."),     \
        OUT_KEY(owner, "keepalive", KEY_SECTION, 0, OUT(keepalive.enabled), NULL, 0, 0, NULL,      \
                "HTTP/2 PINGs to a silent backend, so that a dead connection is noticed "          \
                "before the timeout. Absent: none. gRPC servers close connections that send "      \
                "PINGs more often than they allow (5m by default); the time is then doubled."),    \
        OUT_KEY(owner, "keepalive.time", KEY_DURATION, 0, OUT(keepalive.time_ns), "10s",           \
                10 * SECOND, 24 * HOUR, NULL, "Silence before a PING."),                           \
        OUT_KEY(owner, "keepalive.timeout", KEY_DURATION, 0, OUT(keepalive.timeout_ns), "10s",     \
                100 * MS, HOUR, NULL,                                                              \
                "Time to wait for its answer before the connection is "                            \
                "closed."),                                                                        \
        OUT_KEY(owner, "keepalive.permit_without_stream", KEY_BOOL, 0,                             \
                OUT(keepalive.permit_without_stream), "false", 0, 0, NULL,                         \
                "true: also while no request is in flight."),                                      \
        OUT_IGNORED(owner, "wait_for_ready",                                                       \
                    "Requests wait in the store until the backend is there."),                     \
        OUT_IGNORED(owner, "balancer_name",                                                        \
                    "There is one connection at a time; the addresses of a name are tried in "     \
                    "order.")

#define OTLP_HTTP_URL(owner, path, field, sentence)                                                \
    OUT_KEY(owner, path, KEY_URL, 0, OUT(field), NULL, 0, 0, NULL, sentence)
#define OTLP_HTTP_KEYS(owner)                                                                      \
    OTLP_HTTP_URL(                                                                                 \
        owner, "endpoint", url,                                                                    \
        "Where to send, as http://host:port/path or https://...; /v1/traces, /v1/metrics, "        \
        "/v1/logs or /v1development/profiles is appended. The default port is 80 or 443."),        \
        OTLP_HTTP_URL(owner, "traces_endpoint", urls[CONFIG_TRACES],                               \
                      "The complete URL for spans, instead of endpoint."),                         \
        OTLP_HTTP_URL(owner, "metrics_endpoint", urls[CONFIG_METRICS],                             \
                      "The complete URL for metrics, instead of endpoint."),                       \
        OTLP_HTTP_URL(owner, "logs_endpoint", urls[CONFIG_LOGS],                                   \
                      "The complete URL for log records, instead of endpoint."),                   \
        OTLP_HTTP_URL(owner, "profiles_endpoint", urls[CONFIG_PROFILES],                           \
                      "The complete URL for profiles, instead of endpoint."),                      \
        OUT_KEY(owner, "encoding", KEY_CHOICE, 0, OUT(json), "proto", 0, 0, encodings,             \
                "proto: protobuf; json: OTLP/JSON."),                                              \
        TLS_CLIENT_KEYS(owner, "tls", OUT_TLS), OTLP_COMMON_KEYS(owner, "30s"),                    \
        OUT_KEY(owner, "idle_conn_timeout", KEY_DURATION, KEY_ZERO_ALLOWED,                        \
                OUT(idle_conn_timeout_ns), "90s", SECOND, 24 * HOUR, NULL,                         \
                "A connection without a request for this long is closed; 0: never."),              \
        OUT_KEY(owner, "disable_keep_alives", KEY_BOOL, 0, OUT(disable_keep_alives), "false", 0,   \
                0, NULL, "true: one connection for each request."),                                \
        OUT_IGNORED(owner, "max_idle_conns",                                                       \
                    "There is one connection for each request in "                                 \
                    "flight."),                                                                    \
        OUT_IGNORED(owner, "max_idle_conns_per_host",                                              \
                    "There is one connection for each request in flight."),                        \
        OUT_IGNORED(owner, "max_conns_per_host",                                                   \
                    "There is one connection for each request in flight."),                        \
        OUT_IGNORED(owner, "force_attempt_http2", "Only HTTP/1.1 is used."),                       \
        OUT_IGNORED(owner, "http2_read_idle_timeout", "Only HTTP/1.1 is used."),                   \
        OUT_IGNORED(owner, "http2_ping_timeout", "Only HTTP/1.1 is used."),                        \
        OUT_IGNORED(owner, "compression_params", "The compression level is fixed.")

static const struct key_choice encodings[] = {{"proto", 0}, {"json", 1}, {NULL, 0}};

#define OTLP_HINTS(owner)                                                                          \
    {owner, "auth", "write credentials in headers, for example {authorization: Bearer ...}"},      \
        {owner, "middlewares", "there are none"},                                                  \
        {owner, "proxy_url", "proxies are not available; name the backend itself in endpoint"},    \
        {owner, "cookies", "cookies are not kept; leave it out"},                                  \
    {                                                                                              \
        owner, "user_agent", "it is spanprof/VERSION; leave it out"                                \
    }
