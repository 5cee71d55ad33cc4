/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/net/http_peer.h"
#include "base/clock.h"
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define DRIP_NS (2 * NS_PER_MS)

struct connection {
    struct list link;
    struct http_peer *peer;
    struct tls *tls;
    struct watch watch;
    struct timer drip;
    struct buf in;
    const char *dripping;
    size_t number;
    bool resets_next;
};

static void append(struct buf *out, struct bytes bytes)
{
    if (buf_append_bytes(out, bytes))
        abort();
}

static void hang_up(struct connection *connection, bool reset)
{
    const struct linger at_once = {.l_onoff = 1};
    list_remove(&connection->link);
    watch_stop(&connection->watch);
    timer_stop(&connection->drip);
    if (reset)
        setsockopt(connection->watch.fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    tls_close(connection->tls);
    close(connection->watch.fd);
    buf_close(&connection->in);
    free(connection);
}

/* Texts are short: they fit. */
static void say(struct connection *connection, const char *text, size_t n)
{
    if (connection->tls)
        tls_write(connection->tls, text, n);
    else
        send(connection->watch.fd, text, n, MSG_NOSIGNAL);
}

static void on_drip(struct timer *timer)
{
    struct connection *connection = container_of(timer, struct connection, drip);
    if (!*connection->dripping)
        return hang_up(connection, false);
    say(connection, connection->dripping++, 1);
    timer_start(connection->peer->loop, &connection->drip, DRIP_NS);
}

static struct http_peer_answer next_answer(struct http_peer *peer)
{
    size_t i = peer->n_answered++;
    if (!peer->n_answers)
        return (struct http_peer_answer){.text = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"};
    return peer->answers[i < peer->n_answers ? i : peer->n_answers - 1];
}

/* False: the connection has gone. */
static bool answer(struct connection *connection)
{
    struct http_peer_answer what = next_answer(connection->peer);
    switch (what.manner) {
    case HTTP_PEER_SILENT:
        return true;
    case HTTP_PEER_DRIPS:
        connection->dripping = what.text;
        timer_start(connection->peer->loop, &connection->drip, DRIP_NS);
        return true;
    case HTTP_PEER_CLOSES_KEPT:
        connection->resets_next = true;
        break;
    default:
        break;
    }
    say(connection, what.text, strlen(what.text));
    if (what.manner != HTTP_PEER_HANGS_UP && what.manner != HTTP_PEER_EARLY)
        return true;
    hang_up(connection, false);
    return false;
}

static size_t content_length(const char *head)
{
    const char *line = strcasestr(head, "\r\ncontent-length:");
    return line ? strtoul(line + 17, NULL, 10) : 0;
}

static bool answers_early(const struct http_peer *peer)
{
    size_t i = peer->n_answered < peer->n_answers ? peer->n_answered : peer->n_answers - 1;
    return peer->n_answers && peer->answers[i].manner == HTTP_PEER_EARLY;
}

/* 0: no whole request yet; 1: one was taken and answered; -1: the connection has gone. */
static int take_request(struct connection *connection)
{
    struct http_peer *peer = connection->peer;
    struct buf *in = &connection->in;
    const uint8_t *end = in->len ? memmem(in->data, in->len, "\r\n\r\n", 4) : NULL;
    if (!end)
        return 0;
    size_t head = (size_t)(end - in->data);
    char text[16384];
    if (head >= sizeof(text))
        abort();
    memcpy(text, in->data, head);
    text[head] = 0;
    size_t body = answers_early(peer) ? 0 : content_length(text);
    if (in->len < head + 4 + body)
        return 0;
    struct http_peer_request *request = calloc(1, sizeof(*request));
    if (!request)
        abort();
    append(&request->head, BYTES(text, head + 1));
    append(&request->body, BYTES(in->data + head + 4, body));
    request->connection = connection->number;
    request->time_ns = clock_monotonic_ns();
    list_append(&peer->requests, &request->link);
    peer->n_requests++;
    buf_consume(in, head + 4 + body);
    return answer(connection) ? 1 : -1;
}

static ssize_t read_some(struct connection *connection, uint8_t *out, size_t size)
{
    if (connection->tls)
        return tls_read(connection->tls, out, size);
    ssize_t n = recv(connection->watch.fd, out, size, 0);
    return n < 0 ? -errno : n;
}

static void on_ready(struct watch *watch, uint32_t events)
{
    struct connection *connection = container_of(watch, struct connection, watch);
    uint8_t piece[16384];
    (void)events;
    ssize_t n = read_some(connection, piece, sizeof(piece));
    if (n == -EAGAIN)
        return;
    if (n <= 0)
        return hang_up(connection, false);
    if (connection->resets_next)
        return hang_up(connection, true);
    append(&connection->in, BYTES(piece, (size_t)n));
    while (take_request(connection) > 0)
        continue;
}

static void serve(struct http_peer *peer, int fd, struct tls *tls)
{
    struct connection *connection = calloc(1, sizeof(*connection));
    if (!connection)
        abort();
    *connection = (struct connection){.peer = peer,
                                      .tls = tls,
                                      .number = peer->n_connections++,
                                      .watch = {.fd = fd, .events = EPOLLIN, .ready = on_ready},
                                      .drip.fire = on_drip};
    list_append(&peer->connections, &connection->link);
    if (watch_start(peer->loop, &connection->watch))
        abort();
}

static void on_passed(struct tls_accept *gate, struct tls *tls, int fd)
{
    serve(container_of(gate, struct http_peer, gate), fd, tls);
}

static void on_acceptable(struct watch *watch, uint32_t events)
{
    struct http_peer *peer = container_of(watch, struct http_peer, listener);
    int fd = accept4(watch->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    (void)events;
    if (fd >= 0 && peer->gate.context)
        tls_accept_enter(&peer->gate, fd);
    else if (fd >= 0)
        serve(peer, fd, NULL);
}

void http_peer_open(struct http_peer *peer, struct loop *loop)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    *peer = (struct http_peer){
        .loop = loop,
        .listener = {.fd = fd, .events = EPOLLIN, .ready = on_acceptable},
        .gate = {.loop = loop, .area = "test", .passed = on_passed},
    };
    list_init(&peer->connections);
    list_init(&peer->requests);
    tls_accept_init(&peer->gate);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) || listen(fd, 16) ||
        getsockname(fd, (struct sockaddr *)&address, &size) || watch_start(loop, &peer->listener))
        abort();
    peer->port = ntohs(address.sin_port);
}

