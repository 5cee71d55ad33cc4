/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resources are few and large, spans many: a Resource is one row and one piece of memory, counted
 * by those who have it.
 */
#include "store/join/joined.h"
#include "base/log.h"
#include "base/stats.h"
#include "base/utf8.h"
#include "proto/wire.h"
#include "store/db/db.h"
#include "store/db/id_set.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#define CLOCK_SLACK_NS  (10 * UINT64_C(1000000)) /* between a sample's clock and the SDK's */
#define TRIM_LOOK_MAX   64                       /* spans looked at for one that may go */
#define SPAN_ATTRIBUTES 9                        /* field of Span */

STAT_LOSS(cut_texts, "spanprof_join_span_facts_cut_total", "",
          "Joined spans whose name, attributes or Resource were too long to keep whole.");
STAT_LOSS(damaged, "spanprof_store_damaged_rows_total", "table=\"joined_span\"",
          "Rows that could not be read and were removed.");
STAT_GAUGE(span_count, "spanprof_join_recent_spans", "", "Joined spans in memory.");

static int no_memory(struct joined_spans *spans)
{
    db_fail(spans->db, -ENOMEM);
    return -ENOMEM;
}

/* Resources */

static struct joined_resource *new_resource(const uint8_t hash[16], struct bytes body)
{
    struct joined_resource *resource = calloc(1, sizeof(*resource) + body.len);
    if (!resource)
        return NULL;
    memcpy(resource->hash, hash, 16);
    if (body.len)
        memcpy(resource->data, body.data, body.len);
    resource->body = BYTES(resource->data, body.len);
    owner_evidence_of(resource->body, &resource->evidence);
    return resource;
}

static int make_resource(struct joined_spans *spans, const uint8_t hash[16], struct bytes body,
                         struct joined_resource **result)
{
    struct joined_resource *resource = new_resource(hash, body);
    if (!resource)
        return no_memory(spans);
    if (map_put(&spans->resources, resource, NULL)) {
        free(resource);
        return no_memory(spans);
    }
    *result = resource;
    return 0;
}

int joined_resource_drop(struct joined_spans *spans, struct joined_resource *resource)
{
    int error = 0;
    assert(resource->refs);
    if (--resource->refs)
        return 0;
    if (resource->id) {
        sqlite3_bind_int64(spans->remove_resource, 1, resource->id);
        error = db_run(spans->db, spans->remove_resource);
    }
    map_remove(&spans->resources, resource->hash);
    free(resource);
    return error;
}

/* The one of the span before is held, and most often it is the one of this span. */
static int remember_latest(struct joined_spans *spans, struct joined_resource *resource)
{
    struct joined_resource *before = spans->latest;
    resource->refs++;
    spans->latest = resource;
    return before ? joined_resource_drop(spans, before) : 0;
}

int joined_resource_get(struct joined_spans *spans, struct bytes body,
                        struct joined_resource **result)
{
    uint8_t hash[16];
    int error = 0;
    if (body.len > JOINED_RESOURCE_MAX) {
        stat_add(&cut_texts, 1);
        body = BYTES(NULL, 0);
    }
    struct joined_resource *resource = spans->latest;
    if (!resource || !bytes_equal(resource->body, body)) {
        bytes_siphash128(body, spans->hash_key, hash);
        resource = map_get(&spans->resources, hash);
        if (!resource)
            error = make_resource(spans, hash, body, &resource);
        if (!error)
            error = remember_latest(spans, resource);
    }
    if (error)
        return error;
    resource->refs++;
    *result = resource;
    return 0;
}

static int save_resource(struct joined_spans *spans, struct joined_resource *resource)
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

static void take_facts(struct joined *joined, struct bytes name, struct bytes attributes)
{
    if (name.len)
        memcpy(joined->texts, name.data, name.len);
    if (attributes.len)
        memcpy(joined->texts + name.len, attributes.data, attributes.len);
    joined->facts.name = BYTES(joined->texts, name.len);
    joined->facts.attributes = BYTES(joined->texts + name.len, attributes.len);
    joined->facts.resource = joined->resource->body;
}

static struct joined *new_joined(struct joined_spans *spans, struct joined_resource *resource,
                                 struct bytes name, struct bytes attributes)
{
    struct joined *joined = calloc(1, sizeof(*joined) + name.len + attributes.len);
    if (!joined)
        return NULL;
    joined->resource = resource;
    resource->refs++;
    take_facts(joined, name, attributes);
    list_append(&spans->ages, &joined->age);
    spans->count++;
    stat_set(&span_count, (int64_t)spans->count);
    return joined;
}

/* Without its row and its part in the Resource. */
static void free_joined(struct joined_spans *spans, struct joined *joined)
{
    list_remove(&joined->age);
    spans->count--;
    free(joined);
}

static void cut_from(struct tally *tally, struct joined *joined)
{
    struct joined **at = &tally->joined;
    while (*at && *at != joined)
        at = &(*at)->next_by_trace;
    if (*at)
        *at = joined->next_by_trace;
}

