/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/net/backend.h"
#include "base/clock.h"
#include "proto/http/h2_session.h"
#include "test/support/net/h2_end.h"
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MESSAGE_MAX = 16 << 20, CUT_AFTER_NS = 5000000 };

struct backend_connection {
    struct list link;
    struct backend *backend;
    struct h2_conn *conn;
    struct timer hang_up;
    struct timer cut;
    struct backend_request *to_cut;
    uint32_t cut_error;
};

static void append(struct buf *out, struct bytes bytes)
{
    if (buf_append_bytes(out, bytes))
        abort();
}

/* ---- answers ---- */

static void add_details(const struct backend_answer *answer, struct buf *text)
{
    _cleanup_buf_ struct buf details = BUF_INIT(0);
    if (!answer->retry_delay_ns || answer->retry_delay_ns == GRPC_NO_RETRY_INFO)
        return;
    int error = answer->bare_retry_info ? grpc_retry_info_write(answer->retry_delay_ns, &details)
                                        : grpc_details_write(answer->status, (struct bytes){0},
                                                             answer->retry_delay_ns, &details);
    if (error || buf_reserve(text, 4 * details.len))
        abort();
    text->len = bytes_to_base64(buf_bytes(&details), false, (char *)text->data);
}

static void answer_call(struct h2_stream *stream, const struct backend_answer *answer)
{
    _cleanup_buf_ struct buf body = BUF_INIT(0), details = BUF_INIT(0);
    uint8_t prefix[GRPC_PREFIX_SIZE];
    char code[16];
    const struct h2_header headers[] = {H2_HEADER(":status", "200"),
                                        H2_HEADER("content-type", "application/grpc")};
    struct h2_header trailers[4];
    size_t n = 0;
    snprintf(code, sizeof(code), "%d", (int)answer->status);
    trailers[n++] = H2_HEADER("grpc-status", code);
    if (answer->status == GRPC_OK) {
        grpc_prefix_write(prefix, false, (uint32_t)answer->response.len);
        append(&body, BYTES(prefix, sizeof(prefix)));
        append(&body, answer->response);
    }
    if (answer->message)
        trailers[n++] = H2_HEADER("grpc-message", answer->message);
    add_details(answer, &details);
    if (details.len)
        trailers[n++] = (struct h2_header){answer->bare_retry_info ? "google.rpc.retryinfo-bin"
                                                                   : "grpc-status-details-bin",
                                           buf_bytes(&details), false};
    if (answer->accept_encoding)
        trailers[n++] = H2_HEADER("grpc-accept-encoding", answer->accept_encoding);
    h2_respond(stream, &(struct h2_response){headers, 2, &body, trailers, n});
}

static bool contains(struct bytes bytes, const char *text)
{
    return !text || memmem(bytes.data, bytes.len, text, strlen(text));
}

static struct backend_answer answer_for(struct backend *backend,
                                        const struct backend_request *request)
{
    for (size_t i = 0; i < backend->n_rules; i++) {
        struct backend_rule *rule = &backend->rules[i];
        if (rule->used_up || !contains(buf_bytes(&request->path), rule->path) ||
            !contains(buf_bytes(&request->reader.message), rule->body))
            continue;
        if (rule->larger_than && request->reader.message.len <= rule->larger_than)
            continue;
        rule->used_up = rule->times == 1;
        rule->times -= rule->times > 0;
        return rule->answer;
    }
    return (struct backend_answer){0};
}

static const nghttp2_nv status_200 = {(uint8_t *)":status", (uint8_t *)"200", 7, 3,
                                      NGHTTP2_NV_FLAG_NONE};

