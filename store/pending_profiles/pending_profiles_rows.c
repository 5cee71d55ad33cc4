/* SPDX-License-Identifier: Apache-2.0 */
#include "store/db/blob.h"
#include "store/db/db.h"
#include "store/pending_profiles/pending_profiles_state.h"
#include <stdlib.h>

static void write_contexts(struct blob_writer *out, const struct profiles_links *links)
{
    blob_put_number(out, links->n_resources);
    for (size_t i = 0; i < links->n_resources; i++)
        blob_put_bytes(out, links->resources[i]);
    blob_put_number(out, links->n_contexts);
    for (size_t i = 0; i < links->n_contexts; i++) {
        blob_put_fixed(out, &links->contexts[i].ids, sizeof(links->contexts[i].ids));
        blob_put_number(out, links->contexts[i].resource);
    }
}

static int save_body(struct pending_profiles *pending, int64_t seq, struct bytes body,
                     const struct profiles_links *links)
{
    struct blob_writer samples _cleanup_blob_ = {0};
    for (size_t i = 0; i < links->n_samples; i++)
        blob_put_number(&samples, links->contexts_of[i]);
    if (samples.error)
        return pending_profiles_no_memory(pending);
    sqlite3_bind_int64(pending->put_body, 1, seq);
    sqlite3_bind_blob64(pending->put_body, 2, body.data, body.len, SQLITE_STATIC);
    sqlite3_bind_blob64(pending->put_body, 3, samples.buf.data, samples.buf.len, SQLITE_STATIC);
    int error = db_run(pending->db, pending->put_body);
    sqlite3_clear_bindings(pending->put_body);
    return error;
}

int pending_profiles_save(struct pending_profiles *pending, struct request *request,
                          struct bytes body, const struct profiles_links *links)
{
    struct blob_writer contexts _cleanup_blob_ = {0};
    write_contexts(&contexts, links);
    if (contexts.error)
        return pending_profiles_no_memory(pending);
    sqlite3_bind_int64(pending->put, 1, (int64_t)request->received_unix_ns);
    sqlite3_bind_int64(pending->put, 2, (int64_t)request->n_items);
    sqlite3_bind_int64(pending->put, 3, (int64_t)request->n_bytes);
    sqlite3_bind_blob64(pending->put, 4, contexts.buf.data, contexts.buf.len, SQLITE_STATIC);
    int error = db_run(pending->db, pending->put);
    sqlite3_clear_bindings(pending->put);
    if (error)
        return error;
    request->seq = sqlite3_last_insert_rowid(db_handle(pending->db));
    return save_body(pending, request->seq, body, links);
}

int pending_profiles_save_facts(struct pending_profiles *pending, const struct awaited *awaited)
{
    const struct profiles_span *span = &awaited->facts->span;
    struct blob_writer out _cleanup_blob_ = {0};
    blob_put_number(&out, span->kind);
    blob_put_bytes(&out, span->name);
    blob_put_bytes(&out, span->attributes);
    if (out.error)
        return pending_profiles_no_memory(pending);
    sqlite3_bind_int64(pending->put_span, 1, awaited->request->seq);
    sqlite3_bind_int64(pending->put_span, 2, awaited - awaited->request->awaited);
    sqlite3_bind_blob64(pending->put_span, 3, out.buf.data, out.buf.len, SQLITE_STATIC);
    int error = db_run(pending->db, pending->put_span);
    sqlite3_clear_bindings(pending->put_span);
    return error;
}

int pending_profiles_remove(struct pending_profiles *pending, int64_t seq)
{
    sqlite3_stmt *const all[] = {pending->remove, pending->remove_body, pending->remove_spans};
    int error = 0;
    for (size_t i = 0; i < sizeof(all) / sizeof(*all) && !error; i++) {
        sqlite3_bind_int64(all[i], 1, seq);
        error = db_run(pending->db, all[i]);
    }
    return error;
}

struct bytes pending_profiles_column(sqlite3_stmt *row, int i)
{
    const void *data = sqlite3_column_blob(row, i);
    return BYTES(data, (size_t)sqlite3_column_bytes(row, i));
}

/* ---- loading ---- */

