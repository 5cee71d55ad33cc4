/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nghttp2 owns framing, HPACK, stream states and windows; here lies what it leaves to its user:
 * bounds on headers, the count of senseless frames (its own came only after 1.52), bodies and
 * trailers. Its callbacks only note and submit: bytes move in h2.c, after nghttp2 has returned.
 */
#include "proto/http/h2_session.h"
#include "base/clock.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

enum { HEADER_OVERHEAD = 32, HEADERS_A_MESSAGE_MAX = 80 };

static const char shutdown_ping[8] = "drained?";

/* ---- streams ---- */

static struct h2_stream *stream_new(struct h2_conn *conn, int32_t id)
{
    struct h2_stream *stream = calloc(1, sizeof(*stream));
    if (!stream)
        return NULL;
    stream->conn = conn;
    stream->id = id;
    stream->begun_ns = clock_monotonic_ns();
    list_append(&conn->streams, &stream->link);
    conn->n_streams++;
    return stream;
}

static void headers_free(struct h2_header *headers, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free((void *)(uintptr_t)headers[i].name);
    free(headers);
}

static void stream_free(struct h2_stream *stream)
{
    struct h2_conn *conn = stream->conn;
    assert(conn->n_streams);
    list_remove(&stream->link);
    conn->reused = true;
    conn->n_streams--;
    assert(!conn->n_streams == list_empty(&conn->streams));
    if (!conn->n_streams) {
        conn->idle_since_ns = clock_monotonic_ns();
        if (conn->settings.idle_timeout_ns)
            h2_watch_over(conn, conn->idle_since_ns + conn->settings.idle_timeout_ns);
    }
    headers_free(stream->trailers, stream->n_trailers);
    buf_close(&stream->owned);
    free(stream);
}

static void stream_gone(struct h2_stream *stream, uint32_t h2_error, bool unprocessed)
{
    const struct h2_handler *handler = stream->conn->handler;
    if (!stream->unannounced && handler->closed)
        handler->closed(stream, h2_error, unprocessed);
    stream_free(stream);
}

static struct h2_stream *stream_of(nghttp2_session *session, int32_t id)
{
    return nghttp2_session_get_stream_user_data(session, id);
}

void h2_session_abandon(struct h2_conn *conn, uint32_t h2_error)
{
    for (struct list *link; (link = list_first(&conn->streams));)
        stream_gone(container_of(link, struct h2_stream, link), h2_error, false);
}

/* ---- glitches ---- */

/* h2.c ends the connection once nghttp2 has returned: ending it within a callback hits an
 * assertion. */
static void conn_doom(struct h2_conn *conn, uint32_t h2_error)
{
    if (!conn->doom)
        conn->doom = h2_error;
}

/* A token bucket: occasional errors are tolerated, a flood ends the connection. */
static void conn_glitch(struct h2_conn *conn)
{
    uint64_t now = clock_monotonic_ns();
    double tokens = conn->glitch_tokens;
    tokens += (double)(now - conn->glitches_since_ns) / (double)NS_PER_SEC * H2_GLITCH_PER_SEC;
    conn->glitches_since_ns = now;
    conn->glitch_tokens = tokens > H2_GLITCH_BURST ? H2_GLITCH_BURST : tokens;
    conn->glitch_tokens -= 1;
    if (conn->glitch_tokens >= 0 || conn->doom)
        return;
    conn_doom(conn, NGHTTP2_ENHANCE_YOUR_CALM);
    h2_count(H2_LIMIT_GLITCHES);
}

static int on_invalid_frame(nghttp2_session *session, const nghttp2_frame *frame, int error,
                            void *user)
{
    (void)session, (void)frame, (void)error;
    conn_glitch(user);
    return 0;
}

static int on_invalid_header(nghttp2_session *session, const nghttp2_frame *frame,
                             const uint8_t *name, size_t name_len, const uint8_t *value,
                             size_t value_len, uint8_t flags, void *user)
{
    (void)session, (void)frame, (void)name, (void)name_len, (void)value, (void)value_len,
        (void)flags;
    conn_glitch(user);
    return 0; /* left out, as nghttp2 does without us */
}

/* ---- incoming ---- */

static void stream_refuse(struct h2_stream *stream, uint32_t h2_error)
{
    stream->refused = true;
    nghttp2_submit_rst_stream(stream->conn->session, NGHTTP2_FLAG_NONE, stream->id, h2_error);
}

