/* SPDX-License-Identifier: Apache-2.0 */
#include "store/stacks/code_names.h"
#include "store/db/db.h"
#include <errno.h>

#define CACHE_MAX 4096

int code_names_open(struct code_names *names, struct db *db)
{
    *names = (struct code_names){.db = db};
    int error = intern_open(
        &names->rows, db,
        &(struct intern_settings){
            .meta = "generation.code_name",
            .find = "SELECT id, generation FROM code_name WHERE hash = ?1",
            .get = "SELECT hash, generation FROM code_name WHERE id = ?1",
            .insert = "INSERT INTO code_name(hash, generation, body) VALUES (?1, ?2, ?3)",
            .touch = "UPDATE code_name SET generation = ?2 WHERE id = ?1",
            .walk = "SELECT id, generation FROM code_name WHERE id > ?1 ORDER BY id LIMIT ?2",
            .remove = "DELETE FROM code_name WHERE id = ?1",
            .entry_size = sizeof(struct intern_entry),
            .max_entries = CACHE_MAX,
            .context = names,
        });
    return error ? error
                 : db_prepare(db, "SELECT body FROM code_name WHERE id = ?1", &names->get_body);
}

void code_names_close(struct code_names *names)
{
    if (!names->db)
        return;
    intern_close(&names->rows);
    db_unprepare(names->db, &names->get_body);
}

int code_names_reload(struct code_names *names)
{
    return intern_reload(&names->rows);
}

int code_names_intern(struct code_names *names, const uint8_t hash[16], struct bytes body,
                      int64_t *id)
{
    struct intern_entry *entry;
    int outcome = intern_key(&names->rows, hash, body, &entry);
    if (outcome < 0)
        return outcome;
    *id = entry->id;
    return 0;
}

int code_names_use(struct code_names *names, int64_t id)
{
    int outcome = intern_use(&names->rows, id);
    return outcome < 0 ? outcome : 0;
}

int code_names_get(struct code_names *names, int64_t id, struct buf *out)
{
    sqlite3_stmt *row _cleanup_reset_ = names->get_body;
    sqlite3_bind_int64(row, 1, id);
    int outcome = db_step(names->db, row);
    if (outcome <= 0)
        return outcome ? outcome : -ENOENT;
    const void *body = sqlite3_column_blob(row, 0);
    return buf_append(out, body, (size_t)sqlite3_column_bytes(row, 0));
}
