/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stacks of a tally are counted as "space saving" does: a stack that finds no room takes over
 * the rarest one's place and count, so a frequent one is never missed, though a rare one may be
 * overstated.
 */
#include "store/join/tallies.h"
#include "base/log.h"
#include "base/stats.h"
#include "store/db/blob.h"
#include "store/db/db.h"
#include "store/db/id_set.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define EXPIRE_MAX 1000 /* a call */

STAT_LOSS(damaged, "spanprof_store_damaged_rows_total", "table=\"tally\"",
          "Rows that could not be read and were removed.");
STAT_GAUGE(tally_count, "spanprof_join_tallies", "", "Tallies in memory.");
STAT_GAUGE(tally_bytes, "spanprof_join_tallies_bytes", "", "Memory of tallies.");

_Static_assert(sizeof(struct tally_key) == 24, "a map key has no padding");

bool tally_is_by_trace(const struct tally *tally)
{
    return bytes_zero(tally->key.span_id, sizeof(tally->key.span_id));
}

bool tally_is_by_span(const struct tally *tally)
{
    return bytes_zero(tally->key.trace_id, sizeof(tally->key.trace_id));
}

static size_t size_of(const struct tally *tally)
{
    return sizeof(*tally) + tally->cap_stacks * sizeof(*tally->stacks);
}

static void free_tally(struct tally *tally)
{
    free(tally->stacks);
    free(tally);
}

static void update_gauges(const struct tallies *tallies)
{
    stat_set(&tally_count, (int64_t)tallies->by_key.count);
    stat_set(&tally_bytes, (int64_t)tallies->bytes);
}

static int no_memory(struct tallies *tallies)
{
    db_fail(tallies->db, -ENOMEM);
    return -ENOMEM;
}

struct tally *tallies_get(const struct tallies *tallies, const struct tally_key *key)
{
    return map_get(&tallies->by_key, key);
}

static bool same_process(const struct tally_process *a, const struct tally_process *b)
{
    return a->pid == b->pid && a->start_ns == b->start_ns;
}

struct tally *tallies_find(const struct tallies *tallies, const struct tally_key *key,
                           const struct tally_process *who)
{
    struct tally *tally = tallies_get(tallies, key);
    while (tally && !same_process(&tally->who, who))
        tally = tally->next;
    return tally;
}

static void mark_changed(struct tallies *tallies, struct tally *tally)
{
    if (!list_linked(&tally->changed))
        list_append(&tallies->changed, &tally->changed);
}

static int insert(struct tallies *tallies, struct tally *tally)
{
    struct tally *head = tallies_get(tallies, &tally->key);
    if (!head && map_put(&tallies->by_key, tally, NULL))
        return -ENOMEM;
    while (head && head->next)
        head = head->next;
    if (head)
        head->next = tally;
    list_append(&tallies->ages, &tally->age);
    tallies->n_by_trace += tally_is_by_trace(tally);
    tallies->n_by_span += tally_is_by_span(tally);
    tallies->bytes += size_of(tally);
    return 0;
}

int tallies_make(struct tallies *tallies, const struct tally_key *key,
                 const struct tally_process *who, struct tally **result)
{
    struct tally *tally = calloc(1, sizeof(*tally));
    if (!tally)
        return no_memory(tallies);
    tally->key = *key;
    tally->who = *who;
    tally->id = tallies->next_id++;
    tally->first_unix_ns = UINT64_MAX;
    if (insert(tallies, tally)) {
        free_tally(tally);
        return no_memory(tallies);
    }
    mark_changed(tallies, tally);
    *result = tally;
    return 0;
}

static void take_out(struct tallies *tallies, struct tally *tally)
{
    struct tally *head = tallies_get(tallies, &tally->key);
    if (head != tally) {
        while (head->next != tally)
            head = head->next;
        head->next = tally->next;
    } else if (tally->next) {
        map_put(&tallies->by_key, tally->next, NULL); /* replaces: needs no memory */
    } else {
        map_remove(&tallies->by_key, &tally->key);
    }
    list_remove(&tally->age);
    list_remove(&tally->changed);
    tallies->n_by_trace -= tally_is_by_trace(tally);
    tallies->n_by_span -= tally_is_by_span(tally);
    tallies->bytes -= size_of(tally);
}

