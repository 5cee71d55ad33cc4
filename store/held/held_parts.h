/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What held.c (requests and spans meet), held_rows.c (in the database) and held_leave.c (into the
 * outbox) share; nobody else includes it. */
#include "base/buf.h"
#include "base/list.h"
#include "base/map.h"
#include "base/stats.h"
#include "store/held/held.h"
#include "store/join/owner.h"
#include "store/held/recent_spans.h"
#include <sqlite3.h>

#define KEYS_MAX 64

#define HELD_SPANS_HELP "Spans that profiles of others name, by how that ended."

struct facts { /* of a span that came */
    struct profiles_span span;
    uint8_t texts[];
};

struct awaited { /* a span that a request names */
    struct profiles_ids ids;
    struct awaited *next; /* the same span, named by another request */
    struct request *request;
    struct owner_mark mark; /* of the profile's Resource */
    struct facts *facts;    /* NULL: not here yet */
    bool settled;           /* nothing is waited for any more */
};

struct request {
    struct list age, leaving;
    int64_t seq;
    uint64_t received_unix_ns, n_items, n_bytes;
    bool evicted; /* it leaves before its time */
    uint32_t n_awaited, n_open;
    struct awaited awaited[];
};

struct held {
    struct db *db;
    struct outbox *outbox;
    struct held_settings settings;
    struct recent_spans *recent;
    size_t n_keys;
    struct bytes keys[KEYS_MAX]; /* settings.span_attributes */
    uint8_t mark_key[16];
    struct map by_ids;   /* struct awaited, the first of its chain */
    struct list ages;    /* the oldest first */
    struct list leaving; /* those that need not wait */
    size_t n_requests, n_awaited;
    uint64_t n_bytes;
    struct buf latest_resource; /* spans come in runs of one */
    struct owner_mark latest_mark;
    bool has_latest;
    sqlite3_stmt *put, *put_body, *put_span, *load, *load_spans, *get_body;
    sqlite3_stmt *remove, *remove_body, *remove_spans;
};

int held_no_memory(struct held *held);              /* -ENOMEM, and the transaction is broken */
struct bytes held_column(sqlite3_stmt *row, int i); /* borrowed */
/* For so many spans; none is in it yet. NULL: no memory. */
struct request *held_new_request(struct held *held, size_t n_awaited);
void held_free_request(struct held *held, struct request *request);
void held_free_all(struct held *held);
int held_add_awaited(struct held *held, struct request *request, const struct profiles_ids *ids,
                     struct bytes resource);
int held_take_facts(struct held *held, struct awaited *awaited, const struct profiles_span *span);
void held_settle(struct held *held,
                 struct awaited *awaited); /* nothing of it is waited for any more */

int held_prepare(struct held *held);
void held_unprepare(struct held *held);
int held_save(struct held *held, struct request *request, struct bytes body,
              const struct profiles_links *links);
int held_save_facts(struct held *held, const struct awaited *awaited);
int held_load(struct held *held); /* into empty memory */
int held_remove(struct held *held, int64_t seq);

/* Straight into the outbox, split if need be. OTLP_TOO_BIG, -ENOSPC, -EFBIG: nothing was put. */
int held_pass_through(struct held *held, struct bytes body);
void held_update_gauges(const struct held *held);
