/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The connections of one or several daemons (http1.h), and the time limits of their phases. The
 * owner defines the phases and says when a connection enters one; a connection that is still in it
 * when the time is over is shut down.
 * Thread: loop. Embedded by its owner.
 */
#include "base/loop.h"
#include "base/peer.h"
#include "base/stats.h"
#include "proto/http/crowd.h"
#include <microhttpd.h>

#define HTTP1_PHASES_MAX 4
#define HTTP1_NO_PHASE   (-1) /* no limit */

struct http1_phase {
    uint64_t timeout_ns;       /* from the moment of entering */
    struct stat_ref timed_out; /* counts connections shut down at the deadline */
    struct list connections;   /* in the order in which their time runs out */
};

struct http1_connections {
    struct loop *loop;
    struct metric *gauge; /* open connections */
    struct http1_phase phases[HTTP1_PHASES_MAX];
    int n_phases;
    /* When so many connections are open, one gives way to the next: see crowd.h. 0: no limit. */
    size_t max;
    bool busy_too; /* if none is idle: the one with the earliest deadline */
    struct stat_ref crowded_out, over_limit;
    size_t n;           /* connections */
    size_t n_leaving;   /* of them: shut down to make room */
    struct crowd crowd; /* phase 0 is idle */
    struct timer sweep;
};

struct http1_connection {
    struct list link; /* of the phase; unlinked: in none */
    struct http1_connections *all;
    uint64_t since_ns; /* of the phase */
    int fd;            /* libmicrohttpd's */
    struct peer peer;
    uint64_t peer_key;          /* equal for connections of one peer */
    bool trusted;               /* its socket is */
    struct crowd_member member; /* not added: it is leaving */
};

/* loop, gauge, max, busy_too, crowded_out, over_limit, the phases' limits and n_phases are set. */
void http1_connections_init(struct http1_connections *all);
/* Of the MHD_NotifyConnectionCallback. A connection of this peer begins, in phase 0. At
 * max_connections another one is shut down for it, or it is itself if there is none (over_limit).
 */
void http1_connections_begin(struct http1_connections *all, struct MHD_Connection *mhd,
                             void **socket_context, const struct peer *peer, uint64_t peer_key);
void http1_connections_end(struct http1_connections *all, void **socket_context);
int http1_connection_fd(struct MHD_Connection *mhd);
void http1_connections_close(struct http1_connections *all); /* when the daemons are closed */

/* NULL: no memory to track it; its requests are refused. */
struct http1_connection *http1_connection_of(struct MHD_Connection *mhd);
void http1_connection_enter(struct http1_connection *connection, int phase);
