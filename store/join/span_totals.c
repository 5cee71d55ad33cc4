/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stacks of a total are counted with the "space saving" algorithm: a stack without a place
 * takes over the place and the count of the rarest one. So a frequent stack is never missed; the
 * count of a rare one may be too high.
 */
#include "store/join/span_totals.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/stats.h"
#include "store/db/blob.h"
#include "store/db/db.h"
#include "store/db/id_set.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define EXPIRE_MAX 1000 /* per call */

LIMIT(totals, LIMIT_SERVICE, "totals of running spans", .key = "join::max_span_totals_mib",
      .percent = 100);

STAT_GAUGE(span_total_count, "spanprof_join_span_totals", "Totals in memory.");
STAT_GAUGE(span_total_bytes, "spanprof_join_span_totals_bytes", "Memory of totals.");

_Static_assert(sizeof(struct span_total_key) == 24, "a map key has no padding");

bool span_total_is_by_trace(const struct span_total *total)
{
    return bytes_zero(total->key.span_id, sizeof(total->key.span_id));
}

bool span_total_is_by_span(const struct span_total *total)
{
    return bytes_zero(total->key.trace_id, sizeof(total->key.trace_id));
}

static size_t size_of(const struct span_total *total)
{
    return sizeof(*total) + total->cap_stacks * sizeof(*total->stacks);
}

static void free_total(struct span_total *total)
{
    free(total->stacks);
    free(total);
}

static void update_gauges(const struct span_totals *totals)
{
    stat_set(&span_total_count, (int64_t)totals->by_key.count);
    stat_set(&span_total_bytes, (int64_t)totals->share.used);
}

static int no_memory(struct span_totals *totals)
{
    db_fail(totals->db, -ENOMEM);
    return -ENOMEM;
}

struct span_total *span_totals_get(const struct span_totals *totals,
                                   const struct span_total_key *key)
{
    return map_get(&totals->by_key, key);
}

static bool same_process(const struct span_total_process *a, const struct span_total_process *b)
{
    return a->pid == b->pid && a->start_ns == b->start_ns;
}

struct span_total *span_totals_find(const struct span_totals *totals,
                                    const struct span_total_key *key,
                                    const struct span_total_process *who)
{
    struct span_total *total = span_totals_get(totals, key);
    while (total && !same_process(&total->who, who))
        total = total->next;
    return total;
}

static void mark_changed(struct span_totals *totals, struct span_total *total)
{
    if (!list_linked(&total->changed))
        list_append(&totals->changed, &total->changed);
}

static struct list *own_ages(struct span_totals *totals, const struct span_total *total)
{
    return &totals->own_ages[fair_share_index(&totals->share, total->who.tenant)];
}

static int span_totals_insert(struct span_totals *totals, struct span_total *total)
{
    struct span_total *head = span_totals_get(totals, &total->key);
    if (!head && map_put(&totals->by_key, total, NULL))
        return -ENOMEM;
    while (head && head->next)
        head = head->next;
    if (head)
        head->next = total;
    list_append(&totals->ages, &total->age);
    totals->n_by_trace += span_total_is_by_trace(total);
    totals->n_by_span += span_total_is_by_span(total);
    list_append(own_ages(totals, total), &total->own_age);
    fair_share_take(&totals->share, total->who.tenant, size_of(total));
    return 0;
}

int span_totals_make(struct span_totals *totals, const struct span_total_key *key,
                     const struct span_total_process *who, struct span_total **result)
{
    WRITER_THREAD(totals->db);
    struct span_total *total = calloc(1, sizeof(*total));
    if (!total)
        return no_memory(totals);
    total->key = *key;
    total->who = *who;
    total->id = totals->next_id++;
    total->first_unix_ns = UINT64_MAX;
    if (span_totals_insert(totals, total)) {
        free_total(total);
        return no_memory(totals);
    }
    mark_changed(totals, total);
    *result = total;
    return 0;
}

static void take_out(struct span_totals *totals, struct span_total *total)
{
    struct span_total *head = span_totals_get(totals, &total->key);
    if (head != total) {
        while (head->next != total)
            head = head->next;
        head->next = total->next;
    } else if (total->next) {
        map_put(&totals->by_key, total->next, NULL); /* replaces: needs no memory */
    } else {
        map_remove(&totals->by_key, &total->key);
    }
    list_remove(&total->age);
    list_remove(&total->changed);
    totals->n_by_trace -= span_total_is_by_trace(total);
    totals->n_by_span -= span_total_is_by_span(total);
    list_remove(&total->own_age);
    fair_share_give(&totals->share, total->who.tenant, size_of(total));
}

