/* SPDX-License-Identifier: Apache-2.0 */
/* The row's key is a keyed hash of its body, so equal facts are one row. */
#include "store/stacks/processes.h"
#include "base/stats.h"
#include "store/db/blob.h"
#include "store/db/db.h"
#include "store/db/intern.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

STAT_LOSS(cut_texts, "spanprof_store_process_facts_cut_total",
          "Processes whose names or Resource were too long to keep whole.");

struct process_entry {
    struct intern_entry entry;
    struct process_block *block; /* NULL: not read yet */
};

struct process_block {
    struct process_facts facts;
    uint8_t texts[];
};

struct processes {
    struct db *db;
    struct intern rows;
    uint8_t hash_key[16];
    sqlite3_stmt *get_facts, *load_meta, *save_meta;
};

static void forget_entry(struct intern_entry *entry)
{
    free(container_of(entry, struct process_entry, entry)->block);
}

static int load_key(struct processes *processes)
{
    sqlite3_stmt *row _cleanup_reset_ = processes->load_meta;
    int outcome = db_step(processes->db, row);
    if (outcome < 0)
        return outcome;
    if (outcome == 1 && sqlite3_column_bytes(row, 0) == 16) {
        memcpy(processes->hash_key, sqlite3_column_blob(row, 0), 16);
        return 0;
    }
    sqlite3_reset(row);
    if (getrandom(processes->hash_key, 16, 0) != 16)
        return -errno;
    sqlite3_bind_blob(processes->save_meta, 1, processes->hash_key, 16, SQLITE_STATIC);
    return db_run(processes->db, processes->save_meta);
}

static int open_all(struct processes *processes)
{
    struct db *db = processes->db;
    int error = intern_open(
        &processes->rows, db,
        &(struct intern_settings){
            .meta = "generation.process",
            .find = "SELECT id, generation FROM process WHERE hash = ?1",
            .get = "SELECT hash, generation FROM process WHERE id = ?1",
            .insert = "INSERT INTO process(hash, generation, facts) VALUES (?1, ?2, ?3)",
            .touch = "UPDATE process SET generation = ?2 WHERE id = ?1",
            .walk = "SELECT id, generation FROM process WHERE id > ?1 ORDER BY id LIMIT ?2",
            .remove = "DELETE FROM process WHERE id = ?1",
            .entry_size = sizeof(struct process_entry),
            .max_entries = PROCESSES_CACHE,
            .forget = forget_entry,
        });
    if (!error)
        error = db_prepare(db, "SELECT facts FROM process WHERE id = ?1", &processes->get_facts);
    if (!error)
        error = db_prepare(db, "SELECT value FROM meta WHERE name = 'process.key'",
                           &processes->load_meta);
    if (!error)
        error =
            db_prepare(db, "INSERT OR REPLACE INTO meta(name, value) VALUES ('process.key', ?1)",
                       &processes->save_meta);
    return error ? error : load_key(processes);
}

int processes_open(struct db *db, struct processes **result)
{
    struct processes *processes = calloc(1, sizeof(*processes));
    if (!processes)
        return -ENOMEM;
    processes->db = db;
    int error = open_all(processes);
    if (error) {
        processes_close(processes);
        return error;
    }
    *result = processes;
    return 0;
}

void processes_close(struct processes *processes)
{
    if (!processes)
        return;
    intern_close(&processes->rows);
    db_unprepare(processes->db, &processes->get_facts);
    db_unprepare(processes->db, &processes->load_meta);
    db_unprepare(processes->db, &processes->save_meta);
    free(processes);
}

int processes_reload(struct processes *processes)
{
    WRITER_THREAD(processes->db);
    int error = intern_reload(&processes->rows);
    return error ? error : load_key(processes);
}

static void put_text(struct blob_writer *out, struct bytes text, bool *was_cut)
{
    *was_cut |= text.len > PROCESSES_TEXT_MAX;
    blob_put_bytes(out,
                   text.len > PROCESSES_TEXT_MAX ? BYTES(text.data, PROCESSES_TEXT_MAX) : text);
}

