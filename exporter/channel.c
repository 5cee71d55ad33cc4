/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses are tried one after the other, each for connect_timeout. "localhost" and numeric hosts
 * need no resolver; for other names getaddrinfo(), which may block for long, runs on a thread that
 * only exists for channels that need it.
 */
#include "exporter/channel.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/stats.h"
#include "base/worker.h"
#include "proto/tls.h"
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

STAT_COUNTER(connects, "spanprof_exporter_connections_total", "outcome=\"connected\"",
             "Connections to backends, by outcome.");
STAT_COUNTER(connect_failures, "spanprof_exporter_connections_total", "outcome=\"failed\"",
             "Connections to backends, by outcome.");

#define ADDRESSES_MAX 8
#define WINDOW_BYTES  65535
#define HANDSHAKE_NS  (10 * NS_PER_SEC)
#define WRITE_NS      (30 * NS_PER_SEC)

struct address {
    struct sockaddr_storage socket;
    socklen_t size;
};

struct resolve_job {
    struct job job;
    struct channel *channel; /* NULL: closed meanwhile */
    char host[256];
    uint16_t port;
    int error; /* of getaddrinfo() */
    size_t n;
    struct address addresses[ADDRESSES_MAX];
};

struct connection {
    struct list link;
    struct channel *channel;
    struct h2_conn *h2;
};

struct channel {
    struct channel_settings settings;
    struct h2_handler handler;
    struct list waiters;
    struct list connections;    /* also those that are going away */
    struct connection *current; /* takes new streams; NULL: none */
    struct worker *resolver;    /* NULL until a name needs it */
    struct resolve_job *resolving;
    size_t n_addresses;
    size_t next_address;
    struct address addresses[ADDRESSES_MAX];
    struct watch connecting;       /* fd -1: not connecting */
    struct timer deadline;         /* of the address at hand */
    struct tls_handshake securing; /* of a socket that is connected; fd -1: none */
    struct timer wake;             /* answers waiters in the next round */
    char why[512];
};

/* ---- waiters ---- */

static void answer_waiters(struct channel *channel, struct h2_conn *conn, const char *why)
{
    struct list answered = LIST_INIT(answered), *link;
    while ((link = list_pop(&channel->waiters)))
        list_append(&answered, link);
    while ((link = list_pop(&answered))) {
        struct channel_waiter *waiter = container_of(link, struct channel_waiter, link);
        waiter->ready(waiter, conn, why);
    }
}

static void give_up(struct channel *channel)
{
    stat_add(&connect_failures, 1);
    answer_waiters(channel, NULL, channel->why);
}

/* ---- connections ---- */

static void connection_ended(struct h2_conn *conn, int error)
{
    struct connection *connection = h2_owner(conn);
    struct channel *channel = connection->channel;
    if (error && channel->settings.tls && !h2_settled(conn)) /* not all of them send an alert */
        log_warn("exporter",
                 "%s hung up after the TLS handshake; it may demand a certificate: tls::cert_file",
                 channel->settings.endpoint->host);
    else if (error)
        log_debug("exporter", "connection to %s ended: %s", channel->settings.endpoint->host,
                  strerror(-error));
    if (channel->current == connection)
        channel->current = NULL;
    list_remove(&connection->link);
    h2_close(conn);
    free(connection);
}

static void connection_goaway(struct h2_conn *conn, uint32_t h2_error)
{
    struct connection *connection = h2_owner(conn);
    (void)h2_error;
    if (connection->channel->current == connection)
        connection->channel->current = NULL;
    h2_shutdown(conn);
}

static int connection_open(struct channel *channel, int fd, struct tls *tls)
{
    const struct h2_settings settings = {.max_streams = 1,
                                         .stream_window = WINDOW_BYTES,
                                         .connection_window = 4 * WINDOW_BYTES,
                                         .handshake_timeout_ns = HANDSHAKE_NS,
                                         .write_timeout_ns = WRITE_NS,
                                         .tls = tls};
    struct connection *connection = calloc(1, sizeof(*connection));
    if (!connection) {
        tls_close(tls);
        close(fd);
        return -ENOMEM;
    }
    connection->channel = channel;
    int error = h2_open(channel->settings.loop, fd, &settings, &channel->handler, connection,
                        &connection->h2);
    if (error) {
        free(connection);
        return error;
    }
    list_append(&channel->connections, &connection->link);
    channel->current = connection;
    return 0;
}