int tallies_forget(struct tallies *tallies, struct tally *tally)
{
    tallies->forgetting(tallies->context, tally);
    assert(!tally->first && !tally->joined);
    take_out(tallies, tally);
    sqlite3_bind_int64(tallies->remove, 1, tally->id);
    int error = db_run(tallies->db, tallies->remove);
    free_tally(tally);
    return error;
}

int tallies_trim(struct tallies *tallies, const struct tally *keep, size_t *n)
{
    *n = 0;
    while (tallies->bytes > tallies->max_bytes) {
        struct tally *oldest = container_of(list_first(&tallies->ages), struct tally, age);
        if (oldest == keep)
            break;
        int error = tallies_forget(tallies, oldest);
        if (error)
            return error;
        ++*n;
    }
    return 0;
}

int tallies_expire(struct tallies *tallies, uint64_t now_unix_ns, uint64_t ttl_ns)
{
    struct list *link;
    for (int i = 0; i < EXPIRE_MAX && (link = list_first(&tallies->ages)); i++) {
        struct tally *tally = container_of(link, struct tally, age);
        if (now_unix_ns < tally->last_unix_ns || now_unix_ns - tally->last_unix_ns <= ttl_ns)
            break;
        int error = tallies_forget(tallies, tally);
        if (error)
            return error;
    }
    update_gauges(tallies);
    return 0;
}

/* Counting */

static struct tally_stack *find_stack(const struct tally *tally, int64_t stack)
{
    for (unsigned i = 0; i < tally->n_stacks; i++)
        if (tally->stacks[i].stack == stack)
            return &tally->stacks[i];
    return NULL;
}

static struct tally_stack *rarest(const struct tally *tally)
{
    struct tally_stack *rare = &tally->stacks[0];
    for (unsigned i = 1; i < tally->n_stacks; i++)
        if (tally->stacks[i].count < rare->count)
            rare = &tally->stacks[i];
    return rare;
}

static int grow_stacks(struct tallies *tallies, struct tally *tally)
{
    unsigned cap = tally->cap_stacks ? tally->cap_stacks * 2u : 2;
    struct tally_stack *stacks = realloc(tally->stacks, cap * sizeof(*stacks));
    if (!stacks)
        return no_memory(tallies);
    tallies->bytes += (cap - tally->cap_stacks) * sizeof(*stacks);
    tally->stacks = stacks;
    tally->cap_stacks = (uint8_t)cap;
    return 0;
}

int tally_unite(struct tallies *tallies, struct tally *tally)
{
    bool any_open = false;
    unsigned n = tally->promised ? tally->n_stacks : 0;
    if (!tally->promised)
        return 0;
    tally->n_stacks = 0;
    for (unsigned i = 0; i < n; i++) {
        struct tally_stack stack = tally->stacks[i];
        bool open;
        int error = tallies->canonical(tallies->context, stack.stack, &stack.stack, &open);
        if (error)
            return error; /* the transaction is broken, and memory with it */
        struct tally_stack *same = find_stack(tally, stack.stack);
        if (same)
            same->count += stack.count;
        else
            tally->stacks[tally->n_stacks++] = stack;
        any_open |= open;
    }
    tally->promised = any_open;
    mark_changed(tallies, tally);
    return 0;
}

static int add_stack(struct tallies *tallies, struct tally *tally, int64_t stack, uint64_t count)
{
    struct tally_stack *at = find_stack(tally, stack);
    if (!at && tally->n_stacks == TALLY_STACKS_MAX && tally->promised) {
        int error = tally_unite(tallies, tally);
        if (error)
            return error;
        at = find_stack(tally, stack);
    }
    if (!at && tally->n_stacks == TALLY_STACKS_MAX) {
        at = rarest(tally);
        at->stack = stack;
    }
    if (at) {
        at->count += count;
        return 0;
    }
    int error = tally->n_stacks == tally->cap_stacks ? grow_stacks(tallies, tally) : 0;
    if (!error)
        tally->stacks[tally->n_stacks++] = (struct tally_stack){stack, count};
    return error;
}