static void unlink_all(struct joined *joined)
{
    if (joined->by_trace)
        cut_from(joined->by_trace, joined);
    if (joined->exact)
        joined->exact->joined = NULL;
    if (joined->by_span)
        joined->by_span->joined = NULL;
    joined->exact = joined->by_trace = joined->by_span = NULL;
    joined->next_by_trace = NULL;
}

static int forget(struct joined_spans *spans, struct joined *joined)
{
    assert(!joined->refs);
    unlink_all(joined);
    sqlite3_bind_int64(spans->remove, 1, joined->id);
    int error = db_run(spans->db, spans->remove);
    int drop = joined_resource_drop(spans, joined->resource);
    free_joined(spans, joined);
    stat_set(&span_count, (int64_t)spans->count);
    return error ? error : drop;
}

int joined_trim(struct joined_spans *spans, const struct joined *keep)
{
    struct list *link, *tmp;
    int looks = 0;
    list_each(link, tmp, &spans->ages)
    {
        struct joined *joined = container_of(link, struct joined, age);
        if (spans->count <= spans->max_count || looks++ == TRIM_LOOK_MAX)
            break;
        if (joined->refs || joined == keep)
            continue;
        int error = forget(spans, joined);
        if (error)
            return error;
    }
    return 0;
}

static int save(struct joined_spans *spans, struct joined *joined)
{
    struct blob_writer out _cleanup_blob_ = {0};
    int error = save_resource(spans, joined->resource);
    if (error)
        return error;
    blob_put_fixed(&out, joined->facts.trace_id, 16);
    blob_put_fixed(&out, joined->facts.span_id, 8);
    blob_put_number(&out, joined->facts.kind);
    blob_put_number(&out, joined->facts.local_root);
    blob_put_number(&out, joined->facts.start_unix_ns);
    blob_put_number(&out, joined->facts.end_unix_ns);
    blob_put_number(&out, joined->who.start_ns);
    blob_put_number(&out, joined->who.pid);
    blob_put_bytes(&out, joined->facts.name);
    blob_put_bytes(&out, joined->facts.attributes);
    blob_put_fixed(&out, joined->facts.parent_id, 8);
    blob_put_number(&out, joined->facts.error);
    if (out.error)
        return no_memory(spans);
    sqlite3_bind_int64(spans->put, 1, joined->id);
    sqlite3_bind_int64(spans->put, 2, joined->resource->id);
    sqlite3_bind_blob64(spans->put, 3, out.buf.data, out.buf.len, SQLITE_STATIC);
    error = db_run(spans->db, spans->put);
    sqlite3_clear_bindings(spans->put);
    return error;
}

int joined_attributes(const char *const *keys, const struct otlp_span *span, struct buf *out,
                      bool *was_cut)
{
    struct bytes key_value;
    int error = 0;
    for (const char *const *key = keys; key && *key && error >= 0; key++) {
        if (!otlp_span_attribute(span, *key, &key_value))
            continue;
        error = wire_put_bytes(out, SPAN_ATTRIBUTES, key_value);
        *was_cut |= error == BUF_FULL;
    }
    return error < 0 ? error : 0;
}

int joined_make(struct joined_spans *spans, const struct otlp_span *span,
                struct joined_resource *resource, const struct tally_process *who,
                struct joined **result)
{
    struct buf attributes _cleanup_buf_ = BUF_INIT(JOINED_ATTRIBUTES_MAX);
    struct bytes name = utf8_cut(span->name, JOINED_NAME_MAX);
    bool was_cut = name.len < span->name.len;
    int error = joined_attributes(spans->attributes, span, &attributes, &was_cut);
    if (error)
        return no_memory(spans);
    struct joined *joined = new_joined(spans, resource, name, buf_bytes(&attributes));
    if (!joined)
        return no_memory(spans);
    stat_add(&cut_texts, was_cut);
    joined->id = spans->next_id++;
    joined->who = *who;
    joined->facts.local_root = otlp_span_is_local_root(span);
    joined->facts.start_unix_ns = span->start_unix_ns;
    joined->facts.end_unix_ns = span->end_unix_ns;
    joined->facts.kind = span->kind;
    memcpy(joined->facts.trace_id, span->trace_id.data, 16);
    memcpy(joined->facts.span_id, span->span_id.data, 8);
    if (span->parent_span_id.len == 8)
        memcpy(joined->facts.parent_id, span->parent_span_id.data, 8);
    joined->facts.error = otlp_span_is_error(span);
    *result = joined;
    return save(spans, joined);
}

/* Links */

void joined_link(struct joined *joined, struct tally *tally)
{
    if (tally_is_by_trace(tally)) {
        if (joined->by_trace)
            return;
        joined->by_trace = tally;
        joined->next_by_trace = tally->joined;
        tally->joined = joined;
        return;
    }
    struct tally **at = tally_is_by_span(tally) ? &joined->by_span : &joined->exact;
    if (*at || tally->joined)
        return;
    *at = tally;
    tally->joined = joined;
}

