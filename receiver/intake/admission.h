/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Backpressure: which requests may be received. Room for all of a request is set aside before more
 * of it is let in than its beginning, and until its transaction is over; whoever finds none waits,
 * in the order of coming, and is slowed down by the windows of HTTP/2 or by TCP instead of being
 * refused. So memory is bounded, and those that are let in can always become whole.
 *
 * Thread: loop. Limits: those of the struct. A request that is not whole EXPIRY after it was let in
 * makes room if others wait (it is refused, to be tried again): else a few that are never finished
 * would hold up all.
 */
#include "base/loop.h"
#include <stddef.h>

struct admission {
    size_t limit_bytes;    /* of requests that are let in; one larger than that comes alone */
    size_t limit_requests; /* likewise */
    /* private */
    struct loop *loop;
    size_t bytes, n;
    struct list waiting;
    struct list receiving; /* let in, not whole; by time */
    struct timer expiry;
};

/* A request. Embedded by its owner, zeroed but for the calls. */
struct admission_request {
    /* It is let in; from within admission_ask() or later. */
    void (*let_in)(struct admission_request *request);
    void (*expired)(struct admission_request *request); /* admission_leave() is due */
    /* private */
    struct list link;
    struct admission *admission; /* NULL: has not asked, or has left */
    size_t bytes;
    uint64_t since_ns;
    bool is_in;
};

void admission_init(struct admission *admission, struct loop *loop, size_t limit_bytes,
                    size_t limit_requests);
void admission_ask(struct admission *admission, struct admission_request *request, size_t bytes);
bool admission_is_in(const struct admission_request *request);
void admission_received(struct admission_request *request); /* all of it has come */
/* It is over; others are let in. Also if it waits or has never asked. */
void admission_leave(struct admission_request *request);
