/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A new batch is indexed by decoding its encoded row, as after a restart: there is one code path,
 * and a sample that cannot be decoded never counts.
 */
#include "store/join/pending.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/stats.h"
#include "store/db/db.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define BATCH_SAMPLES_MAX 1000000 /* limit of a batch; a larger count is damage */
#define SAMPLE_BYTES_MIN  4

LIMIT(pending, LIMIT_SERVICE, "samples that wait for their span", .key = "join::max_pending_mib",
      .percent = 125); /* dropped only above that: join_drop_excess() */

STAT_GAUGE(pending_samples, "spanprof_join_pending_samples",
           "Samples that wait for their span or for the next profile.");
STAT_GAUGE(pending_bytes, "spanprof_join_pending_bytes", "Rows and memory of pending samples.");

struct batch_row { /* a batch in its row; borrowed */
    struct bytes body;
    struct bytes left; /* empty: all samples are pending */
};

static int no_memory(struct pending *pending)
{
    db_fail(pending->db, -ENOMEM);
    return -ENOMEM;
}

static void update_gauges(const struct pending *pending)
{
    stat_set(&pending_samples, (int64_t)pending->n_samples);
    stat_set(&pending_bytes, (int64_t)pending->bytes);
}

struct pending_batch *pending_sample_batch(const struct pending_sample *entry)
{
    return container_of(entry - entry->index, struct pending_batch, samples[0]);
}

uint64_t pending_sample_time(const struct pending_sample *entry)
{
    return pending_sample_batch(entry)->base_unix_ns + entry->after_us * UINT64_C(1000);
}

void pending_sample_set(struct pending *pending, struct pending_sample *entry,
                        enum pending_state state)
{
    struct pending_batch *batch = pending_sample_batch(entry);
    bool was_ready = entry->state == PENDING_READY || entry->state == PENDING_JOINED;
    bool is_ready = state == PENDING_READY || state == PENDING_JOINED;
    batch->n_waiting += (uint32_t)(state == PENDING_WAITING) - (entry->state == PENDING_WAITING);
    batch->n_ready += (uint32_t)is_ready - was_ready;
    assert(state != PENDING_GONE || entry->state == PENDING_GONE || pending->n_samples > 0);
    pending->n_samples += (size_t)(state != PENDING_GONE) - (entry->state != PENDING_GONE);
    entry->state = (uint8_t)state;
    assert(entry->index < batch->count);
    assert((uint64_t)batch->n_waiting + batch->n_ready <= batch->count);
    assert((uint64_t)batch->n_waiting + batch->n_ready <= pending->n_samples);
}

/* Reading */

static void pending_sample_fill(struct pending_batch *batch, uint32_t index,
                                const struct sample *sample)
{
    struct pending_sample *entry = &batch->samples[index];
    uint64_t after_us = (sample->time_unix_ns - batch->base_unix_ns) / 1000;
    entry->index = index;
    entry->stack = sample->stack;
    entry->cpu = sample->kind == SAMPLE_CPU;
    entry->after_us = after_us > UINT32_MAX ? UINT32_MAX : (uint32_t)after_us;
    if (entry->cpu)
        entry->value_ns = sample->value_ns > UINT32_MAX ? UINT32_MAX : (uint32_t)sample->value_ns;
}

static bool is_left(struct bytes left, uint32_t index)
{
    return !left.len || (index / 8 < left.len && left.data[index / 8] >> (index % 8) & 1);
}

static struct pending_batch *new_batch(struct blob_reader *in, size_t row_bytes)
{
    uint32_t count = blob_get_number32(in);
    uint64_t base = blob_get_number(in);
    if (in->bad || !count || count > BATCH_SAMPLES_MAX || count > in->left.len / SAMPLE_BYTES_MIN)
        return NULL;
    struct pending_batch *batch = calloc(1, sizeof(*batch) + count * sizeof(batch->samples[0]));
    if (!batch)
        return NULL;
    batch->count = count;
    batch->base_unix_ns = base;
    batch->bytes = row_bytes + sizeof(*batch) + count * sizeof(batch->samples[0]);
    return batch;
}

static void free_batch(struct pending *pending, struct pending_batch *batch)
{
    for (uint32_t i = 0; i < batch->count; i++)
        if (batch->samples[i].state != PENDING_GONE)
            pending_sample_set(pending, &batch->samples[i], PENDING_GONE);
    list_remove(&batch->link);
    id_set_close(&batch->processes);
    free(batch);
}

static int note_process(struct pending_batch *batch, int64_t process)
{
    struct id_set *set = &batch->processes;
    if (!process || (set->count && set->ids[set->count - 1] == process))
        return 0;
    return id_set_add(set, process);
}