static int span_totals_forget(struct span_totals *totals, struct span_total *total)
{
    totals->forgetting(totals->context, total);
    assert(!total->first && !total->matched);
    take_out(totals, total);
    sqlite3_bind_int64(totals->remove, 1, total->id);
    int error = db_run(totals->db, totals->remove);
    free_total(total);
    return error;
}

int span_totals_trim(struct span_totals *totals)
{
    WRITER_THREAD(totals->db);
    int error = 0;
    while (!error && fair_share_is_exceeded(&totals->share)) {
        struct list *oldest = list_first(&totals->own_ages[fair_share_largest(&totals->share)]);
        error = span_totals_forget(totals, container_of(oldest, struct span_total, own_age));
    }
    return error;
}

int span_totals_expire(struct span_totals *totals, uint64_t now_unix_ns, uint64_t ttl_ns)
{
    WRITER_THREAD(totals->db);
    struct list *link;
    for (int i = 0; i < EXPIRE_MAX && (link = list_first(&totals->ages)); i++) {
        struct span_total *total = container_of(link, struct span_total, age);
        if (now_unix_ns < total->last_unix_ns || now_unix_ns - total->last_unix_ns <= ttl_ns)
            break;
        int error = span_totals_forget(totals, total);
        if (error)
            return error;
    }
    update_gauges(totals);
    return 0;
}

static unsigned count_of_tenant(const struct span_total *chain, uint64_t tenant)
{
    unsigned n = 0;
    for (; chain; chain = chain->next)
        n += chain->who.tenant == tenant;
    return n;
}

int span_totals_make_room(struct span_totals *totals, const struct span_total_key *key,
                          const struct span_total_process *who, bool *has_room)
{
    WRITER_THREAD(totals->db);
    struct span_total *chain = span_totals_get(totals, key), *crowd = NULL;
    unsigned n = 0, most = count_of_tenant(chain, who->tenant) + 1;
    for (struct span_total *total = chain; total; total = total->next, n++) {
        unsigned of_tenant = count_of_tenant(chain, total->who.tenant);
        if (of_tenant <= most)
            continue;
        crowd = total;
        most = of_tenant;
    }
    *has_room = n < SPAN_TOTAL_PROCESSES_MAX || crowd;
    return n < SPAN_TOTAL_PROCESSES_MAX || !crowd ? 0 : span_totals_forget(totals, crowd);
}

/* Counting */

static struct span_total_stack *find_stack(const struct span_total *total, int64_t stack)
{
    for (unsigned i = 0; i < total->n_stacks; i++)
        if (total->stacks[i].stack == stack)
            return &total->stacks[i];
    return NULL;
}

static struct span_total_stack *span_total_rarest(const struct span_total *total)
{
    struct span_total_stack *rare = &total->stacks[0];
    for (unsigned i = 1; i < total->n_stacks; i++)
        if (total->stacks[i].count < rare->count)
            rare = &total->stacks[i];
    return rare;
}

static int grow_stacks(struct span_totals *totals, struct span_total *total)
{
    unsigned cap = total->cap_stacks ? total->cap_stacks * 2u : 2;
    struct span_total_stack *stacks = realloc(total->stacks, cap * sizeof(*stacks));
    if (!stacks)
        return no_memory(totals);
    if (list_linked(&total->own_age)) /* else inserting it adds all */
        fair_share_take(&totals->share, total->who.tenant,
                        (cap - total->cap_stacks) * sizeof(*stacks));
    total->stacks = stacks;
    total->cap_stacks = (uint8_t)cap;
    return 0;
}

int span_total_unite(struct span_totals *totals, struct span_total *total)
{
    bool any_open = false;
    unsigned n = total->has_open_stacks ? total->n_stacks : 0;
    if (!total->has_open_stacks)
        return 0;
    total->n_stacks = 0;
    for (unsigned i = 0; i < n; i++) {
        struct span_total_stack stack = total->stacks[i];
        bool open;
        int error = totals->canonical(totals->context, stack.stack, &stack.stack, &open);
        if (error)
            return error; /* the transaction has failed; memory is reloaded */
        struct span_total_stack *same = find_stack(total, stack.stack);
        if (same)
            same->count += stack.count;
        else
            total->stacks[total->n_stacks++] = stack;
        any_open |= open;
    }
    total->has_open_stacks = any_open;
    mark_changed(totals, total);
    return 0;
}

static int add_stack(struct span_totals *totals, struct span_total *total, int64_t stack,
                     uint64_t count)
{
    struct span_total_stack *at = find_stack(total, stack);
    if (!at && total->n_stacks == SPAN_TOTAL_STACKS_MAX && total->has_open_stacks) {
        int error = span_total_unite(totals, total);
        if (error)
            return error;
        at = find_stack(total, stack);
    }
    if (!at && total->n_stacks == SPAN_TOTAL_STACKS_MAX) {
        at = span_total_rarest(total);
        at->stack = stack;
    }
    if (at) {
        at->count += count;
        return 0;
    }
    int error = total->n_stacks == total->cap_stacks ? grow_stacks(totals, total) : 0;
    if (!error)
        total->stacks[total->n_stacks++] = (struct span_total_stack){stack, count};
    return error;
}