/* ---- connecting ---- */

static void try_next_address(struct channel *channel);

static void stop_connecting(struct channel *channel)
{
    timer_stop(&channel->deadline);
    watch_stop(&channel->connecting);
    if (channel->connecting.fd >= 0)
        close(channel->connecting.fd);
    channel->connecting.fd = -1;
    tls_handshake_stop(&channel->securing);
}

static void address_failed(struct channel *channel, const char *why)
{
    const struct config_endpoint *endpoint = channel->settings.endpoint;
    stop_connecting(channel);
    snprintf(channel->why, sizeof(channel->why), "cannot connect to %.100s:%u: %s", endpoint->host,
             endpoint->port, why);
    try_next_address(channel);
}

static void established(struct channel *channel, int fd, struct tls *tls)
{
    int error = connection_open(channel, fd, tls);
    if (error)
        return address_failed(channel, strerror(-error));
    stat_add(&connects, 1);
    answer_waiters(channel, channel->current->h2, NULL);
}

static void on_secured(struct tls_handshake *securing, enum tls_outcome outcome, const char *why)
{
    struct channel *channel = container_of(securing, struct channel, securing);
    struct tls *tls = securing->tls;
    int fd = securing->fd;
    if (outcome != TLS_OK)
        return address_failed(channel, why);
    securing->tls = NULL;
    securing->fd = -1;
    established(channel, fd, tls);
}

static void connected(struct channel *channel)
{
    const struct channel_settings *settings = &channel->settings;
    int fd = channel->connecting.fd, one = 1;
    watch_stop(&channel->connecting);
    channel->connecting.fd = -1; /* the connection's from here on */
    stop_connecting(channel);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (!settings->tls)
        return established(channel, fd, NULL);
    int error = tls_handshake_start(&channel->securing, settings->loop, settings->tls, fd,
                                    settings->connect_timeout_ns);
    if (error)
        address_failed(channel, strerror(-error));
}

static void on_connecting(struct watch *watch, uint32_t events)
{
    struct channel *channel = container_of(watch, struct channel, connecting);
    int error = 0;
    socklen_t size = sizeof(error);
    (void)events;
    if (getsockopt(watch->fd, SOL_SOCKET, SO_ERROR, &error, &size))
        error = errno;
    if (error)
        address_failed(channel, strerror(error));
    else
        connected(channel);
}

static void on_deadline(struct timer *timer)
{
    address_failed(container_of(timer, struct channel, deadline), strerror(ETIMEDOUT));
}

static void try_next_address(struct channel *channel)
{
    if (channel->next_address >= channel->n_addresses)
        return give_up(channel);
    const struct address *address = &channel->addresses[channel->next_address++];
    int fd = socket(address->socket.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return address_failed(channel, strerror(errno));
    channel->connecting.fd = fd;
    if (connect(fd, (const struct sockaddr *)&address->socket, address->size) &&
        errno != EINPROGRESS)
        return address_failed(channel, strerror(errno));
    channel->connecting.events = EPOLLOUT;
    int error = watch_start(channel->settings.loop, &channel->connecting);
    if (error)
        return address_failed(channel, strerror(-error));
    timer_start(channel->settings.loop, &channel->deadline, channel->settings.connect_timeout_ns);
}

/* ---- resolving ---- */

static int resolve(const char *host, uint16_t port, int flags, struct address *addresses, size_t *n)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    char service[8];
    snprintf(service, sizeof(service), "%u", port);
    int error = getaddrinfo(host, service, &hints, &found);
    if (error)
        return error;
    for (struct addrinfo *info = found; info && *n < ADDRESSES_MAX; info = info->ai_next) {
        memcpy(&addresses[*n].socket, info->ai_addr, info->ai_addrlen);
        addresses[(*n)++].size = info->ai_addrlen;
    }
    freeaddrinfo(found);
    return 0;
}

static int resolve_run(struct job *job)
{
    struct resolve_job *resolving = container_of(job, struct resolve_job, job);
    resolving->error = resolve(resolving->host, resolving->port, AI_ADDRCONFIG,
                               resolving->addresses, &resolving->n);
    return 0;
}

