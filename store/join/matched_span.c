/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resources are few and large, spans are many: spans share a Resource, which is one row and one
 * allocation with a reference count.
 */
#include "store/join/matched_span.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/stats.h"
#include "base/utf8.h"
#include "proto/otlp/otlp_spans.h"
#include "proto/wire.h"
#include "store/db/db.h"
#include "store/db/id_set.h"
#include "store/join/span_time.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#define TRIM_LOOK_MAX 64 /* spans examined to find one to remove */

LIMIT(matched, LIMIT_SERVICE, "spans that have samples", .key = "join::max_recent_mib",
      .percent = 100);

STAT_LOSS(cut_texts, "spanprof_join_span_facts_cut_total",
          "Joined spans whose name, attributes or Resource were too long to keep whole.");
STAT_GAUGE(span_count, "spanprof_join_recent_spans", "Joined spans in memory.");
STAT_GAUGE(span_bytes, "spanprof_join_recent_spans_bytes", "Memory of joined spans.");
STAT_LOSS(evicted, "spanprof_join_recent_spans_evicted_total",
          "Joined spans forgotten early, because their tenant has its share of "
          "join.max_recent_mib: late samples do not find them.");

static int no_memory(struct matched_spans *spans)
{
    db_fail(spans->db, -ENOMEM);
    return -ENOMEM;
}

/* Resources */

static struct matched_resource *new_resource(const uint8_t hash[16], struct bytes body)
{
    struct matched_resource *resource = calloc(1, sizeof(*resource) + body.len);
    if (!resource)
        return NULL;
    memcpy(resource->hash, hash, 16);
    if (body.len)
        memcpy(resource->data, body.data, body.len);
    resource->body = BYTES(resource->data, body.len);
    owner_evidence_of(resource->body, &resource->evidence);
    return resource;
}

static int make_resource(struct matched_spans *spans, const uint8_t hash[16], struct bytes body,
                         struct matched_resource **result)
{
    struct matched_resource *resource = new_resource(hash, body);
    if (!resource)
        return no_memory(spans);
    if (map_put(&spans->resources, resource, NULL)) {
        free(resource);
        return no_memory(spans);
    }
    *result = resource;
    return 0;
}

static size_t resource_bytes(const struct matched_resource *resource)
{
    return sizeof(*resource) + resource->body.len;
}

int matched_resource_drop(struct matched_spans *spans, struct matched_resource *resource)
{
    WRITER_THREAD(spans->db);
    int error = 0;
    assert(resource->refs);
    if (--resource->refs)
        return 0;
    if (resource->id) {
        sqlite3_bind_int64(spans->remove_resource, 1, resource->id);
        error = db_run(spans->db, spans->remove_resource);
    }
    map_remove(&spans->resources, resource->hash);
    if (resource->counts)
        fair_share_give(&spans->share, resource->tenant, resource_bytes(resource));
    free(resource);
    return error;
}

/* Holds the Resource of the latest span, because the next span mostly has the same. */
static int remember_latest(struct matched_spans *spans, struct matched_resource *resource,
                           uint64_t number)
{
    struct matched_resource *before = spans->latest;
    resource->refs++;
    spans->latest = resource;
    spans->latest_number = number;
    return before ? matched_resource_drop(spans, before) : 0;
}

/* number: as otlp_span.resource_number. */
static bool is_latest(const struct matched_spans *spans, struct bytes body, uint64_t number)
{
    if (!spans->latest)
        return false;
    return number ? number == spans->latest_number : bytes_equal(spans->latest->body, body);
}

int matched_resource_get(struct matched_spans *spans, struct bytes body, uint64_t number,
                         struct matched_resource **result)
{
    WRITER_THREAD(spans->db);
    uint8_t hash[16];
    int error = 0;
    if (body.len > MATCHED_SPAN_RESOURCE_MAX) {
        stat_add(&cut_texts, 1);
        body = BYTES(NULL, 0);
    }
    struct matched_resource *resource = spans->latest;
    if (!is_latest(spans, body, number)) {
        bytes_siphash128(body, spans->hash_key, hash);
        resource = map_get(&spans->resources, hash);
        if (!resource)
            error = make_resource(spans, hash, body, &resource);
        if (!error)
            error = remember_latest(spans, resource, number);
    }
    if (error)
        return error;
    resource->refs++;
    *result = resource;
    return 0;
}

