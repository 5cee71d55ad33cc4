/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slots are stored by name, so the order of exporters may change. If a name is no longer
 * configured, its requests are kept for gone_after_ns: a user who reverts a wrong configuration
 * loses nothing. Then the requests are dropped step by step and counted, and the slot becomes free.
 */
#include "base/clock.h"
#include "base/log.h"
#include "store/outbox/outbox_state.h"
#include <errno.h>

#define COLLECT_ROWS 100 /* per step */

static ptrdiff_t find_name(char *const *names, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (names[i] && !strcmp(names[i], name))
            return (ptrdiff_t)i;
    return -1;
}

bool outbox_is_named(const struct outbox *outbox, const char *name)
{
    return find_name(outbox->names, outbox->n, name) >= 0;
}

struct slots {
    uint64_t used; /* slots of all names, including those that are gone */
    uint64_t others[OUTBOX_DESTINATIONS_MAX]; /* slots stored under the destination's other name */
};

static int read_slots(struct outbox *outbox, struct slots *slots)
{
    sqlite3_stmt *row _cleanup_reset_ = outbox->slots;
    int outcome;
    while ((outcome = db_step(outbox->db, row)) == 1) {
        int64_t slot = sqlite3_column_int64(row, 0);
        const char *name = (const char *)sqlite3_column_text(row, 1);
        if (slot < 0 || slot >= OUTBOX_SLOTS_MAX || !name)
            continue;
        uint64_t bit = UINT64_C(1) << slot;
        ptrdiff_t index = find_name(outbox->names, outbox->n, name);
        ptrdiff_t other = find_name(outbox->other_names, outbox->n, name);
        slots->used |= bit;
        if (index >= 0)
            outbox->bits[index] = bit;
        else if (other >= 0)
            slots->others[other] = bit;
    }
    return outcome;
}

static int run_on_slot(struct outbox *outbox, sqlite3_stmt *statement, size_t index)
{
    sqlite3_bind_int64(statement, 1, __builtin_ctzll(outbox->bits[index]));
    sqlite3_bind_text(statement, 2, outbox->names[index], -1, SQLITE_STATIC);
    return db_run(outbox->db, statement);
}

static int take_slot(struct outbox *outbox, size_t index, struct slots *slots)
{
    outbox->bits[index] = slots->others[index];
    if (outbox->bits[index]) /* store it under the current name */
        return run_on_slot(outbox, outbox->rename_slot, index);
    int slot = __builtin_ctzll(~slots->used);
    if (slot >= OUTBOX_SLOTS_MAX) {
        log_error("store", "too many former destinations still have requests waiting");
        return -EMFILE;
    }
    outbox->bits[index] = UINT64_C(1) << slot;
    slots->used |= outbox->bits[index];
    return run_on_slot(outbox, outbox->put_slot, index);
}

int outbox_assign_slots(struct outbox *outbox)
{
    struct slots slots = {0};
    memset(outbox->bits, 0, sizeof(outbox->bits));
    outbox->live = 0;
    outbox->gone_signal = 0;
    outbox->gone_seq = 0;
    int error = read_slots(outbox, &slots);
    for (size_t i = 0; i < outbox->n && !error; i++) {
        if (!outbox->bits[i])
            error = take_slot(outbox, i, &slots);
        outbox->live |= outbox->bits[i];
    }
    outbox->known = slots.used;
    outbox->has_gone = slots.used & ~outbox->live;
    return error;
}

/* Former destinations */

static int find_gone(struct outbox *outbox, int64_t seqs[COLLECT_ROWS], unsigned *n, bool *at_end)
{
    sqlite3_stmt *row _cleanup_reset_ = outbox->gone;
    unsigned n_rows = 0;
    int outcome;
    sqlite3_bind_int64(row, 1, outbox->gone_signal);
    sqlite3_bind_int64(row, 2, outbox->gone_seq);
    sqlite3_bind_int64(row, 3, COLLECT_ROWS);
    while ((outcome = db_step(outbox->db, row)) == 1 && n_rows < COLLECT_ROWS) {
        n_rows++;
        outbox->gone_signal = sqlite3_column_int64(row, 0);
        outbox->gone_seq = sqlite3_column_int64(row, 1);
        if ((uint64_t)sqlite3_column_int64(row, 2) & ~outbox->live)
            seqs[(*n)++] = outbox->gone_seq;
    }
    *at_end = n_rows < COLLECT_ROWS;
    return outcome < 0 ? outcome : 0;
}

/* Other slots may still wait for the request. */
static int give_up(struct outbox *outbox, int64_t seq)
{
    struct request_row request;
    int error = outbox_get_row(outbox, seq, &request);
    if (error)
        return error == -ENOENT ? 0 : error;
    uint64_t gone = request.waiting & ~outbox->live;
    error = outbox_clear(outbox, &request, gone);
    if (error)
        return error;
    outbox_count_lost(request.signal, OUTBOX_LOST_NO_DESTINATION, request.items);
    for (unsigned slot = 0; slot < OUTBOX_SLOTS_MAX; slot++)
        outbox->gone_requests[slot] += gone >> slot & 1;
    return 0;
}

static void tell_gone(struct outbox *outbox, int64_t slot, const char *name)
{
    char text[128];
    uint64_t *n = &outbox->gone_requests[slot];
    bytes_sanitize(BYTES_STR(name), text, sizeof(text));
    if (*n)
        log_warn(
            "store",
            "exporter %s is no longer configured: %llu requests that waited for it are dropped",
            text, (unsigned long long)*n);
    *n = 0;
}

static int free_slots(struct outbox *outbox)
{
    sqlite3_stmt *row _cleanup_reset_ = outbox->slots;
    int outcome;
    while ((outcome = db_step(outbox->db, row)) == 1) {
        int64_t slot = sqlite3_column_int64(row, 0);
        const char *name = (const char *)sqlite3_column_text(row, 1);
        if (slot >= 0 && slot < OUTBOX_SLOTS_MAX && name && !(outbox->live >> slot & 1))
            tell_gone(outbox, slot, name);
    }
    if (outcome < 0)
        return outcome;
    outbox->has_gone = false;
    sqlite3_bind_int64(outbox->remove_slots, 1, (int64_t)outbox->live);
    return db_run(outbox->db, outbox->remove_slots);
}

/* Time counts from the first collection, which is not before the service is ready. */
static bool is_due(struct outbox *outbox)
{
    uint64_t now_ns = clock_monotonic_ns();
    if (!outbox->collecting_since_ns)
        outbox->collecting_since_ns = now_ns;
    return now_ns - outbox->collecting_since_ns >= outbox->gone_after_ns;
}

int outbox_collect_gone(struct outbox *outbox)
{
    int64_t seqs[COLLECT_ROWS];
    unsigned n = 0;
    bool at_end = false;
    if (!is_due(outbox) || !outbox->has_gone)
        return 0;
    int error = find_gone(outbox, seqs, &n, &at_end);
    for (unsigned i = 0; i < n && !error; i++)
        error = give_up(outbox, seqs[i]);
    return error || !at_end ? error : free_slots(outbox);
}
