/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each destination has a slot, kept by name; each request a mask of the slots that wait for it, in
 * a row beside the one with its body, so that an acknowledgement does not write the body again. A
 * slot whose name is no longer configured is cleared step by step, then free for another.
 */
#include "store/outbox.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/stats.h"
#include "store/db.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define SLOTS_MAX     62   /* bits of a mask in an SQLite integer */
#define COLLECT_ROWS  100  /* a step */
#define DROPS_MAX     1024 /* requests that make room for one */
#define DROP_AHEAD    (256 << 10)
#define WARN_AGAIN_NS (60 * NS_PER_SEC)

#define HELP_BYTES "Bytes of requests that wait for a destination."
#define HELP_ITEMS                                                                                 \
    "Items (spans, samples, data points, log records) in requests that wait for a destination."
#define HELP_COUNT "Requests that wait for a destination."
#define HELP_AGE   "Age of the oldest request that waits for a destination."
#define HELP_FULL  "Requests refused because quota or disk has no room."
#define HELP_DROP  "Items given up to make room for newer ones, by why there was none."
#define HELP_NONE  "Items that no pipeline takes to a destination."
#define EACH_SIGNAL(declare, variable, name, help)                                                 \
    declare(variable##_traces, name, "signal=\"traces\"", help);                                   \
    declare(variable##_profiles, name, "signal=\"profiles\"", help);                               \
    declare(variable##_metrics, name, "signal=\"metrics\"", help);                                 \
    declare(variable##_logs, name, "signal=\"logs\"", help)
#define TABLE(variable)                                                                            \
    {                                                                                              \
        &variable##_traces, &variable##_profiles, &variable##_metrics, &variable##_logs            \
    }

EACH_SIGNAL(STAT_GAUGE, bytes, "spanprof_outbox_size_bytes", HELP_BYTES);
EACH_SIGNAL(STAT_GAUGE, items, "spanprof_outbox_items", HELP_ITEMS);
EACH_SIGNAL(STAT_GAUGE, requests, "spanprof_outbox_requests", HELP_COUNT);
EACH_SIGNAL(STAT_GAUGE, age, "spanprof_outbox_oldest_age_seconds", HELP_AGE);
EACH_SIGNAL(STAT_COUNTER, full, "spanprof_outbox_refused_total", HELP_FULL);
STAT_LOSS(dropped_traces, "spanprof_outbox_dropped_items_total",
          "signal=\"traces\",reason=\"full\"", HELP_DROP);
STAT_LOSS(dropped_profiles, "spanprof_outbox_dropped_items_total",
          "signal=\"profiles\",reason=\"full\"", HELP_DROP);
STAT_LOSS(dropped_metrics, "spanprof_outbox_dropped_items_total",
          "signal=\"metrics\",reason=\"full\"", HELP_DROP);
STAT_LOSS(dropped_logs, "spanprof_outbox_dropped_items_total", "signal=\"logs\",reason=\"full\"",
          HELP_DROP);
EACH_SIGNAL(STAT_COUNTER, unwanted, "spanprof_outbox_unwanted_items_total", HELP_NONE);

static struct metric *const bytes_of[SIGNAL_COUNT] = TABLE(bytes);
static struct metric *const items_of[SIGNAL_COUNT] = TABLE(items);
static struct metric *const requests_of[SIGNAL_COUNT] = TABLE(requests);
static struct metric *const age_of[SIGNAL_COUNT] = TABLE(age);
static struct metric *const full_of[SIGNAL_COUNT] = TABLE(full);
static struct metric *const dropped_of[SIGNAL_COUNT] = TABLE(dropped);
static struct metric *const unwanted_of[SIGNAL_COUNT] = TABLE(unwanted);

struct outbox {
    struct db *db;
    enum outbox_policy policy;
    uint64_t warned_ns; /* of requests given up */
    size_t n;
    char *names[OUTBOX_DESTINATIONS_MAX];
    uint64_t bits[OUTBOX_DESTINATIONS_MAX]; /* of the slot */
    uint64_t live;                          /* all of them */
    bool has_gone;                          /* slots that are to be cleared */
    int64_t gone_at;                        /* how far that has come */
    sqlite3_stmt *put, *put_body, *get, *clear, *remove, *remove_body, *oldest, *first, *gone;
    sqlite3_stmt *totals, *add_total;
    sqlite3_stmt *slots, *put_slot, *remove_slots;
};

/* Opening */

static int prepare_all(struct outbox *outbox)
{
    const struct {
        const char *sql;
        sqlite3_stmt **statement;
    } all[] = {
        {"INSERT INTO outbox(signal, items, bytes, enqueued_unix_ns, waiting)"
         " VALUES (?1, ?2, ?3, ?4, ?5)",
         &outbox->put},
        {"INSERT INTO outbox_body(seq, body) VALUES (?1, ?2)", &outbox->put_body},
        {"SELECT signal, items, bytes, waiting FROM outbox WHERE seq = ?1", &outbox->get},
        {"UPDATE outbox SET waiting = ?2 WHERE seq = ?1", &outbox->clear},
        {"DELETE FROM outbox WHERE seq = ?1", &outbox->remove},
        {"DELETE FROM outbox_body WHERE seq = ?1", &outbox->remove_body},
        {"SELECT signal, items, bytes, requests FROM outbox_total", &outbox->totals},
        {"INSERT INTO outbox_total(signal, items, bytes, requests) VALUES (?1, ?2, ?3, ?4)"
         " ON CONFLICT(signal) DO UPDATE SET items = items + ?2, bytes = bytes + ?3,"
         " requests = requests + ?4",
         &outbox->add_total},
        {"SELECT enqueued_unix_ns FROM outbox WHERE signal = ?1 ORDER BY seq LIMIT 1",
         &outbox->oldest},
        {"SELECT seq FROM outbox ORDER BY seq LIMIT 1", &outbox->first},
        {"SELECT seq, waiting FROM outbox WHERE seq > ?1 ORDER BY seq LIMIT ?2", &outbox->gone},
        {"SELECT slot, name FROM destination", &outbox->slots},
        {"INSERT INTO destination(slot, name) VALUES (?1, ?2)", &outbox->put_slot},
        {"DELETE FROM destination WHERE (1 << slot) & ?1 = 0", &outbox->remove_slots},
    };
    int error = 0;
    for (size_t i = 0; i < sizeof(all) / sizeof(*all) && !error; i++)
        error = db_prepare(outbox->db, all[i].sql, all[i].statement);
    return error;
}

static ptrdiff_t find_name(const struct outbox *outbox, const char *name)
{
    for (size_t i = 0; i < outbox->n; i++)
        if (!strcmp(outbox->names[i], name))
            return (ptrdiff_t)i;
    return -1;
}

/* used: slots of any name, also of those that are gone. */
static int read_slots(struct outbox *outbox, uint64_t *used)
{
    sqlite3_stmt *row _cleanup_reset_ = outbox->slots;
    int outcome;
    *used = 0;
    while ((outcome = db_step(outbox->db, row)) == 1) {
        int64_t slot = sqlite3_column_int64(row, 0);
        const char *name = (const char *)sqlite3_column_text(row, 1);
        if (slot < 0 || slot >= SLOTS_MAX || !name)
            continue;
        uint64_t bit = UINT64_C(1) << slot;
        ptrdiff_t index = find_name(outbox, name);
        *used |= bit;
        outbox->has_gone |= index < 0;
        if (index >= 0)
            outbox->bits[index] = bit;
    }
    return outcome;
}

static int take_slot(struct outbox *outbox, size_t index, uint64_t *used)
{
    int slot = __builtin_ctzll(~*used);
    if (slot >= SLOTS_MAX) {
        log_error("store", "too many former destinations still have requests waiting");
        return -EMFILE;
    }
    sqlite3_bind_int64(outbox->put_slot, 1, slot);
    sqlite3_bind_text(outbox->put_slot, 2, outbox->names[index], -1, SQLITE_STATIC);
    outbox->bits[index] = UINT64_C(1) << slot;
    *used |= outbox->bits[index];
    return db_run(outbox->db, outbox->put_slot);
}

static int assign_slots(struct outbox *outbox)
{
    uint64_t used;
    memset(outbox->bits, 0, sizeof(outbox->bits));
    outbox->live = 0;
    outbox->has_gone = false;
    outbox->gone_at = 0;
    int error = read_slots(outbox, &used);
    for (size_t i = 0; i < outbox->n && !error; i++) {
        if (!outbox->bits[i])
            error = take_slot(outbox, i, &used);
        outbox->live |= outbox->bits[i];
    }
    return error;
}

static int64_t not_negative(int64_t number) /* a damaged row */
{
    return number < 0 ? 0 : number;
}

/* Each is set once: others read it meanwhile, and what is not empty must not seem so. */
static int count_all(struct outbox *outbox)
{
    struct metric *const *const of[] = {items_of, bytes_of, requests_of}; /* as the row has them */
    int64_t totals[SIGNAL_COUNT][3] = {0};
    sqlite3_stmt *row _cleanup_reset_ = outbox->totals;
    int outcome;
    while ((outcome = db_step(outbox->db, row)) == 1) {
        int64_t signal = sqlite3_column_int64(row, 0);
        for (int i = 0; i < 3 && signal >= 0 && signal < SIGNAL_COUNT; i++)
            totals[signal][i] = not_negative(sqlite3_column_int64(row, i + 1));
    }
    for (int signal = 0; signal < SIGNAL_COUNT; signal++) {
        stat_set(age_of[signal], 0);
        for (int i = 0; i < 3; i++)
            stat_set(of[i][signal], totals[signal][i]);
    }
    return outcome;
}

int outbox_reload(struct outbox *outbox)
{
    int error = db_begin(outbox->db);
    if (error)
        return error;
    error = assign_slots(outbox);
    if (error)
        db_fail(outbox->db, error);
    error = db_commit(outbox->db);
    return error ? error : count_all(outbox);
}

int outbox_open(struct db *db, const char *const *names, size_t n, enum outbox_policy policy,
                struct outbox **result)
{
    struct outbox *outbox = calloc(1, sizeof(*outbox));
    if (!outbox)
        return -ENOMEM;
    outbox->db = db;
    outbox->policy = policy;
    int error = n > OUTBOX_DESTINATIONS_MAX ? -E2BIG : 0;
    for (size_t i = 0; i < n && !error; i++) {
        assert(find_name(outbox, names[i]) < 0);
        outbox->names[i] = strdup(names[i]);
        error = outbox->names[i] ? 0 : -ENOMEM;
        outbox->n += !error;
    }
    if (!error)
        error = prepare_all(outbox);
    if (!error)
        error = outbox_reload(outbox);
    if (error) {
        outbox_close(outbox);
        return error;
    }
    *result = outbox;
    return 0;
}

void outbox_close(struct outbox *outbox)
{
    if (!outbox)
        return;
    sqlite3_stmt **all[] = {&outbox->put,         &outbox->put_body,    &outbox->get,
                            &outbox->clear,       &outbox->remove,      &outbox->gone,
                            &outbox->totals,      &outbox->add_total,   &outbox->first,
                            &outbox->remove_body, &outbox->oldest,      &outbox->slots,
                            &outbox->put_slot,    &outbox->remove_slots};
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        db_unprepare(outbox->db, all[i]);
    for (size_t i = 0; i < outbox->n; i++)
        free(outbox->names[i]);
    free(outbox);
}

/* Writer */

static uint64_t mask_of(const struct outbox *outbox, uint32_t destinations)
{
    uint64_t mask = 0;
    for (size_t i = 0; i < outbox->n; i++)
        if (destinations >> i & 1)
            mask |= outbox->bits[i];
    return mask;
}

static int add_total(struct outbox *outbox, enum signal signal, int64_t n_items, int64_t n_bytes,
                     int64_t n_requests)
{
    sqlite3_bind_int64(outbox->add_total, 1, signal);
    sqlite3_bind_int64(outbox->add_total, 2, n_items);
    sqlite3_bind_int64(outbox->add_total, 3, n_bytes);
    sqlite3_bind_int64(outbox->add_total, 4, n_requests);
    int error = db_run(outbox->db, outbox->add_total);
    if (error)
        return error;
    stat_add(items_of[signal], n_items);
    stat_add(bytes_of[signal], n_bytes);
    stat_add(requests_of[signal], n_requests);
    return 0;
}

static int put(struct outbox *outbox, enum signal signal, uint64_t n_items, uint64_t mask,
               struct bytes body)
{
    sqlite3_bind_int64(outbox->put, 1, signal);
    sqlite3_bind_int64(outbox->put, 2, (int64_t)n_items);
    sqlite3_bind_int64(outbox->put, 3, (int64_t)body.len);
    sqlite3_bind_int64(outbox->put, 4, (int64_t)clock_unix_ns());
    sqlite3_bind_int64(outbox->put, 5, (int64_t)mask);
    int error = db_run(outbox->db, outbox->put);
    if (error)
        return error;
    sqlite3_bind_int64(outbox->put_body, 1, sqlite3_last_insert_rowid(db_handle(outbox->db)));
    sqlite3_bind_blob64(outbox->put_body, 2, body.len ? (const void *)body.data : "", body.len,
                        SQLITE_STATIC);
    error = db_run(outbox->db, outbox->put_body);
    sqlite3_clear_bindings(outbox->put_body);
    return error;
}

struct request_row {
    int64_t seq, signal, items, bytes;
    uint64_t waiting;
};

static int get_row(struct outbox *outbox, int64_t seq, struct request_row *request)
{
    sqlite3_stmt *row _cleanup_reset_ = outbox->get;
    sqlite3_bind_int64(row, 1, seq);
    int outcome = db_step(outbox->db, row);
    if (outcome <= 0)
        return outcome ? outcome : -ENOENT;
    *request = (struct request_row){
        .seq = seq,
        .signal = sqlite3_column_int64(row, 0),
        .items = not_negative(sqlite3_column_int64(row, 1)),
        .bytes = not_negative(sqlite3_column_int64(row, 2)),
        .waiting = (uint64_t)sqlite3_column_int64(row, 3),
    };
    return 0;
}

static int remove_row(struct outbox *outbox, const struct request_row *request)
{
    sqlite3_bind_int64(outbox->remove, 1, request->seq);
    sqlite3_bind_int64(outbox->remove_body, 1, request->seq);
    int error = db_run(outbox->db, outbox->remove);
    if (!error)
        error = db_run(outbox->db, outbox->remove_body);
    if (error || request->signal < 0 || request->signal >= SIGNAL_COUNT)
        return error;
    return add_total(outbox, (enum signal)request->signal, -request->items, -request->bytes, -1);
}

/* Room */

static int find_first(struct outbox *outbox, int64_t *seq)
{
    sqlite3_stmt *row _cleanup_reset_ = outbox->first;
    int outcome = db_step(outbox->db, row);
    if (outcome <= 0)
        return outcome ? outcome : -ENOENT;
    *seq = sqlite3_column_int64(row, 0);
    return 0;
}

static void tell_dropped(struct outbox *outbox, const struct request_row *request)
{
    uint64_t now_ns = clock_monotonic_ns();
    if (request->signal >= 0 && request->signal < SIGNAL_COUNT)
        stat_add(dropped_of[request->signal], request->items);
    if (outbox->warned_ns && now_ns - outbox->warned_ns < WARN_AGAIN_NS)
        return;
    outbox->warned_ns = now_ns;
    log_warn("store", "%s has no room left: the oldest requests are given up for newer ones",
             db_disk_has_room(outbox->db, 1 << 20) ? "the quota" : "the disk");
}

static int drop_first(struct outbox *outbox)
{
    int64_t seq = 0;
    struct request_row request;
    int error = find_first(outbox, &seq);
    error = error ? error : get_row(outbox, seq, &request);
    error = error ? error : remove_row(outbox, &request);
    if (error)
        return error == -ENOENT ? -ENOSPC : error;
    tell_dropped(outbox, &request);
    return db_look_for_room(outbox->db);
}

/* On a disk that is short, pages are given back by upkeep alone: more than enough for this one,
 * which is written to the log and to the file, is not given up before. */
static bool may_drop(const struct outbox *outbox, uint64_t size)
{
    return outbox->policy == OUTBOX_DROPS_OLDEST && db_could_hold(outbox->db, size) &&
           (db_disk_has_room(outbox->db, size) ||
            db_unused_bytes(outbox->db) < 2 * size + DROP_AHEAD);
}

int outbox_take_room(struct outbox *outbox, uint64_t size)
{
    if (db_take_room(outbox->db, size))
        return 0;
    int error = outbox->policy == OUTBOX_DROPS_OLDEST ? db_look_for_room(outbox->db) : -ENOSPC;
    for (unsigned n = 0; !error && !db_take_room(outbox->db, size); n++)
        error = n < DROPS_MAX && may_drop(outbox, size) ? drop_first(outbox) : -ENOSPC;
    return error;
}

bool outbox_is_empty(enum signal signal)
{
    return stat_get(requests_of[signal]) == 0;
}

static bool is_empty(void)
{
    int64_t n = 0;
    for (int signal = 0; signal < SIGNAL_COUNT; signal++)
        n += stat_get(requests_of[signal]);
    return n <= 0;
}

bool outbox_has_room(const struct outbox *outbox)
{
    return db_has_room(outbox->db) || (outbox->policy == OUTBOX_DROPS_OLDEST &&
                                       db_disk_has_room(outbox->db, 0) && !is_empty());
}

int outbox_put(struct outbox *outbox, enum signal signal, uint64_t n_items, uint32_t destinations,
               struct bytes body)
{
    uint64_t mask = mask_of(outbox, destinations);
    assert(signal < SIGNAL_COUNT);
    if (!mask) {
        stat_add(unwanted_of[signal], (int64_t)n_items);
        return 0;
    }
    int error = outbox_take_room(outbox, body.len);
    if (error == -ENOSPC)
        stat_add(full_of[signal], 1);
    if (!error)
        error = put(outbox, signal, n_items, mask, body);
    return error ? error : add_total(outbox, signal, (int64_t)n_items, (int64_t)body.len, 1);
}

/* Those in `bits` no longer wait for it. */
static int clear_bits(struct outbox *outbox, int64_t seq, uint64_t bits)
{
    struct request_row request;
    int error = get_row(outbox, seq, &request);
    if (error)
        return error == -ENOENT ? 0 : error;
    uint64_t waiting = request.waiting & ~bits & outbox->live;
    if (!waiting)
        return remove_row(outbox, &request);
    if (waiting == request.waiting)
        return 0;
    sqlite3_bind_int64(outbox->clear, 1, seq);
    sqlite3_bind_int64(outbox->clear, 2, (int64_t)waiting);
    return db_run(outbox->db, outbox->clear);
}

int outbox_done(struct outbox *outbox, size_t destination, int64_t seq)
{
    assert(destination < outbox->n);
    return clear_bits(outbox, seq, outbox->bits[destination]);
}

/* Former destinations */

static int find_gone(struct outbox *outbox, int64_t seqs[COLLECT_ROWS], unsigned *n, bool *at_end)
{
    sqlite3_stmt *row _cleanup_reset_ = outbox->gone;
    unsigned n_rows = 0;
    int outcome;
    sqlite3_bind_int64(row, 1, outbox->gone_at);
    sqlite3_bind_int64(row, 2, COLLECT_ROWS);
    while ((outcome = db_step(outbox->db, row)) == 1 && n_rows < COLLECT_ROWS) {
        n_rows++;
        outbox->gone_at = sqlite3_column_int64(row, 0);
        if ((uint64_t)sqlite3_column_int64(row, 1) & ~outbox->live)
            seqs[(*n)++] = outbox->gone_at;
    }
    *at_end = n_rows < COLLECT_ROWS;
    return outcome < 0 ? outcome : 0;
}

static int collect_gone(struct outbox *outbox)
{
    int64_t seqs[COLLECT_ROWS];
    unsigned n = 0;
    bool at_end = false;
    int error = find_gone(outbox, seqs, &n, &at_end);
    for (unsigned i = 0; i < n && !error; i++)
        error = clear_bits(outbox, seqs[i], 0);
    if (error || !at_end)
        return error;
    outbox->has_gone = false;
    sqlite3_bind_int64(outbox->remove_slots, 1, (int64_t)outbox->live);
    return db_run(outbox->db, outbox->remove_slots);
}

int outbox_collect(struct outbox *outbox, uint64_t now_unix_ns)
{
    for (int signal = 0; signal < SIGNAL_COUNT; signal++) {
        sqlite3_stmt *row _cleanup_reset_ = outbox->oldest;
        sqlite3_bind_int64(row, 1, signal);
        int outcome = stat_get(requests_of[signal]) > 0 ? db_step(outbox->db, row) : 0;
        if (outcome < 0)
            return outcome;
        uint64_t since = outcome ? (uint64_t)sqlite3_column_int64(row, 0) : now_unix_ns;
        stat_set(age_of[signal],
                 since < now_unix_ns ? (int64_t)((now_unix_ns - since) / NS_PER_SEC) : 0);
    }
    return outbox->has_gone ? collect_gone(outbox) : 0;
}
