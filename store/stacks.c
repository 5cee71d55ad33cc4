/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frames of a stack as they are stored name executables by rowid, which stands for the
 * identity, so the hash goes over just those bytes. Its key is made once for each store: strangers
 * choose frames, and two stacks that collide would be one.
 */
#include "store/stacks.h"
#include "base/log.h"
#include "base/stats.h"
#include "store/blob.h"
#include "store/db.h"
#include "store/executables.h"
#include "store/intern.h"
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

STAT_COUNTER(stacks_new, "spanprof_store_stacks_new_total", "", "Stacks that had not been seen.");
STAT_COUNTER(stacks_removed, "spanprof_store_stacks_removed_total", "",
             "Stacks that nothing referred to any more.");

struct cached_stack {
    struct intern_entry entry;
    bool public_known;
    uint8_t public_id[16];
};

struct stacks {
    struct db *db;
    struct intern rows;
    struct executables executables;
    uint64_t generation_began_ns; /* 0 = not known yet */
    uint8_t hash_key[16];
    struct blob_writer scratch;
    struct frame frames[STACKS_FRAMES_MAX];
    struct buf name_texts;
    sqlite3_stmt *get_frames, *set_public_id, *set_name, *get_name, *load_meta, *save_meta;
};

const struct executable_segment *executable_segment_of(const struct executable_facts *facts,
                                                       uint64_t file_offset)
{
    for (uint32_t i = 0; i < facts->n_segments; i++) {
        const struct executable_segment *segment = &facts->segments[i];
        if (file_offset >= segment->file_offset &&
            file_offset - segment->file_offset < segment->size)
            return segment;
    }
    return NULL;
}

/* Opening */

static int load_key(struct stacks *stacks)
{
    sqlite3_stmt *row _cleanup_reset_ = stacks->load_meta;
    int outcome = db_step(stacks->db, row);
    if (outcome < 0)
        return outcome;
    if (outcome == 1 && sqlite3_column_bytes(row, 0) == 16) {
        memcpy(stacks->hash_key, sqlite3_column_blob(row, 0), 16);
        return 0;
    }
    sqlite3_reset(row);
    if (getrandom(stacks->hash_key, 16, 0) != 16)
        return -errno;
    sqlite3_bind_blob(stacks->save_meta, 1, stacks->hash_key, 16, SQLITE_STATIC);
    return db_run(stacks->db, stacks->save_meta);
}

static int prepare_all(struct stacks *stacks)
{
    const struct {
        const char *sql;
        sqlite3_stmt **statement;
    } all[] = {
        {"SELECT public_id, frames FROM stack WHERE id = ?1", &stacks->get_frames},
        {"UPDATE stack SET public_id = ?2 WHERE id = ?1", &stacks->set_public_id},
        {"INSERT OR REPLACE INTO"
         " frame_name(executable, address, line, function, file, system_name)"
         " VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
         &stacks->set_name},
        {"SELECT line, function, file, system_name FROM frame_name"
         " WHERE executable = ?1 AND address = ?2",
         &stacks->get_name},
        {"SELECT value FROM meta WHERE name = 'stack.key'", &stacks->load_meta},
        {"INSERT OR REPLACE INTO meta(name, value) VALUES ('stack.key', ?1)", &stacks->save_meta},
    };
    int error = 0;
    for (size_t i = 0; i < sizeof(all) / sizeof(*all) && !error; i++)
        error = db_prepare(stacks->db, all[i].sql, all[i].statement);
    return error;
}

static int count_removed(void *context, int64_t id)
{
    (void)context, (void)id;
    stat_add(&stacks_removed, 1);
    return 0;
}

static int use_executables(struct stacks *stacks, const struct frame *frames, size_t n);

/* An old stack is still referred to, so what its frames name must stay as well. */
static int keep_stack(void *context, int64_t id)
{
    struct stacks *stacks = context;
    const struct frame *frames;
    size_t n;
    int error = stacks_frames(stacks, id, &frames, &n);
    if (!error)
        error = use_executables(stacks, frames, n);
    return error == -ENOENT || error == -ESTALE ? 0 : error;
}

