/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The half of a connection that speaks with nghttp2: frames to handler calls, streams and their
 * bodies. Private to proto/http/h2.c and proto/http/h2_session.c. Thread: loop.
 */
#include "proto/http/h2.h"
#include <nghttp2/nghttp2.h>

struct h2_conn {
    struct loop *loop;
    const struct h2_handler *handler;
    void *owner;
    struct h2_settings settings;
    nghttp2_session *session;
    struct watch watch;
    struct timer flush;    /* no delay: sends what was submitted in this round */
    struct timer watchdog; /* for the earliest time limit; never moved later, see h2.c */
    struct list streams;   /* struct h2_stream, oldest first */
    size_t n_streams;
    struct buf out; /* bytes of frames on their way to the socket */
    size_t out_sent;
    uint64_t progress_ns; /* the peer took a byte, or the first one began to wait */
    uint64_t opened_ns;
    uint64_t idle_since_ns;
    uint64_t heard_ns;          /* with keepalive: when the peer said something */
    uint64_t asked_ns;          /* when it was asked by PING since then; 0 = it was not */
    uint64_t shutdown_ns;       /* since when shutting_down */
    uint64_t glitches_since_ns; /* for the token bucket */
    double glitch_tokens;
    uint32_t goaway_error; /* that we sent */
    bool settled;          /* the peer's SETTINGS have come */
    bool reused;           /* a stream has ended */
    bool crowded;          /* it had more than H2_CALM_STREAMS */
    bool calm;             /* calm_window is offered */
    bool goaway_seen;
    bool shutting_down;
    bool last_goaway; /* GOAWAY with the last id is submitted */
    uint32_t doom;    /* the error to end the connection with; 0 = none */
    bool busy;        /* within nghttp2 or a handler */
    bool ended;
};

/* Creates the session and submits SETTINGS. 0 or negative errno. */
int h2_session_open(struct h2_conn *conn);
/* Streams left at the end: closed() for each. */
void h2_session_abandon(struct h2_conn *conn, uint32_t h2_error);

void h2_session_shutdown(struct h2_conn *conn);    /* the notice of a graceful end, and a PING */
void h2_session_last_goaway(struct h2_conn *conn); /* behind it; again and early is fine */

/* In h2.c */
void h2_watch_over(struct h2_conn *conn,
                   uint64_t due_ns); /* the watchdog comes no later than this */
void h2_schedule_flush(struct h2_conn *conn);
void h2_keepalive_begin(struct h2_conn *conn); /* the silence counts from now on */

enum h2_limit {
    H2_LIMIT_HEADER_LIST,
    H2_LIMIT_GLITCHES,
    H2_LIMIT_HANDSHAKE,
    H2_LIMIT_HEADER_TIME,
    H2_LIMIT_REQUEST_TIME,
    H2_LIMIT_IDLE,
    H2_LIMIT_SLOW_READER,
    H2_LIMIT_FLOOD,
    H2_LIMIT_KEEPALIVE,
    H2_LIMIT_AGE,
    H2_LIMIT_COUNT
};
void h2_count(enum h2_limit limit);
