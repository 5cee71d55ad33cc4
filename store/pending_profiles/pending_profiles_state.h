/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Shared by pending_profiles.c (requests and spans meet), pending_profiles_rows.c (database) and
 * pending_profiles_leave.c (into the outbox). Private to these files. */
#include "base/buf.h"
#include "base/list.h"
#include "base/map.h"
#include "base/stats.h"
#include "store/pending_profiles/pending_profiles.h"
#include "store/join/owner.h"
#include "store/pending_profiles/recent_spans.h"
#include <sqlite3.h>

#define KEYS_MAX 64

enum profile_span {                         /* how waiting for a span of a profile ended */
                    PROFILE_SPAN_JOINED,    /* it arrived while the profile waited */
                    PROFILE_SPAN_KNOWN,     /* it had arrived before */
                    PROFILE_SPAN_NOT_OWNER, /* its Resource names another process */
                    PROFILE_SPAN_TIMEOUT,
                    PROFILE_SPAN_EVICTED,
                    PROFILE_SPANS
};

struct facts { /* of a span that arrived */
    struct profiles_span span;
    size_t bytes;
    uint8_t texts[];
};

struct awaited { /* a span that a request names */
    struct profiles_ids ids;
    struct awaited *next; /* the same span, named by another request */
    struct request *request;
    struct owner_mark mark; /* of the profile's Resource */
    struct facts *facts;    /* NULL: has not arrived */
    bool settled;           /* no longer waited for */
};

struct request {
    struct list age, leaving;
    int64_t seq;
    uint64_t received_unix_ns, n_items, n_bytes;
    bool evicted; /* it leaves early, its room is needed */
    uint32_t n_awaited, n_open;
    struct awaited awaited[];
};

struct pending_profiles {
    struct db *db;
    struct outbox *outbox;
    struct pending_profiles_settings settings;
    struct recent_spans *recent;
    size_t n_keys;
    struct bytes keys[KEYS_MAX]; /* settings.span_attributes */
    uint8_t mark_key[16];
    struct map by_ids;   /* struct awaited, the first of its chain */
    struct list ages;    /* the oldest first */
    struct list leaving; /* finished waiting */
    size_t n_requests, n_awaited;
    uint64_t n_bytes;
    size_t fact_bytes;
    uint64_t latest_resource; /* otlp_span.resource_number of latest_mark */
    struct owner_mark latest_mark;
    sqlite3_stmt *put, *put_body, *put_span, *load, *load_spans, *get_body;
    sqlite3_stmt *remove, *remove_body, *remove_spans;
};

int pending_profiles_no_memory(
    struct pending_profiles *pending); /* returns -ENOMEM; the transaction has failed */
struct bytes pending_profiles_column(sqlite3_stmt *row, int i); /* borrowed */
/* Makes a request with room for n_awaited spans; it has none yet. NULL: no memory. */
struct request *pending_profiles_new_request(struct pending_profiles *pending, size_t n_awaited);
void pending_profiles_free_request(struct pending_profiles *pending, struct request *request);
void pending_profiles_free_all(struct pending_profiles *pending);
void pending_profiles_mark(const struct pending_profiles *pending, struct bytes resource,
                           struct owner_mark *mark);
int pending_profiles_add_awaited(struct pending_profiles *pending, struct request *request,
                                 const struct profiles_ids *ids, const struct owner_mark *mark);
int pending_profiles_take_facts(struct pending_profiles *pending, struct awaited *awaited,
                                const struct profiles_span *span);
void pending_profiles_settle(struct pending_profiles *pending,
                             struct awaited *awaited); /* marks it as no longer waited for */

int pending_profiles_prepare(struct pending_profiles *pending);
void pending_profiles_unprepare(struct pending_profiles *pending);
int pending_profiles_save(struct pending_profiles *pending, struct request *request,
                          struct bytes body, const struct profiles_links *links);
int pending_profiles_save_facts(struct pending_profiles *pending, const struct awaited *awaited);
int pending_profiles_load(struct pending_profiles *pending); /* into empty memory */
int pending_profiles_remove(struct pending_profiles *pending, int64_t seq);

/* Puts the request directly into the outbox, split if it is too large. OTLP_TOO_BIG, -ENOSPC,
 * -EFBIG: nothing was put. */
int pending_profiles_pass_through(struct pending_profiles *pending, struct bytes body);
void pending_profiles_count_span(enum profile_span how);
void pending_profiles_update_gauges(const struct pending_profiles *pending);
