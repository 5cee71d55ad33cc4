/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses are tried one after the other, each for connect_timeout. "localhost", numeric hosts and
 * socket paths need no resolver. For other names getaddrinfo() runs on the dialer's own thread,
 * since it may block for long; the thread is created at the first such name.
 */
#include "exporter/otlp/dialer.h"
#include "base/clock.h"
#include "base/stats.h"
#include "exporter/otlp/listener.h"
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/un.h>
#include <unistd.h>

enum connect { CONNECT_DONE, CONNECT_FAILED, CONNECTS };

static const char *const connect_names[] = {
    [CONNECT_DONE] = "connected", [CONNECT_FAILED] = "failed"};
STAT_COUNTERS(connects, "spanprof_exporter_connections_total",
              "Connections to backends, by outcome.",
              STAT_LABEL("outcome", connect_names, CONNECTS), .losses = STAT_BIT(CONNECT_FAILED));

#define CONNECT_TIMEOUT_NS (20 * NS_PER_SEC) /* gRPC's default, if the owner sets none */

struct resolve_job {
    struct job job;
    struct dialer *dialer; /* NULL: stopped meanwhile */
    char host[256];
    uint16_t port;
    int error; /* of getaddrinfo() */
    size_t n;
    struct dialer_address addresses[DIALER_ADDRESSES_MAX];
};

static void give_up(struct dialer *dialer)
{
    stat_add_of(&connects, CONNECT_FAILED, 1);
    dialer->done(dialer, -1, NULL, dialer->why);
}

/* ---- connecting ---- */

static void try_next_address(struct dialer *dialer);

static void stop_connecting(struct dialer *dialer)
{
    timer_stop(&dialer->deadline);
    watch_stop(&dialer->connecting);
    if (dialer->connecting.fd >= 0)
        close(dialer->connecting.fd);
    dialer->connecting.fd = -1;
    tls_handshake_stop(&dialer->securing);
}

static void address_failed(struct dialer *dialer, const char *why)
{
    const struct config_endpoint *endpoint = dialer->settings.endpoint;
    stop_connecting(dialer);
    snprintf(dialer->why, sizeof(dialer->why),
             endpoint->transport == CONFIG_UNIX ? "cannot connect to %.107s%.0u: %s"
                                                : "cannot connect to %.100s:%u: %s",
             endpoint->host, endpoint->port, why);
    try_next_address(dialer);
}

static void dialer_established(struct dialer *dialer, int fd, struct tls *tls)
{
    stat_add_of(&connects, CONNECT_DONE, 1);
    dialer->done(dialer, fd, tls, NULL);
}

static void on_secured(struct tls_handshake *securing, enum tls_outcome outcome, const char *why)
{
    struct dialer *dialer = container_of(securing, struct dialer, securing);
    struct tls *tls = securing->tls;
    int fd = securing->fd;
    if (outcome != TLS_OK)
        return address_failed(dialer, why);
    securing->tls = NULL;
    securing->fd = -1;
    dialer_established(dialer, fd, tls);
}

static void dialer_connected(struct dialer *dialer)
{
    const struct dialer_settings *settings = &dialer->settings;
    int fd = dialer->connecting.fd, one = 1;
    char why[LISTENER_WHY_MAX];
    if (settings->endpoint->transport == CONFIG_UNIX &&
        !listener_may_have(fd, settings->endpoint->host, settings->socket_users, why))
        return address_failed(dialer, why);
    watch_stop(&dialer->connecting);
    dialer->connecting.fd = -1; /* the connection owns it from here on */
    stop_connecting(dialer);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (!settings->tls)
        return dialer_established(dialer, fd, NULL);
    int error = tls_handshake_start_to(&dialer->securing, settings->loop, settings->tls,
                                       settings->server_name, fd, settings->connect_timeout_ns);
    if (error)
        address_failed(dialer, strerror(-error));
}

static void on_connecting(struct watch *watch, uint32_t events)
{
    struct dialer *dialer = container_of(watch, struct dialer, connecting);
    int error = 0;
    socklen_t size = sizeof(error);
    (void)events;
    if (getsockopt(watch->fd, SOL_SOCKET, SO_ERROR, &error, &size))
        error = errno;
    if (error)
        address_failed(dialer, strerror(error));
    else
        dialer_connected(dialer);
}

static void on_deadline(struct timer *timer)
{
    address_failed(container_of(timer, struct dialer, deadline), strerror(ETIMEDOUT));
}

static void try_next_address(struct dialer *dialer)
{
    if (dialer->next_address >= dialer->n_addresses)
        return give_up(dialer);
    const struct dialer_address *address = &dialer->addresses[dialer->next_address++];
    int fd = socket(address->socket.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return address_failed(dialer, strerror(errno));
    dialer->connecting.fd = fd;
    if (connect(fd, (const struct sockaddr *)&address->socket, address->size) &&
        errno != EINPROGRESS)
        return address_failed(dialer, strerror(errno));
    dialer->connecting.events = EPOLLOUT;
    int error = watch_start(dialer->settings.loop, &dialer->connecting);
    if (error)
        return address_failed(dialer, strerror(-error));
    timer_start(dialer->settings.loop, &dialer->deadline, dialer->settings.connect_timeout_ns);
}

/* ---- resolving ---- */

static int dialer_resolve(const char *host, uint16_t port, int flags,
                          struct dialer_address *addresses, size_t *n)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    char service[8];
    snprintf(service, sizeof(service), "%u", port);
    int error = getaddrinfo(host, service, &hints, &found);
    if (error)
        return error;
    for (struct addrinfo *info = found; info && *n < DIALER_ADDRESSES_MAX; info = info->ai_next) {
        memcpy(&addresses[*n].socket, info->ai_addr, info->ai_addrlen);
        addresses[(*n)++].size = info->ai_addrlen;
    }
    freeaddrinfo(found);
    return 0;
}

