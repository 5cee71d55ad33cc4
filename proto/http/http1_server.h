/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * An HTTP/1.1 server: connections on sockets, plain or by TLS, and the requests on them. The
 * handler decides what is answered at which path. libmicrohttpd works inside our loop; a connection
 * whose answer takes time is suspended until http1_call_wake(). Thread: loop, for all of it.
 * Limits: struct http1_limits.
 */
#include "base/bytes.h"
#include "base/loop.h"
#include "base/stats.h"
#include "proto/http/http1_connections.h"
#include "proto/http/http_sniffer.h"

struct http1_server;
struct tls_context;

/* ---- requests ---- */

/* State        Event                                                   Next state
 * RECEIVING    the handler refuses it: http1_call_refuse()             DISCARDING
 *              all of it has come, or an answer that waits for nothing READY
 *              all of it has come, the answer takes time               SLEEPING
 * DISCARDING   all of it has come                                      READY
 * SLEEPING     http1_call_wake(), or the server closes                 READY
 * READY        the answer is passed to libmicrohttpd                   ANSWERED
 * any          the request is over: sent, or its connection has ended  GONE
 */
enum http1_call_state {
    HTTP1_RECEIVING,
    HTTP1_DISCARDING, /* the answer is known; the rest of the body is read and dropped */
    HTTP1_SLEEPING,   /* the connection is suspended */
    HTTP1_READY,      /* the answer is known and due */
    HTTP1_ANSWERED,
    HTTP1_GONE, /* the handler's to free */
    HTTP1_CALL_STATES
};

/* One request. The first member of the handler's own struct. */
struct http1_call {
    struct list link;
    struct http1_server *server; /* NULL: closed; the call is GONE */
    struct MHD_Connection *mhd;  /* NULL: GONE */
    void *context;               /* of the server */
    enum http1_call_state state; /* read only */
    bool trusted;                /* of the socket that it came by */
    bool paused;                 /* suspended in the middle of its body */
    uint64_t peer_key;           /* of its connection */
    uint64_t discarded_bytes;
};

/* What a server's calls do. Not called for a call that is GONE. */
struct http1_handler {
    size_t call_size; /* of the struct that begins with a struct http1_call; it comes zeroed */
    /* A connection was accepted: who is its peer? Returns a number that is equal for connections of
     * one peer (crowd.h). fd: its socket, borrowed. context: the server's. NULL: nobody asks. */
    uint64_t (*connected)(void *context, int fd, struct peer *peer);
    /* The head has come. May refuse the call, or answer before the body with http1_call_ready(). */
    void (*begin)(struct http1_call *call, const char *path, const char *method);
    /* A piece of the body, while RECEIVING. NULL: bodies are dropped, up to discard_max. */
    void (*body)(struct http1_call *call, struct bytes piece);
    /* All of the request has come: http1_call_ready() or http1_call_sleep() is due. */
    void (*received)(struct http1_call *call);
    /* The response and its status. NULL: the connection ends without one. */
    struct MHD_Response *(*respond)(struct http1_call *call, unsigned *status);
    /* The server closes: the answer to a SLEEPING call is due now. NULL: no call sleeps. */
    void (*stop)(struct http1_call *call);
    /* The call is GONE: http1_call_free(), at once or later. NULL: at once. */
    void (*gone)(struct http1_call *call);
};

const struct peer *http1_call_peer(const struct http1_call *call);              /* not GONE */
const char *http1_call_header(const struct http1_call *call, const char *name); /* NULL: absent */
void http1_call_refuse(struct http1_call *call);
void http1_call_ready(struct http1_call *call);
void http1_call_sleep(struct http1_call *call);
/* The answer to a SLEEPING call is known; it is sent in the next round of the loop. */
void http1_call_wake(struct http1_call *call);
/* No more of a body is read from the socket until http1_call_resume(); what libmicrohttpd has read
 * still comes. Only while RECEIVING; without effect once the server closes. */
void http1_call_pause(struct http1_call *call);
void http1_call_resume(struct http1_call *call); /* also if it is not paused */
void http1_call_free(struct http1_call *call);   /* GONE */

/* ---- the server ---- */

/* A connection's time counts from the moment when it enters a phase. */
enum http1_phase_name {
    HTTP1_HEAD,     /* from the beginning, or from the answer before */
    HTTP1_BODY,     /* from the end of the head */
    HTTP1_HANDLING, /* from the end of the request */
    HTTP1_SENDING,  /* from the answer */
    HTTP1_PHASES
};
_Static_assert(HTTP1_PHASES <= HTTP1_PHASES_MAX, "the phases fit");

#define HTTP1_UNLIMITED UINT64_MAX

struct http1_limits {
    size_t max_connections;  /* then one that is idle gives way, see crowd.h */
    bool crowds_out;         /* without an idle one, a busy one does; else new ones are refused */
    bool keeps_file_reserve; /* new ones are refused when file descriptors are short */
    bool strict;             /* as MHD_OPTION_STRICT_FOR_CLIENT */
    size_t head_bytes;
    unsigned silence_s; /* without a byte; 0 = any time */
    struct http1_limit {
        uint64_t timeout_ns; /* 0: the time of the phase before runs on; or HTTP1_UNLIMITED */
        struct stat_ref timed_out;
    } phases[HTTP1_PHASES];
    uint64_t discard_max; /* bytes of a refused body that are read; then the connection ends */
};

/* metric NULL: not counted. */
struct http1_counts {
    struct metric *connections; /* a gauge */
    struct stat_ref over_limit, out_of_files, crowded_out;
    struct metric *requests; /* a family by status: codes[i] is its value i */
    const unsigned *codes;
    size_t n_codes;
    struct metric *requests_cut; /* ended without an answer */
};

struct http1_server_settings {
    struct loop *loop;
    const char *area; /* of log records; static */
    const struct http1_handler *handler;
    void *context; /* of its calls */
    struct http1_limits limits;
    struct http1_counts counts;
};

/* 0 or -ENOMEM, -ENOTSUP. */
int http1_server_open(const struct http1_server_settings *settings, struct http1_server **server);
/* Listening sockets, taken over (and set to -1) on success only. tls: outlives the server; NULL:
 * plain text. trusted: of the calls that come by them. At most twice. 0; -E2BIG; other negative
 * errno. */
int http1_server_listen(struct http1_server *server, int *fds, size_t n, struct tls_context *tls,
                        bool trusted);
/* Plain-text HTTP/2 connections are passed to take(), which owns their socket from then on. Without
 * it they are served as HTTP/1. */
void http1_server_set_http2(struct http1_server *server,
                            void (*take)(void *context, const struct http_arrival *arrival),
                            void *context);
/* Serves a connection that another server has accepted; takes its socket over. Not trusted. */
void http1_server_take(struct http1_server *server, const struct http_arrival *arrival);
bool http1_server_is_closing(const struct http1_server *server);
/* Stops listening; answers end their connection; stopped() once no request is being received or
 * answered, not from within this call. */
void http1_server_drain(struct http1_server *server, void (*stopped)(void *context), void *context);
/* Ends all connections; what can be sent at once is sent. NULL is fine. */
void http1_server_close(struct http1_server *server);