/* A request on a number that was passed over, or long ago: nghttp2 would only pass over it too,
 * since trailers may be on their way while a stream is reset. Those streams are remembered, and
 * calls have no trailers. */
static int on_begin_frame(nghttp2_session *session, const nghttp2_frame_hd *frame, void *user)
{
    struct h2_conn *conn = user;
    int32_t last = nghttp2_session_get_last_proc_stream_id(session);
    if (frame->type == NGHTTP2_HEADERS && conn->settings.server && frame->stream_id < last &&
        !nghttp2_session_find_stream(session, frame->stream_id))
        conn_doom(conn, NGHTTP2_PROTOCOL_ERROR);
    return 0;
}

/* Streams that are under way change with the offer, when the peer takes note of it; nghttp2 then
 * looks again at what they have consumed. So no stream may hold back what it will not give. */
static void conn_offer_window(struct h2_conn *conn)
{
    const struct h2_settings *settings = &conn->settings;
    conn->crowded |= conn->n_streams > H2_CALM_STREAMS;
    bool calm = settings->calm_window && conn->reused && !conn->crowded;
    const nghttp2_settings_entry entry = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE,
                                          calm ? settings->calm_window : settings->stream_window};
    if (calm != conn->calm && !nghttp2_submit_settings(conn->session, NGHTTP2_FLAG_NONE, &entry, 1))
        conn->calm = calm; /* else with the next stream */
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct h2_conn *conn = user;
    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    struct h2_stream *stream = stream_new(conn, frame->hd.stream_id);
    if (!stream)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    nghttp2_session_set_stream_user_data(session, stream->id, stream);
    conn_offer_window(conn);
    h2_watch_over(conn, stream->begun_ns + conn->settings.header_timeout_ns);
    h2_watch_over(conn, stream->begun_ns + conn->settings.request_timeout_ns);
    if (conn->handler->begin && conn->handler->begin(stream) < 0) {
        stream->unannounced = true;
        stream_refuse(stream, NGHTTP2_REFUSED_STREAM);
    }
    return 0;
}

/* Too many headers: a server can still say so, a client gives the stream up. */
static void stream_headers_too_big(struct h2_stream *stream, bool trailer)
{
    struct h2_conn *conn = stream->conn;
    h2_count(H2_LIMIT_HEADER_LIST);
    conn_glitch(conn);
    if (!conn->settings.server || trailer || stream->answered)
        return stream_refuse(stream, NGHTTP2_INTERNAL_ERROR);
    const struct h2_header status = H2_HEADER(":status", "431");
    const struct h2_response response = {.headers = &status, .n_headers = 1};
    if (h2_respond(stream, &response))
        stream_refuse(stream, NGHTTP2_INTERNAL_ERROR);
    stream->refused = true;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                     void *user)
{
    struct h2_stream *stream = stream_of(session, frame->hd.stream_id);
    struct h2_conn *conn = user;
    (void)flags;
    if (frame->hd.type != NGHTTP2_HEADERS || !stream || stream->refused)
        return 0;
    bool trailer = stream->headers_done;
    if (bytes_is(BYTES(name, name_len), ":status") && value_len == 3 && value[0] == '1')
        stream->interim = true; /* more answers follow; nothing of this one is for the handler */
    stream->header_list_bytes += name_len + value_len + HEADER_OVERHEAD;
    if (stream->header_list_bytes > H2_HEADER_LIST_MAX)
        stream_headers_too_big(stream, trailer);
    else if (conn->handler->header && !stream->interim)
        conn->handler->header(stream, BYTES(name, name_len), BYTES(value, value_len), trailer);
    return 0;
}

static void on_headers_recv(struct h2_stream *stream)
{
    const struct h2_handler *handler = stream->conn->handler;
    if (!stream->headers_done && !stream->interim) {
        stream->headers_done = true;
        if (handler->headers)
            handler->headers(stream);
    }
    stream->interim = false;
}