static void answer(struct backend_connection *connection, struct backend_request *request)
{
    struct backend_answer what = answer_for(connection->backend, request);
    const struct h2_header status =
        H2_HEADER(":status", what.http_status ? what.http_status : "200");
    switch (what.manner) {
    case BACKEND_GOES_AWAY:
        h2_shutdown(connection->conn);
        answer_call(request->stream, &what);
        break;
    case BACKEND_CALMS:
        nghttp2_submit_goaway(connection->conn->session, NGHTTP2_FLAG_NONE, request->stream->id,
                              NGHTTP2_ENHANCE_YOUR_CALM, NULL, 0);
        answer_call(request->stream, &what);
        break;
    case BACKEND_ANSWERS:
        answer_call(request->stream, &what);
        break;
    case BACKEND_RESETS:
        h2_reset(request->stream, what.h2_error);
        break;
    case BACKEND_CUTS:
        nghttp2_submit_headers(connection->conn->session, NGHTTP2_FLAG_NONE, request->stream->id,
                               NULL, &status_200, 1, NULL);
        connection->to_cut = request;
        connection->cut_error = what.h2_error;
        timer_start(connection->backend->loop, &connection->cut, CUT_AFTER_NS);
        break;
    case BACKEND_HANGS_UP: /* not from within a callback */
        timer_start(connection->backend->loop, &connection->hang_up, 0);
        break;
    case BACKEND_HTTP:
        h2_respond(request->stream, &(struct h2_response){.headers = &status, .n_headers = 1});
        break;
    case BACKEND_SILENT:
        break;
    }
}

/* ---- streams ---- */

static int on_begin(struct h2_stream *stream)
{
    struct backend_connection *connection = h2_owner(stream->conn);
    struct backend_request *request = calloc(1, sizeof(*request));
    if (!request)
        abort();
    request->connection = connection;
    request->stream = stream;
    grpc_reader_init(&request->reader, MESSAGE_MAX);
    list_append(&connection->backend->requests, &request->link);
    stream->owner = request;
    return 0;
}

static void on_header(struct h2_stream *stream, struct bytes name, struct bytes value, bool trailer)
{
    struct backend_request *request = stream->owner;
    (void)trailer;
    if (bytes_is(name, ":path"))
        append(&request->path, value);
    if (buf_printf(&request->headers, "%.*s: %.*s\n", (int)name.len, name.data, (int)value.len,
                   value.data))
        abort();
}

static void on_data(struct h2_stream *stream, struct bytes piece)
{
    struct backend_request *request = stream->owner;
    if (grpc_reader_feed(&request->reader, piece))
        abort();
    h2_consumed(stream, piece.len, true);
}

static void on_end(struct h2_stream *stream)
{
    struct backend_request *request = stream->owner;
    if (grpc_reader_end(&request->reader))
        abort();
    request->whole = true;
    request->time_ns = clock_monotonic_ns();
    request->connection->backend->n_requests++;
    append(&request->headers, BYTES("", 1));
    answer(request->connection, request);
}

static void on_closed(struct h2_stream *stream, uint32_t h2_error, bool unprocessed)
{
    struct backend_request *request = stream->owner;
    (void)h2_error, (void)unprocessed;
    if (!request)
        return;
    request->stream = NULL;
    request->connection = NULL;
}

/* ---- connections ---- */

static void connection_free(struct backend_connection *connection)
{
    list_remove(&connection->link);
    timer_stop(&connection->hang_up);
    timer_stop(&connection->cut);
    h2_close(connection->conn);
    free(connection);
}

static void on_ended(struct h2_conn *conn, int error)
{
    (void)error;
    connection_free(h2_owner(conn));
}

static void on_hang_up(struct timer *timer)
{
    connection_free(container_of(timer, struct backend_connection, hang_up));
}

static void on_cut(struct timer *timer)
{
    struct backend_connection *connection = container_of(timer, struct backend_connection, cut);
    if (connection->to_cut->stream)
        h2_reset(connection->to_cut->stream, connection->cut_error);
}

static const struct h2_handler handler = {
    .begin = on_begin,
    .header = on_header,
    .data = on_data,
    .end = on_end,
    .closed = on_closed,
    .ended = on_ended,
};

