/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libmicrohttpd has one listening socket a daemon, so an endpoint of several addresses has several
 * daemons. With TLS there is one, which does not listen: it gets the plain ends of bridges.
 */
#include "receiver/http/http_server.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/log.h"
#include "base/stats.h"
#include "proto/http/http1.h"
#include "proto/http/http1_connections.h"
#include "proto/tls/tls_proxy.h"
#include "proto/tls/tls_accept.h"
#include "receiver/acceptor.h"
#include "receiver/http/http_call.h"
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define HEAD_BYTES          (32 * 1024)
#define REQUEST_TIMEOUT_NS  (60 * NS_PER_SEC)
#define IDLE_TIMEOUT_MAX_NS (3600 * NS_PER_SEC) /* for idle_timeout 0 */

STAT_GAUGE(connections, "spanprof_http_server_connections", "Open OTLP/HTTP connections.");
STAT_LOSSES(refused, "spanprof_http_server_connections_refused_total",
            "OTLP/HTTP connections closed at once, by reason.",
            STAT_LABEL("reason", accept_refusal_names, ACCEPT_REFUSALS));

/* For a head; then a body; in none while it is answered. */
enum phase { WAITING, RECEIVING, PHASES };

static const char *const phase_names[] = {[WAITING] = "head", [RECEIVING] = "body"};
STAT_LOSSES(timed_out, "spanprof_http_server_timeouts_total",
            "OTLP/HTTP connections ended by a time limit, by phase.",
            STAT_LABEL("phase", phase_names, PHASES));

struct http_daemon {
    struct http_server *server;
    struct http1 http;
};

struct http_server {
    struct http_server_settings settings;
    struct http_call_scope scope;
    struct http_daemon daemons[LISTEN_SOCKETS_MAX];
    size_t n_daemons;
    struct acceptor acceptor; /* these three: if there is TLS */
    struct tls_accept gate;
    struct tls_proxys bridges;
    struct http1_connections connections;
    struct timer drained;
    void (*stopped)(void *context);
    void *context;
};

/* ---- running ---- */

static void check_drained(struct http_server *server)
{
    if (server->stopped && !server->scope.n_active && !server->drained.due_ns)
        timer_start(server->settings.loop, &server->drained, 0);
}

static void on_ran(struct http1 *http)
{
    check_drained(container_of(http, struct http_daemon, http)->server);
}

/* A connection was resumed: in the next round, together with others of this one. */
static void on_woken(struct http_call_scope *scope)
{
    struct http_server *server = container_of(scope, struct http_server, scope);
    for (size_t i = 0; i < server->n_daemons; i++)
        http1_run_soon(&server->daemons[i].http);
}

static void on_drained(struct timer *timer)
{
    struct http_server *server = container_of(timer, struct http_server, drained);
    void (*stopped)(void *context) = server->stopped;
    if (server->scope.n_active) /* one came meanwhile, on a connection kept open; see on_ran() */
        return;
    server->stopped = NULL;
    stopped(server->context);
}

/* ---- libmicrohttpd's calls ---- */

static bool is_full(struct http_server *server)
{
    bool full = server->connections.n >= server->settings.config->max_connections;
    if (full)
        stat_add_of(&refused, ACCEPT_OVER_LIMIT, 1);
    return full;
}

static enum MHD_Result on_accept(void *context, const struct sockaddr *address, socklen_t size)
{
    (void)address, (void)size;
    bool is_short = files_are_short_now();
    if (is_short)
        stat_add_of(&refused, ACCEPT_OUT_OF_FILES, 1);
    return is_short || is_full(context) ? MHD_NO : MHD_YES;
}

static void on_connection(void *context, struct MHD_Connection *mhd, void **socket_context,
                          enum MHD_ConnectionNotificationCode code)
{
    struct http_server *server = context;
    http1_connections_notify(&server->connections, mhd, socket_context, code);
}

static enum MHD_Result on_request(void *context, struct MHD_Connection *mhd, const char *path,
                                  const char *method, const char *version, const char *data,
                                  size_t *size, void **request)
{
    struct http_server *server = context;
    struct http1_connection *connection = http1_connection_of(mhd);
    bool first = !*request, last = !first && *size == 0;
    (void)version;
    if (!connection)
        return MHD_NO;
    if (first)
        http1_connection_enter(connection, RECEIVING);
    else if (last)
        http1_connection_enter(connection, HTTP1_NO_PHASE);
    return http_call_step(&server->scope, mhd, path, method, data, size,
                          (struct http_call **)request);
}

static void on_completed(void *context, struct MHD_Connection *mhd, void **request,
                         enum MHD_RequestTerminationCode code)
{
    struct http1_connection *connection = http1_connection_of(mhd);
    (void)context;
    if (*request)
        http_call_completed(*request);
    *request = NULL;
    if (connection && code == MHD_REQUEST_TERMINATED_COMPLETED_OK)
        http1_connection_enter(connection, WAITING);
}

