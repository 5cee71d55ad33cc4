/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Spans that have samples, with the facts that their samples copy. Late samples, and samples from
 * before a restart, still find their span here. A span without samples is never added. Thread: the
 * writer. Limits: the latest max_count, and max_bytes of memory, of which each tenant (the cgroup
 * of the sampled process) has a fair share: beyond it the oldest of its own spans go. Texts and
 * attributes beyond MATCHED_SPAN_*_MAX, or beyond that share while samples hold all its spans, are
 * left out, counted. Errors: negative errno of db.h; the transaction has failed.
 */
#include "base/fair_share.h"
#include "base/list.h"
#include "base/map.h"
#include "store/join/join.h"
#include "store/join/owner.h"
#include "store/join/span_totals.h"

#define MATCHED_SPAN_NAME_MAX       1024
#define MATCHED_SPAN_ATTRIBUTES_MAX 4096 /* of a span, together */
#define MATCHED_SPAN_RESOURCE_MAX   8192 /* a larger Resource counts as empty */

struct matched_resource {
    uint8_t hash[16];
    int64_t id;    /* 0 = no row yet */
    uint32_t refs; /* spans with this Resource, and current holders */
    bool counts;   /* in the share of `tenant`, whose span had it first */
    uint64_t tenant;
    struct owner_evidence evidence;
    struct bytes body;
    uint8_t data[];
};

struct matched_span {
    int64_t id;
    struct list age, own_age; /* of all, and of those with the same share */
    size_t bytes;
    struct span_total_process who;
    uint32_t refs; /* samples that will leave the join with it */
    struct matched_resource *resource;
    /* The totals that lead to this span, see span_total.matched. */
    struct span_total *exact, *by_trace, *by_span;
    struct matched_span *next_by_trace;
    struct join_span_facts facts; /* its texts are in texts[] */
    uint8_t texts[];
};

struct matched_spans {
    struct db *db;
    const char *const *attributes; /* keys; NULL-terminated or NULL */
    size_t max_count, count;
    struct list ages; /* oldest first */
    struct fair_share share;
    struct list own_ages[FAIR_SHARES]; /* oldest first; by fair_share_index() */
    struct map resources;
    uint8_t hash_key[16];
    int64_t next_id, next_resource_id;
    struct matched_resource *latest; /* adjacent spans mostly share a Resource */
    uint64_t latest_number;          /* otlp_span.resource_number; 0: not known */
    sqlite3_stmt *put, *remove, *load, *put_resource, *remove_resource;
};

struct matched_spans_settings {
    size_t max_count, max_bytes;
    const char *const *attributes; /* keys copied to samples; NULL-terminated or NULL */
};
int matched_spans_open(struct matched_spans *spans, struct db *db,
                       const struct matched_spans_settings *settings);
void matched_spans_close(struct matched_spans *spans);
int matched_spans_reload(struct matched_spans *spans);

/* The caller holds the resource until matched_resource_drop(). number: otlp_span.resource_number.
 */
int matched_resource_get(struct matched_spans *spans, struct bytes body, uint64_t number,
                         struct matched_resource **resource);
int matched_resource_drop(struct matched_spans *spans, struct matched_resource *resource);

/* Appends the span's attributes with these keys (NULL-terminated, or NULL), each framed as Span
 * field 9. An attribute that does not fit is left out. 0 or -ENOMEM. */
int matched_span_attributes(const char *const *keys, const struct otlp_span *span, struct buf *out,
                            bool *was_cut);
int matched_span_make(struct matched_spans *spans, const struct otlp_span *span,
                      struct matched_resource *resource, const struct span_total_process *who,
                      struct matched_span **matched);
/* Removes the oldest spans until the limits are kept; keeps spans with refs > 0, and `keep`. */
int matched_spans_trim(struct matched_spans *spans, const struct matched_span *keep);

/* Links between spans and totals. */
void matched_span_link(struct matched_span *matched, struct span_total *total);
void matched_span_unlink_total(struct span_total *total); /* all links of the total */
/* The span that a new sample of this total belongs to; NULL: the sample must wait. */
struct matched_span *matched_span_of(const struct span_total *total, uint64_t time_unix_ns);
