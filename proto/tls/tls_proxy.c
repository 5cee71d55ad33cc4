/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libmicrohttpd has TLS of its own, but reports a connection as ready to read while its handshake
 * waits for the client: on our loop it would spin, and one silent client would use a whole CPU. So
 * libmicrohttpd gets plain sockets.
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
    struct tls_proxies *proxies;
    struct tls *tls;
    struct watch net;   /* the peer's socket */
    struct watch plain; /* our end of the pair */
    struct buf in;      /* from the peer, on its way to the server */
    struct buf out;     /* from the server, on its way to the peer */
    bool in_ended;
    struct timer stalled;
};

static void proxy_free(struct tls_proxy *proxy)
{
    list_remove(&proxy->link);
    proxy->proxies->n--;
    watch_stop(&proxy->net);
    watch_stop(&proxy->plain);
    timer_stop(&proxy->stalled);
    tls_close(proxy->tls);
    close(proxy->net.fd);
    close(proxy->plain.fd);
    buf_close(&proxy->in);
    buf_close(&proxy->out);
    free(proxy);
}

/* ---- moving bytes ---- */

static ssize_t plain_read(struct tls_proxy *proxy, void *out, size_t size)
{
    ssize_t n = recv(proxy->plain.fd, out, size, 0);
    return n < 0 ? -errno : n;
}

static ssize_t plain_write(struct tls_proxy *proxy, const void *data, size_t size)
{
    ssize_t n = send(proxy->plain.fd, data, size, MSG_NOSIGNAL);
    return n < 0 ? -errno : n;
}

static ssize_t net_read(struct tls_proxy *proxy, void *out, size_t size)
{
    return tls_read(proxy->tls, out, size);
}

static ssize_t net_write(struct tls_proxy *proxy, const void *data, size_t size)
{
    return tls_write(proxy->tls, data, size);
}

struct direction {
    ssize_t (*read)(struct tls_proxy *proxy, void *out, size_t size);
    ssize_t (*write)(struct tls_proxy *proxy, const void *data, size_t size);
};

static const struct direction inwards = {net_read, plain_write}, outwards = {plain_read, net_write};

/* 0: one of both sides has to wait; ENDED: nothing more to read; negative errno. */
static int proxy_pump(struct tls_proxy *proxy, const struct direction *direction,
                      struct buf *waiting)
{
    ssize_t n = 0;
    for (int i = 0; i < PIECES_A_ROUND && n >= 0; i++) {
        if (!waiting->len) {
            if (buf_reserve(waiting, PIECE_BYTES))
                return -ENOMEM;
            n = direction->read(proxy, waiting->data, PIECE_BYTES);
            if (n == 0)
                return ENDED;
            waiting->len = n > 0 ? (size_t)n : 0;
        }
        if (n >= 0)
            n = direction->write(proxy, waiting->data, waiting->len);
        if (n > 0)
            buf_consume(waiting, (size_t)n);
    }
    if (!waiting->len)
        buf_close(waiting); /* idle connections keep no memory */
    return n >= 0 || n == -EAGAIN || n == -EINTR ? 0 : (int)n;
}

static int pump_in(struct tls_proxy *proxy)
{
    if (proxy->in_ended)
        return 0;
    int result = proxy_pump(proxy, &inwards, &proxy->in);
    if (result == ENDED || result == -EPIPE) {
        proxy->in_ended = true;
        buf_close(&proxy->in);
        shutdown(proxy->plain.fd, SHUT_WR);
        result = 0;
    }
    return result;
}

/* The end of the server's stream is read after all of its bytes. */
static int pump_out(struct tls_proxy *proxy)
{
    return proxy_pump(proxy, &outwards, &proxy->out);
}

/* ---- the loop ---- */

/* Without wanted events the socket is not watched: epoll would report a hang-up in every round. */
static int set_watch(struct tls_proxy *proxy, struct watch *watch, uint32_t events)
{
    if (!events) {
        watch_stop(watch);
        return 0;
    }
    if (watch->loop)
        return watch_change(watch, events);
    watch->events = events;
    return watch_start(proxy->proxies->loop, watch);
}

static int proxy_set_watches(struct tls_proxy *proxy)
{
    bool in_waits = proxy->in.len > 0, out_waits = proxy->out.len > 0;
    uint32_t net = (!proxy->in_ended && !in_waits ? EPOLLIN : 0u) | (out_waits ? EPOLLOUT : 0u);
    uint32_t plain = (!out_waits ? EPOLLIN : 0u) | (in_waits ? EPOLLOUT : 0u);
    int error = set_watch(proxy, &proxy->net, net);
    return error ? error : set_watch(proxy, &proxy->plain, plain);
}

static void proxy_move(struct tls_proxy *proxy)
{
    int in = pump_in(proxy);
    int out = pump_out(proxy);
    if (in < 0 || out || proxy_set_watches(proxy)) {
        proxy_free(proxy);
        return;
    }
    if (!proxy->out.len)
        timer_stop(&proxy->stalled);
    else if (!proxy->stalled.due_ns)
        timer_start(proxy->proxies->loop, &proxy->stalled, TLS_PROXY_STALL_NS);
}

static void on_net(struct watch *watch, uint32_t events)
{
    (void)events;
    proxy_move(container_of(watch, struct tls_proxy, net));
}

static void on_plain(struct watch *watch, uint32_t events)
{
    (void)events;
    proxy_move(container_of(watch, struct tls_proxy, plain));
}

static void on_stalled(struct timer *timer)
{
    proxy_free(container_of(timer, struct tls_proxy, stalled));
}

/* ---- verbs ---- */

void tls_proxies_init(struct tls_proxies *proxies, struct loop *loop)
{
    *proxies = (struct tls_proxies){.loop = loop};
    list_init(&proxies->list);
}

int tls_proxy_open(struct tls_proxies *proxies, struct tls *tls, int fd, int *plain)
{
    LOOP_THREAD(proxies->loop);
    struct tls_proxy *proxy = calloc(1, sizeof(*proxy));
    int pair[2];
    int error = proxy ? 0 : -ENOMEM;
    if (!error && socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair))
        error = -errno;
    if (error) {
        tls_close(tls);
        close(fd);
        free(proxy);
        return error;
    }
    *proxy = (struct tls_proxy){.proxies = proxies,
                                .tls = tls,
                                .net = {.fd = fd, .ready = on_net},
                                .plain = {.fd = pair[0], .ready = on_plain},
                                .stalled = {.fire = on_stalled}};
    list_append(&proxies->list, &proxy->link);
    proxies->n++;
    error = proxy_set_watches(proxy);
    if (error) {
        proxy_free(proxy);
        close(pair[1]);
        return error;
    }
    *plain = pair[1];
    return 0;
}

void tls_proxies_close(struct tls_proxies *proxies)
{
    LOOP_THREAD(proxies->loop);
    struct list *link;
    while (proxies->n && (link = list_first(&proxies->list))) {
        struct tls_proxy *proxy = container_of(link, struct tls_proxy, link);
        (void)pump_out(proxy);
        proxy_free(proxy);
    }
}