static void resolve_done(struct job *job, int error)
{
    struct resolve_job *resolving = container_of(job, struct resolve_job, job);
    struct channel *channel = resolving->channel;
    if (channel) {
        channel->resolving = NULL;
        memcpy(channel->addresses, resolving->addresses, sizeof(channel->addresses));
        channel->n_addresses = resolving->n;
        snprintf(channel->why, sizeof(channel->why), "cannot resolve %.100s: %s", resolving->host,
                 error ? strerror(-error) : gai_strerror(resolving->error));
        try_next_address(channel);
    }
    free(resolving);
}

static int resolve_elsewhere(struct channel *channel)
{
    const struct worker_ops ops = {.name = "resolver", .queue_limit = 1, .batch_limit = 1};
    int error =
        channel->resolver ? 0 : worker_open(&channel->resolver, channel->settings.loop, &ops);
    struct resolve_job *resolving = error ? NULL : calloc(1, sizeof(*resolving));
    if (!resolving)
        return -ENOMEM;
    resolving->job = (struct job){.run = resolve_run, .done = resolve_done};
    resolving->channel = channel;
    resolving->port = channel->settings.endpoint->port;
    memcpy(resolving->host, channel->settings.endpoint->host, sizeof(resolving->host));
    if (worker_submit(channel->resolver, &resolving->job) != 0) {
        free(resolving);
        return -EBUSY;
    }
    channel->resolving = resolving;
    return 0;
}

/* 127.0.0.1 first: what listens on localhost listens there, if anywhere. */
static bool resolve_here(struct channel *channel)
{
    const struct config_endpoint *endpoint = channel->settings.endpoint;
    struct address *addresses = channel->addresses;
    size_t *n = &channel->n_addresses;
    if (strcmp(endpoint->host, "localhost") == 0) {
        resolve("127.0.0.1", endpoint->port, AI_NUMERICHOST, addresses, n);
        resolve("::1", endpoint->port, AI_NUMERICHOST, addresses, n);
        return *n > 0;
    }
    return resolve(endpoint->host, endpoint->port, AI_NUMERICHOST, addresses, n) == 0;
}

static bool is_connecting(const struct channel *channel)
{
    return channel->resolving || channel->connecting.fd >= 0 || channel->securing.fd >= 0;
}

static void on_wake(struct timer *timer)
{
    struct channel *channel = container_of(timer, struct channel, wake);
    if (channel->current && !h2_closing(channel->current->h2))
        return answer_waiters(channel, channel->current->h2, NULL);
    if (is_connecting(channel) || list_empty(&channel->waiters))
        return;
    channel->current = NULL;
    channel->n_addresses = channel->next_address = 0;
    if (resolve_here(channel))
        return try_next_address(channel);
    if (resolve_elsewhere(channel)) {
        snprintf(channel->why, sizeof(channel->why), "no memory to resolve %.100s",
                 channel->settings.endpoint->host);
        give_up(channel);
    }
}

/* ---- verbs ---- */

int channel_open(const struct channel_settings *settings, struct channel **channelp)
{
    struct channel *channel = calloc(1, sizeof(*channel));
    if (!channel)
        return -ENOMEM;
    channel->settings = *settings;
    channel->handler = *settings->handler;
    channel->handler.goaway = connection_goaway;
    channel->handler.ended = connection_ended;
    channel->connecting = (struct watch){.fd = -1, .ready = on_connecting};
    channel->securing = (struct tls_handshake){.fd = -1, .done = on_secured};
    channel->deadline.fire = on_deadline;
    channel->wake.fire = on_wake;
    list_init(&channel->waiters);
    list_init(&channel->connections);
    *channelp = channel;
    return 0;
}

void channel_want(struct channel *channel, struct channel_waiter *waiter)
{
    list_append(&channel->waiters, &waiter->link);
    timer_start(channel->settings.loop, &channel->wake, 0);
}

void channel_unwant(struct channel_waiter *waiter)
{
    list_remove(&waiter->link);
}

void channel_close(struct channel *channel)
{
    if (!channel)
        return;
    struct list *link;
    while (list_pop(&channel->waiters))
        continue;
    stop_connecting(channel);
    timer_stop(&channel->wake);
    if (channel->resolving)
        channel->resolving->channel = NULL;
    worker_close(channel->resolver);
    while ((link = list_pop(&channel->connections))) {
        struct connection *connection = container_of(link, struct connection, link);
        h2_close(connection->h2);
        free(connection);
    }
    free(channel);
}
