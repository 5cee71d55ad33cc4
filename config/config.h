/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The Collector's configuration form, checked, as plain structs. Everything comes from one table
 * (config/keys/keys.c): path, type, default, range, help; parsing, checks, print-config and
 * docs/configuration.md are made from it. All found errors are reported together, each as
 * `file:line:column: path::to::key: what is wrong; what would be right`.
 * Thread: any; read-only after config_load() (config/load/config_load.h). Strings are owned by the
 * config.
 *
 * Limits: a file CONFIG_FILE_MAX, 10,000 values, nesting of 32, CONFIG_ERRORS_MAX errors (the rest
 * is counted). What a loaded configuration guarantees beyond its types: at most one pipeline a
 * signal; at most one used sampler, join and sqlite_storage, and exactly one sqlite_storage (a
 * default one is added if none is configured); no two listeners share an address; certificates come
 * with their key, from a file or as text, and a receiver's tls has both.
 */
#include "base/buf.h"
#include "base/log.h"
#include "context/context_source.h"

#define CONFIG_NAME_MAX       128
#define CONFIG_COMPONENTS_MAX 16 /* of each kind */
#define CONFIG_LIST_MAX       64
#define CONFIG_FILE_MAX       (1 << 20) /* bytes of one file */
#define CONFIG_ERRORS_MAX     64
#define CONFIG_WARNINGS_MAX   16

enum config_scheme { CONFIG_SCHEME_NONE, CONFIG_SCHEME_HTTP, CONFIG_SCHEME_HTTPS };
enum config_transport { CONFIG_TCP, CONFIG_TCP4, CONFIG_TCP6, CONFIG_UNIX };

struct config_endpoint { /* host:port; port 0 is refused for exporters, allowed for receivers
                            (tests) */
    char host[256];      /* name or address; IPv6 without its brackets */
    uint16_t port;
    bool set;
    enum config_scheme scheme; /* exporters: as written */
    /* receivers, and exporters by a socket; of CONFIG_UNIX, host is its path, and port 0 */
    enum config_transport transport;
    unsigned socket_mode; /* of that path */
};

struct config_list {
    const char *items[CONFIG_LIST_MAX + 1]; /* NULL-terminated */
    size_t count;
};

struct config_users {         /* of this node */
    struct config_list names; /* of accounts, or numbers */
    size_t n_ids;             /* these two are found by users_find() alone: config/users.h */
    uint32_t ids[CONFIG_LIST_MAX];
};

enum config_tls_version { CONFIG_TLS_1_2, CONFIG_TLS_1_3 };

struct config_tls { /* texts and paths: "" = not given */
    bool enabled;   /* receivers: the section is there */
    bool insecure;  /* exporters: plain text, also for http:// */
    bool insecure_skip_verify;
    bool include_system_ca_certs_pool;
    bool client_ca_file_reload;
    const char *ca_file;
    const char *ca_pem;
    const char *cert_file;
    const char *cert_pem;
    const char *key_file;
    const char *key_pem;
    const char *client_ca_file;
    const char *server_name_override;
    enum config_tls_version min_version;
    enum config_tls_version max_version;
    uint64_t reload_interval_ns; /* 0 = never */
};

struct config_otlp_grpc_server {
    bool enabled;
    struct config_endpoint endpoint;
    enum config_transport transport; /* these two as written: the endpoint has what counts */
    int socket_mode;
    uint64_t max_recv_msg_size_bytes; /* key in MiB; also bounds the inflated body */
    uint32_t max_concurrent_streams;
    uint32_t max_connections; /* ours */
    struct config_server_keepalive {
        uint64_t max_connection_idle_ns; /* these three: 0 = never */
        uint64_t max_connection_age_ns;
        uint64_t max_connection_age_grace_ns;
        uint64_t time_ns;
        uint64_t timeout_ns;
    } keepalive;
    const char *authenticator; /* id of an extension; "": none */
    struct config_tls tls;
};

struct config_cors { /* no origins: off */
    struct config_list allowed_origins;
    struct config_list allowed_headers;
    struct config_list exposed_headers;
    uint32_t max_age_s; /* 0 = the browser's default */
};

struct config_otlp_http_server {
    bool enabled;
    struct config_endpoint endpoint;
    enum config_transport transport;
    int socket_mode;
    uint64_t max_request_body_size_bytes; /* also bounds the inflated body */
    uint32_t max_connections;             /* ours */
    uint64_t idle_timeout_ns;
    struct config_cors cors;
    const char *authenticator; /* id of an extension; "": none */
    struct config_tls tls;
};

struct config_receiver_otlp {
    struct config_otlp_grpc_server grpc;
    struct config_otlp_http_server http;
};

struct config_filter {       /* agent-bpf/sampler/filter.h */
    struct config_list pids; /* decimal */
    struct config_list comms;
    struct config_list executables;
    struct config_list cgroups;
    struct config_list containers;
};

