/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listening sockets and connections; grpc_call.c handles the streams.
 */
#include "receiver/grpc/grpc_server.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/stats.h"
#include "proto/tls/tls_accept.h"
#include "proto/http/acceptor.h"
#include "proto/http/crowd.h"
#include "proto/http/http_sniffer.h"
#include "receiver/grpc/grpc_call.h"
#include "receiver/grpc/health_watch.h"
#include "receiver/admission/admission.h"
#include "receiver/peer_key.h"
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    CONNECTION_WINDOW = 1024 * 1024,
    DEFAULT_STREAMS = 100, /* config 0 means the default; it is not unlimited here */
    /* Bounds calls that wait for room to 24 MiB. The budget has 32 MiB; the rest is enough for 512
     * calls of other connections. */
    CALM_CONNECTIONS = 32,
};
#define HANDSHAKE_TIMEOUT_NS (10 * NS_PER_SEC)
#define HEADER_TIMEOUT_NS    (10 * NS_PER_SEC)
#define REQUEST_TIMEOUT_NS   (60 * NS_PER_SEC)
#define WRITE_TIMEOUT_NS     (30 * NS_PER_SEC)

STAT_GAUGE(connections, "spanprof_grpc_server_connections", "Open OTLP/gRPC connections.");
STAT_LOSSES(refused, "spanprof_grpc_server_connections_refused_total",
            "OTLP/gRPC connections closed at once, by reason.",
            STAT_LABEL("reason", accept_refusal_names, ACCEPT_REFUSALS));
STAT_LOSS(
    crowded_out, "spanprof_grpc_server_connections_crowded_out_total",
    "OTLP/gRPC connections ended at max_connections to make room for a new one: of the peer with "
    "most connections, the one idle longest.");
STAT_COUNTER(connections_failed, "spanprof_grpc_server_connections_failed_total",
             "OTLP/gRPC connections that ended by an error, a limit or in the middle of a call.");

struct connection {
    struct list link;
    struct grpc_server *server;
    struct grpc_connection calls;
    struct crowd_member member;
    struct h2_conn *h2;
};

struct grpc_server {
    struct grpc_server_settings settings;
    struct grpc_call_scope scope;
    struct health_watches watches;
    struct h2_settings h2;
    struct acceptor acceptor;
    struct tls_accept handshakes; /* if there is TLS */
    struct http_sniffer sniffer;  /* if there is none */
    void (*take_http1)(void *context, const struct http_arrival *arrival);
    void *http1_context;
    struct list connections;
    size_t n_connections;
    struct crowd crowd;
    struct timer drained;
    bool draining;
    void (*stopped)(void *context);
    void *context;
};

/* ---- connections ---- */

static void check_drained(struct grpc_server *server)
{
    if (server->draining && !server->n_connections && !server->drained.due_ns && server->stopped)
        timer_start(server->settings.loop, &server->drained, 0);
}

static void on_drained(struct timer *timer)
{
    struct grpc_server *server = container_of(timer, struct grpc_server, drained);
    void (*stopped)(void *context) = server->stopped;
    server->stopped = NULL;
    stopped(server->context);
}

static void connection_free(struct connection *connection)
{
    struct grpc_server *server = connection->server;
    list_remove(&connection->link);
    server->n_connections--;
    stat_add(&connections, -1);
    h2_close(connection->h2);
    crowd_remove(&connection->member);
    sender_release(connection->calls.sender);
    free(connection);
}

static void on_ended(struct grpc_connection *calls, int error)
{
    struct connection *connection = container_of(calls, struct connection, calls);
    struct grpc_server *server = connection->server;
    if (error) {
        stat_add(&connections_failed, 1);
        log_debug("grpc_server", "connection ended: %s", strerror(-error));
    }
    connection_free(connection);
    check_drained(server);
}

/* Makes room for a connection of this peer. False: there is none. */
static bool make_room(struct grpc_server *server, uint64_t peer_key)
{
    if (server->n_connections < server->settings.config->max_connections)
        return true;
    struct crowd_member *member = crowd_choose(&server->crowd, peer_key);
    if (!member) {
        stat_add_of(&refused, ACCEPT_OVER_LIMIT, 1);
        return false;
    }
    stat_add(&crowded_out, 1);
    connection_free(container_of(member, struct connection, member));
    return true;
}

