/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples name their stack by rowid when they are stored, and the tick cannot always unwind to the
 * end. So a promised stack has a row of its own, which says later that it is the same as another;
 * its hash is a random number, so that no other sample ever gets it. That a promise is open is
 * known in memory alone: after a restart nobody is left to fulfil it, and its own frames count.
 */
#include "base/log.h"
#include "store/stacks/stacks_parts.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

static struct cached_stack *cached(struct intern_entry *entry)
{
    return container_of(entry, struct cached_stack, entry);
}

static int note_open(struct stacks *stacks, int64_t id)
{
    struct promised_stack *promised = malloc(sizeof(*promised));
    if (promised) {
        promised->id = id;
        if (map_put(&stacks->promised, promised, NULL) == 0)
            return 0;
    }
    free(promised);
    db_fail(stacks->db, -ENOMEM);
    return -ENOMEM;
}

int stacks_promise(struct stacks *stacks, const struct frame *frames, size_t n, int64_t *id)
{
    uint8_t hash[16];
    struct intern_entry *entry;
    int error = stacks_encode(stacks, frames, n);
    error = error ? error : stacks_use_parts(stacks, frames, n);
    if (error)
        return error;
    if (getrandom(hash, sizeof(hash), 0) != sizeof(hash))
        return -errno;
    int use = intern_key(&stacks->rows, hash, buf_bytes(&stacks->scratch.buf), &entry);
    if (use < 0)
        return use;
    cached(entry)->same_known = true;
    *id = entry->id;
    return note_open(stacks, *id);
}

bool stacks_is_promised(const struct stacks *stacks, int64_t id)
{
    return stacks->promised.count && map_get(&stacks->promised, &id);
}

void stacks_give_up(struct stacks *stacks, int64_t promised)
{
    free(map_remove(&stacks->promised, &promised));
}

int stacks_fulfil(struct stacks *stacks, int64_t promised, int64_t same_as)
{
    struct intern_entry *entry;
    if (!stacks_is_promised(stacks, promised))
        return -ENOENT;
    stacks_give_up(stacks, promised);
    int error = intern_id(&stacks->rows, promised, &entry);
    if (error)
        return error;
    sqlite3_bind_int64(stacks->set_same, 1, promised);
    sqlite3_bind_int64(stacks->set_same, 2, same_as);
    error = db_run(stacks->db, stacks->set_same);
    if (error)
        return error;
    cached(entry)->same_known = true;
    cached(entry)->same_as = same_as;
    stacks_unnamed_follow(&stacks->unnamed, promised, same_as);
    return 0;
}

void stacks_forget_promises(struct stacks *stacks)
{
    struct promised_stack *promised;
    for (size_t i = 0; (promised = map_next(&stacks->promised, &i));)
        stacks_give_up(stacks, promised->id);
}

static int read_same(struct stacks *stacks, struct cached_stack *stack)
{
    sqlite3_stmt *row _cleanup_reset_ = stacks->get_same;
    sqlite3_bind_int64(row, 1, stack->entry.id);
    int outcome = db_step(stacks->db, row);
    if (outcome <= 0)
        return outcome ? outcome : -ENOENT;
    stack->same_as = sqlite3_column_int64(row, 0); /* NULL: 0 */
    stack->same_known = true;
    return 0;
}

int stacks_canonical(struct stacks *stacks, int64_t id, int64_t *canonical)
{
    struct intern_entry *entry;
    *canonical = id;
    int error = intern_id(&stacks->rows, id, &entry);
    if (!error && !cached(entry)->same_known)
        error = read_same(stacks, cached(entry));
    if (!error && cached(entry)->same_as)
        *canonical = cached(entry)->same_as;
    return error;
}

static int find_same(struct stacks *stacks, const struct id_set *referred, struct id_set *found)
{
    sqlite3_stmt *row _cleanup_reset_ = stacks->walk_same;
    int outcome;
    while ((outcome = db_step(stacks->db, row)) == 1) {
        if (!id_set_has(referred, sqlite3_column_int64(row, 0)))
            continue;
        int error = id_set_add(found, sqlite3_column_int64(row, 1));
        if (error)
            return error;
    }
    return outcome;
}

int stacks_add_same(struct stacks *stacks, struct id_set *referred)
{
    struct id_set found = {0};
    int error = find_same(stacks, referred, &found);
    for (size_t i = 0; i < found.count && !error; i++)
        error = id_set_add(referred, found.ids[i]);
    id_set_seal(referred);
    id_set_close(&found);
    if (error == -ENOMEM)
        db_fail(stacks->db, error);
    return error;
}