void joined_unlink_tally(struct tally *tally)
{
    if (!tally_is_by_trace(tally) && tally->joined) {
        struct joined *joined = tally->joined;
        if (joined->exact == tally)
            joined->exact = NULL;
        else
            joined->by_span = NULL;
        tally->joined = NULL;
    }
    while (tally->joined) {
        struct joined *joined = tally->joined;
        tally->joined = joined->next_by_trace;
        joined->next_by_trace = NULL;
        joined->by_trace = NULL;
    }
}

bool joined_spans_time(uint64_t start_unix_ns, uint64_t end_unix_ns, uint64_t time_unix_ns)
{
    if (time_unix_ns < start_unix_ns)
        return start_unix_ns - time_unix_ns <= CLOCK_SLACK_NS;
    return time_unix_ns <= end_unix_ns || time_unix_ns - end_unix_ns <= CLOCK_SLACK_NS;
}

struct joined *joined_of(const struct tally *tally, uint64_t time_unix_ns)
{
    struct joined *joined = tally->joined;
    if (!tally_is_by_trace(tally))
        return joined;
    while (joined &&
           !joined_spans_time(joined->facts.start_unix_ns, joined->facts.end_unix_ns, time_unix_ns))
        joined = joined->next_by_trace;
    return joined;
}

/* Rows */

static int decode(struct joined_spans *spans, struct bytes body, struct joined_resource *resource,
                  struct joined **result)
{
    struct blob_reader in = {.left = body};
    struct joined head = {0};
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
    if (in.bad)
        return -EUCLEAN;
    struct joined *joined = new_joined(spans, resource, name, attributes);
    if (!joined)
        return -ENOMEM;
    head.facts.name = joined->facts.name;
    head.facts.attributes = joined->facts.attributes;
    head.facts.resource = joined->facts.resource;
    joined->facts = head.facts;
    joined->who = head.who;
    *result = joined;
    return 0;
}

static bool id_in_range(int64_t id)
{
    return id > 0 && id < INT64_MAX / 2;
}

static int load_row(struct joined_spans *spans, sqlite3_stmt *row)
{
    struct joined_resource *resource;
    struct joined *joined = NULL;
    int64_t resource_id = sqlite3_column_int64(row, 1);
    if (!id_in_range(resource_id) || sqlite3_column_type(row, 3) != SQLITE_BLOB)
        return -EUCLEAN;
    int error = joined_resource_get(
        spans, BYTES(sqlite3_column_blob(row, 3), (size_t)sqlite3_column_bytes(row, 3)), &resource);
    if (error)
        return error;
    resource->id = resource_id;
    if (resource_id >= spans->next_resource_id)
        spans->next_resource_id = resource_id + 1;
    error = decode(spans, BYTES(sqlite3_column_blob(row, 2), (size_t)sqlite3_column_bytes(row, 2)),
                   resource, &joined);
    if (joined)
        joined->id = sqlite3_column_int64(row, 0);
    int drop = joined_resource_drop(spans, resource); /* latest and joined hold it */
    return error ? error : drop;
}

static int load_rows(struct joined_spans *spans, struct id_set *bad)
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

static void clear(struct joined_spans *spans)
{
    struct list *link;
    struct joined_resource *resource;
    while ((link = list_first(&spans->ages)))
        free_joined(spans, container_of(link, struct joined, age));
    for (size_t i = 0; (resource = map_next(&spans->resources, &i));)
        free(resource);
    map_close(&spans->resources);
    spans->latest = NULL;
}

int joined_reload(struct joined_spans *spans)
{
    struct id_set bad = {0};
    clear(spans);
    int error = load_rows(spans, &bad);
    for (size_t i = 0; i < bad.count && !error; i++) {
        stat_add(&damaged, 1);
        sqlite3_bind_int64(spans->remove, 1, bad.ids[i]);
        error = db_run(spans->db, spans->remove);
    }
    id_set_close(&bad);
    return error;
}

int joined_open(struct joined_spans *spans, struct db *db, size_t max_count,
                const char *const *attributes)
{
    *spans = (struct joined_spans){
        .db = db, .max_count = max_count ? max_count : 1, .attributes = attributes};
    list_init(&spans->ages);
    MAP_INIT(&spans->resources, struct joined_resource, hash);
    if (getrandom(spans->hash_key, sizeof(spans->hash_key), 0) != sizeof(spans->hash_key))
        return -errno;
    int error = db_prepare(db, "INSERT INTO joined_span(id, resource, body) VALUES (?1, ?2, ?3)",
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

void joined_close(struct joined_spans *spans)
{
    if (!spans->db)
        return;
    clear(spans);
    map_close(&spans->resources);
    db_unprepare(spans->db, &spans->put);
    db_unprepare(spans->db, &spans->remove);
    db_unprepare(spans->db, &spans->load);
    db_unprepare(spans->db, &spans->put_resource);
    db_unprepare(spans->db, &spans->remove_resource);
}