static int load_request(struct pending_profiles *pending, sqlite3_stmt *row)
{
    struct blob_reader in = {.left = pending_profiles_column(row, 4)};
    uint64_t n_resources = blob_get_number(&in);
    if (n_resources > in.left.len)
        return 1;
    struct owner_mark *marks = malloc(n_resources * sizeof(*marks) + 1);
    if (!marks)
        return pending_profiles_no_memory(pending);
    for (size_t i = 0; i < n_resources; i++)
        pending_profiles_mark(pending, blob_get_bytes(&in), &marks[i]);
    uint64_t n = blob_get_number(&in);
    bool bad = in.bad || n > PROFILES_CONTEXTS_MAX || n > in.left.len;
    struct request *request = bad ? NULL : pending_profiles_new_request(pending, n);
    int error = request || bad ? 0 : pending_profiles_no_memory(pending);
    if (request) {
        request->seq = sqlite3_column_int64(row, 0);
        request->received_unix_ns = (uint64_t)sqlite3_column_int64(row, 1);
        request->n_items = (uint64_t)sqlite3_column_int64(row, 2);
        request->n_bytes = (uint64_t)sqlite3_column_int64(row, 3);
        pending->n_bytes += request->n_bytes;
    }
    for (uint64_t i = 0; request && i < n && !error && !bad; i++) {
        struct profiles_ids ids;
        blob_get_fixed(&in, &ids, sizeof(ids));
        uint64_t resource = blob_get_number(&in);
        bad = in.bad || resource >= n_resources;
        error = bad ? 0 : pending_profiles_add_awaited(pending, request, &ids, &marks[resource]);
    }
    free(marks);
    if (bad && request)
        pending_profiles_free_request(pending, request);
    return error ? error : bad;
}

static int load_facts(struct pending_profiles *pending, sqlite3_stmt *row, struct request *request)
{
    struct blob_reader in = {.left = pending_profiles_column(row, 1)};
    int64_t context = sqlite3_column_int64(row, 0);
    struct profiles_span span = {.kind = blob_get_number32(&in)};
    span.name = blob_get_bytes(&in);
    span.attributes = blob_get_bytes(&in);
    if (in.bad || context < 0 || context >= request->n_awaited)
        return 0; /* then the span counts as not arrived */
    struct awaited *awaited = &request->awaited[context];
    if (awaited->settled)
        return 0;
    span.ids = awaited->ids;
    int error = pending_profiles_take_facts(pending, awaited, &span);
    if (!error)
        pending_profiles_settle(pending, awaited);
    return error;
}

static int load_spans(struct pending_profiles *pending, struct request *request)
{
    sqlite3_stmt *row _cleanup_reset_ = pending->load_spans;
    int outcome, error = 0;
    sqlite3_bind_int64(row, 1, request->seq);
    while (!error && (outcome = db_step(pending->db, row)) == 1)
        error = load_facts(pending, row, request);
    return error ? error : outcome < 0 ? outcome : 0;
}

static int load_rows(struct pending_profiles *pending, int64_t *bad_seq)
{
    sqlite3_stmt *row _cleanup_reset_ = pending->load;
    int outcome, error = 0;
    *bad_seq = 0;
    while (!error && (outcome = db_step(pending->db, row)) == 1) {
        error = load_request(pending, row);
        if (error > 0)
            *bad_seq = sqlite3_column_int64(row, 0);
    }
    return error ? error : outcome < 0 ? outcome : 0;
}

/* A request that cannot be read is removed, and all requests are read again; this is rare. */
int pending_profiles_load(struct pending_profiles *pending)
{
    int64_t bad_seq = 0;
    int error;
    while ((error = load_rows(pending, &bad_seq)) > 0) {
        db_count_damaged(DB_TABLE_PENDING_PROFILES);
        pending_profiles_free_all(pending);
        error = pending_profiles_remove(pending, bad_seq);
        if (error)
            return error;
    }
    struct list *link, *tmp;
    list_each(link, tmp, &pending->ages)
    {
        struct request *request = container_of(link, struct request, age);
        if (!error)
            error = load_spans(pending, request);
    }
    return error;
}

/* ---- statements ---- */

int pending_profiles_prepare(struct pending_profiles *pending)
{
    const struct {
        const char *sql;
        sqlite3_stmt **statement;
    } all[] = {
        {"INSERT INTO held(received_unix_ns, items, bytes, contexts) VALUES (?1, ?2, ?3, ?4)",
         &pending->put},
        {"INSERT INTO held_body(seq, body, samples) VALUES (?1, ?2, ?3)", &pending->put_body},
        {"INSERT OR REPLACE INTO held_span(seq, context, facts) VALUES (?1, ?2, ?3)",
         &pending->put_span},
        {"SELECT seq, received_unix_ns, items, bytes, contexts FROM held ORDER BY seq",
         &pending->load},
        {"SELECT context, facts FROM held_span WHERE seq = ?1", &pending->load_spans},
        {"SELECT body, samples FROM held_body WHERE seq = ?1", &pending->get_body},
        {"DELETE FROM held WHERE seq = ?1", &pending->remove},
        {"DELETE FROM held_body WHERE seq = ?1", &pending->remove_body},
        {"DELETE FROM held_span WHERE seq = ?1", &pending->remove_spans},
    };
    int error = 0;
    for (size_t i = 0; i < sizeof(all) / sizeof(*all) && !error; i++)
        error = db_prepare(pending->db, all[i].sql, all[i].statement);
    return error;
}

void pending_profiles_unprepare(struct pending_profiles *pending)
{
    sqlite3_stmt **all[] = {&pending->put,    &pending->put_body,    &pending->put_span,
                            &pending->load,   &pending->load_spans,  &pending->get_body,
                            &pending->remove, &pending->remove_body, &pending->remove_spans};
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        db_unprepare(pending->db, all[i]);
}