struct config_receiver_sampler {
    uint32_t frequency; /* Hz, 1..1000 */
    uint64_t ring_size_bytes;
    uint64_t unwind_table_bytes; /* in the kernel, at most */
    uint64_t drain_interval_ns;
    double probability; /* of sampling in an interval, 0.001..1 */
    uint64_t probability_interval_ns;
    double max_cpu_percent; /* 0 = no limit */
    struct config_filter include;
    struct config_filter exclude;
    struct {                           /* which contexts are read */
        bool elastic_correlation;      /* samples are reported to Elastic's agents */
        bool sources[CONTEXT_SOURCES]; /* [CONTEXT_NONE] is not used */
        const char *obi_map;           /* path of the pinned map */
        struct config_list trace_id_labels;
        struct config_list span_id_labels;
    } contexts;
    struct {
        bool lines; /* and inlined functions */
    } symbols;
    struct {
        bool frames;
        uint64_t cache_bytes;
    } runtimes;
};

struct config_processor_join {
    uint64_t wait_ns;
    uint64_t span_totals_ttl_ns;
    uint64_t max_pending_bytes;
    uint64_t max_span_totals_bytes;
    uint32_t max_recent_spans;
    uint64_t max_recent_bytes; /* key in MiB */
    uint32_t top_stacks;
    struct config_list span_attributes;
    struct { /* whose Resources are believed: receiver/peers.h */
        struct config_users users;
        struct config_list cgroups;
        struct config_list sockets; /* endpoints of receivers */
    } forwarders;
};

struct config_retry {
    bool enabled;
    uint64_t initial_interval_ns;
    double randomization_factor;
    double multiplier;
    uint64_t max_interval_ns;
    uint64_t max_elapsed_time_ns; /* 0 = for ever */
};

struct config_header {
    const char *name;
    const char *value;
};

struct config_keepalive {
    bool enabled; /* the section is there */
    uint64_t time_ns;
    uint64_t timeout_ns;
    bool permit_without_stream;
};

enum config_compression { CONFIG_UNCOMPRESSED, CONFIG_GZIP, CONFIG_ZSTD };
enum config_signal { CONFIG_TRACES, CONFIG_PROFILES, CONFIG_METRICS, CONFIG_LOGS, CONFIG_SIGNALS };

struct config_url {                  /* endpoint.set: whether it is given */
    struct config_endpoint endpoint; /* with its scheme and port */
    const char *path;                /* with what follows it: "" or /... */
};

struct config_exporter_otlp { /* otlp_grpc and otlp_http */
    struct config_tls tls;
    uint64_t timeout_ns; /* of one try; 0 = none */
    enum config_compression compression;
    size_t n_headers;
    struct config_header headers[CONFIG_LIST_MAX];
    struct config_retry retry;
    bool queue_enabled;              /* true */
    const char *queue_storage;       /* "" or the id of the store */
    uint32_t num_consumers;          /* requests of a signal under way */
    uint64_t max_request_size_bytes; /* ours: requests stay below it; 4 MiB less a margin */
    /* otlp_grpc */
    struct config_endpoint endpoint;
    struct config_users socket_users; /* who may listen there: exporter/otlp/listener.h */
    const char *authority;            /* "" = the endpoint */
    struct config_keepalive keepalive;
    /* otlp_http: every signal that a pipeline brings here has a URL, its own or the common one */
    struct config_url url; /* the signal's path is put behind it */
    struct config_url urls[CONFIG_SIGNALS];
    bool json;
    bool disable_keep_alives;
    uint64_t idle_conn_timeout_ns; /* 0 = never */
};

enum config_verbosity { VERBOSITY_BASIC, VERBOSITY_NORMAL, VERBOSITY_DETAILED };

struct config_exporter_debug {
    enum config_verbosity verbosity;
};

enum config_file_format { CONFIG_FILE_JSON, CONFIG_FILE_PROTO };

struct config_exporter_file {
    const char *path;
    enum config_file_format format;
    bool zstd;
    bool append;
    bool create_directory;
    uint64_t flush_interval_ns; /* 0: before a request counts as sent */
    struct {
        bool enabled;
        uint64_t max_bytes;   /* key in MiB */
        uint32_t max_days;    /* 0 = no limit */
        uint32_t max_backups; /* 0 = no limit */
        bool localtime;       /* in the names of backups */
    } rotation;
};

struct config_sqlite_storage {
    const char *directory;
    bool fsync_full;         /* fsync: normal|full */
    bool drop_oldest;        /* when_full: refuse|drop_oldest */
    uint64_t max_size_bytes; /* key in MiB */
};

struct config_history {
    uint64_t retention_ns;
    uint64_t max_size_bytes; /* key in MiB; at most half of the store's */
    uint32_t max_spans_per_second;
};

struct config_bearer_token_auth { /* one of the three says which tokens there are */
    const char *scheme;
    const char *token;
    struct config_list tokens;
    const char *filename; /* a token a line */
};