static void on_busy(struct grpc_connection *calls, bool busy)
{
    crowd_set_idle(&container_of(calls, struct connection, calls)->member, !busy);
}

/* 90 to 110 %, so that clients do not all reconnect at the same time. */
static uint64_t server_spread(uint64_t age_ns)
{
    return age_ns / 1000 * (900 + clock_monotonic_ns() % 201);
}

static struct connection *connection_new(struct grpc_server *server,
                                         const struct http_arrival *arrival)
{
    struct admission *admission = intake_admission(server->settings.intake);
    struct connection *connection = calloc(1, sizeof(*connection));
    struct sender *sender = connection ? sender_open(&admission->senders, arrival->peer_key) : NULL;
    if (!sender || crowd_add(&server->crowd, &connection->member, arrival->peer_key)) {
        sender_release(sender);
        free(connection);
        return NULL;
    }
    connection->server = server;
    connection->calls = (struct grpc_connection){.scope = &server->scope,
                                                 .peer = arrival->peer,
                                                 .sender = sender,
                                                 .ended = on_ended,
                                                 .busy = on_busy};
    return connection;
}

/* Others may have come since it was accepted: the limit is checked here. */
static void connection_open(struct grpc_server *server, const struct http_arrival *arrival,
                            struct tls *tls)
{
    struct connection *connection =
        make_room(server, arrival->peer_key) ? connection_new(server, arrival) : NULL;
    if (!connection) {
        tls_close(tls);
        close(arrival->fd);
        return;
    }
    struct h2_settings settings = server->h2;
    settings.tls = tls;
    settings.max_age_ns = server_spread(server->settings.config->keepalive.max_connection_age_ns);
    if (server->n_connections < CALM_CONNECTIONS)
        settings.calm_window = GRPC_CALL_CALM_WINDOW;
    int error = h2_open(server->settings.loop, arrival->fd, &settings, &grpc_call_handler,
                        &connection->calls, &connection->h2);
    if (error) {
        log_warn("grpc_server", "cannot serve a connection: %s", strerror(-error));
        crowd_remove(&connection->member);
        sender_release(connection->calls.sender);
        free(connection);
        return;
    }
    list_append(&server->connections, &connection->link);
    server->n_connections++;
    stat_add(&connections, 1);
}

/* ---- listening ---- */

/* Who it is, and the number by which its shares are counted. */
static struct http_arrival identify(struct grpc_server *server, int fd)
{
    struct http_arrival arrival = {.fd = fd};
    peers_identify(server->settings.peers, fd, &server->settings.config->endpoint, &arrival.peer);
    arrival.peer_key = peer_key(&arrival.peer, fd);
    return arrival;
}

static void on_passed(struct tls_accept *handshakes, struct tls *tls, int fd)
{
    struct grpc_server *server = container_of(handshakes, struct grpc_server, handshakes);
    const struct http_arrival arrival = identify(server, fd);
    connection_open(server, &arrival, tls);
}

static void on_told(struct http_sniffer *sniffer, const struct http_arrival *arrival,
                    enum http_version version)
{
    struct grpc_server *server = container_of(sniffer, struct grpc_server, sniffer);
    if (version == HTTP_1)
        server->take_http1(server->http1_context, arrival);
    else
        connection_open(server, arrival, NULL);
}

static void on_accepted(struct acceptor *acceptor, int fd)
{
    const int on = 1;
    struct grpc_server *server = container_of(acceptor, struct grpc_server, acceptor);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)); /* hosts that vanish */
    if (server->settings.tls)
        return tls_accept_enter(&server->handshakes, fd);
    const struct http_arrival arrival = identify(server, fd);
    if (server->take_http1)
        http_sniffer_enter(&server->sniffer, &arrival);
    else
        connection_open(server, &arrival, NULL);
}

static void stop_listening(struct grpc_server *server)
{
    acceptor_stop(&server->acceptor);
    tls_accept_close(&server->handshakes);
    http_sniffer_stop(&server->sniffer);
}

