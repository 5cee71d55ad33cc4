/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One end of an HTTP/2 connection that records what it sees, and pairs of them over a socket pair.
 * The server's end echoes bodies, or does what the test sets.
 */
#include "base/buf.h"
#include "proto/http/h2.h"

enum { H2_PAIR_WINDOW = 65535, H2_PAIR_STREAMS = 4 };

struct h2_end;

struct h2_end_stream { /* lives as long as its end */
    struct list link;
    struct h2_end *end;
    struct h2_stream *stream; /* NULL once closed */
    struct buf sent, headers, trailers, body;
    bool headers_seen, ended, closed, unprocessed;
    uint32_t h2_error;
};

enum h2_end_answer { H2_END_ECHO, H2_END_HEADERS_ONLY, H2_END_AT_HEADERS, H2_END_SILENT };

struct h2_end {
    struct h2_conn *conn; /* NULL once ended */
    struct list streams;  /* struct h2_end_stream, all that were */
    size_t n_streams, n_open, most_open;
    bool is_server, goaway, ended;
    int error; /* of the end */
    /* what a server does */
    enum h2_end_answer answer;
    bool keeps_window, connection_window_only, refuses;
};

extern const struct h2_handler h2_end_handler; /* its owner is a struct h2_end */

void h2_end_init(struct h2_end *end);
void h2_end_clear(struct h2_end *end); /* closes the connection, forgets the streams */
struct h2_end_stream *h2_end_record(struct h2_end *end);
/* Takes body over; aborts if it does not work. */
struct h2_end_stream *h2_end_request(struct h2_end *client, const struct h2_header *headers,
                                     size_t n, struct buf *body);
struct h2_end_stream *h2_end_last(struct h2_end *end);
void h2_end_answer(struct h2_end_stream *stream);         /* echo, with trailers */
const char *h2_end_headers(struct h2_end_stream *stream); /* "name: value\n" each */
const char *h2_end_trailers(struct h2_end_stream *stream);

struct h2_pair {
    struct loop *loop;
    struct h2_end client, server;
};

/* Of settings: what is 0 is set to something that does not disturb. For the server; the client has
 * the same without its limits of time. */
struct h2_pair *h2_pair_open(const struct h2_settings *settings);
void h2_pair_reopen(struct h2_pair *pair, const struct h2_settings *settings);
void h2_pair_close(struct h2_pair *pair);
/* Until it holds, for at most 10 s (or so many ms): whether it does. */
bool h2_pair_run(struct h2_pair *pair, bool (*holds)(void *context), void *context);
bool h2_pair_run_for(struct h2_pair *pair, bool (*holds)(void *context), void *context, int ms);
bool h2_run_loop(struct loop *loop, bool (*holds)(void *context), void *context, int ms);
struct h2_settings h2_pair_settings(const struct h2_settings *wanted, bool server);