static int on_frame_recv(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct h2_conn *conn = user;
    struct h2_stream *stream = frame->hd.stream_id ? stream_of(session, frame->hd.stream_id) : NULL;
    bool ends = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
    switch (frame->hd.type) {
    case NGHTTP2_SETTINGS:
        conn->settled = true;
        break;
    case NGHTTP2_GOAWAY:
        if (!conn->goaway_seen && conn->handler->goaway)
            conn->handler->goaway(conn, frame->goaway.error_code);
        conn->goaway_seen = true;
        break;
    case NGHTTP2_PING:
        if ((frame->hd.flags & NGHTTP2_FLAG_ACK) &&
            !memcmp(frame->ping.opaque_data, shutdown_ping, 8))
            h2_session_last_goaway(conn);
        break;
    case NGHTTP2_PRIORITY:
        conn_glitch(conn);
        break;
    case NGHTTP2_HEADERS:
        if (stream && !stream->refused)
            on_headers_recv(stream);
        break;
    case NGHTTP2_DATA:
        if (frame->hd.length == 0 && !ends)
            conn_glitch(conn);
        break;
    default:
        break;
    }
    bool of_stream = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;
    if (of_stream && ends && stream) {
        stream->remote_closed = true;
        if (!stream->refused && conn->handler->end)
            conn->handler->end(stream);
    }
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream_id, const uint8_t *data,
                   size_t size, void *user)
{
    struct h2_conn *conn = user;
    struct h2_stream *stream = stream_of(session, stream_id);
    (void)flags;
    if (!stream || stream->refused || !conn->handler->data) {
        nghttp2_session_consume_connection(session, size);
        return 0;
    }
    stream->unconsumed += size;
    conn->handler->data(stream, BYTES(data, size));
    return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t stream_id, uint32_t h2_error,
                           void *user)
{
    struct h2_stream *stream = stream_of(session, stream_id);
    (void)user;
    if (!stream)
        return 0;
    nghttp2_session_set_stream_user_data(session, stream_id, NULL);
    if (stream->unconsumed) /* the connection's window must not shrink with each stream given up */
        nghttp2_session_consume_connection(session, stream->unconsumed);
    stream_gone(stream, h2_error, h2_error == NGHTTP2_REFUSED_STREAM);
    return 0;
}

/* ---- outgoing ---- */

static int on_frame_send(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct h2_conn *conn = user;
    if (frame->hd.type == NGHTTP2_GOAWAY && frame->goaway.error_code)
        conn->goaway_error = frame->goaway.error_code;
    if (frame->hd.type == NGHTTP2_RST_STREAM && conn->settings.server) {
        uint32_t code = frame->rst_stream.error_code;
        if (code == NGHTTP2_PROTOCOL_ERROR || code == NGHTTP2_STREAM_CLOSED ||
            code == NGHTTP2_FLOW_CONTROL_ERROR)
            conn_glitch(conn); /* the peer made us reset it */
    }
    bool may_end = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;
    if (!may_end || !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM) || !conn->settings.server)
        return 0;
    struct h2_stream *stream = stream_of(session, frame->hd.stream_id);
    if (stream &&
        !stream->remote_closed) /* answered early: the rest of the request is not wanted */
        nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, stream->id, NGHTTP2_NO_ERROR);
    return 0;
}

/* A request that never left (GOAWAY came between): nghttp2 has no stream to close for it. */
static int on_frame_not_send(nghttp2_session *session, const nghttp2_frame *frame, int error,
                             void *user)
{
    struct h2_conn *conn = user;
    struct list *link, *tmp;
    (void)error;
    if (frame->hd.type != NGHTTP2_HEADERS || conn->settings.server)
        return 0;
    list_each(link, tmp, &conn->streams)
    {
        struct h2_stream *stream = container_of(link, struct h2_stream, link);
        if (stream->id != frame->hd.stream_id)
            continue;
        nghttp2_session_set_stream_user_data(session, stream->id, NULL);
        stream_gone(stream, NGHTTP2_REFUSED_STREAM, true);
        break;
    }
    return 0;
}

static size_t fill_nv(nghttp2_nv *out, const struct h2_header *headers, size_t n)
{
    assert(n <= HEADERS_A_MESSAGE_MAX);
    for (size_t i = 0; i < n; i++)
        out[i] = (nghttp2_nv){
            .name = (uint8_t *)(uintptr_t)headers[i].name,
            .namelen = strlen(headers[i].name),
            .value = (uint8_t *)(uintptr_t)headers[i].value.data,
            .valuelen = headers[i].value.len,
            .flags = headers[i].secret ? NGHTTP2_NV_FLAG_NO_INDEX : NGHTTP2_NV_FLAG_NONE,
        };
    return n;
}

