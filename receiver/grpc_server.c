/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listening and connections; what happens on a stream is grpc_call.c's.
 */
#include "receiver/grpc_server.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/stats.h"
#include "receiver/grpc_call.h"
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    ACCEPTS_A_ROUND = 32,
    STREAM_WINDOW = 256 * 1024,
    CONNECTION_WINDOW = 1024 * 1024,
    DEFAULT_STREAMS = 100, /* config 0 means the library's choice: unlimited is none for us */
};
#define ACCEPT_PAUSE_NS      (100 * NS_PER_MS) /* when file descriptors have run out */
#define HANDSHAKE_TIMEOUT_NS (10 * NS_PER_SEC)
#define HEADER_TIMEOUT_NS    (10 * NS_PER_SEC)
#define REQUEST_TIMEOUT_NS   (60 * NS_PER_SEC)
#define WRITE_TIMEOUT_NS     (30 * NS_PER_SEC)
#define IDLE_TIMEOUT_NS      (15 * 60 * NS_PER_SEC)

STAT_GAUGE(connections, "spanprof_grpc_server_connections", "", "Open OTLP/gRPC connections.");
STAT_COUNTER(connections_over_limit, "spanprof_grpc_server_connections_refused_total",
             "reason=\"max_connections\"", "OTLP/gRPC connections closed at once, by reason.");
STAT_COUNTER(connections_no_files, "spanprof_grpc_server_connections_refused_total",
             "reason=\"out_of_files\"", "OTLP/gRPC connections closed at once, by reason.");
STAT_COUNTER(connections_failed, "spanprof_grpc_server_connections_failed_total", "",
             "OTLP/gRPC connections that ended by an error, a limit or in the middle of a call.");

struct listener {
    struct watch watch;
    struct grpc_server *server;
};

struct connection {
    struct list link;
    struct grpc_server *server;
    struct h2_conn *h2;
};

struct grpc_server {
    struct grpc_server_settings settings;
    struct grpc_call_scope scope;
    struct h2_settings h2;
    struct listener listeners[LISTEN_SOCKETS_MAX];
    size_t n_listeners;
    struct list connections;
    size_t n_connections;
    struct timer accept_again;
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
    free(connection);
}

static void on_ended(struct h2_conn *h2, int error)
{
    struct connection *connection = h2_owner(h2);
    struct grpc_server *server = connection->server;
    if (error) {
        stat_add(&connections_failed, 1);
        log_debug("grpc_server", "connection ended: %s", strerror(-error));
    }
    connection_free(connection);
    check_drained(server);
}

static int on_begin(struct h2_stream *stream)
{
    struct connection *connection = h2_owner(stream->conn);
    return grpc_call_begin(stream, &connection->server->scope);
}

static const struct h2_handler handler = {.begin = on_begin, GRPC_CALL_VERBS, .ended = on_ended};

static void connection_open(struct grpc_server *server, int fd)
{
    const int on = 1;
    struct connection *connection = calloc(1, sizeof(*connection));
    if (!connection) {
        close(fd);
        return;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)); /* hosts that vanish */
    connection->server = server;
    int error =
        h2_open(server->settings.loop, fd, &server->h2, &handler, connection, &connection->h2);
    if (error) {
        log_warn("grpc_server", "cannot serve a connection: %s", strerror(-error));
        free(connection);
        return;
    }
    list_append(&server->connections, &connection->link);
    server->n_connections++;
    stat_add(&connections, 1);
}

/* ---- listening ---- */

static void set_listening(struct grpc_server *server, bool on)
{
    for (size_t i = 0; i < server->n_listeners; i++)
        watch_change(&server->listeners[i].watch, on ? EPOLLIN : 0);
}

static void on_accept_again(struct timer *timer)
{
    set_listening(container_of(timer, struct grpc_server, accept_again), true);
}

/* What waits in the backlog stays readable: without a pause the loop would spin. */
static void out_of_files(struct grpc_server *server)
{
    stat_add(&connections_no_files, 1);
    log_warn("grpc_server", "out of file descriptors: connections wait");
    set_listening(server, false);
    timer_start(server->settings.loop, &server->accept_again, ACCEPT_PAUSE_NS);
}