static void process_encode(struct blob_writer *out, const struct process_facts *facts)
{
    bool was_cut = facts->resource.len > PROCESSES_RESOURCE_MAX;
    struct bytes resource = was_cut ? BYTES(NULL, 0) : facts->resource; /* whole or none */
    blob_put_number(out, facts->start_ns);
    blob_put_number(out, facts->pid);
    blob_put_number(out, facts->own_pid);
    blob_put_number(out, facts->sets_trace_flags);
    put_text(out, facts->executable_name, &was_cut);
    put_text(out, facts->executable_path, &was_cut);
    put_text(out, facts->container_id, &was_cut);
    blob_put_bytes(out, resource);
    put_text(out, facts->pod_uid, &was_cut);
    blob_put_number(out, facts->cgroup_id);
    blob_put_number(out, facts->uid);
    stat_add(&cut_texts, was_cut);
}

static struct process_block *processes_decode(struct bytes blob)
{
    struct process_block *block = calloc(1, sizeof(*block) + blob.len);
    if (!block)
        return NULL;
    if (blob.len)
        memcpy(block->texts, blob.data, blob.len);
    struct blob_reader in = {.left = {block->texts, blob.len}};
    struct process_facts *facts = &block->facts;
    facts->start_ns = blob_get_number(&in);
    facts->pid = blob_get_number32(&in);
    facts->own_pid = blob_get_number32(&in);
    facts->sets_trace_flags = blob_get_number(&in) == 1;
    facts->executable_name = blob_get_bytes(&in);
    facts->executable_path = blob_get_bytes(&in);
    facts->container_id = blob_get_bytes(&in);
    facts->resource = blob_get_bytes(&in);
    if (in.left.len) /* schema 1 ends here */
        facts->pod_uid = blob_get_bytes(&in);
    if (in.left.len) { /* rows of earlier versions end here */
        facts->cgroup_id = blob_get_number(&in);
        facts->uid = blob_get_number32(&in);
    }
    if (in.bad)
        block->facts = (struct process_facts){0};
    return block;
}

int processes_put(struct processes *processes, const struct process_facts *facts, int64_t *id)
{
    WRITER_THREAD(processes->db);
    struct blob_writer out _cleanup_blob_ = {0};
    uint8_t hash[16];
    struct intern_entry *entry;
    process_encode(&out, facts);
    if (out.error)
        return out.error;
    bytes_siphash128(buf_bytes(&out.buf), processes->hash_key, hash);
    int use = intern_key(&processes->rows, hash, buf_bytes(&out.buf), &entry);
    if (use < 0)
        return use;
    *id = entry->id;
    return 0;
}

static int processes_load(struct processes *processes, struct process_entry *process)
{
    sqlite3_stmt *row _cleanup_reset_ = processes->get_facts;
    sqlite3_bind_int64(row, 1, process->entry.id);
    int outcome = db_step(processes->db, row);
    if (outcome <= 0)
        return outcome ? outcome : -ENOENT;
    process->block =
        processes_decode(BYTES(sqlite3_column_blob(row, 0), (size_t)sqlite3_column_bytes(row, 0)));
    if (process->block)
        return 0;
    db_fail(processes->db, -ENOMEM);
    return -ENOMEM;
}

int processes_get(struct processes *processes, int64_t id, const struct process_facts **facts)
{
    WRITER_THREAD(processes->db);
    struct intern_entry *entry;
    int error = intern_id(&processes->rows, id, &entry);
    if (error)
        return error;
    struct process_entry *process = container_of(entry, struct process_entry, entry);
    if (!process->block)
        error = processes_load(processes, process);
    if (!error)
        *facts = &process->block->facts;
    return error;
}

int processes_collect_begin(struct processes *processes, struct id_set *referred)
{
    WRITER_THREAD(processes->db);
    return intern_sweep_begin(&processes->rows, referred);
}

int processes_collect(struct processes *processes)
{
    WRITER_THREAD(processes->db);
    return intern_sweep(&processes->rows);
}
