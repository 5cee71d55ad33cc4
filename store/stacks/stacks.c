/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stored frames refer to executables by rowid, which is unique per identity, so the hash covers
 * just the stored bytes. The hash has a secret key, made once per store: frames are untrusted, and
 * two stacks with equal hashes would become one.
 */
#include "agent-bpf/record_frame.h"
#include "agent-bpf/unwind_end.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/stats.h"
#include "store/stacks/stacks_state.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

LIMIT(stacks, LIMIT_SERVICE, "stacks, executables and processes: what is cached of the store",
      .bytes = 8u << 20);

STAT_COUNTER(stacks_new, "spanprof_store_stacks_new_total", "Stacks that had not been seen.");
STAT_COUNTER(stacks_removed, "spanprof_store_stacks_removed_total",
             "Stacks that nothing referred to any more.");

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

const char *stacks_truncation(uint64_t end)
{
    static const char *const names[UNWIND_ENDS] = UNWIND_END_NAMES;
    return end < UNWIND_ENDS ? names[end] : NULL;
}

static struct bytes stacks_cut(struct bytes text)
{
    return text.len > STACKS_NAME_MAX ? BYTES(text.data, STACKS_NAME_MAX) : text;
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

static int load_last(struct stacks *stacks)
{
    sqlite3_stmt *row _cleanup_reset_ = stacks->get_last;
    int outcome = db_step(stacks->db, row);
    if (outcome == 1)
        stacks->last_before = sqlite3_column_int64(row, 0);
    return outcome < 0 ? outcome : 0;
}

static int prepare_all(struct stacks *stacks)
{
    const struct {
        const char *sql;
        sqlite3_stmt **statement;
    } all[] = {
        {"SELECT public_id, frames FROM stack WHERE id = ?1", &stacks->get_frames},
        {"UPDATE stack SET public_id = ?2 WHERE id = ?1", &stacks->set_public_id},
        {"SELECT same_as FROM stack WHERE id = ?1", &stacks->get_same},
        {"UPDATE stack SET same_as = ?2, frames = x'' WHERE id = ?1", &stacks->set_same},
        {"SELECT id, same_as FROM stack WHERE same_as IS NOT NULL", &stacks->walk_same},
        {"SELECT max(id) FROM stack", &stacks->get_last},
        {"INSERT OR REPLACE INTO"
         " frame_name(executable, address, line, function, file, system_name, inlined)"
         " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
         &stacks->set_name},
        {"SELECT line, function, file, system_name, inlined FROM frame_name"
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

/* An old stack is still referred to, so the executables and names of its frames must stay, too. */
static int keep_stack(void *context, int64_t id)
{
    struct stacks *stacks = context;
    sqlite3_stmt *row _cleanup_reset_ = stacks->get_frames;
    size_t n;
    int error = stacks_read_row(stacks, row, id, &n);
    if (!error)
        error = stacks_use_parts(stacks, stacks->frames, n);
    return error == -ENOENT || error == -ESTALE ? 0 : error;
}

static int open_all(struct stacks *stacks)
{
    int error = executables_open(&stacks->executables, stacks->db);
    error = error ? error : code_names_open(&stacks->code_names, stacks->db);
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
    error = error ? error : load_last(stacks);
    return error ? error : load_key(stacks);
}

int stacks_open(struct db *db, struct stacks **result)
{
    struct stacks *stacks = calloc(1, sizeof(*stacks));
    if (!stacks)
        return -ENOMEM;
    stacks->db = db;
    stacks_unfinished_open(&stacks->unfinished);
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
    sqlite3_stmt **all[] = {&stacks->get_frames, &stacks->set_public_id, &stacks->get_same,
                            &stacks->set_same,   &stacks->walk_same,     &stacks->set_name,
                            &stacks->get_name,   &stacks->load_meta,     &stacks->save_meta,
                            &stacks->get_last};
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        db_unprepare(stacks->db, all[i]);
    if (stacks->rows.db)
        intern_close(&stacks->rows);
    executables_close(&stacks->executables);
    code_names_close(&stacks->code_names);
    stacks_unfinished_close(&stacks->unfinished);
    buf_close(&stacks->scratch.buf);
    buf_close(&stacks->name_texts);
    free(stacks);
}

int stacks_reload(struct stacks *stacks)
{
    WRITER_THREAD(stacks->db);
    stacks_unfinished_forget(&stacks->unfinished);
    int error = executables_reload(&stacks->executables);
    error = error ? error : code_names_reload(&stacks->code_names);
    if (!error)
        error = intern_reload(&stacks->rows);
    error = error ? error : load_last(stacks);
    return error ? error : load_key(stacks);
}

/* Executables */

int stacks_executable(struct stacks *stacks, const uint8_t identity[16], int64_t *id)
{
    WRITER_THREAD(stacks->db);
    return executables_intern(&stacks->executables, identity, id);
}

int stacks_executable_facts(struct stacks *stacks, int64_t id, const struct executable_facts *facts)
{
    WRITER_THREAD(stacks->db);
    return executables_set_facts(&stacks->executables, id, facts);
}

int stacks_executable_get(struct stacks *stacks, int64_t id, const struct executable_facts **facts)
{
    WRITER_THREAD(stacks->db);
    return executables_get(&stacks->executables, id, facts);
}

int stacks_use_parts(struct stacks *stacks, const struct frame *frames, size_t n)
{
    int64_t last = 0; /* adjacent frames mostly share it */
    int error = 0;
    for (size_t i = 0; i < n && !error; i++) {
        const struct frame *frame = &frames[i];
        if (frame_is_named(frame))
            error = code_names_use(&stacks->code_names, (int64_t)frame->address);
        if (frame->kind == STACK_FRAME_SPECIAL || !frame->executable || frame->executable == last)
            continue;
        last = frame->executable;
        error = executables_use(&stacks->executables, last);
    }
    return error == -ENOENT ? -ESTALE : error;
}

/* Code without a file */

static void put_name(struct blob_writer *out, const struct frame_name *name)
{
    blob_put_bytes(out, stacks_cut(name->function));
    blob_put_bytes(out, stacks_cut(name->file));
    blob_put_bytes(out, stacks_cut(name->system_name));
    blob_put_signed(out, name->line);
    blob_put_signed(out, name->column);
    blob_put_signed(out, name->start_line);
}

static void get_name(struct blob_reader *in, struct frame_name *name)
{
    name->function = blob_get_bytes(in);
    name->file = blob_get_bytes(in);
    name->system_name = blob_get_bytes(in);
    name->line = blob_get_signed(in);
    name->column = blob_get_signed(in);
    name->start_line = blob_get_signed(in);
}

/* The body of a named frame: CODE_NAME_FORM, its type, the compiled function, and what is inlined
 * in it, as in frame_name.inlined. */
#define CODE_NAME_FORM 0

int stacks_named(struct stacks *stacks, struct bytes type, const struct frame_name *names, size_t n,
                 int64_t *id)
{
    WRITER_THREAD(stacks->db);
    struct blob_writer *out = &stacks->scratch;
    uint8_t hash[16];
    assert(n > 0);
    buf_clear(&out->buf);
    out->error = 0;
    blob_put_number(out, CODE_NAME_FORM);
    blob_put_bytes(out, BYTES(type.data, type.len < STACKS_TYPE_MAX ? type.len : STACKS_TYPE_MAX));
    put_name(out, &names[n - 1]);
    for (size_t i = 0; i + 1 < n && i < STACKS_INLINED_MAX; i++)
        put_name(out, &names[i]);
    if (out->error)
        return out->error;
    bytes_siphash128(buf_bytes(&out->buf), stacks->hash_key, hash);
    return code_names_intern(&stacks->code_names, hash, buf_bytes(&out->buf), id);
}

int stacks_unnamed(const struct frame *frame, struct frame_name *name)
{
    if (!frame_is_unnamed(frame))
        return -ENOENT;
    name->function = BYTES_LIT(RECORD_FRAME_UNREADABLE);
    name->type = BYTES_STR(record_frame_type((enum record_frame_kind)frame->address));
    return 0;
}

/* Before version 11 of the file the body was the function's name, which has no control character.
 */
int stacks_decode_code_name(struct bytes body, struct frame_name *name)
{
    struct blob_reader in = {.left = body};
    if (!body.len || *body.data != CODE_NAME_FORM) {
        name->function = body;
        name->type = BYTES_LIT("jit");
        return 0;
    }
    blob_get_number(&in);
    name->type = blob_get_bytes(&in);
    get_name(&in, name);
    name->inlined = in.left;
    return in.bad ? -EUCLEAN : 0;
}

int stacks_code_name(struct stacks *stacks, const struct frame *frame, struct frame_name *name)
{
    buf_clear(&stacks->name_texts);
    int error = code_names_get(&stacks->code_names, (int64_t)frame->address, &stacks->name_texts);
    if (error)
        return error;
    error = stacks_decode_code_name(buf_bytes(&stacks->name_texts), name);
    if (error)
        db_fail(stacks->db, error);
    return error;
}

/* Stacks */

/* An address that belongs to no executable tells where the kernel has put a program's memory, which
 * no other user may know. Its place in the page is the same in every run. */
static uint64_t address_kept(const struct frame *frame)
{
    if (frame_is_unnamed(frame))
        return frame->address & ((1u << STACKS_UNNAMED_BITS) - 1);
    bool placed = frame->executable || frame->kind == STACK_FRAME_SPECIAL;
    return placed ? frame->address : frame->address & (STACKS_PAGE_BYTES - 1);
}

int stacks_encode(struct stacks *stacks, const struct frame *frames, size_t n)
{
    struct blob_writer *out = &stacks->scratch;
    uint64_t before = 0;
    if (n > STACKS_FRAMES_MAX)
        return -EINVAL;
    buf_clear(&out->buf);
    out->error = 0;
    for (size_t i = 0; i < n; i++) {
        blob_put_number(out, (uint64_t)frames[i].executable << 2 | (frames[i].kind & 3));
        uint64_t address = address_kept(&frames[i]);
        blob_put_signed(out, (int64_t)(address - before));
        before = address;
    }
    return out->error;
}

/* Requests from before a restart or a rollback may never be answered, so the names of those stacks
 * are requested again. Stacks with id > last_before are not: repeating requests for many stacks is
 * expensive. */
static bool names_are_requested(const struct stacks *stacks, const struct cached_stack *stack)
{
    return stack->names_requested || stack->entry.id > stacks->last_before;
}

int stacks_intern(struct stacks *stacks, const struct frame *frames, size_t n, int64_t *id,
                  bool *names_wanted)
{
    WRITER_THREAD(stacks->db);
    uint8_t hash[16];
    struct intern_entry *entry;
    int error = stacks_encode(stacks, frames, n);
    if (error)
        return error;
    bytes_siphash128(buf_bytes(&stacks->scratch.buf), stacks->hash_key, hash);
    int use = intern_key(&stacks->rows, hash, buf_bytes(&stacks->scratch.buf), &entry);
    if (use < 0)
        return use;
    struct cached_stack *stack = container_of(entry, struct cached_stack, entry);
    stack->same_known = true; /* its frames were never open */
    *id = entry->id;
    *names_wanted = use != INTERN_KNOWN || !names_are_requested(stacks, stack);
    stack->names_requested = true;
    stat_add(&stacks_new, use == INTERN_NEW);
    return use == INTERN_KNOWN ? 0 : stacks_use_parts(stacks, frames, n);
}

int stacks_decode(struct bytes blob, struct frame frames[STACKS_FRAMES_MAX], size_t *n)
{
    struct blob_reader in = {.left = blob};
    uint64_t before = 0;
    for (*n = 0; in.left.len && *n < STACKS_FRAMES_MAX; ++*n) {
        uint64_t head = blob_get_number(&in);
        before += (uint64_t)blob_get_signed(&in);
        if (in.bad)
            return -EUCLEAN;
        frames[*n] =
            (struct frame){.kind = head & 3, .executable = (int64_t)(head >> 2), .address = before};
    }
    return in.left.len ? -EUCLEAN : 0;
}

int stacks_read_row(struct stacks *stacks, sqlite3_stmt *row, int64_t id, size_t *n)
{
    sqlite3_bind_int64(row, 1, id);
    int outcome = db_step(stacks->db, row);
    if (outcome <= 0)
        return outcome ? outcome : -ENOENT;
    int error =
        stacks_decode(BYTES(sqlite3_column_blob(row, 1), (size_t)sqlite3_column_bytes(row, 1)),
                      stacks->frames, n);
    if (error)
        db_fail(stacks->db, error);
    return error;
}

int stacks_frames(struct stacks *stacks, int64_t id, const struct frame **frames, size_t *n)
{
    WRITER_THREAD(stacks->db);
    sqlite3_stmt *row _cleanup_reset_ = stacks->get_frames;
    int error = stacks_canonical(stacks, id, &id);
    *frames = stacks->frames;
    return error ? error : stacks_read_row(stacks, row, id, n);
}

/* Names */

static void bind_text(sqlite3_stmt *statement, int index, struct bytes text)
{
    text = stacks_cut(text);
    sqlite3_bind_blob64(statement, index, text.data ? (const void *)text.data : "", text.len,
                        SQLITE_STATIC);
}

/* Encodes into the scratch. */
static int encode_inlined(struct stacks *stacks, const struct frame_name *names, size_t n)
{
    struct blob_writer *out = &stacks->scratch;
    buf_clear(&out->buf);
    out->error = 0;
    for (size_t i = 0; i < n && i < STACKS_INLINED_MAX; i++)
        put_name(out, &names[i]);
    return out->error;
}

size_t stacks_inlined(const struct frame_name *name, struct frame_name inlined[STACKS_INLINED_MAX])
{
    struct blob_reader in = {.left = name->inlined};
    size_t n = 0;
    while (in.left.len && n < STACKS_INLINED_MAX) {
        inlined[n] = (struct frame_name){.address = name->address, .type = name->type};
        get_name(&in, &inlined[n]);
        if (in.bad)
            return 0;
        n++;
    }
    return n;
}

/* Stores the names of one address; the last one is the compiled function. */
static int set_names_at(struct stacks *stacks, int64_t executable, const struct frame_name *names,
                        size_t n)
{
    const struct frame_name *compiled = &names[n - 1];
    stacks_close_name(stacks, executable, compiled->address);
    int error = encode_inlined(stacks, names, n - 1);
    if (error)
        return error;
    struct bytes inlined = buf_bytes(&stacks->scratch.buf);
    sqlite3_bind_int64(stacks->set_name, 1, executable);
    sqlite3_bind_int64(stacks->set_name, 2, (int64_t)compiled->address);
    sqlite3_bind_int64(stacks->set_name, 3, compiled->line);
    bind_text(stacks->set_name, 4, compiled->function);
    bind_text(stacks->set_name, 5, compiled->file);
    bind_text(stacks->set_name, 6, compiled->system_name);
    sqlite3_bind_blob64(stacks->set_name, 7, inlined.data ? (const void *)inlined.data : "",
                        inlined.len, SQLITE_STATIC);
    return db_run(stacks->db, stacks->set_name);
}

int stacks_set_names(struct stacks *stacks, int64_t executable, const struct frame_name *names,
                     size_t n)
{
    WRITER_THREAD(stacks->db);
    int error = 0;
    for (size_t i = 0, end; i < n && !error; i = end) {
        for (end = i + 1; end < n && names[end].address == names[i].address;)
            end++;
        error = set_names_at(stacks, executable, &names[i], end - i);
    }
    sqlite3_clear_bindings(stacks->set_name);
    return error;
}

static int copy_name(struct stacks *stacks, sqlite3_stmt *row, struct frame_name *name)
{
    struct bytes *texts[] = {&name->function, &name->file, &name->system_name, &name->inlined};
    const int n_texts = sizeof(texts) / sizeof(*texts);
    size_t size = 1;
    for (int i = 0; i < n_texts; i++) {
        int column = i + 1;
        *texts[i] =
            BYTES(sqlite3_column_blob(row, column), (size_t)sqlite3_column_bytes(row, column));
        size += texts[i]->len;
    }
    buf_clear(&stacks->name_texts);
    if (buf_reserve(&stacks->name_texts, size))
        return -ENOMEM;
    for (int i = 0; i < n_texts; i++) {
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
    WRITER_THREAD(stacks->db);
    sqlite3_stmt *row _cleanup_reset_ = stacks->get_name;
    *name = (struct frame_name){.address = frame->address};
    if (frame->kind == STACK_FRAME_SPECIAL)
        return frame_is_named(frame) ? stacks_code_name(stacks, frame, name)
                                     : stacks_unnamed(frame, name);
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
    WRITER_THREAD(stacks->db);
    uint64_t began = stacks->generation_began_ns;
    if (stacks->rows.sweeping || stacks->executables.rows.sweeping ||
        stacks->code_names.rows.sweeping)
        return false; /* the sweep must first reach the end of the table */
    return now_unix_ns < began || now_unix_ns - began >= STACKS_GENERATION_NS ||
           stacks->rows.n_new >= STACKS_GENERATION_MAX;
}

int stacks_collect_begin(struct stacks *stacks, uint64_t now_unix_ns, struct id_set *referred)
{
    WRITER_THREAD(stacks->db);
    struct id_set none = {0}, no_name = {0}; /* empty: swept stacks that stay count as uses of their
                                                executables and names */
    stacks->generation_began_ns = now_unix_ns;
    stacks->last_before = 0; /* the first use in a generation requests names anyway */
    int error = stacks_add_same(stacks, referred);
    error = error ? error : intern_sweep_begin(&stacks->rows, referred);
    error = error ? error : intern_sweep_begin(&stacks->executables.rows, &none);
    return error ? error : intern_sweep_begin(&stacks->code_names.rows, &no_name);
}

int stacks_collect(struct stacks *stacks)
{
    WRITER_THREAD(stacks->db);
    int error = intern_sweep(&stacks->rows);
    if (error || stacks->rows.sweeping)
        return error; /* executables and names are swept after all stacks */
    error = intern_sweep(&stacks->executables.rows);
    return error ? error : intern_sweep(&stacks->code_names.rows);
}