static void serve(struct backend *backend, int fd, struct tls *tls)
{
    struct h2_settings settings = h2_pair_settings(&(struct h2_settings){.max_streams = 100}, true);
    settings.tls = tls;
    struct backend_connection *connection = calloc(1, sizeof(*connection));
    if (!connection)
        abort();
    connection->backend = backend;
    connection->hang_up.fire = on_hang_up;
    connection->cut.fire = on_cut;
    if (h2_open(backend->loop, fd, &settings, &handler, connection, &connection->conn))
        abort();
    list_append(&backend->connections, &connection->link);
    backend->n_connections++;
}

static void on_passed(struct tls_accept *gate, struct tls *tls, int fd)
{
    serve(container_of(gate, struct backend, gate), fd, tls);
}

static void on_acceptable(struct watch *watch, uint32_t events)
{
    struct backend *backend = container_of(watch, struct backend, listener);
    int fd = accept4(watch->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    (void)events;
    if (fd >= 0 && backend->gate.context)
        tls_accept_enter(&backend->gate, fd);
    else if (fd >= 0)
        serve(backend, fd, NULL);
}

/* ---- verbs ---- */

void backend_return(struct backend *backend)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(backend->port)};
    socklen_t size = sizeof(address);
    const int on = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, (struct sockaddr *)&address, size) || listen(fd, 16) ||
        getsockname(fd, (struct sockaddr *)&address, &size))
        abort();
    backend->port = ntohs(address.sin_port);
    backend->listener = (struct watch){.fd = fd, .events = EPOLLIN, .ready = on_acceptable};
    if (watch_start(backend->loop, &backend->listener))
        abort();
}

void backend_open(struct backend *backend, struct loop *loop)
{
    *backend = (struct backend){.loop = loop,
                                .gate = {.loop = loop, .area = "backend", .passed = on_passed}};
    tls_accept_init(&backend->gate);
    list_init(&backend->connections);
    list_init(&backend->requests);
    backend_return(backend);
}

void backend_deafen(struct backend *backend)
{
    struct list *link, *tmp;
    list_each(link, tmp, &backend->connections)
    {
        struct h2_conn *conn = container_of(link, struct backend_connection, link)->conn;
        watch_stop(&conn->watch);
        timer_stop(&conn->flush);
        timer_stop(&conn->watchdog);
    }
}

void backend_leave(struct backend *backend)
{
    struct list *link;
    watch_stop(&backend->listener);
    if (backend->listener.fd >= 0)
        close(backend->listener.fd);
    backend->listener.fd = -1;
    tls_accept_close(&backend->gate);
    while ((link = list_first(&backend->connections)))
        connection_free(container_of(link, struct backend_connection, link));
}

void backend_close(struct backend *backend)
{
    struct list *link;
    backend_leave(backend);
    while ((link = list_pop(&backend->requests))) {
        struct backend_request *request = container_of(link, struct backend_request, link);
        buf_close(&request->path);
        buf_close(&request->headers);
        grpc_reader_close(&request->reader);
        free(request);
    }
}

void backend_rule(struct backend *backend, const char *path, unsigned times,
                  struct backend_answer what)
{
    if (backend->n_rules == sizeof(backend->rules) / sizeof(backend->rules[0]))
        abort();
    backend->rules[backend->n_rules++] =
        (struct backend_rule){.path = path, .answer = what, .times = times};
}

void backend_no_rules(struct backend *backend)
{
    backend->n_rules = 0;
}

struct backend_request *backend_request(const struct backend *backend, const char *path, size_t n)
{
    struct list *link, *tmp;
    list_each(link, tmp, &backend->requests)
    {
        struct backend_request *request = container_of(link, struct backend_request, link);
        if (request->whole && memmem(request->path.data, request->path.len, path, strlen(path)) &&
            n-- == 0)
            return request;
    }
    return NULL;
}
