/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes between the socket and nghttp2, and time. transport_read() and transport_write() are the
 * only places that know of TLS.
 *
 * One timer per connection covers all time limits. It is never moved later: when it fires, the
 * limits are checked and it is set to the earliest one left. So a busy connection costs no timer
 * work.
 */
#include "proto/http/h2_session.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/stats.h"
#include "proto/tls/tls.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    READ_BYTES = 64 * 1024,
    READS_A_ROUND = 4,     /* then other connections get their turn */
    OUT_BYTES = 64 * 1024, /* frames gathered for a write */
    OUT_KEPT_BYTES = 4096, /* memory an idle connection may keep */
    PEER_CLOSED = 1,       /* an outcome: end of file */
};
#define LAST_GOAWAY_DELAY_NS (1 * NS_PER_SEC) /* if the PING of a graceful end is not answered */

static const char *const limit_names[] = {
    [H2_LIMIT_HEADER_LIST] = "header_list",      [H2_LIMIT_GLITCHES] = "glitches",
    [H2_LIMIT_HANDSHAKE] = "handshake_timeout",  [H2_LIMIT_HEADER_TIME] = "header_timeout",
    [H2_LIMIT_REQUEST_TIME] = "request_timeout", [H2_LIMIT_IDLE] = "idle_timeout",
    [H2_LIMIT_SLOW_READER] = "slow_reader",      [H2_LIMIT_FLOOD] = "flood",
    [H2_LIMIT_KEEPALIVE] = "keepalive_timeout",  [H2_LIMIT_AGE] = "max_age",
};
STAT_COUNTERS(limits_struck, "spanprof_h2_limit_total",
              "Limits of HTTP/2 connections that were reached, by limit.",
              STAT_LABEL("limit", limit_names, H2_LIMIT_COUNT));

void h2_count(enum h2_limit limit)
{
    stat_add_of(&limits_struck, limit, 1);
}

/* ---- transport ---- */

/* Bytes, 0 at the end, -EAGAIN, or negative errno. */
static ssize_t transport_read(struct h2_conn *conn, uint8_t *out, size_t size)
{
    ssize_t n;
    if (conn->settings.tls)
        return tls_read(conn->settings.tls, out, size);
    do {
        n = recv(conn->watch.fd, out, size, 0);
    } while (n < 0 && errno == EINTR);
    return n < 0 ? (errno == EWOULDBLOCK ? -EAGAIN : -errno) : n;
}