/* ---- verbs ---- */

static struct h2_settings h2_settings_of(const struct config_otlp_grpc_server *config)
{
    return (struct h2_settings){
        .server = true,
        .max_streams =
            config->max_concurrent_streams ? config->max_concurrent_streams : DEFAULT_STREAMS,
        .stream_window = GRPC_CALL_FIRST_WINDOW,
        .connection_window = CONNECTION_WINDOW,
        .handshake_timeout_ns = HANDSHAKE_TIMEOUT_NS,
        .header_timeout_ns = HEADER_TIMEOUT_NS,
        .request_timeout_ns = REQUEST_TIMEOUT_NS,
        .idle_timeout_ns = config->keepalive.max_connection_idle_ns,
        .max_age_grace_ns = config->keepalive.max_connection_age_grace_ns,
        .keepalive_ns = config->keepalive.time_ns,
        .keepalive_timeout_ns = config->keepalive.timeout_ns,
        .keepalive_idle = true,
        .write_timeout_ns = WRITE_TIMEOUT_NS,
    };
}

int grpc_server_open(const struct grpc_server_settings *settings, struct listen_sockets *sockets,
                     struct grpc_server **result)
{
    LOOP_THREAD(settings->loop);
    struct grpc_server *server = calloc(1, sizeof(*server));
    if (!server)
        return -ENOMEM;
    server->settings = *settings;
    server->h2 = h2_settings_of(settings->config);
    server->scope =
        (struct grpc_call_scope){.intake = settings->intake,
                                 .budget = settings->budget,
                                 .signals = settings->signals,
                                 .health = settings->health,
                                 .bearer = settings->bearer,
                                 .max_message_bytes = settings->config->max_recv_msg_size_bytes};
    health_watches_init(&server->watches, settings->loop, settings->health);
    server->scope.watches = &server->watches;
    server->drained.fire = on_drained;
    list_init(&server->scope.calls);
    list_init(&server->connections);
    crowd_init(&server->crowd);
    server->handshakes = (struct tls_accept){.loop = settings->loop,
                                             .context = settings->tls,
                                             .area = "grpc_server",
                                             .passed = on_passed};
    tls_accept_init(&server->handshakes);
    server->sniffer = (struct http_sniffer){.loop = settings->loop, .own = HTTP_2, .told = on_told};
    http_sniffer_init(&server->sniffer);
    server->acceptor = (struct acceptor){.loop = settings->loop,
                                         .area = "grpc_server",
                                         .out_of_files = {&refused, ACCEPT_OUT_OF_FILES},
                                         .accepted = on_accepted};
    int error = acceptor_start(&server->acceptor, sockets->fds, sockets->n);
    if (error) {
        free(server);
        return error;
    }
    listen_close(sockets); /* taken over */
    *result = server;
    return 0;
}

void grpc_server_set_http1(struct grpc_server *server,
                           void (*take)(void *context, const struct http_arrival *arrival),
                           void *context)
{
    server->take_http1 = take;
    server->http1_context = context;
}

void grpc_server_take(void *context, const struct http_arrival *arrival)
{
    struct grpc_server *server = context;
    LOOP_THREAD(server->settings.loop);
    connection_open(server, arrival, NULL);
}

void grpc_server_drain(struct grpc_server *server, void (*stopped)(void *context), void *context)
{
    LOOP_THREAD(server->settings.loop);
    struct list *link, *tmp;
    server->draining = true;
    server->stopped = stopped;
    server->context = context;
    stop_listening(server);
    health_watches_finish(&server->watches);
    list_each(link, tmp, &server->connections)
        h2_shutdown(container_of(link, struct connection, link)->h2);
    check_drained(server);
}

void grpc_server_close(struct grpc_server *server)
{
    struct list *link;
    if (!server)
        return;
    LOOP_THREAD(server->settings.loop);
    stop_listening(server);
    timer_stop(&server->drained);
    while ((link = list_first(&server->connections)))
        connection_free(container_of(link, struct connection, link));
    grpc_call_forget(&server->scope);
    crowd_close(&server->crowd);
    free(server);
}
