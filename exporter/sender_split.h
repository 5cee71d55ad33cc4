/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Sends a stored request that is too big for its destination in slices, one after the other. The
 * first slice is half of the request. A slice that is too big is halved again, down to one span,
 * metric, log record or profile; only such a single item may be given up. Refused slices add up to
 * about twice the request at most. Later slices start from the size that was accepted. Pure;
 * private to exporter/. Embedded.
 */
#include "base/buf.h"
#include "proto/otlp/otlp_service.h"

struct sender_split {
    uint64_t at;    /* items before it are done */
    uint64_t n;     /* items in this slice; 0: the request is sent whole */
    uint64_t total; /* spans, metrics, log records or profiles of the request; known once cut */
    size_t too_big_size; /* size of the last message that was refused */
};

/* The message was too big: makes the next slice smaller. false: it cannot be smaller. */
bool sender_split_shrink(struct sender_split *slice, size_t message_size);
/* The slice is done, accepted or not: goes on to the next one. false: it was the last. */
bool sender_split_advance(struct sender_split *slice, size_t message_size);
/* Any thread: cuts body down to the slice, and sets *items to the slice's items. 0 or -ENOMEM. A
 * body that is not a request stays as it is. */
int sender_split_cut(struct sender_split *slice, enum signal signal, struct buf *body,
                     uint64_t *items);
/* The request has at most one item, so it cannot be split; known once cut. */
bool sender_split_is_futile(const struct sender_split *slice);
