/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libmicrohttpd has TLS of its own, but keeps a connection for ready to read while its handshake
 * waits for the client: driven by our loop it spins, and one silent client takes a whole CPU. So
 * it is given plain sockets.
 */
#include "proto/tls/tls_proxy.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PIECE_BYTES = 16 * 1024, PIECES_A_ROUND = 8, ENDED = 1 };

struct tls_proxy {
    struct list link;
    struct tls_proxys *bridges;
    struct tls *tls;
    struct watch net;   /* the peer's socket */
    struct watch plain; /* our end of the pair */
    struct buf in;      /* from the peer, on its way to the server */
    struct buf out;     /* from the server, on its way to the peer */
    bool in_ended;
    struct timer stalled;
};

static void bridge_free(struct tls_proxy *bridge)
{
    list_remove(&bridge->link);
    bridge->bridges->n--;
    watch_stop(&bridge->net);
    watch_stop(&bridge->plain);
    timer_stop(&bridge->stalled);
    tls_close(bridge->tls);
    close(bridge->net.fd);
    close(bridge->plain.fd);
    buf_close(&bridge->in);
    buf_close(&bridge->out);
    free(bridge);
}

/* ---- moving bytes ---- */

static ssize_t plain_read(struct tls_proxy *bridge, void *out, size_t size)
{
    ssize_t n = recv(bridge->plain.fd, out, size, 0);
    return n < 0 ? -errno : n;
}

static ssize_t plain_write(struct tls_proxy *bridge, const void *data, size_t size)
{
    ssize_t n = send(bridge->plain.fd, data, size, MSG_NOSIGNAL);
    return n < 0 ? -errno : n;
}

static ssize_t net_read(struct tls_proxy *bridge, void *out, size_t size)
{
    return tls_read(bridge->tls, out, size);
}

static ssize_t net_write(struct tls_proxy *bridge, const void *data, size_t size)
{
    return tls_write(bridge->tls, data, size);
}

struct way {
    ssize_t (*read)(struct tls_proxy *bridge, void *out, size_t size);
    ssize_t (*write)(struct tls_proxy *bridge, const void *data, size_t size);
};

static const struct way inwards = {net_read, plain_write}, outwards = {plain_read, net_write};

/* 0: one of both sides has to wait; ENDED: nothing more to read; negative errno. */
static int pump(struct tls_proxy *bridge, const struct way *way, struct buf *waiting)
{
    ssize_t n = 0;
    for (int i = 0; i < PIECES_A_ROUND && n >= 0; i++) {
        if (!waiting->len) {
            if (buf_reserve(waiting, PIECE_BYTES))
                return -ENOMEM;
            n = way->read(bridge, waiting->data, PIECE_BYTES);
            if (n == 0)
                return ENDED;
            waiting->len = n > 0 ? (size_t)n : 0;
        }
        if (n >= 0)
            n = way->write(bridge, waiting->data, waiting->len);
        if (n > 0)
            buf_consume(waiting, (size_t)n);
    }
    if (!waiting->len)
        buf_close(waiting); /* idle connections keep no memory */
    return n >= 0 || n == -EAGAIN || n == -EINTR ? 0 : (int)n;
}

static int pump_in(struct tls_proxy *bridge)
{
    if (bridge->in_ended)
        return 0;
    int result = pump(bridge, &inwards, &bridge->in);
    if (result == ENDED || result == -EPIPE) {
        bridge->in_ended = true;
        buf_close(&bridge->in);
        shutdown(bridge->plain.fd, SHUT_WR);
        result = 0;
    }
    return result;
}

/* The server's end is seen once all that it said has been taken. */
static int pump_out(struct tls_proxy *bridge)
{
    return pump(bridge, &outwards, &bridge->out);
}

/* ---- the loop ---- */

/* Without a wish it is not watched at all: else a hang-up would be told again and again. */
static int set_watch(struct tls_proxy *bridge, struct watch *watch, uint32_t events)
{
    if (!events) {
        watch_stop(watch);
        return 0;
    }
    if (watch->loop)
        return watch_change(watch, events);
    watch->events = events;
    return watch_start(bridge->bridges->loop, watch);
}

static int set_watches(struct tls_proxy *bridge)
{
    bool in_waits = bridge->in.len > 0, out_waits = bridge->out.len > 0;
    uint32_t net = (!bridge->in_ended && !in_waits ? EPOLLIN : 0u) | (out_waits ? EPOLLOUT : 0u);
    uint32_t plain = (!out_waits ? EPOLLIN : 0u) | (in_waits ? EPOLLOUT : 0u);
    int error = set_watch(bridge, &bridge->net, net);
    return error ? error : set_watch(bridge, &bridge->plain, plain);
}

static void move(struct tls_proxy *bridge)
{
    int in = pump_in(bridge);
    int out = pump_out(bridge);
    if (in < 0 || out || set_watches(bridge)) {
        bridge_free(bridge);
        return;
    }
    if (!bridge->out.len)
        timer_stop(&bridge->stalled);
    else if (!bridge->stalled.due_ns)
        timer_start(bridge->bridges->loop, &bridge->stalled, TLS_PROXY_STALL_NS);
}

static void on_net(struct watch *watch, uint32_t events)
{
    (void)events;
    move(container_of(watch, struct tls_proxy, net));
}

static void on_plain(struct watch *watch, uint32_t events)
{
    (void)events;
    move(container_of(watch, struct tls_proxy, plain));
}

static void on_stalled(struct timer *timer)
{
    bridge_free(container_of(timer, struct tls_proxy, stalled));
}

/* ---- verbs ---- */

void tls_proxys_init(struct tls_proxys *bridges, struct loop *loop)
{
    *bridges = (struct tls_proxys){.loop = loop};
    list_init(&bridges->list);
}

int tls_proxy_open(struct tls_proxys *bridges, struct tls *tls, int fd, int *plain)
{
    struct tls_proxy *bridge = calloc(1, sizeof(*bridge));
    int pair[2];
    int error = bridge ? 0 : -ENOMEM;
    if (!error && socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair))
        error = -errno;
    if (error) {
        tls_close(tls);
        close(fd);
        free(bridge);
        return error;
    }
    *bridge = (struct tls_proxy){.bridges = bridges,
                                 .tls = tls,
                                 .net = {.fd = fd, .ready = on_net},
                                 .plain = {.fd = pair[0], .ready = on_plain},
                                 .stalled = {.fire = on_stalled}};
    list_append(&bridges->list, &bridge->link);
    bridges->n++;
    error = set_watches(bridge);
    if (error) {
        bridge_free(bridge);
        close(pair[1]);
        return error;
    }
    *plain = pair[1];
    return 0;
}

void tls_proxys_close(struct tls_proxys *bridges)
{
    struct list *link;
    while (bridges->n && (link = list_first(&bridges->list))) {
        struct tls_proxy *bridge = container_of(link, struct tls_proxy, link);
        (void)pump_out(bridge);
        bridge_free(bridge);
    }
}
