/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One HTTP/2 connection on the loop, in either role, over a connected non-blocking socket. Source
 * of the format: RFC 9113; nghttp2 does the frames.
 *
 * Thread: loop. No function here calls a handler before it returns: submitted frames are sent in
 * the next round of the loop. So callbacks come only from the loop, and all answers of one round
 * leave in one write. A callback may call any function except h2_close().
 *
 * Limits: enum and struct below; a limit that is reached is counted in
 * spanprof_h2_limit_total{limit=...}; then the stream is reset or (floods, slow peers) the
 * connection ends with GOAWAY ENHANCE_YOUR_CALM.
 */
#include "base/buf.h"
#include "base/loop.h"

enum {
    H2_HEADER_LIST_MAX = 8192, /* bytes, names and values and 32 each, as SETTINGS counts them */
    H2_CONTINUATIONS_MAX = 8,  /* frames of one header block */
    H2_SETTINGS_MAX = 32,      /* entries of a SETTINGS frame */
    H2_OUTBOUND_ACK_MAX = 256, /* unsent answers to PING and SETTINGS */
    H2_RESET_BURST = 500,      /* RST_STREAM from the peer, then H2_RESET_PER_SEC */
    H2_RESET_PER_SEC = 33,
    H2_GLITCH_BURST = 100, /* frames that are wrong or senseless, then H2_GLITCH_PER_SEC */
    H2_GLITCH_PER_SEC = 10,
    H2_CALM_STREAMS = 8, /* at a time: see calm_window */
};

struct h2_conn;
struct tls;

struct h2_header {
    const char *name; /* lower case */
    struct bytes value;
    bool secret; /* never indexed (credentials) */
};
#define H2_HEADER(name_, text_) ((struct h2_header){(name_), BYTES_STR(text_), false})

/* Exists until closed(), then it is freed. */
struct h2_stream {
    struct h2_conn *conn;
    int32_t id;
    void *owner;        /* the user's */
    bool remote_closed; /* END_STREAM was received */
    bool answered;      /* h2_respond() was called */
    bool headers_done;  /* the first header block is complete */
    /* private */
    struct list link;
    struct buf owned;    /* a server's body */
    struct bytes unsent; /* of the body */
    struct h2_header *trailers;
    size_t n_trailers;
    size_t header_list_bytes;
    size_t unconsumed; /* body bytes whose window was not returned */
    size_t withheld;   /* body bytes whose window only the connection got back */
    bool goes_on;      /* the body is not complete */
    bool interim;      /* the current header block is a 1xx answer */
    bool unannounced;  /* the handler does not know it */
    bool refused; /* answered or reset by the connection itself: no more calls of the handler */
    uint64_t begun_ns;
    uint64_t deadline_ns; /* 0 = none */
    uint64_t answered_ns;
};

/* All are called on the loop; stream->owner is the one that was set. Unused ones may be NULL. */
struct h2_handler {
    /* Server: a peer opened a stream; set stream->owner. Negative: it is refused (REFUSED_STREAM).
     */
    int (*begin)(struct h2_stream *stream);
    /* One header or trailer; valid UTF-8 it need not be. `trailer`: of a later block. */
    void (*header)(struct h2_stream *stream, struct bytes name, struct bytes value, bool trailer);
    void (*headers)(struct h2_stream *stream); /* the first block is complete (not 1xx) */
    /* The owner returns the window with h2_consumed() when it has room. */
    void (*data)(struct h2_stream *stream, struct bytes piece);
    void (*end)(struct h2_stream *stream); /* END_STREAM: the message is complete */
    /* The last call for a stream; h2_error 0 = it ended normally. `unprocessed`: the peer certainly
     * did not process it (REFUSED_STREAM, or beyond GOAWAY's last id). */
    void (*closed)(struct h2_stream *stream, uint32_t h2_error, bool unprocessed);
    /* The peer accepts no new streams (GOAWAY): they need another connection. */
    void (*goaway)(struct h2_conn *conn, uint32_t h2_error);
    /* The connection has ended; all streams were closed() before. The last call; h2_close() is due,
     * and allowed here. error: 0 = in order, negative errno otherwise (-ETIMEDOUT, -EPROTO,
     * -ECONNRESET...). */
    void (*ended)(struct h2_conn *conn, int error);
};

