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
#include "store/join/tallies.h"

#define JOINED_NAME_MAX       1024
#define JOINED_ATTRIBUTES_MAX 4096  /* of a span, together */
#define JOINED_RESOURCE_MAX   65536 /* a larger Resource is taken for an empty one */

struct joined_resource {
    uint8_t hash[16];
    int64_t id;    /* 0 = no row yet */
    uint32_t refs; /* spans that have it, and who holds it now */
    struct owner_evidence evidence;
    struct bytes body;
    uint8_t data[];
};

struct joined {
    int64_t id;
    struct list age;
    struct tally_process who;
    uint32_t refs; /* samples that are to leave with it */
    struct joined_resource *resource;
    /* The tallies that lead here; each knows it by its `joined`. */
    struct tally *exact, *by_trace, *by_span;
    struct joined *next_by_trace;
    struct join_span_facts facts; /* texts lie behind */
    uint8_t texts[];
};

struct joined_spans {
    struct db *db;
    const char *const *attributes; /* keys; NULL-terminated or NULL */
    size_t max_count, count;
    struct list ages; /* longest here first */
    struct map resources;
    uint8_t hash_key[16];
    int64_t next_id, next_resource_id;
    struct joined_resource *latest; /* spans come in runs of one Resource */
    sqlite3_stmt *put, *remove, *load, *put_resource, *remove_resource;
};

int joined_open(struct joined_spans *spans, struct db *db, size_t max_count,
                const char *const *attributes);
void joined_close(struct joined_spans *spans);
int joined_reload(struct joined_spans *spans);

/* Held until joined_resource_drop(). */
int joined_resource_get(struct joined_spans *spans, struct bytes body,
                        struct joined_resource **resource);
int joined_resource_drop(struct joined_spans *spans, struct joined_resource *resource);

/* Those with these keys (NULL-terminated, or NULL), each framed as Span field 9. One that does not
 * fit is left out. 0 or -ENOMEM. */
int joined_attributes(const char *const *keys, const struct otlp_span *span, struct buf *out,
                      bool *was_cut);
int joined_make(struct joined_spans *spans, const struct otlp_span *span,
                struct joined_resource *resource, const struct tally_process *who,
                struct joined **joined);
/* Down to max_count, but for those with samples to leave, and `keep`. */
int joined_trim(struct joined_spans *spans, const struct joined *keep);

/* Links with tallies. */
void joined_link(struct joined *joined, struct tally *tally);
void joined_unlink_tally(struct tally *tally); /* all that it leads to */
/* The one that a new sample of this tally belongs to; NULL: it waits. */
struct joined *joined_of(const struct tally *tally, uint64_t time_unix_ns);
bool joined_spans_time(uint64_t start_unix_ns, uint64_t end_unix_ns, uint64_t time_unix_ns);