static void see_time(struct tallies *tallies, struct tally *tally, uint64_t time_unix_ns)
{
    if (time_unix_ns < tally->first_unix_ns)
        tally->first_unix_ns = time_unix_ns;
    if (time_unix_ns > tally->last_unix_ns)
        tally->last_unix_ns = time_unix_ns;
    list_remove(&tally->age);
    list_append(&tallies->ages, &tally->age);
    mark_changed(tallies, tally);
}

int tally_add(struct tallies *tallies, struct tally *tally, const struct tally_sample *sample)
{
    see_time(tallies, tally, sample->time_unix_ns);
    if (!sample->cpu)
        return 0;
    tally->cpu_ns += sample->value_ns;
    tally->samples++;
    tally->promised |= sample->promised;
    return add_stack(tallies, tally, sample->stack, 1);
}

/* It may have been united with another since. */
static int find_counted(struct tallies *tallies, const struct tally *tally, int64_t stack,
                        struct tally_stack **at)
{
    bool open;
    *at = find_stack(tally, stack);
    int error = *at ? 0 : tallies->canonical(tallies->context, stack, &stack, &open);
    if (!error && !*at)
        *at = find_stack(tally, stack);
    return error;
}

int tally_take(struct tallies *tallies, struct tally *tally, const struct tally_sample *sample)
{
    struct tally_stack *at;
    int error = sample->cpu ? find_counted(tallies, tally, sample->stack, &at) : 0;
    if (error || !sample->cpu)
        return error;
    tally->cpu_ns -= tally->cpu_ns < sample->value_ns ? tally->cpu_ns : sample->value_ns;
    tally->samples -= tally->samples > 0;
    if (at && !--at->count)
        *at = tally->stacks[--tally->n_stacks];
    mark_changed(tallies, tally);
    return 0;
}

int tally_merge(struct tallies *tallies, struct tally *into, struct tally *from)
{
    int error = 0;
    if (from->first_unix_ns <= from->last_unix_ns) {
        see_time(tallies, into, from->first_unix_ns);
        see_time(tallies, into, from->last_unix_ns);
    }
    into->cpu_ns += from->cpu_ns;
    into->samples += from->samples;
    into->promised |= from->promised;
    for (unsigned i = 0; i < from->n_stacks && !error; i++)
        error = add_stack(tallies, into, from->stacks[i].stack, from->stacks[i].count);
    from->cpu_ns = from->samples = 0;
    from->n_stacks = 0;
    mark_changed(tallies, from);
    return error;
}

/* Rows */

static void encode(struct blob_writer *out, const struct tally *tally)
{
    blob_put_fixed(out, &tally->key, sizeof(tally->key));
    blob_put_number(out, tally->who.start_ns);
    blob_put_number(out, tally->who.pid);
    blob_put_number(out, (uint64_t)tally->process);
    blob_put_number(out, tally->cpu_ns);
    blob_put_number(out, tally->samples);
    blob_put_number(out, tally->first_unix_ns);
    blob_put_number(out, tally->last_unix_ns);
    blob_put_number(out, tally->n_stacks);
    for (unsigned i = 0; i < tally->n_stacks; i++) {
        blob_put_number(out, (uint64_t)tally->stacks[i].stack);
        blob_put_number(out, tally->stacks[i].count);
    }
}

int tallies_flush(struct tallies *tallies)
{
    struct blob_writer out _cleanup_blob_ = {0};
    struct list *link, *tmp;
    int error = 0;
    list_each(link, tmp, &tallies->changed)
    {
        struct tally *tally = container_of(link, struct tally, changed);
        buf_clear(&out.buf);
        encode(&out, tally);
        if (out.error)
            return no_memory(tallies);
        sqlite3_bind_int64(tallies->put, 1, tally->id);
        sqlite3_bind_blob64(tallies->put, 2, out.buf.data, out.buf.len, SQLITE_STATIC);
        error = db_run(tallies->db, tallies->put);
        if (error)
            break;
        list_remove(&tally->changed);
    }
    sqlite3_clear_bindings(tallies->put);
    update_gauges(tallies);
    return error;
}