static ssize_t body_read(nghttp2_session *session, int32_t stream_id, uint8_t *out, size_t size,
                         uint32_t *flags, nghttp2_data_source *source, void *user)
{
    struct h2_stream *stream = source->ptr;
    size_t n = stream->unsent.len < size ? stream->unsent.len : size;
    (void)user;
    if (n)
        memcpy(out, stream->unsent.data, n);
    stream->unsent = bytes_skip(stream->unsent, n);
    if (stream->goes_on && !n)
        return NGHTTP2_ERR_DEFERRED;
    if (stream->goes_on || stream->unsent.len)
        return (ssize_t)n;
    *flags |= NGHTTP2_DATA_FLAG_EOF;
    if (stream->n_trailers) {
        nghttp2_nv nv[HEADERS_A_MESSAGE_MAX];
        *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
        if (nghttp2_submit_trailer(session, stream_id, nv,
                                   fill_nv(nv, stream->trailers, stream->n_trailers)))
            return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; /* resets the stream */
    }
    return (ssize_t)n;
}

static nghttp2_data_provider h2_stream_provider(struct h2_stream *stream)
{
    return (nghttp2_data_provider){.source = {.ptr = stream}, .read_callback = body_read};
}

static void body_take(struct h2_stream *stream, struct buf *body)
{
    if (!body)
        return;
    stream->owned = *body;
    stream->unsent = buf_bytes(&stream->owned);
    *body = (struct buf){0};
}

int h2_request(struct h2_conn *conn, const struct h2_header *headers, size_t n, struct bytes body,
               void *owner, struct h2_stream **result)
{
    nghttp2_nv nv[HEADERS_A_MESSAGE_MAX];
    LOOP_THREAD(conn->loop);
    assert(!conn->settings.server);
    if (!conn->n_streams)
        h2_keepalive_begin(conn);
    struct h2_stream *stream = h2_closing(conn) ? NULL : stream_new(conn, -1);
    if (!stream)
        return h2_closing(conn) ? -ENOTCONN : -ENOMEM;
    stream->owner = owner;
    stream->answered_ns = UINT64_MAX;
    stream->unsent = body;
    nghttp2_data_provider data = h2_stream_provider(stream);
    stream->id =
        nghttp2_submit_request(conn->session, NULL, nv, fill_nv(nv, headers, n), &data, stream);
    if (stream->id < 0) {
        int error = stream->id == NGHTTP2_ERR_NOMEM ? -ENOMEM : -ENOTCONN; /* stream ids used up */
        conn->goaway_seen |= error == -ENOTCONN;
        stream_free(stream);
        return error;
    }
    h2_schedule_flush(conn);
    *result = stream;
    return 0;
}

static int trailers_copy(struct h2_stream *stream, const struct h2_header *trailers, size_t n)
{
    if (!n)
        return 0;
    stream->trailers = calloc(n, sizeof(*trailers));
    if (!stream->trailers)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        size_t name_size = strlen(trailers[i].name) + 1;
        char *memory = malloc(name_size + trailers[i].value.len); /* freed by its name */
        if (!memory)
            return -ENOMEM;
        memcpy(memory, trailers[i].name, name_size);
        if (trailers[i].value.len)
            memcpy(memory + name_size, trailers[i].value.data, trailers[i].value.len);
        stream->trailers[i] =
            (struct h2_header){memory, BYTES(memory + name_size, trailers[i].value.len), false};
        stream->n_trailers = i + 1;
    }
    return 0;
}

static int response_submit(struct h2_stream *stream, const struct h2_response *response)
{
    nghttp2_nv nv[HEADERS_A_MESSAGE_MAX];
    nghttp2_data_provider data = h2_stream_provider(stream);
    bool bodiless = stream->unsent.len == 0 && stream->n_trailers == 0 && !stream->goes_on;
    size_t n = fill_nv(nv, response->headers, response->n_headers);
    int error =
        nghttp2_submit_response(stream->conn->session, stream->id, nv, n, bodiless ? NULL : &data);
    return error == NGHTTP2_ERR_NOMEM ? -ENOMEM : error ? -ENOTCONN : 0;
}

int h2_respond(struct h2_stream *stream, const struct h2_response *response)
{
    struct h2_conn *conn = stream->conn;
    LOOP_THREAD(conn->loop);
    assert(conn->settings.server && !stream->answered);
    body_take(stream, response->body);
    stream->answered = true;
    stream->answered_ns = clock_monotonic_ns();
    if (conn->ended)
        return -ENOTCONN;
    int error = trailers_copy(stream, response->trailers, response->n_trailers);
    if (!error)
        error = response_submit(stream, response);
    if (error)
        stream_refuse(stream, NGHTTP2_INTERNAL_ERROR);
    h2_watch_over(conn, stream->answered_ns + conn->settings.write_timeout_ns);
    h2_schedule_flush(conn);
    return error;
}

