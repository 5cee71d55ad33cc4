/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/otlp/otlp_items.h"
#include "store/db/blob.h"
#include "store/db/db.h"
#include "store/held/held_parts.h"
#include "store/outbox/outbox.h"
#include <errno.h>
#include <stdlib.h>

STAT_COUNTER(spans_timeout, "spanprof_profile_spans_total", "result=\"timeout\"", HELD_SPANS_HELP);
STAT_LOSS(spans_evicted, "spanprof_profile_spans_total", "result=\"evicted\"", HELD_SPANS_HELP);
STAT_LOSS(not_annotated, "spanprof_profiles_not_annotated_total", "",
          "Requests of profiles that went on as they came, since they could not be annotated.");
STAT_GAUGE(held_requests, "spanprof_held_profiles", "",
           "Requests of profiles that wait for the spans they name.");
STAT_GAUGE(held_bytes, "spanprof_held_profiles_bytes", "", "Their size.");

void held_update_gauges(const struct held *held)
{
    stat_set(&held_requests, (int64_t)held->n_requests);
    stat_set(&held_bytes, (int64_t)held->n_bytes);
}
static int put_part(void *context, struct bytes body, uint64_t n_items)
{
    struct held *held = context;
    return outbox_put(held->outbox, SIGNAL_PROFILES, n_items, held->settings.destinations, body);
}

static int make_room(void *context, uint64_t bytes)
{
    struct held *held = context;
    return outbox_reserve(held->outbox, SIGNAL_PROFILES, held->settings.destinations, bytes);
}

int held_pass_through(struct held *held, struct bytes body)
{
    const struct otlp_split split = {put_part, held, held->settings.max_body_bytes, make_room};
    int outcome = otlp_items_split(SIGNAL_PROFILES, body, &split);
    outbox_release(held->outbox);
    return outcome;
}

struct known { /* of a request's spans */
    size_t n;
    const struct profiles_span **spans; /* by context; NULL: not known */
};

static int put_annotated(struct held *held, struct bytes body, uint64_t n_items,
                         const uint32_t *contexts_of, size_t n_samples, const struct known *known)
{
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    const struct profiles_annotation annotation = {n_samples, contexts_of, known->n, known->spans};
    int outcome = profiles_annotate(body, &annotation, &out);
    if (outcome == -ENOMEM)
        return held_no_memory(held);
    if (outcome == PROFILES_LINKS_OK)
        outcome = held_pass_through(held, buf_bytes(&out));
    if (outcome <= 0 && outcome != -EFBIG)
        return outcome;
    stat_add(&not_annotated, 1); /* nothing was put */
    return put_part(held, body, n_items);
}

static int read_samples(struct bytes blob, uint32_t **contexts_of, size_t *n)
{
    struct blob_reader in = {.left = blob};
    uint32_t *list = malloc(blob.len * sizeof(*list) + 1); /* a byte each, at least */
    *contexts_of = list;
    *n = 0;
    if (!list)
        return -ENOMEM;
    while (in.left.len && !in.bad)
        list[(*n)++] = blob_get_number32(&in);
    return 0;
}

static int leave_with_row(struct held *held, const struct request *request, sqlite3_stmt *row)
{
    uint32_t *contexts_of = NULL;
    size_t n_samples;
    struct known known = {.n = request->n_awaited};
    known.spans = calloc(request->n_awaited + 1, sizeof(*known.spans));
    int error = known.spans ? read_samples(held_column(row, 1), &contexts_of, &n_samples) : -ENOMEM;
    if (error)
        held_no_memory(held);
    bool any = false;
    for (uint32_t i = 0; i < request->n_awaited && !error; i++) {
        const struct facts *facts = request->awaited[i].facts;
        known.spans[i] = facts ? &facts->span : NULL;
        any |= facts != NULL;
    }
    if (!error)
        error = any ? put_annotated(held, held_column(row, 0), request->n_items, contexts_of,
                                    n_samples, &known)
                    : put_part(held, held_column(row, 0), request->n_items);
    free(known.spans);
    free(contexts_of);
    return error;
}

static int leave(struct held *held, struct request *request)
{
    int64_t seq = request->seq;
    int error = 0;
    {
        sqlite3_stmt *row _cleanup_reset_ = held->get_body;
        sqlite3_bind_int64(row, 1, seq);
        int outcome = db_step(held->db, row);
        if (outcome < 0)
            return outcome;
        if (outcome)
            error = leave_with_row(held, request, row);
    }
    if (error)
        return error;
    for (uint32_t i = 0; i < request->n_awaited; i++)
        if (!request->awaited[i].settled)
            stat_add(request->evicted ? &spans_evicted : &spans_timeout, 1);
    held_free_request(held, request);
    return held_remove(held, seq);
}

int held_flush(struct held *held)
{
    int error = 0;
    while (!error && !list_empty(&held->leaving) && outbox_has_room(held->outbox))
        error = leave(held, container_of(list_first(&held->leaving), struct request, leaving));
    held_update_gauges(held);
    return error == -ENOSPC ? 0 : error; /* they stay until there is room */
}