static int open_all(struct stacks *stacks)
{
    int error = executables_open(&stacks->executables, stacks->db);
    if (!error)
        error = intern_open(
            &stacks->rows, stacks->db,
            &(struct intern_settings){
                .meta = "generation.stack",
                .find = "SELECT id, generation FROM stack WHERE hash = ?1",
                .get = "SELECT hash, generation FROM stack WHERE id = ?1",
                .insert = "INSERT INTO stack(hash, generation, frames) VALUES (?1, ?2, ?3)",
                .touch = "UPDATE stack SET generation = ?2 WHERE id = ?1",
                .walk = "SELECT id, generation FROM stack WHERE id > ?1 ORDER BY id LIMIT ?2",
                .remove = "DELETE FROM stack WHERE id = ?1",
                .entry_size = sizeof(struct cached_stack),
                .max_entries = STACKS_CACHE,
                .removed = count_removed,
                .kept = keep_stack,
                .context = stacks,
            });
    if (!error)
        error = prepare_all(stacks);
    return error ? error : load_key(stacks);
}

int stacks_open(struct db *db, struct stacks **result)
{
    struct stacks *stacks = calloc(1, sizeof(*stacks));
    if (!stacks)
        return -ENOMEM;
    stacks->db = db;
    int error = open_all(stacks);
    if (error) {
        stacks_close(stacks);
        return error;
    }
    *result = stacks;
    return 0;
}

void stacks_close(struct stacks *stacks)
{
    if (!stacks)
        return;
    sqlite3_stmt **all[] = {&stacks->get_frames, &stacks->set_public_id, &stacks->set_name,
                            &stacks->get_name,   &stacks->load_meta,     &stacks->save_meta};
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        db_unprepare(stacks->db, all[i]);
    if (stacks->rows.db)
        intern_close(&stacks->rows);
    executables_close(&stacks->executables);
    buf_close(&stacks->scratch.buf);
    buf_close(&stacks->name_texts);
    free(stacks);
}

int stacks_reload(struct stacks *stacks)
{
    int error = executables_reload(&stacks->executables);
    if (!error)
        error = intern_reload(&stacks->rows);
    return error ? error : load_key(stacks);
}

/* Executables */

int stacks_executable(struct stacks *stacks, const uint8_t identity[16], int64_t *id)
{
    return executables_intern(&stacks->executables, identity, id);
}

int stacks_executable_facts(struct stacks *stacks, int64_t id, const struct executable_facts *facts)
{
    return executables_set_facts(&stacks->executables, id, facts);
}

int stacks_executable_get(struct stacks *stacks, int64_t id, const struct executable_facts **facts)
{
    return executables_get(&stacks->executables, id, facts);
}

static int use_executables(struct stacks *stacks, const struct frame *frames, size_t n)
{
    int64_t last = 0; /* neighbours mostly share it */
    for (size_t i = 0; i < n; i++) {
        if (!frames[i].executable || frames[i].executable == last)
            continue;
        last = frames[i].executable;
        int error = executables_use(&stacks->executables, last);
        if (error)
            return error == -ENOENT ? -ESTALE : error;
    }
    return 0;
}

/* Stacks */

static void encode(struct blob_writer *out, const struct frame *frames, size_t n)
{
    uint64_t before = 0;
    buf_clear(&out->buf);
    out->error = 0;
    for (size_t i = 0; i < n; i++) {
        blob_put_number(out, (uint64_t)frames[i].executable << 2 | (frames[i].kind & 3));
        blob_put_signed(out, (int64_t)(frames[i].address - before));
        before = frames[i].address;
    }
}

int stacks_intern(struct stacks *stacks, const struct frame *frames, size_t n, int64_t *id,
                  bool *is_new)
{
    uint8_t hash[16];
    struct intern_entry *entry;
    if (n > STACKS_FRAMES_MAX)
        return -EINVAL;
    encode(&stacks->scratch, frames, n);
    if (stacks->scratch.error)
        return stacks->scratch.error;
    bytes_siphash128(buf_bytes(&stacks->scratch.buf), stacks->hash_key, hash);
    int use = intern_key(&stacks->rows, hash, buf_bytes(&stacks->scratch.buf), &entry);
    if (use < 0)
        return use;
    *id = entry->id;
    *is_new = use == INTERN_NEW;
    stat_add(&stacks_new, use == INTERN_NEW);
    return use == INTERN_KNOWN ? 0 : use_executables(stacks, frames, n);
}