void h2_reset(struct h2_stream *stream, uint32_t h2_error)
{
    LOOP_THREAD(stream->conn->loop);
    stream->unsent = (struct bytes){0};
    if (stream->conn->ended)
        return;
    stream_refuse(stream, h2_error);
    h2_schedule_flush(stream->conn);
}

void h2_deadline(struct h2_stream *stream, uint64_t due_ns)
{
    LOOP_THREAD(stream->conn->loop);
    stream->deadline_ns = due_ns;
    h2_watch_over(stream->conn, due_ns);
}

/* ---- the session ---- */

void h2_session_last_goaway(struct h2_conn *conn)
{
    if (!conn->shutting_down || conn->last_goaway || conn->ended)
        return;
    conn->last_goaway = true;
    nghttp2_submit_goaway(conn->session, NGHTTP2_FLAG_NONE,
                          nghttp2_session_get_last_proc_stream_id(conn->session), NGHTTP2_NO_ERROR,
                          NULL, 0);
    h2_schedule_flush(conn);
}

void h2_session_shutdown(struct h2_conn *conn)
{
    if (!conn->settings.server)
        return;
    nghttp2_submit_shutdown_notice(conn->session);
    nghttp2_submit_ping(conn->session, NGHTTP2_FLAG_NONE, (const uint8_t *)shutdown_ping);
}

static nghttp2_session_callbacks *session_callbacks(void)
{
    nghttp2_session_callbacks *set;
    if (nghttp2_session_callbacks_new(&set))
        return NULL;
    nghttp2_session_callbacks_set_on_begin_frame_callback(set, on_begin_frame);
    nghttp2_session_callbacks_set_on_begin_headers_callback(set, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(set, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(set, on_frame_recv);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(set, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(set, on_stream_close);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(set, on_invalid_frame);
    nghttp2_session_callbacks_set_on_invalid_header_callback(set, on_invalid_header);
    nghttp2_session_callbacks_set_on_frame_send_callback(set, on_frame_send);
    nghttp2_session_callbacks_set_on_frame_not_send_callback(set, on_frame_not_send);
    return set;
}

/* Streams that ended are remembered, as many as may be open: only so a frame that comes too late
 * can be told from one on its way while we reset its stream. */
static nghttp2_option *session_options(void)
{
    nghttp2_option *option;
    if (nghttp2_option_new(&option))
        return NULL;
    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_option_set_stream_reset_rate_limit(option, H2_RESET_BURST, H2_RESET_PER_SEC);
    nghttp2_option_set_max_continuations(option, H2_CONTINUATIONS_MAX);
    nghttp2_option_set_max_settings(option, H2_SETTINGS_MAX);
    nghttp2_option_set_max_outbound_ack(option, H2_OUTBOUND_ACK_MAX);
    return option;
}

static int settings_submit(struct h2_conn *conn)
{
    const struct h2_settings *settings = &conn->settings;
    const nghttp2_settings_entry entries[] = {
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, settings->stream_window},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, H2_HEADER_LIST_MAX},
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, settings->max_streams},
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0}, /* a client's alone */
    };
    size_t n = sizeof(entries) / sizeof(entries[0]) - (settings->server ? 1 : 0);
    int error = nghttp2_submit_settings(conn->session, NGHTTP2_FLAG_NONE, entries, n);
    if (!error)
        error = nghttp2_session_set_local_window_size(conn->session, NGHTTP2_FLAG_NONE, 0,
                                                      (int32_t)settings->connection_window);
    return error ? -ENOMEM : 0;
}

int h2_session_open(struct h2_conn *conn)
{
    nghttp2_session_callbacks *set = session_callbacks();
    nghttp2_option *option = session_options();
    int error = !set || !option ? NGHTTP2_ERR_NOMEM : 0;
    if (!error)
        error = (conn->settings.server ? nghttp2_session_server_new2 : nghttp2_session_client_new2)(
            &conn->session, set, conn, option);
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(set);
    conn->glitch_tokens = H2_GLITCH_BURST;
    conn->glitches_since_ns = clock_monotonic_ns();
    return error ? -ENOMEM : settings_submit(conn);
}