static int decode(struct tallies *tallies, struct bytes blob, struct tally *tally)
{
    struct blob_reader in = {.left = blob};
    blob_get_fixed(&in, &tally->key, sizeof(tally->key));
    tally->who.start_ns = blob_get_number(&in);
    tally->who.pid = blob_get_number32(&in);
    tally->process = (int64_t)blob_get_number(&in);
    tally->cpu_ns = blob_get_number(&in);
    tally->samples = blob_get_number(&in);
    tally->first_unix_ns = blob_get_number(&in);
    tally->last_unix_ns = blob_get_number(&in);
    uint64_t n = blob_get_number(&in);
    if (in.bad || n > TALLY_STACKS_MAX)
        return -EUCLEAN;
    tally->promised = n > 0; /* it may have been so when it was written */
    for (uint64_t i = 0; i < n; i++) {
        int64_t stack = (int64_t)blob_get_number(&in);
        uint64_t count = blob_get_number(&in);
        if (in.bad || find_stack(tally, stack))
            return -EUCLEAN;
        if (tally->n_stacks == tally->cap_stacks && grow_stacks(tallies, tally))
            return -ENOMEM;
        tally->stacks[tally->n_stacks++] = (struct tally_stack){stack, count};
    }
    return tallies_find(tallies, &tally->key, &tally->who) ? -EUCLEAN : 0;
}

static int load_row(struct tallies *tallies, int64_t id, struct bytes body)
{
    struct tally *tally = calloc(1, sizeof(*tally));
    if (!tally)
        return -ENOMEM;
    tally->id = id;
    size_t bytes = tallies->bytes; /* growing counts stacks, inserting the whole */
    int error = decode(tallies, body, tally);
    tallies->bytes = bytes;
    if (!error)
        error = insert(tallies, tally);
    if (error)
        free_tally(tally);
    return error;
}

static int load_rows(struct tallies *tallies, struct id_set *bad)
{
    sqlite3_stmt *row _cleanup_reset_ = tallies->load;
    int outcome;
    tallies->next_id = 1;
    while ((outcome = db_step(tallies->db, row)) == 1) {
        int64_t id = sqlite3_column_int64(row, 0);
        if (id < 0 || id >= INT64_MAX / 2)
            return -EUCLEAN;
        tallies->next_id = id + 1;
        int error = load_row(
            tallies, id, BYTES(sqlite3_column_blob(row, 1), (size_t)sqlite3_column_bytes(row, 1)));
        if (error == -EUCLEAN)
            error = id_set_add(bad, id);
        if (error)
            return error;
    }
    return outcome;
}

static void clear(struct tallies *tallies)
{
    struct list *link;
    while ((link = list_pop(&tallies->ages)))
        free_tally(container_of(link, struct tally, age));
    map_close(&tallies->by_key);
    list_init(&tallies->changed);
    tallies->bytes = tallies->n_by_trace = tallies->n_by_span = 0;
}

int tallies_reload(struct tallies *tallies)
{
    struct id_set bad = {0};
    clear(tallies);
    int error = load_rows(tallies, &bad);
    for (size_t i = 0; i < bad.count && !error; i++) {
        stat_add(&damaged, 1);
        sqlite3_bind_int64(tallies->remove, 1, bad.ids[i]);
        error = db_run(tallies->db, tallies->remove);
    }
    id_set_close(&bad);
    update_gauges(tallies);
    return error;
}

int tallies_open(struct tallies *tallies, struct db *db, size_t max_bytes)
{
    *tallies = (struct tallies){.db = db, .max_bytes = max_bytes};
    list_init(&tallies->ages);
    list_init(&tallies->changed);
    MAP_INIT(&tallies->by_key, struct tally, key);
    int error =
        db_prepare(db, "INSERT OR REPLACE INTO tally(id, body) VALUES (?1, ?2)", &tallies->put);
    if (!error)
        error = db_prepare(db, "DELETE FROM tally WHERE id = ?1", &tallies->remove);
    if (!error)
        error = db_prepare(db, "SELECT id, body FROM tally ORDER BY id", &tallies->load);
    return error;
}

void tallies_close(struct tallies *tallies)
{
    if (!tallies->db)
        return;
    clear(tallies);
    db_unprepare(tallies->db, &tallies->put);
    db_unprepare(tallies->db, &tallies->remove);
    db_unprepare(tallies->db, &tallies->load);
}