void http_peer_hang_up(struct http_peer *peer)
{
    struct list *link;
    while (!list_empty(&peer->connections)) {
        link = list_first(&peer->connections);
        hang_up(container_of(link, struct connection, link), false);
    }
}

void http_peer_close(struct http_peer *peer)
{
    struct list *link;
    watch_stop(&peer->listener);
    close(peer->listener.fd);
    tls_accept_close(&peer->gate);
    http_peer_hang_up(peer);
    while ((link = list_pop(&peer->requests))) {
        struct http_peer_request *request = container_of(link, struct http_peer_request, link);
        buf_close(&request->head);
        buf_close(&request->body);
        free(request);
    }
}

void http_peer_script(struct http_peer *peer, enum http_peer_manner manner, const char *text)
{
    if (peer->n_answers == sizeof(peer->answers) / sizeof(peer->answers[0]))
        abort();
    peer->answers[peer->n_answers++] = (struct http_peer_answer){manner, text};
}

void http_peer_no_script(struct http_peer *peer)
{
    peer->n_answers = peer->n_answered = 0;
}

struct http_peer_request *http_peer_request(const struct http_peer *peer, size_t n)
{
    struct list *link, *tmp;
    list_each(link, tmp, &peer->requests)
    {
        if (n-- == 0)
            return container_of(link, struct http_peer_request, link);
    }
    return NULL;
}