static int index_samples(struct pending *pending, struct pending_batch *batch,
                         struct blob_reader *in, struct bytes left, pending_index *index,
                         void *context, bool fresh)
{
    struct sample sample, previous = {0};
    for (uint32_t i = 0; i < batch->count; i++) {
        if (!sample_decode(in, &sample, &previous))
            return -EUCLEAN;
        previous = sample;
        pending_sample_fill(batch, i, &sample);
        if (!is_left(left, i))
            continue;
        if (note_process(batch, sample.process))
            return no_memory(pending);
        int error = index(context, batch, &batch->samples[i], &sample, fresh);
        if (error)
            return error;
    }
    id_set_seal(&batch->processes);
    return 0;
}

/* Whether every sample can be decoded. Checked first, so that no sample of a damaged row is
 * indexed. */
static bool is_whole(struct bytes body)
{
    struct blob_reader in = {.left = body};
    struct sample sample, previous = {0};
    uint32_t count = blob_get_number32(&in);
    blob_get_number(&in);
    for (uint32_t i = 0; i < count && !in.bad; i++) {
        sample_decode(&in, &sample, &previous);
        previous = sample;
    }
    return !in.bad && count;
}

static int add_batch(struct pending *pending, int64_t seq, const struct batch_row *row,
                     pending_index *index, void *context, bool fresh)
{
    struct blob_reader in = {.left = row->body};
    struct pending_batch *batch = new_batch(&in, row->body.len + row->left.len);
    if (!batch)
        return in.bad ? -EUCLEAN : no_memory(pending);
    batch->seq = seq;
    list_append(&pending->batches, &batch->link);
    pending->bytes += batch->bytes;
    return index_samples(pending, batch, &in, row->left, index, context, fresh);
}

static struct bytes pending_column(sqlite3_stmt *row, int index)
{
    return BYTES(sqlite3_column_blob(row, index), (size_t)sqlite3_column_bytes(row, index));
}

static int load_rows(struct pending *pending, pending_index *index, void *context,
                     struct id_set *bad)
{
    sqlite3_stmt *row _cleanup_reset_ = pending->load;
    int outcome;
    while ((outcome = db_step(pending->db, row)) == 1) {
        struct batch_row batch = {pending_column(row, 1), pending_column(row, 2)};
        int64_t seq = sqlite3_column_int64(row, 0);
        int error = is_whole(batch.body) ? add_batch(pending, seq, &batch, index, context, false)
                                         : id_set_add(bad, seq);
        if (error)
            return error;
    }
    return outcome;
}

static void pending_clear(struct pending *pending)
{
    struct list *link;
    while ((link = list_first(&pending->batches)))
        free_batch(pending, container_of(link, struct pending_batch, link));
    pending->bytes = 0;
    assert(!pending->n_samples);
}

static int remove_rows(struct pending *pending, int64_t seq)
{
    sqlite3_bind_int64(pending->remove, 1, seq);
    sqlite3_bind_int64(pending->remove_left, 1, seq);
    int error = db_run(pending->db, pending->remove);
    return error ? error : db_run(pending->db, pending->remove_left);
}

int pending_reload(struct pending *pending, pending_index *index, void *context)
{
    WRITER_THREAD(pending->db);
    struct id_set bad = {0};
    pending_clear(pending);
    int error = load_rows(pending, index, context, &bad);
    for (size_t i = 0; i < bad.count && !error; i++) {
        db_count_damaged(DB_TABLE_PENDING);
        error = remove_rows(pending, bad.ids[i]);
    }
    id_set_close(&bad);
    update_gauges(pending);
    return error;
}

/* Writing */

void pending_begin(struct pending *pending)
{
    WRITER_THREAD(pending->db);
    buf_clear(&pending->body.buf);
    pending->body.error = 0;
    pending->previous = (struct sample){0};
    pending->n_written = 0;
    pending->base_unix_ns = UINT64_MAX;
}

int pending_add(struct pending *pending, const struct sample *sample)
{
    WRITER_THREAD(pending->db);
    struct sample own = *sample;
    if (pending->n_written == BATCH_SAMPLES_MAX)
        return -EMSGSIZE;
    if (own.attributes.len > SAMPLE_ATTRIBUTES_MAX)
        own.attributes = BYTES(NULL, 0);
    sample_encode(&pending->body, &own, &pending->previous);
    if (pending->body.error)
        return no_memory(pending);
    own.attributes = BYTES(NULL, 0); /* borrowed; attributes are not compared */
    pending->previous = own;
    pending->n_written++;
    if (sample->time_unix_ns < pending->base_unix_ns)
        pending->base_unix_ns = sample->time_unix_ns;
    return 0;
}

static int put_row(struct pending *pending, struct bytes body, int64_t *seq)
{
    sqlite3_bind_blob64(pending->put, 1, body.data, body.len, SQLITE_STATIC);
    int error = db_run(pending->db, pending->put);
    sqlite3_clear_bindings(pending->put);
    *seq = sqlite3_last_insert_rowid(db_handle(pending->db));
    return error;
}