static int save_resource(struct matched_spans *spans, struct matched_resource *resource)
{
    if (resource->id)
        return 0;
    resource->id = spans->next_resource_id++;
    sqlite3_bind_int64(spans->put_resource, 1, resource->id);
    sqlite3_bind_blob64(spans->put_resource, 2, resource->data, resource->body.len, SQLITE_STATIC);
    int error = db_run(spans->db, spans->put_resource);
    sqlite3_clear_bindings(spans->put_resource);
    return error;
}

/* Spans */

static void take_facts(struct matched_span *matched, struct bytes name, struct bytes attributes)
{
    if (name.len)
        memcpy(matched->texts, name.data, name.len);
    if (attributes.len)
        memcpy(matched->texts + name.len, attributes.data, attributes.len);
    matched->facts.name = BYTES(matched->texts, name.len);
    matched->facts.attributes = BYTES(matched->texts + name.len, attributes.len);
    matched->facts.resource = matched->resource->body;
}

static void update_gauges(const struct matched_spans *spans)
{
    stat_set(&span_count, (int64_t)spans->count);
    stat_set(&span_bytes, (int64_t)spans->share.used);
}

/* The texts that a span keeps. */
struct matched_texts {
    struct matched_resource *resource;
    struct bytes name, attributes;
};

static size_t bytes_with(const struct matched_texts *texts)
{
    return sizeof(struct matched_span) + texts->name.len + texts->attributes.len;
}

static struct matched_span *new_joined(struct matched_spans *spans,
                                       const struct matched_texts *texts,
                                       const struct span_total_process *who)
{
    uint64_t tenant = who->tenant;
    struct matched_span *matched = calloc(1, bytes_with(texts));
    if (!matched)
        return NULL;
    matched->resource = texts->resource;
    matched->bytes = bytes_with(texts);
    matched->who = *who;
    texts->resource->refs++;
    take_facts(matched, texts->name, texts->attributes);
    list_append(&spans->ages, &matched->age);
    list_append(&spans->own_ages[fair_share_index(&spans->share, tenant)], &matched->own_age);
    fair_share_take(&spans->share, tenant, matched->bytes);
    if (!texts->resource->counts) {
        texts->resource->counts = true;
        texts->resource->tenant = tenant;
        fair_share_take(&spans->share, tenant, resource_bytes(texts->resource));
    }
    spans->count++;
    update_gauges(spans);
    return matched;
}

/* Frees the memory only: not the row, nor the reference to the Resource. */
static void free_joined(struct matched_spans *spans, struct matched_span *matched)
{
    list_remove(&matched->age);
    list_remove(&matched->own_age);
    fair_share_give(&spans->share, matched->who.tenant, matched->bytes);
    spans->count--;
    free(matched);
}

static void cut_from(struct span_total *total, struct matched_span *matched)
{
    struct matched_span **at = &total->matched;
    while (*at && *at != matched)
        at = &(*at)->next_by_trace;
    if (*at)
        *at = matched->next_by_trace;
}

static void unlink_all(struct matched_span *matched)
{
    if (matched->by_trace)
        cut_from(matched->by_trace, matched);
    if (matched->exact)
        matched->exact->matched = NULL;
    if (matched->by_span)
        matched->by_span->matched = NULL;
    matched->exact = matched->by_trace = matched->by_span = NULL;
    matched->next_by_trace = NULL;
}

static int matched_spans_forget(struct matched_spans *spans, struct matched_span *matched)
{
    assert(!matched->refs);
    unlink_all(matched);
    sqlite3_bind_int64(spans->remove, 1, matched->id);
    int error = db_run(spans->db, spans->remove);
    int drop = matched_resource_drop(spans, matched->resource);
    free_joined(spans, matched);
    update_gauges(spans);
    return error ? error : drop;
}

int matched_spans_trim(struct matched_spans *spans, const struct matched_span *keep)
{
    WRITER_THREAD(spans->db);
    struct list *link, *tmp;
    int looks = 0;
    list_each(link, tmp, &spans->ages)
    {
        struct matched_span *matched = container_of(link, struct matched_span, age);
        bool fits = spans->count <= spans->max_count && spans->share.used <= spans->share.limit;
        if (fits || looks++ == TRIM_LOOK_MAX)
            break;
        if (matched->refs || matched == keep)
            continue;
        int error = matched_spans_forget(spans, matched);
        if (error)
            return error;
    }
    return 0;
}