static int resolve_run(struct job *job)
{
    struct resolve_job *resolving = container_of(job, struct resolve_job, job);
    resolving->error = dialer_resolve(resolving->host, resolving->port, AI_ADDRCONFIG,
                                      resolving->addresses, &resolving->n);
    return 0;
}

static void resolve_done(struct job *job, int error)
{
    struct resolve_job *resolving = container_of(job, struct resolve_job, job);
    struct dialer *dialer = resolving->dialer;
    if (dialer) {
        dialer->resolving = NULL;
        memcpy(dialer->addresses, resolving->addresses, sizeof(dialer->addresses));
        dialer->n_addresses = resolving->n;
        snprintf(dialer->why, sizeof(dialer->why), "cannot resolve %.100s: %s", resolving->host,
                 error ? strerror(-error) : gai_strerror(resolving->error));
        try_next_address(dialer);
    }
    free(resolving);
}

static int resolve_elsewhere(struct dialer *dialer)
{
    const struct worker_ops ops = {.name = "resolver", .queue_limit = 1, .batch_limit = 1};
    int error = dialer->resolver ? 0 : worker_open(&dialer->resolver, dialer->settings.loop, &ops);
    struct resolve_job *resolving = error ? NULL : calloc(1, sizeof(*resolving));
    if (!resolving)
        return -ENOMEM;
    resolving->job = (struct job){.run = resolve_run, .done = resolve_done};
    resolving->dialer = dialer;
    resolving->port = dialer->settings.endpoint->port;
    memcpy(resolving->host, dialer->settings.endpoint->host, sizeof(resolving->host));
    if (worker_submit(dialer->resolver, &resolving->job) != 0) {
        free(resolving);
        return -EBUSY;
    }
    dialer->resolving = resolving;
    return 0;
}

static void address_of_path(const char *path, struct dialer_address *address)
{
    struct sockaddr_un *socket = (struct sockaddr_un *)&address->socket;
    *socket = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(socket->sun_path, path, strnlen(path, sizeof(socket->sun_path) - 1));
    address->size = sizeof(*socket);
}

/* 127.0.0.1 first: most servers on localhost listen there. */
static bool resolve_here(struct dialer *dialer)
{
    const struct config_endpoint *endpoint = dialer->settings.endpoint;
    struct dialer_address *addresses = dialer->addresses;
    size_t *n = &dialer->n_addresses;
    if (endpoint->transport == CONFIG_UNIX) {
        address_of_path(endpoint->host, &addresses[(*n)++]);
        return true;
    }
    if (strcmp(endpoint->host, "localhost") == 0) {
        dialer_resolve("127.0.0.1", endpoint->port, AI_NUMERICHOST, addresses, n);
        dialer_resolve("::1", endpoint->port, AI_NUMERICHOST, addresses, n);
        return *n > 0;
    }
    return dialer_resolve(endpoint->host, endpoint->port, AI_NUMERICHOST, addresses, n) == 0;
}

/* ---- verbs ---- */

void dialer_init(struct dialer *dialer, const struct dialer_settings *settings,
                 void (*done)(struct dialer *dialer, int fd, struct tls *tls, const char *why))
{
    LOOP_THREAD(settings->loop);
    *dialer = (struct dialer){.settings = *settings,
                              .done = done,
                              .connecting = {.fd = -1, .ready = on_connecting},
                              .securing = {.fd = -1, .done = on_secured},
                              .deadline = {.fire = on_deadline}};
    if (!settings->connect_timeout_ns)
        dialer->settings.connect_timeout_ns = CONNECT_TIMEOUT_NS;
}

bool dialer_busy(const struct dialer *dialer)
{
    LOOP_THREAD(dialer->settings.loop);
    return dialer->resolving || dialer->connecting.fd >= 0 || dialer->securing.fd >= 0;
}

void dialer_start(struct dialer *dialer)
{
    LOOP_THREAD(dialer->settings.loop);
    if (dialer_busy(dialer))
        return;
    dialer->n_addresses = dialer->next_address = 0;
    if (resolve_here(dialer))
        return try_next_address(dialer);
    if (resolve_elsewhere(dialer)) {
        snprintf(dialer->why, sizeof(dialer->why), "no memory to resolve %.100s",
                 dialer->settings.endpoint->host);
        give_up(dialer);
    }
}

void dialer_stop(struct dialer *dialer)
{
    LOOP_THREAD(dialer->settings.loop);
    stop_connecting(dialer);
    if (dialer->resolving)
        dialer->resolving->dialer = NULL;
    dialer->resolving = NULL;
}

void dialer_close(struct dialer *dialer)
{
    LOOP_THREAD(dialer->settings.loop);
    dialer_stop(dialer);
    worker_close(dialer->resolver);
    dialer->resolver = NULL;
}