struct config_health_check {
    struct config_endpoint endpoint;
    const char *path;
};

struct config_pages {
    struct config_endpoint endpoint;
    const char *socket;                     /* as written; what counts is: */
    struct config_endpoint socket_endpoint; /* not set: none */
    struct config_list allowed_hosts;
    struct {
        const char *token; /* texts: "" = not given */
        const char *token_file;
        bool required; /* neither given: the service makes one */
    } auth;
    struct config_tls tls;
    struct {
        double watt_per_core; /* 0: by architecture */
        double pue;
        double co2_t_per_kwh;
        double usd_per_core_hour;
    } costs;
};

enum config_type {
    CONFIG_RECEIVER_OTLP,
    CONFIG_RECEIVER_SAMPLER,
    CONFIG_PROCESSOR_JOIN,
    CONFIG_EXPORTER_OTLP_GRPC,
    CONFIG_EXPORTER_OTLP_HTTP,
    CONFIG_EXPORTER_DEBUG,
    CONFIG_EXPORTER_FILE,
    CONFIG_EXPORTER_NOP,
    CONFIG_EXTENSION_SQLITE_STORAGE,
    CONFIG_EXTENSION_HEALTH_CHECK,
    CONFIG_EXTENSION_PAGES,
    CONFIG_EXTENSION_HISTORY,
    CONFIG_EXTENSION_BEARER_TOKEN_AUTH,
};

struct config_receiver {
    char id[CONFIG_NAME_MAX]; /* type or type/name */
    enum config_type type;
    bool used; /* by a pipeline */
    union {
        struct config_receiver_otlp otlp;
        struct config_receiver_sampler sampler;
    };
};

struct config_processor {
    char id[CONFIG_NAME_MAX];
    enum config_type type;
    bool used;
    union {
        struct config_processor_join join;
    };
};

struct config_exporter {
    char id[CONFIG_NAME_MAX];
    enum config_type type;
    bool used;
    union {
        struct config_exporter_otlp otlp;
        struct config_exporter_debug debug;
        struct config_exporter_file file;
    };
};

struct config_extension {
    char id[CONFIG_NAME_MAX];
    enum config_type type;
    bool used;
    union {
        struct config_sqlite_storage sqlite_storage;
        struct config_health_check health_check;
        struct config_pages pages;
        struct config_history history;
        struct config_bearer_token_auth bearer_token_auth;
    };
};

struct config_pipeline {
    char id[CONFIG_NAME_MAX];
    enum config_signal signal;
    size_t n_receivers, n_processors, n_exporters;
    uint32_t receivers[CONFIG_COMPONENTS_MAX]; /* indices into config.receivers */
    uint32_t processors[CONFIG_COMPONENTS_MAX];
    uint32_t exporters[CONFIG_COMPONENTS_MAX];
};

struct config_service {
    enum log_level log_level;
    enum log_format log_format;
    bool metrics_enabled;
    bool span_metrics;
    struct config_endpoint metrics_address; /* localhost:8888 */
    const char
        *user; /* service.user: the account the service process drops to; "" = the store's owner */
};

struct config {
    size_t n_receivers, n_processors, n_exporters, n_extensions, n_pipelines;
    struct config_receiver receivers[CONFIG_COMPONENTS_MAX];
    struct config_processor processors[CONFIG_COMPONENTS_MAX];
    struct config_exporter exporters[CONFIG_COMPONENTS_MAX];
    struct config_extension extensions[CONFIG_COMPONENTS_MAX];
    struct config_pipeline pipelines[CONFIG_COMPONENTS_MAX];
    struct config_service service;
    size_t n_warnings;                         /* for the caller to log once */
    const char *warnings[CONFIG_WARNINGS_MAX]; /* same form as errors */
    void *memory;                              /* private: what strings lie in */
};

/* A --config file or a --set key=value, in the order of the command line. */
struct config_source {
    enum { CONFIG_SOURCE_FILE, CONFIG_SOURCE_SET } kind;
    const char *text; /* path (`file:` before it is skipped), or a.b=v; outlives config_load() */
};

/* The first used component of a type, the pipeline of a signal; NULL if there is none. */
/* The text names the endpoint: host:port, or the path of a Unix socket, unix:// before it or not.
 */
bool config_endpoint_is(const struct config_endpoint *endpoint, const char *text);
const struct config_receiver *config_find_receiver(const struct config *config,
                                                   enum config_type type);
const struct config_processor *config_find_processor(const struct config *config,
                                                     enum config_type type);
const struct config_extension *config_find_extension(const struct config *config,
                                                     enum config_type type);
extern const char *const config_signal_names[CONFIG_SIGNALS]; /* "traces", ... */
const char *config_signal_name(enum config_signal signal);
const struct config_pipeline *config_find_pipeline(const struct config *config,
                                                   enum config_signal signal);
/* Bytes of the largest request that a receiver in use takes. */
size_t config_largest_request(const struct config *config);