int pending_commit(struct pending *pending, pending_index *index, void *context)
{
    WRITER_THREAD(pending->db);
    struct blob_writer row _cleanup_blob_ = {0};
    int64_t seq;
    if (!pending->n_written)
        return 0;
    blob_put_number(&row, pending->n_written);
    blob_put_number(&row, pending->base_unix_ns);
    blob_put_fixed(&row, pending->body.buf.data, pending->body.buf.len);
    if (row.error)
        return no_memory(pending);
    int error = put_row(pending, buf_bytes(&row.buf), &seq);
    if (!error)
        error = add_batch(pending, seq, &(struct batch_row){.body = buf_bytes(&row.buf)}, index,
                          context, true);
    pending_begin(pending);
    update_gauges(pending);
    return error;
}

/* Leaving */

static int save_left(struct pending *pending, const struct pending_batch *batch)
{
    struct buf left _cleanup_buf_ = {0};
    size_t size = (batch->count + 7) / 8;
    if (buf_reserve(&left, size))
        return no_memory(pending);
    memset(left.data, 0, size);
    for (uint32_t i = 0; i < batch->count; i++)
        if (batch->samples[i].state != PENDING_GONE)
            left.data[i / 8] |= (uint8_t)(1u << (i % 8));
    sqlite3_bind_int64(pending->put_left, 1, batch->seq);
    sqlite3_bind_blob64(pending->put_left, 2, left.data, size, SQLITE_STATIC);
    int error = db_run(pending->db, pending->put_left);
    sqlite3_clear_bindings(pending->put_left);
    return error;
}

int pending_remove(struct pending *pending, struct pending_batch *batch)
{
    WRITER_THREAD(pending->db);
    assert(!batch->n_ready && !batch->n_waiting);
    assert(pending->bytes >= batch->bytes);
    int error = remove_rows(pending, batch->seq);
    pending->bytes -= batch->bytes;
    free_batch(pending, batch);
    update_gauges(pending);
    return error;
}

static int visit_ready(struct pending *pending, struct pending_batch *batch, struct bytes body,
                       int (*visit)(void *context, struct pending_sample *entry,
                                    const struct sample *sample),
                       void *context)
{
    struct blob_reader in = {.left = body};
    struct sample sample, previous = {0};
    uint32_t count = blob_get_number32(&in);
    blob_get_number(&in);
    if (count != batch->count)
        return -EUCLEAN;
    for (uint32_t i = 0; i < count; i++) {
        struct pending_sample *entry = &batch->samples[i];
        if (!sample_decode(&in, &sample, &previous))
            return -EUCLEAN;
        previous = sample;
        if (entry->state != PENDING_READY && entry->state != PENDING_JOINED)
            continue;
        int outcome = visit(context, entry, &sample);
        if (outcome < 0)
            return outcome;
        if (outcome != PENDING_STAYS)
            pending_sample_set(pending, entry, PENDING_GONE);
    }
    return 0;
}

int pending_leave(struct pending *pending, struct pending_batch *batch,
                  int (*visit)(void *context, struct pending_sample *entry,
                               const struct sample *sample),
                  void *context)
{
    WRITER_THREAD(pending->db);
    sqlite3_stmt *row _cleanup_reset_ = pending->get;
    uint32_t n_before = batch->n_waiting + batch->n_ready;
    sqlite3_bind_int64(row, 1, batch->seq);
    int outcome = db_step(pending->db, row);
    if (outcome < 0)
        return outcome;
    int error =
        outcome ? visit_ready(pending, batch, pending_column(row, 0), visit, context) : -EUCLEAN;
    sqlite3_reset(row);
    if (error) {
        db_fail(pending->db, error);
        return error;
    }
    uint32_t n_left = batch->n_waiting + batch->n_ready;
    if (n_left == n_before)
        return 0;
    return n_left ? save_left(pending, batch) : pending_remove(pending, batch);
}

int pending_open(struct pending *pending, struct db *db)
{
    *pending = (struct pending){.db = db};
    list_init(&pending->batches);
    pending_begin(pending);
    int error = db_prepare(db, "INSERT INTO pending(body) VALUES (?1)", &pending->put);
    if (!error)
        error = db_prepare(db, "INSERT OR REPLACE INTO pending_left(seq, waiting) VALUES (?1, ?2)",
                           &pending->put_left);
    if (!error)
        error = db_prepare(db, "SELECT body FROM pending WHERE seq = ?1", &pending->get);
    if (!error)
        error = db_prepare(db, "DELETE FROM pending WHERE seq = ?1", &pending->remove);
    if (!error)
        error = db_prepare(db, "DELETE FROM pending_left WHERE seq = ?1", &pending->remove_left);
    if (!error)
        error = db_prepare(db,
                           "SELECT p.seq, p.body, l.waiting FROM pending p"
                           " LEFT JOIN pending_left l ON l.seq = p.seq ORDER BY p.seq",
                           &pending->load);
    return error;
}

void pending_close(struct pending *pending)
{
    if (!pending->db)
        return;
    pending_clear(pending);
    buf_close(&pending->body.buf);
    sqlite3_stmt **all[] = {&pending->put,    &pending->put_left,    &pending->get,
                            &pending->remove, &pending->remove_left, &pending->load};
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        db_unprepare(pending->db, all[i]);
}