static void see_time(struct span_totals *totals, struct span_total *total, uint64_t time_unix_ns)
{
    if (time_unix_ns < total->first_unix_ns)
        total->first_unix_ns = time_unix_ns;
    if (time_unix_ns > total->last_unix_ns)
        total->last_unix_ns = time_unix_ns;
    list_remove(&total->age);
    list_append(&totals->ages, &total->age);
    list_remove(&total->own_age);
    list_append(own_ages(totals, total), &total->own_age);
    mark_changed(totals, total);
}

int span_total_add(struct span_totals *totals, struct span_total *total,
                   const struct span_total_sample *sample)
{
    see_time(totals, total, sample->time_unix_ns);
    if (!sample->cpu)
        return 0;
    total->cpu_ns += sample->value_ns;
    total->samples++;
    total->has_open_stacks |= sample->stack_is_open;
    return add_stack(totals, total, sample->stack, 1);
}

/* The stack may have been united with another one since it was counted. */
static int find_counted(struct span_totals *totals, const struct span_total *total, int64_t stack,
                        struct span_total_stack **at)
{
    bool open;
    *at = find_stack(total, stack);
    int error = *at ? 0 : totals->canonical(totals->context, stack, &stack, &open);
    if (!error && !*at)
        *at = find_stack(total, stack);
    return error;
}

int span_total_take(struct span_totals *totals, struct span_total *total,
                    const struct span_total_sample *sample)
{
    struct span_total_stack *at;
    int error = sample->cpu ? find_counted(totals, total, sample->stack, &at) : 0;
    if (error || !sample->cpu)
        return error;
    total->cpu_ns -= total->cpu_ns < sample->value_ns ? total->cpu_ns : sample->value_ns;
    total->samples -= total->samples > 0;
    if (at && !--at->count)
        *at = total->stacks[--total->n_stacks];
    mark_changed(totals, total);
    return 0;
}

int span_total_merge(struct span_totals *totals, struct span_total *into, struct span_total *from)
{
    int error = 0;
    if (from->first_unix_ns <= from->last_unix_ns) {
        see_time(totals, into, from->first_unix_ns);
        see_time(totals, into, from->last_unix_ns);
    }
    into->cpu_ns += from->cpu_ns;
    into->samples += from->samples;
    into->has_open_stacks |= from->has_open_stacks;
    for (unsigned i = 0; i < from->n_stacks && !error; i++)
        error = add_stack(totals, into, from->stacks[i].stack, from->stacks[i].count);
    from->cpu_ns = from->samples = 0;
    from->n_stacks = 0;
    mark_changed(totals, from);
    return error;
}

/* Rows */

static void span_total_encode(struct blob_writer *out, const struct span_total *total)
{
    blob_put_fixed(out, &total->key, sizeof(total->key));
    blob_put_number(out, total->who.start_ns);
    blob_put_number(out, total->who.pid);
    blob_put_number(out, (uint64_t)total->process);
    blob_put_number(out, total->cpu_ns);
    blob_put_number(out, total->samples);
    blob_put_number(out, total->first_unix_ns);
    blob_put_number(out, total->last_unix_ns);
    blob_put_number(out, total->n_stacks);
    for (unsigned i = 0; i < total->n_stacks; i++) {
        blob_put_number(out, (uint64_t)total->stacks[i].stack);
        blob_put_number(out, total->stacks[i].count);
    }
    blob_put_number(out, total->who.tenant);
}

int span_totals_flush(struct span_totals *totals)
{
    WRITER_THREAD(totals->db);
    struct blob_writer out _cleanup_blob_ = {0};
    struct list *link, *tmp;
    int error = 0;
    list_each(link, tmp, &totals->changed)
    {
        struct span_total *total = container_of(link, struct span_total, changed);
        buf_clear(&out.buf);
        span_total_encode(&out, total);
        if (out.error)
            return no_memory(totals);
        sqlite3_bind_int64(totals->put, 1, total->id);
        sqlite3_bind_blob64(totals->put, 2, out.buf.data, out.buf.len, SQLITE_STATIC);
        error = db_run(totals->db, totals->put);
        if (error)
            break;
        list_remove(&total->changed);
    }
    sqlite3_clear_bindings(totals->put);
    update_gauges(totals);
    return error;
}