static ssize_t transport_write(struct h2_conn *conn, const uint8_t *data, size_t size)
{
    ssize_t n;
    if (conn->settings.tls)
        return tls_write(conn->settings.tls, data, size);
    do {
        n = send(conn->watch.fd, data, size, MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    return n < 0 ? (errno == EWOULDBLOCK ? -EAGAIN : -errno) : n;
}

/* ---- moving bytes ---- */

static bool output_waits(const struct h2_conn *conn)
{
    return conn->out_sent < conn->out.len;
}

static int output_gather(struct h2_conn *conn)
{
    if (conn->out_sent == conn->out.len)
        buf_clear(&conn->out), conn->out_sent = 0;
    while (conn->out.len < OUT_BYTES) {
        const uint8_t *data;
        ssize_t n = nghttp2_session_mem_send(conn->session, &data);
        if (n == 0)
            return 0;
        if (n < 0)
            return n == NGHTTP2_ERR_NOMEM ? -ENOMEM : -EPROTO;
        int error = buf_append(&conn->out, data, (size_t)n);
        if (error)
            return error;
    }
    return 0;
}

static int output_write(struct h2_conn *conn)
{
    while (output_waits(conn)) {
        ssize_t n =
            transport_write(conn, conn->out.data + conn->out_sent, conn->out.len - conn->out_sent);
        if (n < 0)
            return (int)n;
        conn->out_sent += (size_t)n;
        conn->progress_ns = clock_monotonic_ns();
    }
    return 0;
}

static int output_flush(struct h2_conn *conn)
{
    bool waited = output_waits(conn);
    int error;
    conn->busy = true;
    do {
        error = output_gather(conn);
        error = error ? error : output_write(conn);
    } while (!error && conn->out.len > 0 && nghttp2_session_want_write(conn->session));
    conn->busy = false;
    if (error == -EAGAIN) {
        if (!waited) {
            conn->progress_ns = clock_monotonic_ns();
            h2_watch_over(conn, conn->progress_ns + conn->settings.write_timeout_ns);
        }
        return 0;
    }
    if (conn->out.cap > OUT_KEPT_BYTES && !output_waits(conn))
        buf_close(&conn->out), conn->out_sent = 0;
    return error;
}

static int session_feed(struct h2_conn *conn, const uint8_t *data, size_t size)
{
    conn->busy = true;
    ssize_t n = nghttp2_session_mem_recv(conn->session, data, size);
    conn->busy = false;
    if (conn->doom)
        nghttp2_session_terminate_session(conn->session, conn->doom);
    if (n >= 0)
        return 0;
    if (n == NGHTTP2_ERR_FLOODED)
        h2_count(H2_LIMIT_FLOOD);
    return n == NGHTTP2_ERR_NOMEM ? -ENOMEM : -EPROTO;
}

static void conn_heard(struct h2_conn *conn)
{
    if (!conn->settings.keepalive_ns)
        return;
    conn->heard_ns = clock_monotonic_ns();
    conn->asked_ns = 0;
}

/* 0, PEER_CLOSED, negative errno. */
static int conn_receive(struct h2_conn *conn)
{
    uint8_t piece[READ_BYTES];
    for (int i = 0; i < READS_A_ROUND && nghttp2_session_want_read(conn->session); i++) {
        ssize_t n = transport_read(conn, piece, sizeof(piece));
        if (n == -EAGAIN)
            return 0;
        if (n <= 0)
            return n < 0 ? (int)n : PEER_CLOSED;
        conn_heard(conn);
        int error = session_feed(conn, piece, (size_t)n);
        if (error)
            return error;
        if ((size_t)n < sizeof(piece) && !conn->settings.tls) /* a record of TLS is short */
            return 0;
    }
    return 0;
}

/* ---- the end ---- */

static void conn_end(struct h2_conn *conn, int error)
{
    assert(!conn->ended && !conn->busy);
    conn->ended = true;
    watch_stop(&conn->watch);
    timer_stop(&conn->flush);
    timer_stop(&conn->watchdog);
    h2_session_abandon(conn, H2_CONNECTION_LOST);
    conn->handler->ended(conn, error); /* closes it */
}

/* Called after nghttp2 has returned: updates the watched events, or ends the connection if nothing
 * is left to do. */
static void conn_settle(struct h2_conn *conn, int error)
{
    bool idle = !conn->n_streams; /* what waits then is of the connection alone */
    bool reads = nghttp2_session_want_read(conn->session);
    bool wants = reads || nghttp2_session_want_write(conn->session) || output_waits(conn);
    bool drained = idle && conn->shutting_down && !conn->settings.server && !output_waits(conn);
    if (!error && wants && !drained) {
        error = watch_change(&conn->watch,
                             (reads ? EPOLLIN : 0u) | (output_waits(conn) ? EPOLLOUT : 0u));
        if (!error)
            return;
    }
    if (error == PEER_CLOSED || error == -ECONNRESET || error == -EPIPE)
        error = idle ? 0 : -ECONNRESET;
    if (!error && conn->goaway_error)
        error = -EPROTO;
    conn_end(conn, error);
}

static void on_ready(struct watch *watch, uint32_t events)
{
    struct h2_conn *conn = container_of(watch, struct h2_conn, watch);
    int error = events & ~(uint32_t)EPOLLOUT ? conn_receive(conn) : 0;
    int flushed = output_flush(conn); /* also after an error: nghttp2 may have a GOAWAY to send */
    conn_settle(conn, error ? error : flushed);
}

static void on_flush(struct timer *timer)
{
    struct h2_conn *conn = container_of(timer, struct h2_conn, flush);
    conn_settle(conn, output_flush(conn));
}

void h2_schedule_flush(struct h2_conn *conn)
{
    if (!conn->busy && !conn->ended && !conn->flush.due_ns)
        timer_start(conn->loop, &conn->flush, 0);
}

/* ---- time ---- */

void h2_watch_over(struct h2_conn *conn, uint64_t due_ns)
{
    if (conn->ended || (conn->watchdog.due_ns && conn->watchdog.due_ns <= due_ns))
        return;
    uint64_t now = clock_monotonic_ns();
    timer_start(conn->loop, &conn->watchdog, due_ns > now ? due_ns - now : 0);
}

struct limits {
    uint64_t now_ns;
    uint64_t next_ns; /* the earliest that has not passed */
};

static bool limit_passed(struct limits *limits, uint64_t since_ns, uint64_t timeout_ns)
{
    uint64_t due = timeout_ns > UINT64_MAX - since_ns ? UINT64_MAX : since_ns + timeout_ns;
    if (due <= limits->now_ns)
        return true;
    if (due < limits->next_ns)
        limits->next_ns = due;
    return false;
}

/* True if the connection has to end because of this stream. */
static bool stream_overdue(struct h2_stream *stream, struct limits *limits)
{
    const struct h2_settings *settings = &stream->conn->settings;
    if (!settings->server || stream->refused)
        return false;
    if (!stream->headers_done) {
        bool late = limit_passed(limits, stream->begun_ns, settings->header_timeout_ns);
        if (late) /* a header block blocks the whole connection */
            h2_count(H2_LIMIT_HEADER_TIME);
        return late;
    }
    if (stream->answered && stream->goes_on && !stream->unsent.len)
        return false;
    if (stream->answered) {
        bool slow = limit_passed(limits, stream->answered_ns, settings->write_timeout_ns);
        if (slow)
            h2_count(H2_LIMIT_SLOW_READER);
        return slow;
    }
    if (!stream->remote_closed &&
        limit_passed(limits, stream->begun_ns, settings->request_timeout_ns)) {
        h2_count(H2_LIMIT_REQUEST_TIME);
        h2_reset(stream, NGHTTP2_CANCEL);
    } else if (stream->deadline_ns && limit_passed(limits, stream->deadline_ns, 0)) {
        h2_reset(stream, NGHTTP2_CANCEL); /* the peer has given up too */
    }
    return false;
}

void h2_keepalive_begin(struct h2_conn *conn)
{
    conn_heard(conn);
    if (conn->settings.keepalive_ns)
        h2_watch_over(conn, conn->heard_ns + conn->settings.keepalive_ns);
}

/* Any bytes from the peer after our PING count as the answer. True: none came. */
static bool conn_is_silent(struct h2_conn *conn, struct limits *limits)
{
    const struct h2_settings *settings = &conn->settings;
    if (!settings->keepalive_ns || (!conn->n_streams && !settings->keepalive_idle))
        return false;
    if (!conn->asked_ns && limit_passed(limits, conn->heard_ns, settings->keepalive_ns)) {
        conn->asked_ns = limits->now_ns;
        nghttp2_submit_ping(conn->session, NGHTTP2_FLAG_NONE, NULL);
        h2_schedule_flush(conn);
    }
    return conn->asked_ns && limit_passed(limits, conn->asked_ns, settings->keepalive_timeout_ns);
}

/* Returns the reason to end the connection; 0 = none. */
static int conn_overdue(struct h2_conn *conn, struct limits *limits)
{
    const struct h2_settings *settings = &conn->settings;
    struct list *link, *tmp;
    if (!conn->settled && limit_passed(limits, conn->opened_ns, settings->handshake_timeout_ns))
        return h2_count(H2_LIMIT_HANDSHAKE), -ETIMEDOUT;
    if (output_waits(conn) && limit_passed(limits, conn->progress_ns, settings->write_timeout_ns))
        return h2_count(H2_LIMIT_SLOW_READER), -ETIMEDOUT;
    if (conn->shutting_down && settings->max_age_grace_ns &&
        limit_passed(limits, conn->shutdown_ns, settings->max_age_grace_ns))
        return h2_count(H2_LIMIT_AGE), -ETIMEDOUT;
    if (conn_is_silent(conn, limits))
        return h2_count(H2_LIMIT_KEEPALIVE), -ETIMEDOUT;
    list_each(link, tmp, &conn->streams)
    {
        if (stream_overdue(container_of(link, struct h2_stream, link), limits))
            return -ETIMEDOUT;
    }
    return 0;
}

static void conn_check_idle(struct h2_conn *conn, struct limits *limits)
{
    uint64_t timeout = conn->settings.idle_timeout_ns, age = conn->settings.max_age_ns;
    if (conn->shutting_down) {
        if (!conn->last_goaway && limit_passed(limits, conn->shutdown_ns, LAST_GOAWAY_DELAY_NS))
            h2_session_last_goaway(conn);
        return;
    }
    if (age && limit_passed(limits, conn->opened_ns, age)) {
        h2_count(H2_LIMIT_AGE);
        return h2_shutdown(conn);
    }
    if (conn->n_streams || !timeout || !limit_passed(limits, conn->idle_since_ns, timeout))
        return;
    h2_count(H2_LIMIT_IDLE);
    h2_shutdown(conn);
}

static void on_watchdog(struct timer *timer)
{
    struct h2_conn *conn = container_of(timer, struct h2_conn, watchdog);
    struct limits limits = {clock_monotonic_ns(), UINT64_MAX};
    int error = conn_overdue(conn, &limits);
    if (error) {
        nghttp2_session_terminate_session(conn->session, NGHTTP2_ENHANCE_YOUR_CALM);
        output_flush(conn); /* as far as it goes */
        conn_end(conn, error);
        return;
    }
    conn_check_idle(conn, &limits);
    if (limits.next_ns != UINT64_MAX)
        h2_watch_over(conn, limits.next_ns);
}

/* ---- verbs ---- */

static void conn_free(struct h2_conn *conn)
{
    watch_stop(&conn->watch);
    timer_stop(&conn->flush);
    timer_stop(&conn->watchdog);
    nghttp2_session_del(conn->session);
    buf_close(&conn->out);
    tls_close(conn->settings.tls);
    if (conn->watch.fd >= 0)
        close(conn->watch.fd);
    free(conn);
}

int h2_open(struct loop *loop, int fd, const struct h2_settings *settings,
            const struct h2_handler *handler, void *owner, struct h2_conn **result)
{
    LOOP_THREAD(loop);
    assert(handler->ended);
    struct h2_conn *conn = calloc(1, sizeof(*conn));
    if (!conn) {
        tls_close(settings->tls);
        close(fd);
        return -ENOMEM;
    }
    uint64_t now = clock_monotonic_ns();
    *conn = (struct h2_conn){
        .loop = loop,
        .handler = handler,
        .owner = owner,
        .settings = *settings,
        .opened_ns = now,
        .idle_since_ns = now,
        .watch = {.fd = fd, .events = EPOLLIN, .ready = on_ready},
        .flush = {.fire = on_flush},
        .watchdog = {.fire = on_watchdog},
    };
    list_init(&conn->streams);
    int error = h2_session_open(conn);
    if (!error)
        error = watch_start(loop, &conn->watch);
    if (error) {
        conn_free(conn);
        return error;
    }
    h2_watch_over(conn, now + settings->handshake_timeout_ns);
    if (settings->max_age_ns)
        h2_watch_over(conn, now + settings->max_age_ns);
    h2_keepalive_begin(conn);
    h2_schedule_flush(conn);
    *result = conn;
    return 0;
}

void h2_close(struct h2_conn *conn)
{
    if (!conn)
        return;
    LOOP_THREAD(conn->loop);
    assert(!conn->busy);
    conn->ended = true;
    h2_session_abandon(conn, NGHTTP2_CANCEL);
    conn_free(conn);
}

void *h2_owner(const struct h2_conn *conn)
{
    return conn->owner;
}

bool h2_settled(const struct h2_conn *conn)
{
    return conn->settled;
}

bool h2_closing(const struct h2_conn *conn)
{
    return conn->goaway_seen || conn->shutting_down || conn->ended || conn->goaway_error ||
           conn->doom;
}

void h2_consumed(struct h2_stream *stream, size_t size, bool stream_too)
{
    struct h2_conn *conn = stream->conn;
    LOOP_THREAD(conn->loop);
    if (conn->ended)
        return;
    size_t n = size < stream->unconsumed ? size : stream->unconsumed;
    stream->unconsumed -= n;
    nghttp2_session_consume_connection(conn->session, n);
    if (stream_too)
        nghttp2_session_consume_stream(conn->session, stream->id, n);
    else
        stream->withheld += n;
    h2_schedule_flush(conn);
}

/* The window that the peer has, or will have when it knows of a smaller offer. */
static int64_t window_left(const struct h2_stream *stream)
{
    const struct h2_conn *conn = stream->conn;
    int64_t known =
        nghttp2_session_get_local_settings(conn->session, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE);
    int64_t offered = conn->calm ? conn->settings.calm_window : conn->settings.stream_window;
    int64_t left = nghttp2_session_get_stream_local_window_size(conn->session, stream->id);
    return offered < known ? left - (known - offered) : left;
}

/* The withheld window is returned even if all bytes fit: the window may shrink later. */
void h2_expect(struct h2_stream *stream, size_t to_come, uint32_t window)
{
    nghttp2_session *session = stream->conn->session;
    LOOP_THREAD(stream->conn->loop);
    if (stream->conn->ended)
        return;
    if ((int64_t)to_come > window_left(stream))
        nghttp2_session_set_local_window_size(session, NGHTTP2_FLAG_NONE, stream->id,
                                              (int32_t)window);
    nghttp2_session_consume_stream(session, stream->id, stream->withheld);
    stream->withheld = 0;
    h2_schedule_flush(stream->conn);
}

static void stream_resume(struct h2_stream *stream)
{
    struct h2_conn *conn = stream->conn;
    stream->answered_ns = clock_monotonic_ns();
    nghttp2_session_resume_data(conn->session, stream->id);
    h2_watch_over(conn, stream->answered_ns + conn->settings.write_timeout_ns);
    h2_schedule_flush(conn);
}

int h2_respond_on(struct h2_stream *stream, const struct h2_response *response)
{
    stream->goes_on = true;
    return h2_respond(stream, response);
}

int h2_append(struct h2_stream *stream, struct bytes piece)
{
    LOOP_THREAD(stream->conn->loop);
    if (stream->conn->ended || !stream->goes_on)
        return -ENOTCONN;
    assert(stream->answered);
    if (stream->unsent.len)
        return -EAGAIN;
    buf_clear(&stream->owned);
    int error = buf_append_bytes(&stream->owned, piece);
    stream->unsent = buf_bytes(&stream->owned);
    if (!error)
        stream_resume(stream);
    return error;
}

void h2_finish(struct h2_stream *stream)
{
    LOOP_THREAD(stream->conn->loop);
    if (stream->conn->ended || !stream->goes_on)
        return;
    assert(stream->answered);
    stream->goes_on = false;
    stream_resume(stream);
}

void h2_shutdown(struct h2_conn *conn)
{
    LOOP_THREAD(conn->loop);
    if (conn->shutting_down || conn->ended)
        return;
    conn->shutting_down = true;
    conn->shutdown_ns = clock_monotonic_ns();
    h2_session_shutdown(conn);
    h2_watch_over(conn, conn->shutdown_ns + LAST_GOAWAY_DELAY_NS);
    if (conn->settings.max_age_grace_ns)
        h2_watch_over(conn, conn->shutdown_ns + conn->settings.max_age_grace_ns);
    h2_schedule_flush(conn);
}