static int decode(struct stacks *stacks, struct bytes blob, size_t *n)
{
    struct blob_reader in = {.left = blob};
    uint64_t before = 0;
    for (*n = 0; in.left.len && *n < STACKS_FRAMES_MAX; ++*n) {
        uint64_t head = blob_get_number(&in);
        before += (uint64_t)blob_get_signed(&in);
        if (in.bad)
            return -EUCLEAN;
        stacks->frames[*n] =
            (struct frame){.kind = head & 3, .executable = (int64_t)(head >> 2), .address = before};
    }
    return in.left.len ? -EUCLEAN : 0;
}

/* The row stays at hand in *row for its public id; the caller resets it. */
static int read_frames(struct stacks *stacks, sqlite3_stmt *row, int64_t id, size_t *n)
{
    sqlite3_bind_int64(row, 1, id);
    int outcome = db_step(stacks->db, row);
    if (outcome <= 0)
        return outcome ? outcome : -ENOENT;
    int error =
        decode(stacks, BYTES(sqlite3_column_blob(row, 1), (size_t)sqlite3_column_bytes(row, 1)), n);
    if (error)
        db_fail(stacks->db, error);
    return error;
}

int stacks_frames(struct stacks *stacks, int64_t id, const struct frame **frames, size_t *n)
{
    sqlite3_stmt *row _cleanup_reset_ = stacks->get_frames;
    int error = read_frames(stacks, row, id, n);
    *frames = stacks->frames;
    return error;
}

/* Public ids */

static int add_frame(struct stacks *stacks, struct fnv128 *fnv, const struct frame *frame)
{
    static const uint8_t unknown[16];
    const struct executable_facts *facts = NULL;
    uint64_t address = frame->address;
    char decimal[24];
    int error = frame->executable ? stacks_executable_get(stacks, frame->executable, &facts) : 0;
    if (error && error != -ENOENT)
        return error;
    if (facts) {
        const struct executable_segment *segment = executable_segment_of(facts, address);
        address = segment ? address - segment->file_offset + segment->vaddr : address;
    }
    fnv128_add(fnv, facts && facts->htlhash_known ? facts->htlhash : unknown, 16);
    int n = snprintf(decimal, sizeof(decimal), "%" PRIu64, address);
    fnv128_add(fnv, decimal, (size_t)n);
    return 0;
}

static int hash_public_id(struct stacks *stacks, size_t n, uint8_t out[16])
{
    struct fnv128 fnv;
    fnv128_init(&fnv);
    for (size_t i = 0; i < n; i++) {
        int error = add_frame(stacks, &fnv, &stacks->frames[i]);
        if (error)
            return error;
    }
    fnv128_finish(&fnv, out);
    return 0;
}

static int fix_public_id(struct stacks *stacks, int64_t id, uint8_t out[16])
{
    sqlite3_stmt *row _cleanup_reset_ = stacks->get_frames;
    size_t n;
    int error = read_frames(stacks, row, id, &n);
    if (error)
        return error;
    if (sqlite3_column_bytes(row, 0) == 16) {
        memcpy(out, sqlite3_column_blob(row, 0), 16);
        return 0;
    }
    error = hash_public_id(stacks, n, out);
    if (error)
        return error;
    sqlite3_bind_int64(stacks->set_public_id, 1, id);
    sqlite3_bind_blob(stacks->set_public_id, 2, out, 16, SQLITE_STATIC);
    error = db_run(stacks->db, stacks->set_public_id);
    sqlite3_clear_bindings(stacks->set_public_id);
    return error;
}

static int frames_ready(struct stacks *stacks, size_t n, bool *ready)
{
    *ready = true;
    for (size_t i = 0; *ready && i < n; i++) {
        const struct executable_facts *facts;
        int64_t executable = stacks->frames[i].executable;
        int error = executable ? stacks_executable_get(stacks, executable, &facts) : 0;
        if (error && error != -ENOENT)
            return error;
        *ready = !executable || (!error && facts->htlhash_known);
    }
    return 0;
}

static int read_ready(struct stacks *stacks, int64_t id, bool *ready)
{
    sqlite3_stmt *row _cleanup_reset_ = stacks->get_frames;
    size_t n;
    int error = read_frames(stacks, row, id, &n);
    if (error)
        return error;
    *ready = sqlite3_column_bytes(row, 0) == 16;
    return *ready ? 0 : frames_ready(stacks, n, ready);
}

int stacks_public_id_ready(struct stacks *stacks, int64_t id, bool *ready)
{
    struct intern_entry *entry;
    int error = intern_id(&stacks->rows, id, &entry);
    if (error)
        return error;
    *ready = container_of(entry, struct cached_stack, entry)->public_known;
    return *ready ? 0 : read_ready(stacks, id, ready);
}

