/* SPDX-License-Identifier: Apache-2.0 */
#include "store/stacks/stacks_reader.h"
#include "store/db/db.h"
#include "store/stacks/executables.h"
#include <errno.h>

#define SELECT_CANONICAL "FROM stack t LEFT JOIN stack s ON s.id = t.same_as WHERE t.id = ?1"

int stacks_reader_open(struct stacks_reader *reader, struct db *db)
{
    const struct {
        const char *sql;
        sqlite3_stmt **statement;
    } all[] = {
        {"SELECT ifnull(same_as, id) FROM stack WHERE id = ?1", &reader->get_same},
        {"SELECT ifnull(s.frames, t.frames) " SELECT_CANONICAL, &reader->get_frames},
        {"SELECT ifnull(s.public_id, t.public_id) " SELECT_CANONICAL, &reader->get_public_id},
        {"SELECT facts FROM executable WHERE id = ?1", &reader->get_facts},
        {"SELECT line, function, file, system_name, inlined FROM frame_name"
         " WHERE executable = ?1 AND address = ?2",
         &reader->get_name},
        {"SELECT body FROM code_name WHERE id = ?1", &reader->get_code_name},
    };
    int error = 0;
    reader->db = db;
    for (size_t i = 0; i < sizeof(all) / sizeof(*all) && !error; i++)
        error = db_prepare(db, all[i].sql, all[i].statement);
    return error;
}

void stacks_reader_close(struct stacks_reader *reader)
{
    sqlite3_stmt **all[] = {&reader->get_same,  &reader->get_frames, &reader->get_public_id,
                            &reader->get_facts, &reader->get_name,   &reader->get_code_name};
    for (size_t i = 0; i < sizeof(all) / sizeof(*all) && reader->db; i++)
        db_unprepare(reader->db, all[i]);
    buf_close(&reader->facts_body);
    buf_close(&reader->name_texts);
}

/* 0: *row is on the row; -ENOENT. */
static int stacks_reader_find(struct stacks_reader *reader, sqlite3_stmt *row, int64_t id)
{
    sqlite3_bind_int64(row, 1, id);
    int outcome = db_step(reader->db, row);
    return outcome > 0 ? 0 : outcome ? outcome : -ENOENT;
}

static struct bytes reader_column(sqlite3_stmt *row, int index)
{
    const void *data = sqlite3_column_blob(row, index);
    return BYTES(data, (size_t)sqlite3_column_bytes(row, index));
}

int stacks_reader_frames(struct stacks_reader *reader, int64_t id, const struct frame **frames,
                         size_t *n)
{
    DB_THREAD(reader->db);
    sqlite3_stmt *row _cleanup_reset_ = reader->get_frames;
    *frames = reader->frames;
    *n = 0;
    int error = stacks_reader_find(reader, row, id);
    if (error)
        return error;
    return stacks_decode(reader_column(row, 0), reader->frames, n) ? -ENOENT : 0;
}

int stacks_reader_executable(struct stacks_reader *reader, int64_t id,
                             const struct executable_facts **facts)
{
    DB_THREAD(reader->db);
    sqlite3_stmt *row _cleanup_reset_ = reader->get_facts;
    int error = stacks_reader_find(reader, row, id);
    if (error)
        return error;
    buf_clear(&reader->facts_body);
    if (buf_append_bytes(&reader->facts_body, reader_column(row, 0)))
        return -ENOMEM;
    if (!reader->facts_body.len)
        return -ENOENT;
    executables_decode(buf_bytes(&reader->facts_body), &reader->facts);
    *facts = &reader->facts;
    return 0;
}

static int copy_texts(struct stacks_reader *reader, sqlite3_stmt *row, int first_column,
                      struct bytes *const *texts, int n)
{
    struct buf *copies = &reader->name_texts;
    size_t size = 1;
    for (int i = 0; i < n; i++) {
        *texts[i] = reader_column(row, first_column + i);
        size += texts[i]->len;
    }
    buf_clear(copies);
    if (buf_reserve(copies, size))
        return -ENOMEM;
    for (int i = 0; i < n; i++) {
        const uint8_t *copy = copies->data + copies->len;
        if (buf_append_bytes(copies, *texts[i]))
            return -ENOMEM;
        texts[i]->data = copy;
    }
    return 0;
}

static int code_name(struct stacks_reader *reader, const struct frame *frame,
                     struct frame_name *name)
{
    sqlite3_stmt *row _cleanup_reset_ = reader->get_code_name;
    struct bytes body;
    struct bytes *const texts[] = {&body};
    int error = stacks_reader_find(reader, row, (int64_t)frame->address);
    error = error ? error : copy_texts(reader, row, 0, texts, 1);
    if (error)
        return error;
    return stacks_decode_code_name(body, name) ? -ENOENT : 0;
}

int stacks_reader_name(struct stacks_reader *reader, const struct frame *frame,
                       struct frame_name *name)
{
    DB_THREAD(reader->db);
    sqlite3_stmt *row _cleanup_reset_ = reader->get_name;
    *name = (struct frame_name){.address = frame->address};
    if (frame->kind == STACK_FRAME_SPECIAL)
        return frame_is_named(frame) ? code_name(reader, frame, name) : stacks_unnamed(frame, name);
    struct bytes *const texts[] = {&name->function, &name->file, &name->system_name,
                                   &name->inlined};
    sqlite3_bind_int64(row, 2, (int64_t)frame->address);
    int error = stacks_reader_find(reader, row, frame->executable);
    if (error)
        return error;
    name->line = sqlite3_column_int64(row, 0);
    return copy_texts(reader, row, 1, texts, 4);
}

/* As a dictionary */

static int canonical_of(void *context, int64_t id, int64_t *canonical)
{
    struct stacks_reader *reader = context;
    DB_THREAD(reader->db);
    sqlite3_stmt *row _cleanup_reset_ = reader->get_same;
    *canonical = id;
    int error = stacks_reader_find(reader, row, id);
    if (!error)
        *canonical = sqlite3_column_int64(row, 0);
    return error;
}

static int frames_of(void *context, int64_t id, const struct frame **frames, size_t *n)
{
    return stacks_reader_frames(context, id, frames, n);
}

static int public_id_of(void *context, int64_t id, uint8_t out[16])
{
    struct stacks_reader *reader = context;
    DB_THREAD(reader->db);
    sqlite3_stmt *row _cleanup_reset_ = reader->get_public_id;
    int error = stacks_reader_find(reader, row, id);
    if (error)
        return error;
    struct bytes public_id = reader_column(row, 0);
    if (public_id.len != 16)
        return -ENOENT;
    memcpy(out, public_id.data, 16);
    return 0;
}

static int executable_of(void *context, int64_t id, const struct executable_facts **facts)
{
    return stacks_reader_executable(context, id, facts);
}

static int name_of(void *context, const struct frame *frame, struct frame_name *name)
{
    return stacks_reader_name(context, frame, name);
}

struct stack_dictionary stacks_reader_dictionary(struct stacks_reader *reader)
{
    return (struct stack_dictionary){reader,       canonical_of,  frames_of,
                                     public_id_of, executable_of, name_of};
}
