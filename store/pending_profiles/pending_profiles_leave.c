/* SPDX-License-Identifier: Apache-2.0 */
#include "base/stats.h"
#include "proto/otlp/otlp_items.h"
#include "store/db/blob.h"
#include "store/db/db.h"
#include "store/pending_profiles/pending_profiles_state.h"
#include "store/outbox/outbox.h"
#include <errno.h>
#include <stdlib.h>

static const char *const span_names[] = {
    [PROFILE_SPAN_JOINED] = "joined",       [PROFILE_SPAN_KNOWN] = "known",
    [PROFILE_SPAN_NOT_OWNER] = "not_owner", [PROFILE_SPAN_TIMEOUT] = "timeout",
    [PROFILE_SPAN_EVICTED] = "evicted",
};
STAT_COUNTERS(spans, "spanprof_profile_spans_total",
              "Spans that profiles of others name, by how that ended.",
              STAT_LABEL("result", span_names, PROFILE_SPANS),
              .losses = STAT_BIT(PROFILE_SPAN_EVICTED));
STAT_LOSS(not_annotated, "spanprof_profiles_not_annotated_total",
          "Requests of profiles that went on as they came, since they could not be annotated.");
STAT_GAUGE(pending_profiles_requests, "spanprof_pending_profiles",
           "Requests of profiles that wait for the spans they name.");
STAT_GAUGE(pending_profiles_bytes, "spanprof_pending_profiles_bytes", "Their size.");

void pending_profiles_count_span(enum profile_span how)
{
    stat_add_of(&spans, how, 1);
}

void pending_profiles_update_gauges(const struct pending_profiles *pending)
{
    stat_set(&pending_profiles_requests, (int64_t)pending->n_requests);
    stat_set(&pending_profiles_bytes, (int64_t)pending->n_bytes);
}
static int put_part(void *context, struct bytes body, uint64_t n_items)
{
    struct pending_profiles *pending = context;
    return outbox_put(pending->outbox, SIGNAL_PROFILES, n_items, pending->settings.destinations,
                      body);
}

static int make_room(void *context, uint64_t bytes)
{
    struct pending_profiles *pending = context;
    return outbox_reserve(pending->outbox, SIGNAL_PROFILES, pending->settings.destinations, bytes);
}

int pending_profiles_pass_through(struct pending_profiles *pending, struct bytes body)
{
    const struct otlp_split split = {put_part, pending, pending->settings.max_body_bytes,
                                     make_room};
    int outcome = otlp_items_split(SIGNAL_PROFILES, body, &split);
    outbox_release(pending->outbox);
    return outcome;
}

struct known { /* known spans of a request */
    size_t n;
    const struct profiles_span **spans; /* by context; NULL: not known */
};

static int put_annotated(struct pending_profiles *pending, struct bytes body, uint64_t n_items,
                         const uint32_t *contexts_of, size_t n_samples, const struct known *known)
{
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    const struct profiles_annotation annotation = {n_samples, contexts_of, known->n, known->spans};
    int outcome = profiles_annotate(body, &annotation, &out);
    if (outcome == -ENOMEM)
        return pending_profiles_no_memory(pending);
    if (outcome == PROFILES_LINKS_OK)
        outcome = pending_profiles_pass_through(pending, buf_bytes(&out));
    if (outcome <= 0 && outcome != -EFBIG)
        return outcome;
    stat_add(&not_annotated, 1); /* nothing was put */
    return put_part(pending, body, n_items);
}

static int read_samples(struct bytes blob, uint32_t **contexts_of, size_t *n)
{
    struct blob_reader in = {.left = blob};
    uint32_t *list = malloc(blob.len * sizeof(*list) + 1); /* each number has at least one byte */
    *contexts_of = list;
    *n = 0;
    if (!list)
        return -ENOMEM;
    while (in.left.len && !in.bad)
        list[(*n)++] = blob_get_number32(&in);
    return 0;
}

static int leave_with_row(struct pending_profiles *pending, const struct request *request,
                          sqlite3_stmt *row)
{
    uint32_t *contexts_of = NULL;
    size_t n_samples;
    struct known known = {.n = request->n_awaited};
    known.spans = calloc(request->n_awaited + 1, sizeof(*known.spans));
    int error = known.spans
                    ? read_samples(pending_profiles_column(row, 1), &contexts_of, &n_samples)
                    : -ENOMEM;
    if (error)
        pending_profiles_no_memory(pending);
    bool any = false;
    for (uint32_t i = 0; i < request->n_awaited && !error; i++) {
        const struct facts *facts = request->awaited[i].facts;
        known.spans[i] = facts ? &facts->span : NULL;
        any |= facts != NULL;
    }
    if (!error)
        error = any ? put_annotated(pending, pending_profiles_column(row, 0), request->n_items,
                                    contexts_of, n_samples, &known)
                    : put_part(pending, pending_profiles_column(row, 0), request->n_items);
    free(known.spans);
    free(contexts_of);
    return error;
}

static int request_leave(struct pending_profiles *pending, struct request *request)
{
    int64_t seq = request->seq;
    int error = 0;
    {
        sqlite3_stmt *row _cleanup_reset_ = pending->get_body;
        sqlite3_bind_int64(row, 1, seq);
        int outcome = db_step(pending->db, row);
        if (outcome < 0)
            return outcome;
        if (outcome)
            error = leave_with_row(pending, request, row);
    }
    if (error)
        return error;
    for (uint32_t i = 0; i < request->n_awaited; i++)
        if (!request->awaited[i].settled)
            pending_profiles_count_span(request->evicted ? PROFILE_SPAN_EVICTED
                                                         : PROFILE_SPAN_TIMEOUT);
    pending_profiles_free_request(pending, request);
    return pending_profiles_remove(pending, seq);
}

int pending_profiles_flush(struct pending_profiles *pending)
{
    WRITER_THREAD(pending->db);
    int error = 0;
    while (!error && !list_empty(&pending->leaving) && outbox_has_room(pending->outbox))
        error = request_leave(pending,
                              container_of(list_first(&pending->leaving), struct request, leaving));
    pending_profiles_update_gauges(pending);
    return error == -ENOSPC ? 0 : error; /* the requests stay until there is room */
}