struct h2_settings {
    bool server;
    uint32_t max_streams;   /* the peer may have open at us */
    uint32_t stream_window; /* bytes a peer may send before h2_consumed() */
    /* The stream window on a reused connection that never had more than H2_CALM_STREAMS concurrent
     * streams: bodies of less than half of it need no WINDOW_UPDATE. 0: stream_window stays. */
    uint32_t calm_window;
    uint32_t connection_window;
    uint64_t handshake_timeout_ns; /* until the peer's SETTINGS */
    uint64_t header_timeout_ns;    /* server: header block complete */
    uint64_t request_timeout_ns;   /* server: from its first frame to END_STREAM */
    uint64_t idle_timeout_ns;      /* without streams; 0 = never */
    uint64_t max_age_ns;           /* then h2_shutdown(); 0 = never */
    uint64_t max_age_grace_ns;     /* from h2_shutdown() to the end, done or not; 0 = never */
    uint64_t
        write_timeout_ns;  /* no byte taken by the peer while some wait, or an answer not taken */
    uint64_t keepalive_ns; /* PING a peer that is silent for this time; 0 = never */
    uint64_t keepalive_timeout_ns; /* without an answer for this time the connection ends */
    bool keepalive_idle;           /* also without streams */
    struct tls *tls; /* of the socket, its handshake done; taken over with it. NULL: plain text */
};

/* Takes fd over (closed with the connection, also on failure). handler and owner must outlive it.
 */
int h2_open(struct loop *loop, int fd, const struct h2_settings *settings,
            const struct h2_handler *handler, void *owner, struct h2_conn **conn);
/* Ends at once: closed() for each stream, then frees; ended() is not called. NULL is fine. */
void h2_close(struct h2_conn *conn);
void *h2_owner(const struct h2_conn *conn);
bool h2_settled(const struct h2_conn *conn); /* the peer's SETTINGS have come */

/* Graceful end: server: GOAWAY, a PING, GOAWAY with the last id; both: ended() once all streams are
 * closed. May be called twice. */
void h2_shutdown(struct h2_conn *conn);
bool h2_closing(const struct h2_conn *conn); /* no new streams: GOAWAY was seen, or shut down */

/* Client. body is borrowed until closed() or h2_reset(). 0, -ENOMEM, -ENOTCONN when h2_closing().
 * Headers are copied. */
int h2_request(struct h2_conn *conn, const struct h2_header *headers, size_t n, struct bytes body,
               void *owner, struct h2_stream **stream);

/* Server. body is taken over (may be NULL: none). Without trailers, the last frame of headers or
 * body ends the stream. If the request has not ended by then it is reset with NO_ERROR after the
 * answer. Once a stream. 0, -ENOMEM, -ENOTCONN: then the stream is reset. */
struct h2_response {
    const struct h2_header *headers; /* :status first */
    size_t n_headers;
    struct buf *body;
    const struct h2_header *trailers;
    size_t n_trailers;
};
int h2_respond(struct h2_stream *stream, const struct h2_response *response);

/* The same, but more of the body follows by h2_append(), until h2_finish(). */
int h2_respond_on(struct h2_stream *stream, const struct h2_response *response);
/* 0, -ENOMEM, -ENOTCONN; -EAGAIN: the peer has not taken what was sent before. */
int h2_append(struct h2_stream *stream, struct bytes piece);
void h2_finish(struct h2_stream *stream); /* the trailers follow */

/* Lets the peer send `size` more bytes. With stream_too false only the connection's window grows:
 * the stream gets no more window until h2_expect(). */
void h2_consumed(struct h2_stream *stream, size_t size, bool stream_too);
/* Announces that to_come more bytes are wanted, and returns the window that was withheld. If the
 * stream's window is too small for them, it becomes `window` from now on. */
void h2_expect(struct h2_stream *stream, size_t to_come, uint32_t window);
void h2_reset(struct h2_stream *stream, uint32_t h2_error); /* closed() follows */
/* Server: reset with CANCEL if it is not answered by then (CLOCK_MONOTONIC). */
void h2_deadline(struct h2_stream *stream, uint64_t due_ns);

/* The error codes used here. */
enum {
    H2_NO_ERROR = 0,
    H2_PROTOCOL_ERROR = 1,
    H2_INTERNAL_ERROR = 2,
    H2_FLOW_CONTROL_ERROR = 3,
    H2_REFUSED_STREAM = 7,
    H2_CANCEL = 8,
    H2_ENHANCE_YOUR_CALM = 11,
    H2_INADEQUATE_SECURITY = 12,
    H2_CONNECTION_LOST = 0x7fffffff, /* not on the wire: the connection ended under the stream */
};
