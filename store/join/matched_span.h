/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Spans that had samples: what their samples take from them, so that late samples and those of
 * before a restart still find their span. A span without samples never gets here. Thread: the
 * writer. Limits: the latest max_count; texts and attributes beyond JOINED_*_MAX are left out,
 * counted. Errors: negative errno of db.h; they broke the transaction.
 */
#include "base/list.h"
#include "base/map.h"
#include "store/join/join.h"
#include "store/join/owner.h"
#include "store/join/span_totals.h"

#define MATCHED_SPAN_NAME_MAX       1024
#define MATCHED_SPAN_ATTRIBUTES_MAX 4096  /* of a span, together */
#define MATCHED_SPAN_RESOURCE_MAX   65536 /* a larger Resource is taken for an empty one */

struct matched_resource {
    uint8_t hash[16];
    int64_t id;    /* 0 = no row yet */
    uint32_t refs; /* spans that have it, and who holds it now */
    struct owner_evidence evidence;
    struct bytes body;
    uint8_t data[];
};

struct matched_span {
    int64_t id;
    struct list age;
    struct span_total_process who;
    uint32_t refs; /* samples that are to leave with it */
    struct matched_resource *resource;
    /* The totals that lead here; each knows it by its `joined`. */
    struct span_total *exact, *by_trace, *by_span;
    struct matched_span *next_by_trace;
    struct join_span_facts facts; /* texts lie behind */
    uint8_t texts[];
};

struct matched_spans {
    struct db *db;
    const char *const *attributes; /* keys; NULL-terminated or NULL */
    size_t max_count, count;
    struct list ages; /* longest here first */
    struct map resources;
    uint8_t hash_key[16];
    int64_t next_id, next_resource_id;
    struct matched_resource *latest; /* spans come in runs of one Resource */
    sqlite3_stmt *put, *remove, *load, *put_resource, *remove_resource;
};

int matched_spans_open(struct matched_spans *spans, struct db *db, size_t max_count,
                       const char *const *attributes);
void matched_spans_close(struct matched_spans *spans);
int matched_spans_reload(struct matched_spans *spans);

/* Held until matched_resource_drop(). */
int matched_resource_get(struct matched_spans *spans, struct bytes body,
                         struct matched_resource **resource);
int matched_resource_drop(struct matched_spans *spans, struct matched_resource *resource);

/* Those with these keys (NULL-terminated, or NULL), each framed as Span field 9. One that does not
 * fit is left out. 0 or -ENOMEM. */
int matched_span_attributes(const char *const *keys, const struct otlp_span *span, struct buf *out,
                            bool *was_cut);
int matched_span_make(struct matched_spans *spans, const struct otlp_span *span,
                      struct matched_resource *resource, const struct span_total_process *who,
                      struct matched_span **matched);
/* Down to max_count, but for those with samples to leave, and `keep`. */
int matched_spans_trim(struct matched_spans *spans, const struct matched_span *keep);

/* Links with totals. */
void matched_span_link(struct matched_span *matched, struct span_total *total);
void matched_span_unlink_total(struct span_total *total); /* all that it leads to */
/* The one that a new sample of this total belongs to; NULL: it waits. */
struct matched_span *matched_span_of(const struct span_total *total, uint64_t time_unix_ns);
bool matched_spans_time(uint64_t start_unix_ns, uint64_t end_unix_ns, uint64_t time_unix_ns);