static int span_totals_decode(struct span_totals *totals, struct bytes blob,
                              struct span_total *total)
{
    struct blob_reader in = {.left = blob};
    blob_get_fixed(&in, &total->key, sizeof(total->key));
    total->who.start_ns = blob_get_number(&in);
    total->who.pid = blob_get_number32(&in);
    total->process = (int64_t)blob_get_number(&in);
    total->cpu_ns = blob_get_number(&in);
    total->samples = blob_get_number(&in);
    total->first_unix_ns = blob_get_number(&in);
    total->last_unix_ns = blob_get_number(&in);
    uint64_t n = blob_get_number(&in);
    if (in.bad || n > SPAN_TOTAL_STACKS_MAX)
        return -EUCLEAN;
    total->has_open_stacks = n > 0; /* stacks may have been open when the row was written */
    for (uint64_t i = 0; i < n; i++) {
        int64_t stack = (int64_t)blob_get_number(&in);
        uint64_t count = blob_get_number(&in);
        if (in.bad || find_stack(total, stack))
            return -EUCLEAN;
        if (total->n_stacks == total->cap_stacks && grow_stacks(totals, total))
            return -ENOMEM;
        total->stacks[total->n_stacks++] = (struct span_total_stack){stack, count};
    }
    if (in.left.len) /* rows of earlier versions end here */
        total->who.tenant = blob_get_number(&in);
    if (in.bad)
        return -EUCLEAN;
    return span_totals_find(totals, &total->key, &total->who) ? -EUCLEAN : 0;
}

static int load_row(struct span_totals *totals, int64_t id, struct bytes body)
{
    struct span_total *total = calloc(1, sizeof(*total));
    if (!total)
        return -ENOMEM;
    total->id = id;
    int error = span_totals_decode(totals, body, total);
    if (!error)
        error = span_totals_insert(totals, total);
    if (error)
        free_total(total);
    return error;
}

static int load_rows(struct span_totals *totals, struct id_set *bad)
{
    sqlite3_stmt *row _cleanup_reset_ = totals->load;
    int outcome;
    totals->next_id = 1;
    while ((outcome = db_step(totals->db, row)) == 1) {
        int64_t id = sqlite3_column_int64(row, 0);
        if (id < 0 || id >= INT64_MAX / 2)
            return -EUCLEAN;
        totals->next_id = id + 1;
        int error = load_row(
            totals, id, BYTES(sqlite3_column_blob(row, 1), (size_t)sqlite3_column_bytes(row, 1)));
        if (error == -EUCLEAN)
            error = id_set_add(bad, id);
        if (error)
            return error;
    }
    return outcome;
}

static void span_totals_clear(struct span_totals *totals)
{
    struct list *link;
    while ((link = list_pop(&totals->ages)))
        free_total(container_of(link, struct span_total, age));
    map_close(&totals->by_key);
    list_init(&totals->changed);
    for (size_t i = 0; i < FAIR_SHARES; i++)
        list_init(&totals->own_ages[i]);
    fair_share_clear(&totals->share);
    totals->n_by_trace = totals->n_by_span = 0;
}

int span_totals_reload(struct span_totals *totals)
{
    WRITER_THREAD(totals->db);
    struct id_set bad = {0};
    span_totals_clear(totals);
    int error = load_rows(totals, &bad);
    for (size_t i = 0; i < bad.count && !error; i++) {
        db_count_damaged(DB_TABLE_SPAN_TOTAL);
        sqlite3_bind_int64(totals->remove, 1, bad.ids[i]);
        error = db_run(totals->db, totals->remove);
    }
    id_set_close(&bad);
    update_gauges(totals);
    return error;
}

int span_totals_open(struct span_totals *totals, struct db *db, size_t max_bytes)
{
    *totals = (struct span_totals){.db = db};
    list_init(&totals->ages);
    list_init(&totals->changed);
    for (size_t i = 0; i < FAIR_SHARES; i++)
        list_init(&totals->own_ages[i]);
    MAP_INIT(&totals->by_key, struct span_total, key);
    int error = fair_share_init(&totals->share, max_bytes);
    if (error)
        return error;
    error = db_prepare(db, "INSERT OR REPLACE INTO tally(id, body) VALUES (?1, ?2)", &totals->put);
    if (!error)
        error = db_prepare(db, "DELETE FROM tally WHERE id = ?1", &totals->remove);
    if (!error)
        error = db_prepare(db, "SELECT id, body FROM tally ORDER BY id", &totals->load);
    return error;
}

void span_totals_close(struct span_totals *totals)
{
    if (!totals->db)
        return;
    span_totals_clear(totals);
    db_unprepare(totals->db, &totals->put);
    db_unprepare(totals->db, &totals->remove);
    db_unprepare(totals->db, &totals->load);
}