static bool has_room(const struct matched_spans *spans, const struct matched_texts *texts,
                     uint64_t tenant)
{
    size_t resource = texts->resource->counts ? 0 : resource_bytes(texts->resource);
    return fair_share_has_room(&spans->share, tenant, bytes_with(texts) + resource);
}

/* Makes room with spans of the tenant itself. What finds none is kept without texts: samples wait
 * for all the others. */
static int fit_share(struct matched_spans *spans, struct matched_texts *texts, uint64_t tenant,
                     bool *was_cut)
{
    struct list *link, *tmp, *own = &spans->own_ages[fair_share_index(&spans->share, tenant)];
    int looks = 0, error = 0;
    list_each(link, tmp, own)
    {
        struct matched_span *matched = container_of(link, struct matched_span, own_age);
        if (error || has_room(spans, texts, tenant) || looks++ == TRIM_LOOK_MAX)
            break;
        if (matched->refs)
            continue;
        stat_add(&evicted, 1);
        error = matched_spans_forget(spans, matched);
    }
    if (error || has_room(spans, texts, tenant))
        return error;
    *was_cut = true;
    texts->name = texts->attributes = BYTES(NULL, 0);
    return matched_resource_get(spans, BYTES(NULL, 0), 0, &texts->resource);
}

static int matched_spans_save(struct matched_spans *spans, struct matched_span *matched)
{
    struct blob_writer out _cleanup_blob_ = {0};
    int error = save_resource(spans, matched->resource);
    if (error)
        return error;
    blob_put_fixed(&out, matched->facts.trace_id, 16);
    blob_put_fixed(&out, matched->facts.span_id, 8);
    blob_put_number(&out, matched->facts.kind);
    blob_put_number(&out, matched->facts.local_root);
    blob_put_number(&out, matched->facts.start_unix_ns);
    blob_put_number(&out, matched->facts.end_unix_ns);
    blob_put_number(&out, matched->who.start_ns);
    blob_put_number(&out, matched->who.pid);
    blob_put_bytes(&out, matched->facts.name);
    blob_put_bytes(&out, matched->facts.attributes);
    blob_put_fixed(&out, matched->facts.parent_id, 8);
    blob_put_number(&out, matched->facts.error);
    blob_put_number(&out, matched->who.tenant);
    if (out.error)
        return no_memory(spans);
    sqlite3_bind_int64(spans->put, 1, matched->id);
    sqlite3_bind_int64(spans->put, 2, matched->resource->id);
    sqlite3_bind_blob64(spans->put, 3, out.buf.data, out.buf.len, SQLITE_STATIC);
    error = db_run(spans->db, spans->put);
    sqlite3_clear_bindings(spans->put);
    return error;
}

int matched_span_attributes(const char *const *keys, const struct otlp_span *span, struct buf *out,
                            bool *was_cut)
{
    struct bytes key_value;
    int error = 0;
    for (const char *const *key = keys; key && *key && error >= 0; key++) {
        if (!otlp_span_attribute(span, *key, &key_value))
            continue;
        error = wire_put_bytes(out, OTLP_SPAN_ATTRIBUTES, key_value);
        *was_cut |= error == BUF_FULL;
    }
    return error < 0 ? error : 0;
}

static int keep_facts(struct matched_spans *spans, const struct otlp_span *span,
                      const struct matched_texts *texts, const struct span_total_process *who,
                      struct matched_span **result)
{
    struct matched_span *matched = new_joined(spans, texts, who);
    if (!matched)
        return no_memory(spans);
    matched->id = spans->next_id++;
    matched->facts.pid = who->pid;
    matched->facts.local_root = otlp_span_is_local_root(span);
    matched->facts.start_unix_ns = span->start_unix_ns;
    matched->facts.end_unix_ns = span->end_unix_ns;
    matched->facts.kind = span->kind;
    memcpy(matched->facts.trace_id, span->trace_id.data, 16);
    memcpy(matched->facts.span_id, span->span_id.data, 8);
    if (span->parent_span_id.len == 8)
        memcpy(matched->facts.parent_id, span->parent_span_id.data, 8);
    matched->facts.error = otlp_span_is_error(span);
    *result = matched;
    return matched_spans_save(spans, matched);
}

