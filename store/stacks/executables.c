/* SPDX-License-Identifier: Apache-2.0 */
/* Facts are decoded into one allocation owned by the cached row; the texts follow the struct. */
#include "store/stacks/executables.h"
#include "store/db/blob.h"
#include "store/db/db.h"
#include <errno.h>
#include <stdlib.h>

#define PATH_BYTES_MAX     4096
#define BUILD_ID_BYTES_MAX 256

struct facts_block {
    struct executable_facts facts;
    uint8_t texts[];
};

struct executable_entry {
    struct intern_entry entry;
    struct facts_block *block; /* NULL: not read yet, or no facts are known */
};

static void forget_entry(struct intern_entry *entry)
{
    free(container_of(entry, struct executable_entry, entry)->block);
}

static int remove_names(void *context, int64_t id)
{
    struct executables *executables = context;
    sqlite3_bind_int64(executables->remove_names, 1, id);
    return db_run(executables->db, executables->remove_names);
}

int executables_open(struct executables *executables, struct db *db)
{
    *executables = (struct executables){.db = db};
    int error = intern_open(
        &executables->rows, db,
        &(struct intern_settings){
            .meta = "generation.executable",
            .find = "SELECT id, generation FROM executable WHERE identity = ?1",
            .get = "SELECT identity, generation FROM executable WHERE id = ?1",
            .insert = "INSERT INTO executable(identity, generation, facts) VALUES (?1, ?2, ?3)",
            .touch = "UPDATE executable SET generation = ?2 WHERE id = ?1",
            .walk = "SELECT id, generation FROM executable WHERE id > ?1 ORDER BY id LIMIT ?2",
            .remove = "DELETE FROM executable WHERE id = ?1",
            .entry_size = sizeof(struct executable_entry),
            .max_entries = STACKS_EXECUTABLE_CACHE,
            .forget = forget_entry,
            .removed = remove_names,
            .context = executables,
        });
    if (!error)
        error =
            db_prepare(db, "SELECT facts FROM executable WHERE id = ?1", &executables->get_facts);
    if (!error)
        error = db_prepare(db, "UPDATE executable SET facts = ?2 WHERE id = ?1",
                           &executables->set_facts);
    if (!error)
        error = db_prepare(db, "DELETE FROM frame_name WHERE executable = ?1",
                           &executables->remove_names);
    return error;
}

void executables_close(struct executables *executables)
{
    if (!executables->db)
        return;
    intern_close(&executables->rows);
    db_unprepare(executables->db, &executables->get_facts);
    db_unprepare(executables->db, &executables->set_facts);
    db_unprepare(executables->db, &executables->remove_names);
}

int executables_reload(struct executables *executables)
{
    return intern_reload(&executables->rows);
}

int executables_intern(struct executables *executables, const uint8_t identity[16], int64_t *id)
{
    struct intern_entry *entry;
    int outcome = intern_key(&executables->rows, identity, BYTES(NULL, 0), &entry);
    if (outcome < 0)
        return outcome;
    *id = entry->id;
    return 0;
}

int executables_use(struct executables *executables, int64_t id)
{
    int outcome = intern_use(&executables->rows, id);
    return outcome < 0 ? outcome : 0;
}

static struct bytes at_most(struct bytes bytes, size_t max)
{
    return bytes.len > max ? BYTES(bytes.data, max) : bytes;
}

static void executable_encode(struct blob_writer *out, const struct executable_facts *facts)
{
    uint32_t n = facts->n_segments;
    if (n > EXECUTABLE_SEGMENTS_MAX)
        n = EXECUTABLE_SEGMENTS_MAX;
    blob_put_number(out, facts->htlhash_known);
    blob_put_fixed(out, facts->htlhash, sizeof(facts->htlhash));
    blob_put_number(out, n);
    for (uint32_t i = 0; i < n; i++) {
        blob_put_number(out, facts->segments[i].file_offset);
        blob_put_number(out, facts->segments[i].size);
        blob_put_number(out, facts->segments[i].vaddr);
    }
    blob_put_bytes(out, at_most(facts->path, PATH_BYTES_MAX));
    blob_put_bytes(out, at_most(facts->build_id, BUILD_ID_BYTES_MAX));
    blob_put_bytes(out, at_most(facts->go_build_id, BUILD_ID_BYTES_MAX));
}

void executables_decode(struct bytes blob, struct executable_facts *facts)
{
    struct blob_reader in = {.left = blob};
    *facts = (struct executable_facts){.htlhash_known = blob_get_number(&in) == 1};
    blob_get_fixed(&in, facts->htlhash, sizeof(facts->htlhash));
    facts->n_segments = blob_get_number32(&in);
    if (facts->n_segments > EXECUTABLE_SEGMENTS_MAX)
        in.bad = true;
    for (uint32_t i = 0; i < facts->n_segments && !in.bad; i++) {
        facts->segments[i].file_offset = blob_get_number(&in);
        facts->segments[i].size = blob_get_number(&in);
        facts->segments[i].vaddr = blob_get_number(&in);
    }
    facts->path = blob_get_bytes(&in);
    facts->build_id = blob_get_bytes(&in);
    facts->go_build_id = blob_get_bytes(&in);
    if (in.bad)
        *facts = (struct executable_facts){0};
}

static struct facts_block *executable_decode(struct bytes blob)
{
    struct facts_block *block = calloc(1, sizeof(*block) + blob.len);
    if (!block)
        return NULL;
    if (blob.len)
        memcpy(block->texts, blob.data, blob.len);
    executables_decode(BYTES(block->texts, blob.len), &block->facts);
    return block;
}

int executables_set_facts(struct executables *executables, int64_t id,
                          const struct executable_facts *facts)
{
    struct blob_writer out _cleanup_blob_ = {0};
    struct intern_entry *entry;
    int error = intern_id(&executables->rows, id, &entry);
    if (error)
        return error;
    executable_encode(&out, facts);
    if (out.error)
        return out.error;
    sqlite3_bind_int64(executables->set_facts, 1, id);
    sqlite3_bind_blob64(executables->set_facts, 2, out.buf.data, out.buf.len, SQLITE_STATIC);
    error = db_run(executables->db, executables->set_facts);
    sqlite3_clear_bindings(executables->set_facts);
    struct executable_entry *executable = container_of(entry, struct executable_entry, entry);
    free(executable->block); /* the next request reads it again */
    executable->block = NULL;
    return error;
}

static int executables_load(struct executables *executables, struct executable_entry *executable)
{
    sqlite3_stmt *row _cleanup_reset_ = executables->get_facts;
    sqlite3_bind_int64(row, 1, executable->entry.id);
    int outcome = db_step(executables->db, row);
    if (outcome < 0)
        return outcome;
    size_t len = outcome ? (size_t)sqlite3_column_bytes(row, 0) : 0;
    if (!len)
        return -ENOENT;
    executable->block = executable_decode(BYTES(sqlite3_column_blob(row, 0), len));
    return executable->block ? 0 : -ENOMEM;
}

int executables_get(struct executables *executables, int64_t id,
                    const struct executable_facts **facts)
{
    struct intern_entry *entry;
    int error = intern_id(&executables->rows, id, &entry);
    if (error)
        return error;
    struct executable_entry *executable = container_of(entry, struct executable_entry, entry);
    if (!executable->block)
        error = executables_load(executables, executable);
    if (!error)
        *facts = &executable->block->facts;
    return error;
}
