/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Backpressure: which requests may be received. Only the beginning of a request is read before the
 * request is admitted. Admission reserves room for the whole request, until its transaction is
 * over. Without room, requests wait in order of arrival: HTTP/2 windows or TCP slow down the peer,
 * no request is refused. So memory is bounded, and an admitted request can always be received in
 * full.
 *
 * Thread: loop. Limits: those of the struct. If others wait, a request that is incomplete EXPIRY
 * after its admission is refused as retryable and its room is freed. Otherwise a few requests that
 * never complete would block all others.
 */
#include "base/loop.h"
#include <stddef.h>

struct admission {
    size_t limit_bytes;    /* of admitted requests; a larger request is admitted alone */
    size_t limit_requests; /* number of admitted requests */
    /* private */
    struct loop *loop;
    size_t bytes, n;
    struct list waiting;
    struct list receiving; /* admitted, incomplete; by time of admission */
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
    size_t bytes;
    uint64_t since_ns;
    bool is_in;
};

void admission_init(struct admission *admission, struct loop *loop, size_t limit_bytes,
                    size_t limit_requests);
void admission_ask(struct admission *admission, struct admission_request *request, size_t bytes);
bool admission_is_in(const struct admission_request *request);
void admission_received(struct admission_request *request); /* the request is complete */
/* The request is over; others are admitted. Allowed in any state, also before admission_ask(). */
void admission_leave(struct admission_request *request);