int matched_span_make(struct matched_spans *spans, const struct otlp_span *span,
                      struct matched_resource *resource, const struct span_total_process *who,
                      struct matched_span **result)
{
    WRITER_THREAD(spans->db);
    struct buf attributes _cleanup_buf_ = BUF_INIT(MATCHED_SPAN_ATTRIBUTES_MAX);
    struct matched_texts texts = {.resource = resource,
                                  .name = utf8_cut(span->name, MATCHED_SPAN_NAME_MAX)};
    bool was_cut = texts.name.len < span->name.len;
    if (matched_span_attributes(spans->attributes, span, &attributes, &was_cut))
        return no_memory(spans);
    texts.attributes = buf_bytes(&attributes);
    int error = fit_share(spans, &texts, who->tenant, &was_cut);
    if (!error)
        error = keep_facts(spans, span, &texts, who, result);
    if (!error && texts.resource != resource)
        error = matched_resource_drop(spans, texts.resource); /* the span holds it */
    stat_add(&cut_texts, was_cut);
    return error;
}

/* Links */

void matched_span_link(struct matched_span *matched, struct span_total *total)
{
    if (span_total_is_by_trace(total)) {
        if (matched->by_trace)
            return;
        matched->by_trace = total;
        matched->next_by_trace = total->matched;
        total->matched = matched;
        return;
    }
    struct span_total **at = span_total_is_by_span(total) ? &matched->by_span : &matched->exact;
    if (*at || total->matched)
        return;
    *at = total;
    total->matched = matched;
}

void matched_span_unlink_total(struct span_total *total)
{
    if (!span_total_is_by_trace(total) && total->matched) {
        struct matched_span *matched = total->matched;
        if (matched->exact == total)
            matched->exact = NULL;
        else
            matched->by_span = NULL;
        total->matched = NULL;
    }
    while (total->matched) {
        struct matched_span *matched = total->matched;
        total->matched = matched->next_by_trace;
        matched->next_by_trace = NULL;
        matched->by_trace = NULL;
    }
}

struct matched_span *matched_span_of(const struct span_total *total, uint64_t time_unix_ns)
{
    struct matched_span *matched = total->matched;
    if (!span_total_is_by_trace(total))
        return matched;
    while (matched &&
           !span_time_has(matched->facts.start_unix_ns, matched->facts.end_unix_ns, time_unix_ns))
        matched = matched->next_by_trace;
    return matched;
}

/* Rows */

static int matched_spans_decode(struct matched_spans *spans, struct bytes body,
                                struct matched_resource *resource, struct matched_span **result)
{
    struct blob_reader in = {.left = body};
    struct matched_span head = {0};
    blob_get_fixed(&in, head.facts.trace_id, 16);
    blob_get_fixed(&in, head.facts.span_id, 8);
    head.facts.kind = blob_get_number32(&in);
    head.facts.local_root = blob_get_number(&in) == 1;
    head.facts.start_unix_ns = blob_get_number(&in);
    head.facts.end_unix_ns = blob_get_number(&in);
    head.who.start_ns = blob_get_number(&in);
    head.who.pid = blob_get_number32(&in);
    struct bytes name = blob_get_bytes(&in), attributes = blob_get_bytes(&in);
    if (in.left.len) { /* schema 7 ends here */
        blob_get_fixed(&in, head.facts.parent_id, 8);
        head.facts.error = blob_get_number(&in) == 1;
    }
    if (in.left.len) /* rows of earlier versions end here */
        head.who.tenant = blob_get_number(&in);
    if (in.bad)
        return -EUCLEAN;
    struct matched_span *matched =
        new_joined(spans, &(struct matched_texts){resource, name, attributes}, &head.who);
    if (!matched)
        return -ENOMEM;
    head.facts.name = matched->facts.name;
    head.facts.attributes = matched->facts.attributes;
    head.facts.resource = matched->facts.resource;
    matched->facts = head.facts;
    matched->facts.pid = matched->who.pid;
    *result = matched;
    return 0;
}

static bool id_in_range(int64_t id)
{
    return id > 0 && id < INT64_MAX / 2;
}

