/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A stored request that is larger than its destination takes goes out in slices, one after the
 * other: half of it, again half of what is too big still, down to one span, metric, log record or
 * profile, which alone may be given up. So some twice the request is sent in vain at most, and then
 * what is known of the limit is kept for its other slices. Pure; private to exporter/. Embedded.
 */
#include "base/buf.h"
#include "proto/otlp/otlp_service.h"

struct sender_split {
    uint64_t at;         /* all before it is done */
    uint64_t n;          /* in this one; 0: it is not sliced, but whole */
    uint64_t total;      /* known once cut: spans, metrics, log records, profiles */
    size_t too_big_size; /* of the smallest message that was refused */
};

/* The message was too big: the next is smaller. false: there is no smaller one. */
bool sender_split_shrink(struct sender_split *slice, size_t message_size);
/* It is done, whatever became of it: on to the next. false: that was the last. */
bool sender_split_advance(struct sender_split *slice, size_t message_size);
/* Any thread: leaves of body what is in the slice, and says how many items that is. -ENOMEM; a body
 * that is no request stays as it is. */
int sender_split_cut(struct sender_split *slice, enum signal signal, struct buf *body,
                     uint64_t *items);
/* There is nothing to take apart, as is known once it was cut. */
bool sender_split_is_futile(const struct sender_split *slice);