static int daemon_open(struct http_daemon *daemon, struct http_server *server, int fd)
{
    const struct config_otlp_http_server *config = server->settings.config;
    intptr_t idle_s = (intptr_t)((config->idle_timeout_ns + NS_PER_SEC - 1) / NS_PER_SEC);
    struct MHD_OptionItem options[] = {
        {MHD_OPTION_EXTERNAL_LOGGER, (intptr_t)http1_log, (void *)"http_server"},
        {MHD_OPTION_CONNECTION_LIMIT, (intptr_t)config->max_connections + 16, NULL},
        {MHD_OPTION_CONNECTION_TIMEOUT, idle_s, NULL},
        {MHD_OPTION_CONNECTION_MEMORY_LIMIT, HEAD_BYTES, NULL},
        {MHD_OPTION_NOTIFY_CONNECTION, (intptr_t)on_connection, server},
        {MHD_OPTION_NOTIFY_COMPLETED, (intptr_t)on_completed, server},
        {MHD_OPTION_STRICT_FOR_CLIENT, 1, NULL},
        {MHD_OPTION_END, 0, NULL},
    };
    struct http1_settings settings = {.flags = MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG,
                                      .accept = on_accept,
                                      .handler = on_request,
                                      .context = server,
                                      .options = options};
    *daemon = (struct http_daemon){.server = server, .http = {.ran = on_ran}};
    return http1_open(&daemon->http, server->settings.loop, fd, &settings);
}

/* ---- TLS ---- */

static void on_passed(struct tls_accept *gate, struct tls *tls, int fd)
{
    struct http_server *server = container_of(gate, struct http_server, gate);
    struct sockaddr_storage peer = {.ss_family = AF_UNSPEC};
    socklen_t size = sizeof(peer);
    int plain;
    (void)getpeername(fd, (struct sockaddr *)&peer, &size);
    int error = tls_proxy_open(&server->bridges, tls, fd, &plain);
    if (error)
        log_warn("http_server", "cannot serve a connection: %s", strerror(-error));
    else
        http1_add(&server->daemons[0].http, plain, (const struct sockaddr *)&peer, size);
}

static void on_accepted(struct acceptor *acceptor, int fd)
{
    const int on = 1;
    struct http_server *server = container_of(acceptor, struct http_server, acceptor);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    if (is_full(server))
        close(fd);
    else
        tls_accept_enter(&server->gate, fd);
}

static void tls_init(struct http_server *server)
{
    struct loop *loop = server->settings.loop;
    server->acceptor = (struct acceptor){.loop = loop,
                                         .area = "http_server",
                                         .out_of_files = {&refused, ACCEPT_OUT_OF_FILES},
                                         .accepted = on_accepted};
    server->gate = (struct tls_accept){
        .loop = loop, .context = server->settings.tls, .area = "http_server", .passed = on_passed};
    tls_accept_init(&server->gate);
    tls_proxys_init(&server->bridges, loop);
}

static int open_daemons(struct http_server *server, struct listen_sockets *sockets)
{
    size_t n = server->settings.tls ? 1 : sockets->n;
    int error = 0;
    for (size_t i = 0; i < n && !error; i++) {
        error =
            daemon_open(&server->daemons[i], server, server->settings.tls ? -1 : sockets->fds[i]);
        server->n_daemons = i + 1;
    }
    if (error || server->settings.tls)
        return error ? error : acceptor_start(&server->acceptor, sockets);
    listen_close(sockets); /* the daemons have duplicates */
    return 0;
}

static void stop_listening(struct http_server *server)
{
    acceptor_stop(&server->acceptor);
    tls_accept_close(&server->gate);
    for (size_t i = 0; i < server->n_daemons; i++)
        http1_quiesce(&server->daemons[i].http);
}

/* ---- verbs ---- */

static void server_free(struct http_server *server)
{
    for (size_t i = 0; i < server->n_daemons; i++)
        http1_close(&server->daemons[i].http);
    tls_proxys_close(&server->bridges);
    http_call_forget(&server->scope);
    http1_connections_close(&server->connections);
    timer_stop(&server->drained);
    free(server);
}

static struct http_server *server_new(const struct http_server_settings *settings)
{
    struct http_server *server = calloc(1, sizeof(*server));
    if (!server)
        return NULL;
    uint64_t idle_ns = settings->config->idle_timeout_ns;
    server->settings = *settings;
    server->connections = (struct http1_connections){
        .loop = settings->loop,
        .gauge = &connections,
        .phases = {[WAITING] = {.timeout_ns = idle_ns ? idle_ns : IDLE_TIMEOUT_MAX_NS,
                                .timed_out = {&timed_out, WAITING}},
                   [RECEIVING] = {.timeout_ns = REQUEST_TIMEOUT_NS,
                                  .timed_out = {&timed_out, RECEIVING}}},
        .n_phases = PHASES};
    http1_connections_init(&server->connections);
    server->scope = (struct http_call_scope){
        .intake = settings->intake,
        .budget = settings->budget,
        .signals = settings->signals,
        .max_body_bytes = settings->config->max_request_body_size_bytes,
        .cors = &settings->config->cors,
        .woken = on_woken,
    };
    server->drained.fire = on_drained;
    list_init(&server->scope.calls);
    tls_init(server);
    return server;
}

int http_server_open(const struct http_server_settings *settings, struct listen_sockets *sockets,
                     struct http_server **result)
{
    struct http_server *server = server_new(settings);
    if (!server)
        return -ENOMEM;
    int error = open_daemons(server, sockets);
    if (error) {
        server_free(server);
        return error;
    }
    *result = server;
    return 0;
}

size_t http_server_connections(const struct http_server *server)
{
    return server->connections.n;
}

void http_server_drain(struct http_server *server, void (*stopped)(void *context), void *context)
{
    server->scope.draining = true;
    server->stopped = stopped;
    server->context = context;
    stop_listening(server);
    check_drained(server);
}

void http_server_close(struct http_server *server)
{
    if (!server)
        return;
    server->stopped = NULL;
    server->scope.draining = true;
    stop_listening(server);
    http_call_wake_all(&server->scope);
    for (size_t i = 0; i < server->n_daemons; i++)
        http1_run(&server->daemons[i].http); /* sends what can be sent at once */
    server_free(server);
}