int stacks_public_id(struct stacks *stacks, int64_t id, uint8_t out[16])
{
    struct intern_entry *entry;
    int error = intern_id(&stacks->rows, id, &entry);
    if (error)
        return error;
    struct cached_stack *stack = container_of(entry, struct cached_stack, entry);
    if (!stack->public_known) {
        error = fix_public_id(stacks, id, stack->public_id);
        if (error)
            return error;
        stack->public_known = true;
    }
    memcpy(out, stack->public_id, 16);
    return 0;
}

/* Names */

static struct bytes cut(struct bytes text)
{
    return text.len > STACKS_NAME_MAX ? BYTES(text.data, STACKS_NAME_MAX) : text;
}

static void bind_text(sqlite3_stmt *statement, int index, struct bytes text)
{
    text = cut(text);
    sqlite3_bind_blob64(statement, index, text.data ? (const void *)text.data : "", text.len,
                        SQLITE_STATIC);
}

int stacks_set_names(struct stacks *stacks, int64_t executable, const struct frame_name *names,
                     size_t n)
{
    int error = 0;
    for (size_t i = 0; i < n && !error; i++) {
        sqlite3_bind_int64(stacks->set_name, 1, executable);
        sqlite3_bind_int64(stacks->set_name, 2, (int64_t)names[i].address);
        sqlite3_bind_int64(stacks->set_name, 3, names[i].line);
        bind_text(stacks->set_name, 4, names[i].function);
        bind_text(stacks->set_name, 5, names[i].file);
        bind_text(stacks->set_name, 6, names[i].system_name);
        error = db_run(stacks->db, stacks->set_name);
    }
    sqlite3_clear_bindings(stacks->set_name);
    return error;
}

static int copy_name(struct stacks *stacks, sqlite3_stmt *row, struct frame_name *name)
{
    struct bytes *texts[] = {&name->function, &name->file, &name->system_name};
    size_t size = 1;
    for (int i = 0; i < 3; i++) {
        int column = i + 1;
        *texts[i] =
            BYTES(sqlite3_column_blob(row, column), (size_t)sqlite3_column_bytes(row, column));
        size += texts[i]->len;
    }
    buf_clear(&stacks->name_texts);
    if (buf_reserve(&stacks->name_texts, size))
        return -ENOMEM;
    for (int i = 0; i < 3; i++) {
        const uint8_t *copy = stacks->name_texts.data + stacks->name_texts.len;
        if (buf_append_bytes(&stacks->name_texts, *texts[i]))
            return -ENOMEM;
        texts[i]->data = copy;
    }
    name->line = sqlite3_column_int64(row, 0);
    return 0;
}

int stacks_name(struct stacks *stacks, const struct frame *frame, struct frame_name *name)
{
    sqlite3_stmt *row _cleanup_reset_ = stacks->get_name;
    *name = (struct frame_name){.address = frame->address};
    sqlite3_bind_int64(row, 1, frame->executable);
    sqlite3_bind_int64(row, 2, (int64_t)frame->address);
    int outcome = db_step(stacks->db, row);
    if (outcome <= 0)
        return outcome ? outcome : -ENOENT;
    return copy_name(stacks, row, name);
}

/* Collecting */

bool stacks_collect_due(const struct stacks *stacks, uint64_t now_unix_ns)
{
    uint64_t began = stacks->generation_began_ns;
    if (stacks->rows.sweeping || stacks->executables.rows.sweeping)
        return false; /* first to the end of the table */
    return now_unix_ns < began || now_unix_ns - began >= STACKS_GENERATION_NS ||
           stacks->rows.n_new >= STACKS_GENERATION_MAX;
}

int stacks_collect_begin(struct stacks *stacks, uint64_t now_unix_ns, struct id_set *referred)
{
    struct id_set none = {0}; /* executables are kept by the use that stacks make of them */
    stacks->generation_began_ns = now_unix_ns;
    int error = intern_sweep_begin(&stacks->rows, referred);
    return error ? error : intern_sweep_begin(&stacks->executables.rows, &none);
}

int stacks_collect(struct stacks *stacks)
{
    int error = intern_sweep(&stacks->rows);
    if (error || stacks->rows.sweeping)
        return error; /* executables after the last stack had its say */
    return intern_sweep(&stacks->executables.rows);
}
