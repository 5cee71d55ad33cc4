/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/net/h2_end.h"
#include "base/clock.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

static struct h2_end *end_of(struct h2_stream *stream)
{
    return h2_owner(stream->conn);
}

struct h2_end_stream *h2_end_record(struct h2_end *end)
{
    struct h2_end_stream *record = calloc(1, sizeof(*record));
    if (!record)
        return NULL;
    record->end = end;
    list_append(&end->streams, &record->link);
    end->n_streams++;
    if (++end->n_open > end->most_open)
        end->most_open = end->n_open;
    return record;
}

static int on_begin(struct h2_stream *stream)
{
    struct h2_end *end = end_of(stream);
    if (end->refuses)
        return -EBUSY;
    struct h2_end_stream *record = h2_end_record(end);
    if (!record)
        return -ENOMEM;
    record->stream = stream;
    stream->owner = record;
    return 0;
}

static void on_header(struct h2_stream *stream, struct bytes name, struct bytes value, bool trailer)
{
    struct h2_end_stream *record = stream->owner;
    struct buf *to = trailer ? &record->trailers : &record->headers;
    buf_printf(to, "%.*s: %.*s\n", (int)name.len, name.data, (int)value.len, value.data);
}

static const struct h2_header answer_headers[] = {
    {":status", {(const uint8_t *)"200", 3}, false},
    {"x-kind", {(const uint8_t *)"echo", 4}, false},
};
static const struct h2_header answer_trailers[] = {
    {"grpc-status", {(const uint8_t *)"0", 1}, false},
    {"x-note", {(const uint8_t *)"all of it", 9}, false},
};

void h2_end_answer(struct h2_end_stream *record)
{
    _cleanup_buf_ struct buf body = BUF_INIT(0);
    if (buf_append_bytes(&body, buf_bytes(&record->body)))
        return h2_reset(record->stream, H2_INTERNAL_ERROR);
    h2_respond(record->stream, &(struct h2_response){answer_headers, 2, &body, answer_trailers, 2});
}

static void answer_short(struct h2_end_stream *record)
{
    h2_respond(record->stream, &(struct h2_response){.headers = answer_headers, .n_headers = 2});
}

static void on_headers(struct h2_stream *stream)
{
    struct h2_end_stream *record = stream->owner;
    record->headers_seen = true;
    if (record->end->answer == H2_END_AT_HEADERS)
        answer_short(record);
}

static void on_data(struct h2_stream *stream, struct bytes piece)
{
    struct h2_end_stream *record = stream->owner;
    if (buf_append_bytes(&record->body, piece))
        return h2_reset(stream, H2_INTERNAL_ERROR);
    if (!record->end->keeps_window)
        h2_consumed(stream, piece.len, !record->end->connection_window_only);
}

static void on_end(struct h2_stream *stream)
{
    struct h2_end_stream *record = stream->owner;
    record->ended = true;
    if (stream->answered || !record->end->is_server)
        return;
    if (record->end->answer == H2_END_ECHO)
        h2_end_answer(record);
    else if (record->end->answer == H2_END_HEADERS_ONLY)
        answer_short(record);
}

static void on_closed(struct h2_stream *stream, uint32_t h2_error, bool unprocessed)
{
    struct h2_end_stream *record = stream->owner;
    if (record->closed)
        abort();
    record->stream = NULL;
    record->closed = true;
    record->end->n_open--;
    record->h2_error = h2_error;
    record->unprocessed = unprocessed;
}

static void on_goaway(struct h2_conn *conn, uint32_t h2_error)
{
    struct h2_end *end = h2_owner(conn);
    (void)h2_error;
    end->goaway = true;
}

static void on_ended(struct h2_conn *conn, int error)
{
    struct h2_end *end = h2_owner(conn);
    if (end->ended)
        abort();
    end->ended = true;
    end->error = error;
    end->conn = NULL;
    h2_close(conn);
}

const struct h2_handler h2_end_handler = {on_begin, on_header, on_headers, on_data,
                                          on_end,   on_closed, on_goaway,  on_ended};

void h2_end_init(struct h2_end *end)
{
    *end = (struct h2_end){0};
    list_init(&end->streams);
}