static void on_acceptable(struct watch *watch, uint32_t events)
{
    struct grpc_server *server = container_of(watch, struct listener, watch)->server;
    (void)events;
    for (int i = 0; i < ACCEPTS_A_ROUND; i++) {
        int fd = accept4(watch->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        bool none_left =
            fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS);
        if (none_left)
            return out_of_files(server);
        if (fd < 0 && errno == EAGAIN)
            return;
        if (fd < 0)
            continue; /* that one has gone again */
        if (server->n_connections < server->settings.config->max_connections) {
            connection_open(server, fd);
            continue;
        }
        stat_add(&connections_over_limit, 1);
        close(fd);
    }
}

static int start_listening(struct grpc_server *server, struct listen_sockets *sockets)
{
    for (size_t i = 0; i < sockets->n; i++) {
        struct listener *listener = &server->listeners[i];
        listener->server = server;
        listener->watch =
            (struct watch){.fd = sockets->fds[i], .events = EPOLLIN, .ready = on_acceptable};
        int error = watch_start(server->settings.loop, &listener->watch);
        if (error)
            return error;
        server->n_listeners = i + 1;
    }
    return 0;
}

static void stop_listening(struct grpc_server *server, bool close_sockets)
{
    timer_stop(&server->accept_again);
    for (size_t i = 0; i < server->n_listeners; i++) {
        watch_stop(&server->listeners[i].watch);
        if (close_sockets)
            close(server->listeners[i].watch.fd);
    }
    server->n_listeners = 0;
}

/* ---- verbs ---- */

static struct h2_settings h2_settings_of(const struct config_otlp_grpc_server *config)
{
    return (struct h2_settings){
        .server = true,
        .max_streams =
            config->max_concurrent_streams ? config->max_concurrent_streams : DEFAULT_STREAMS,
        .stream_window = STREAM_WINDOW,
        .connection_window = CONNECTION_WINDOW,
        .handshake_timeout_ns = HANDSHAKE_TIMEOUT_NS,
        .header_timeout_ns = HEADER_TIMEOUT_NS,
        .request_timeout_ns = REQUEST_TIMEOUT_NS,
        .idle_timeout_ns = IDLE_TIMEOUT_NS,
        .write_timeout_ns = WRITE_TIMEOUT_NS,
    };
}

int grpc_server_open(const struct grpc_server_settings *settings, struct listen_sockets *sockets,
                     struct grpc_server **result)
{
    struct grpc_server *server = calloc(1, sizeof(*server));
    if (!server)
        return -ENOMEM;
    server->settings = *settings;
    server->h2 = h2_settings_of(settings->config);
    server->scope =
        (struct grpc_call_scope){.intake = settings->intake,
                                 .budget = settings->budget,
                                 .signals = settings->signals,
                                 .max_message_bytes = settings->config->max_recv_msg_size_bytes};
    server->accept_again.fire = on_accept_again;
    server->drained.fire = on_drained;
    list_init(&server->scope.calls);
    list_init(&server->connections);
    int error = start_listening(server, sockets);
    if (error) {
        stop_listening(server, false);
        free(server);
        return error;
    }
    sockets->n = 0; /* taken over */
    *result = server;
    return 0;
}

size_t grpc_server_connections(const struct grpc_server *server)
{
    return server->n_connections;
}

void grpc_server_drain(struct grpc_server *server, void (*stopped)(void *context), void *context)
{
    struct list *link, *tmp;
    server->draining = true;
    server->stopped = stopped;
    server->context = context;
    stop_listening(server, true);
    list_each(link, tmp, &server->connections)
        h2_shutdown(container_of(link, struct connection, link)->h2);
    check_drained(server);
}

void grpc_server_close(struct grpc_server *server)
{
    struct list *link;
    if (!server)
        return;
    stop_listening(server, true);
    timer_stop(&server->drained);
    while ((link = list_first(&server->connections)))
        connection_free(container_of(link, struct connection, link));
    grpc_call_forget(&server->scope);
    free(server);
}