static int load_row(struct matched_spans *spans, sqlite3_stmt *row)
{
    struct matched_resource *resource;
    struct matched_span *matched = NULL;
    int64_t resource_id = sqlite3_column_int64(row, 1);
    if (!id_in_range(resource_id) || sqlite3_column_type(row, 3) != SQLITE_BLOB)
        return -EUCLEAN;
    struct bytes body = BYTES(sqlite3_column_blob(row, 3), (size_t)sqlite3_column_bytes(row, 3));
    int error = matched_resource_get(spans, body, 0, &resource);
    if (error)
        return error;
    resource->id = resource_id;
    if (resource_id >= spans->next_resource_id)
        spans->next_resource_id = resource_id + 1;
    error = matched_spans_decode(
        spans, BYTES(sqlite3_column_blob(row, 2), (size_t)sqlite3_column_bytes(row, 2)), resource,
        &matched);
    if (matched)
        matched->id = sqlite3_column_int64(row, 0);
    int drop = matched_resource_drop(spans, resource); /* `latest` and the span hold it */
    return error ? error : drop;
}

static int load_rows(struct matched_spans *spans, struct id_set *bad)
{
    sqlite3_stmt *row _cleanup_reset_ = spans->load;
    int outcome;
    spans->next_id = spans->next_resource_id = 1;
    while ((outcome = db_step(spans->db, row)) == 1) {
        int64_t id = sqlite3_column_int64(row, 0);
        if (!id_in_range(id))
            return -EUCLEAN;
        spans->next_id = id + 1;
        int error = load_row(spans, row);
        if (error == -EUCLEAN)
            error = id_set_add(bad, id);
        if (error)
            return error;
    }
    return outcome;
}

static void matched_spans_clear(struct matched_spans *spans)
{
    struct list *link;
    struct matched_resource *resource;
    while ((link = list_first(&spans->ages)))
        free_joined(spans, container_of(link, struct matched_span, age));
    for (size_t i = 0; (resource = map_next(&spans->resources, &i));)
        free(resource);
    map_close(&spans->resources);
    fair_share_clear(&spans->share);
    spans->latest = NULL;
}

int matched_spans_reload(struct matched_spans *spans)
{
    WRITER_THREAD(spans->db);
    struct id_set bad = {0};
    matched_spans_clear(spans);
    int error = load_rows(spans, &bad);
    for (size_t i = 0; i < bad.count && !error; i++) {
        db_count_damaged(DB_TABLE_MATCHED_SPAN);
        sqlite3_bind_int64(spans->remove, 1, bad.ids[i]);
        error = db_run(spans->db, spans->remove);
    }
    id_set_close(&bad);
    return error;
}

int matched_spans_open(struct matched_spans *spans, struct db *db,
                       const struct matched_spans_settings *settings)
{
    *spans = (struct matched_spans){.db = db,
                                    .max_count = settings->max_count ? settings->max_count : 1,
                                    .attributes = settings->attributes};
    list_init(&spans->ages);
    for (size_t i = 0; i < FAIR_SHARES; i++)
        list_init(&spans->own_ages[i]);
    MAP_INIT(&spans->resources, struct matched_resource, hash);
    int error = fair_share_init(&spans->share, settings->max_bytes);
    if (error)
        return error;
    if (getrandom(spans->hash_key, sizeof(spans->hash_key), 0) != sizeof(spans->hash_key))
        return -errno;
    error = db_prepare(db, "INSERT INTO joined_span(id, resource, body) VALUES (?1, ?2, ?3)",
                       &spans->put);
    if (!error)
        error = db_prepare(db, "DELETE FROM joined_span WHERE id = ?1", &spans->remove);
    if (!error)
        error = db_prepare(db,
                           "SELECT s.id, s.resource, s.body, r.body FROM joined_span s"
                           " LEFT JOIN span_resource r ON r.id = s.resource ORDER BY s.id",
                           &spans->load);
    if (!error)
        error = db_prepare(db, "INSERT INTO span_resource(id, body) VALUES (?1, ?2)",
                           &spans->put_resource);
    if (!error)
        error = db_prepare(db, "DELETE FROM span_resource WHERE id = ?1", &spans->remove_resource);
    return error;
}

void matched_spans_close(struct matched_spans *spans)
{
    if (!spans->db)
        return;
    matched_spans_clear(spans);
    map_close(&spans->resources);
    db_unprepare(spans->db, &spans->put);
    db_unprepare(spans->db, &spans->remove);
    db_unprepare(spans->db, &spans->load);
    db_unprepare(spans->db, &spans->put_resource);
    db_unprepare(spans->db, &spans->remove_resource);
}