void h2_end_clear(struct h2_end *end)
{
    struct list *link;
    h2_close(end->conn);
    while ((link = list_pop(&end->streams))) {
        struct h2_end_stream *record = container_of(link, struct h2_end_stream, link);
        buf_close(&record->sent);
        buf_close(&record->headers);
        buf_close(&record->trailers);
        buf_close(&record->body);
        free(record);
    }
    h2_end_init(end);
}

struct h2_end_stream *h2_end_request(struct h2_end *client, const struct h2_header *headers,
                                     size_t n, struct buf *body)
{
    struct h2_end_stream *record = h2_end_record(client);
    if (!record)
        abort();
    record->sent = *body;
    *body = BUF_INIT(0);
    if (h2_request(client->conn, headers, n, buf_bytes(&record->sent), record, &record->stream))
        abort();
    return record;
}

struct h2_end_stream *h2_end_last(struct h2_end *end)
{
    return list_empty(&end->streams) ? NULL
                                     : container_of(end->streams.prev, struct h2_end_stream, link);
}

static const char *text_of(struct buf *buf)
{
    if (buf_reserve(buf, 1))
        abort();
    buf->data[buf->len] = '\0';
    return (const char *)buf->data;
}

const char *h2_end_headers(struct h2_end_stream *record)
{
    return text_of(&record->headers);
}

const char *h2_end_trailers(struct h2_end_stream *record)
{
    return text_of(&record->trailers);
}

/* ---- pairs ---- */

static void set_default(uint64_t *value, uint64_t preset)
{
    if (!*value)
        *value = preset;
}

struct h2_settings h2_pair_settings(const struct h2_settings *wanted, bool server)
{
    struct h2_settings settings = server ? *wanted : (struct h2_settings){0};
    settings.server = server;
    if (!settings.max_streams)
        settings.max_streams = H2_PAIR_STREAMS;
    if (!settings.stream_window)
        settings.stream_window = H2_PAIR_WINDOW;
    if (!settings.connection_window)
        settings.connection_window = 4 * H2_PAIR_WINDOW;
    set_default(&settings.handshake_timeout_ns, 60 * NS_PER_SEC);
    set_default(&settings.header_timeout_ns, 60 * NS_PER_SEC);
    set_default(&settings.request_timeout_ns, 60 * NS_PER_SEC);
    set_default(&settings.write_timeout_ns, 60 * NS_PER_SEC);
    return settings;
}

static int open_end(struct h2_pair *pair, struct h2_end *end, int fd,
                    const struct h2_settings *wanted, bool server)
{
    struct h2_settings settings = h2_pair_settings(wanted, server);
    end->is_server = server;
    return h2_open(pair->loop, fd, &settings, &h2_end_handler, end, &end->conn);
}

void h2_pair_reopen(struct h2_pair *pair, const struct h2_settings *settings)
{
    int fds[2];
    h2_end_clear(&pair->client);
    h2_end_clear(&pair->server);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) ||
        open_end(pair, &pair->client, fds[0], settings, false) ||
        open_end(pair, &pair->server, fds[1], settings, true))
        abort();
}

struct h2_pair *h2_pair_open(const struct h2_settings *settings)
{
    struct h2_pair *pair = calloc(1, sizeof(*pair));
    if (!pair || loop_open(&pair->loop))
        abort();
    h2_end_init(&pair->client);
    h2_end_init(&pair->server);
    h2_pair_reopen(pair, settings);
    return pair;
}

void h2_pair_close(struct h2_pair *pair)
{
    h2_end_clear(&pair->client);
    h2_end_clear(&pair->server);
    loop_close(pair->loop);
    free(pair);
}

bool h2_run_loop(struct loop *loop, bool (*holds)(void *context), void *context, int ms)
{
    uint64_t end_ns = clock_monotonic_ns() + (uint64_t)ms * NS_PER_MS;
    while (!holds(context)) {
        uint64_t now_ns = clock_monotonic_ns();
        if (now_ns >= end_ns)
            return false;
        uint64_t left_ms = (end_ns - now_ns) / NS_PER_MS + 1;
        if (loop_once(loop, (int)(left_ms < 20 ? left_ms : 20)))
            return false;
    }
    return true;
}

bool h2_pair_run_for(struct h2_pair *pair, bool (*holds)(void *context), void *context, int ms)
{
    return h2_run_loop(pair->loop, holds, context, ms);
}

bool h2_pair_run(struct h2_pair *pair, bool (*holds)(void *context), void *context)
{
    return h2_pair_run_for(pair, holds, context, 10000);
}
