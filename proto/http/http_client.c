/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server may answer (413, 503) and hang up while a large request is still being sent. So when
 * writing fails, the answer is still read.
 */
#include "proto/http/http_client.h"
#include "proto/tls/tls.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define PIECE_BYTES     (16 << 10) /* a TLS record */
#define PIECES_A_ROUND  16         /* then other connections have their turn */
#define WRITTEN_A_ROUND (1 << 20)

struct http_client {
    const struct http_client_handler *handler;
    void *owner;
    struct tls *tls;
    struct watch watch;
    struct bytes head, body; /* what is left of them */
    struct http_answer answer;
    bool busy;    /* a request is under way */
    bool touched; /* something of its answer has come */
};

static int client_set_events(struct http_client *client)
{
    uint32_t events = EPOLLIN | (client->head.len || client->body.len ? EPOLLOUT : 0u);
    return events == client->watch.events ? 0 : watch_change(&client->watch, events);
}

static void client_end(struct http_client *client, int error)
{
    watch_stop(&client->watch);
    client->handler->ended(client->owner, error, client->touched);
}

/* ---- writing ---- */

static ssize_t client_write_some(struct http_client *client, struct bytes from)
{
    if (client->tls)
        return tls_write(client->tls, from.data, from.len);
    ssize_t n = send(client->watch.fd, from.data, from.len, MSG_NOSIGNAL);
    return n < 0 ? -errno : n;
}

static int request_write(struct http_client *client)
{
    size_t written = 0;
    while ((client->head.len || client->body.len) && written < WRITTEN_A_ROUND) {
        struct bytes *from = client->head.len ? &client->head : &client->body;
        ssize_t n = client_write_some(client, *from);
        if (n == -EINTR)
            continue;
        if (n < 0)
            return n == -EAGAIN ? 0 : (int)n;
        from->data += n;
        from->len -= (size_t)n;
        written += (size_t)n;
    }
    return 0;
}

/* ---- reading ---- */

static ssize_t client_read_some(struct http_client *client, uint8_t *out)
{
    if (client->tls)
        return tls_read(client->tls, out, PIECE_BYTES);
    ssize_t n = recv(client->watch.fd, out, PIECE_BYTES, 0);
    return n < 0 ? -errno : n;
}

/* The client may be gone afterwards. */
static void answer_complete(struct http_client *client, bool more_follows)
{
    struct http_answer answer = client->answer;
    bool unsent = client->head.len || client->body.len;
    client->answer = (struct http_answer){0};
    client->busy = false;
    answer.keeps_connection &= !more_follows && !unsent;
    if (!answer.keeps_connection)
        watch_stop(&client->watch);
    client->handler->answered(client->owner, &answer);
    http_answer_close(&answer);
}

/* Whether the connection is to be read on; else the client may be gone. */
static bool answer_take(struct http_client *client, struct bytes in)
{
    if (!client->busy) { /* bytes without a request */
        client_end(client, -EPROTO);
        return false;
    }
    client->touched = true;
    int outcome = http_answer_feed(&client->answer, &in);
    if (outcome == HTTP_ANSWER_MORE)
        return true;
    if (outcome == HTTP_ANSWER_WHOLE)
        answer_complete(client, in.len > 0);
    else
        client_end(client, outcome < 0 ? outcome : -EPROTO);
    return false;
}

static void client_closed_by_peer(struct http_client *client)
{
    if (client->busy && client->touched && http_answer_end(&client->answer) == HTTP_ANSWER_WHOLE)
        answer_complete(client, false);
    else
        client_end(client, 0);
}

/* Whether the connection is to be read on; else the client may be gone. */
static bool answer_read(struct http_client *client)
{
    uint8_t piece[PIECE_BYTES];
    for (int i = 0; i < PIECES_A_ROUND; i++) {
        ssize_t n = client_read_some(client, piece);
        if (n == -EAGAIN || n == -EINTR)
            return true;
        if (n == 0) {
            client_closed_by_peer(client);
            return false;
        }
        if (n < 0) {
            client_end(client, (int)n);
            return false;
        }
        if (!answer_take(client, BYTES(piece, (size_t)n)))
            return false;
    }
    return true;
}

static void on_ready(struct watch *watch, uint32_t events)
{
    struct http_client *client = container_of(watch, struct http_client, watch);
    (void)events;
    int write_error = request_write(client);
    if (!answer_read(client))
        return;
    int error = write_error ? write_error : client_set_events(client);
    if (error)
        client_end(client, error);
}

/* ---- verbs ---- */

int http_client_open(struct loop *loop, int fd, struct tls *tls,
                     const struct http_client_handler *handler, void *owner,
                     struct http_client **clientp)
{
    struct http_client *client = calloc(1, sizeof(*client));
    if (!client) {
        tls_close(tls);
        close(fd);
        return -ENOMEM;
    }
    *client = (struct http_client){.handler = handler,
                                   .owner = owner,
                                   .tls = tls,
                                   .watch = {.fd = fd, .events = EPOLLIN, .ready = on_ready}};
    int error = watch_start(loop, &client->watch);
    if (error) {
        http_client_close(client);
        return error;
    }
    *clientp = client;
    return 0;
}

void http_client_close(struct http_client *client)
{
    if (!client)
        return;
    watch_stop(&client->watch);
    tls_close(client->tls);
    close(client->watch.fd);
    http_answer_close(&client->answer);
    free(client);
}

int http_client_send(struct http_client *client, struct bytes head, struct bytes body,
                     size_t max_answer_bytes)
{
    if (client->busy || !client->watch.loop)
        return -ENOTCONN;
    http_answer_begin(&client->answer, max_answer_bytes);
    client->head = head;
    client->body = body;
    client->busy = true;
    client->touched = false;
    return client_set_events(client);
}
