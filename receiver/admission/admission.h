/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Backpressure: which requests may be received. Only the beginning of a request is read before the
 * request is admitted. Admission reserves room for the whole request, until its transaction is
 * over. Without room, requests wait: HTTP/2 windows or TCP slow down the peer, no request is
 * refused. So memory is bounded, and an admitted request can always be received in full. A request
 * that is whole within the first window (ADMISSION_SMALL) needs no admission.
 *
 * Requests that wait are admitted in turns, by peer and within a peer by connection. A connection
 * has at most a quarter of the room and a peer three quarters, so others find room at once. One
 * request alone may be larger than a quarter; of such requests only one is admitted at a time.
 *
 * Thread: loop. Limits: those of the struct. While others wait, an admitted request has to arrive
 * at ADMISSION_BYTES_PER_SEC, after ADMISSION_GRACE_NS. All that are slower are refused as
 * retryable and their room is freed. Otherwise requests that never complete would block all others.
 */
#include "base/clock.h"
#include "base/loop.h"
#include "receiver/admission/sender.h"
#include <stddef.h>

#define ADMISSION_SMALL         16384
#define ADMISSION_BYTES_PER_SEC (64 * 1024)
#define ADMISSION_GRACE_NS      (2 * NS_PER_SEC)
#define ADMISSION_LONG_NS       (5 * NS_PER_SEC)

struct admission {
    size_t limit_bytes;    /* of admitted requests; a larger request is admitted alone */
    size_t limit_requests; /* number of admitted requests */
    struct senders senders;
    /* private */
    struct loop *loop;
    size_t bytes, n;
    size_t n_large; /* admitted requests of more than a connection's share */
    size_t n_waiting;
    struct list waiting;   /* peers with requests that wait; next to be served first */
    struct list receiving; /* admitted, incomplete */
    struct timer expiry;
};

/* A request. Embedded by its owner, zeroed but for the calls. */
struct admission_request {
    /* The request is admitted; called from within admission_ask() or later. */
    void (*let_in)(struct admission_request *request);
    void (*expired)(struct admission_request *request); /* admission_leave() is due */
    /* private */
    struct list link;
    struct admission *admission; /* NULL: before admission_ask(), or after admission_leave() */
    struct sender *sender;
    size_t bytes;
    size_t received_bytes; /* since it was admitted */
    uint64_t since_ns;     /* when it was admitted, or asked */
    bool is_in;
};

void admission_init(struct admission *admission, struct loop *loop, size_t limit_bytes,
                    size_t limit_requests);
void admission_close(struct admission *admission); /* all requests have left */
void admission_ask(struct admission *admission, struct sender *sender,
                   struct admission_request *request, size_t bytes);
bool admission_is_in(const struct admission_request *request);
/* More of an admitted request has come. */
void admission_progress(struct admission_request *request, size_t bytes);
void admission_received(struct admission_request *request); /* the request is complete */
/* The request is over; others are admitted. Allowed in any state, also before admission_ask(). */
void admission_leave(struct admission_request *request);
/* Whether a request has waited for ADMISSION_LONG_NS although its connection and its peer have less
 * than their shares. */
bool admission_is_stuck(const struct admission *admission);
