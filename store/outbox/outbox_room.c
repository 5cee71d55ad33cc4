/* SPDX-License-Identifier: Apache-2.0 */
/* Makes room for new requests: deletes recycled bodies and, with OUTBOX_DROPS_OLDEST, the oldest
 * requests. */
#include "base/clock.h"
#include "base/log.h"
#include "base/stats.h"
#include "store/outbox/outbox_state.h"
#include <errno.h>

#define DROPS_MAX     1024 /* dropped to make room for one request */
#define DROP_AHEAD    (256 << 10)
#define WARN_AGAIN_NS (60 * NS_PER_SEC)
#define RECYCLED_ROOM (4 << 20) /* with less, no bodies are recycled; they take <= 2 MiB */

STAT_COUNTERS(full, "spanprof_outbox_refused_total",
              "Requests refused because quota or disk has no room.",
              STAT_LABEL("signal", signal_names, SIGNAL_COUNT));

int outbox_find_oldest(struct outbox *outbox, int signal, struct outbox_oldest *oldest)
{
    sqlite3_stmt *row _cleanup_reset_ = outbox->oldest;
    sqlite3_bind_int64(row, 1, signal);
    int outcome = db_step(outbox->db, row);
    if (outcome == 1)
        *oldest = (struct outbox_oldest){.seq = sqlite3_column_int64(row, 0),
                                         .since_unix_ns = (uint64_t)sqlite3_column_int64(row, 1),
                                         .waiting = (uint64_t)sqlite3_column_int64(row, 2),
                                         .has_body = sqlite3_column_int(row, 3)};
    return outcome;
}

static int find_first(struct outbox *outbox, int64_t *first)
{
    *first = INT64_MAX;
    for (int signal = 0; signal < SIGNAL_COUNT; signal++) {
        struct outbox_oldest oldest = {.seq = INT64_MAX};
        int outcome = outbox_find_oldest(outbox, signal, &oldest);
        if (outcome < 0)
            return outcome;
        if (outcome && oldest.seq < *first)
            *first = oldest.seq;
    }
    return *first == INT64_MAX ? -ENOENT : 0;
}

static void tell_dropped(struct outbox *outbox, const struct request_row *request)
{
    uint64_t now_ns = clock_monotonic_ns();
    outbox_count_lost(request->signal, OUTBOX_LOST_FULL, request->items);
    if (outbox->warned_ns && now_ns - outbox->warned_ns < WARN_AGAIN_NS)
        return;
    outbox->warned_ns = now_ns;
    log_warn("store", "%s has no room left: the oldest requests are dropped for newer ones",
             db_disk_has_room(outbox->db, 1 << 20) ? "the quota" : "the disk");
}

static int drop_first(struct outbox *outbox)
{
    int64_t seq = 0;
    struct request_row request;
    int error = find_first(outbox, &seq);
    error = error ? error : outbox_get_row(outbox, seq, &request);
    error = error ? error : outbox_remove_row(outbox, &request);
    if (error)
        return error == -ENOENT ? -ENOSPC : error;
    outbox_handoffs_dropped(&outbox->handoffs, request.signal, seq);
    tell_dropped(outbox, &request);
    return db_look_for_room(outbox->db);
}

/* When the disk is full, only db_maintain() turns free pages into room. So no more requests are
 * dropped until then than this one needs; it is written twice, to the log and to the file. */
static bool may_drop(const struct outbox *outbox, uint64_t size)
{
    return outbox->policy == OUTBOX_DROPS_OLDEST && db_could_hold(outbox->db, size) &&
           (db_disk_has_room(outbox->db, size) ||
            db_unused_bytes(outbox->db) < 2 * size + DROP_AHEAD);
}

bool outbox_has_room_to_recycle(const struct outbox *outbox)
{
    return db_room_bytes(outbox->db) >= RECYCLED_ROOM;
}

int outbox_drop_recycled(struct outbox *outbox)
{
    int outcome = outbox_bodies_drop_recycled(&outbox->bodies);
    return outcome == 1 ? db_look_for_room(outbox->db) : outcome;
}

void outbox_leave(struct outbox *outbox, uint64_t bytes)
{
    WRITER_THREAD(outbox->db);
    outbox->left_bytes = bytes;
}

static bool has_share(const struct outbox *outbox, uint64_t size)
{
    uint64_t quota = db_quota_room_bytes(outbox->db);
    return quota == UINT64_MAX || quota > outbox->left_bytes + size;
}

bool outbox_has_room_for(const struct outbox *outbox, uint64_t size)
{
    WRITER_THREAD(outbox->db);
    return has_share(outbox, size) && db_has_room(outbox->db) && db_room_bytes(outbox->db) >= size;
}

static bool take_share(struct outbox *outbox, uint64_t size)
{
    return has_share(outbox, size) && db_take_room(outbox->db, size);
}

int outbox_take_room(struct outbox *outbox, uint64_t size)
{
    WRITER_THREAD(outbox->db);
    if (take_share(outbox, size))
        return 0;
    int error = outbox_drop_recycled(outbox);
    if (error)
        return error;
    if (take_share(outbox, size))
        return 0;
    error = outbox->policy == OUTBOX_DROPS_OLDEST ? db_look_for_room(outbox->db) : -ENOSPC;
    for (unsigned n = 0; !error && !take_share(outbox, size); n++)
        error = n < DROPS_MAX && may_drop(outbox, size) ? drop_first(outbox) : -ENOSPC;
    return error;
}

int outbox_reserve(struct outbox *outbox, enum signal signal, uint32_t destinations, uint64_t size)
{
    WRITER_THREAD(outbox->db);
    if (size <= outbox->reserved || !outbox_mask_of(outbox, destinations))
        return 0;
    if (!db_could_hold(outbox->db, outbox->left_bytes + size))
        return -EFBIG;
    int error = outbox_take_room(outbox, size - outbox->reserved);
    if (error == -ENOSPC)
        stat_add_of(&full, signal, 1);
    if (!error)
        outbox->reserved = size;
    return error;
}

void outbox_release(struct outbox *outbox)
{
    WRITER_THREAD(outbox->db);
    outbox->reserved = 0; /* each transaction makes its own reservation */
}

int outbox_take_room_for(struct outbox *outbox, enum signal signal, uint64_t size)
{
    if (size <= outbox->reserved) {
        outbox->reserved -= size;
        return 0;
    }
    int error = outbox_take_room(outbox, size);
    if (error == -ENOSPC)
        stat_add_of(&full, signal, 1);
    return error;
}

bool outbox_is_empty(enum signal signal)
{
    return outbox_sums_requests(signal) == 0;
}

static bool is_empty(void)
{
    int64_t n = 0;
    for (int signal = 0; signal < SIGNAL_COUNT; signal++)
        n += outbox_sums_requests((enum signal)signal);
    return n <= 0;
}

bool outbox_has_room(const struct outbox *outbox)
{
    WRITER_THREAD(outbox->db);
    return outbox_has_room_for(outbox, 0) || (outbox->policy == OUTBOX_DROPS_OLDEST &&
                                              db_disk_has_room(outbox->db, 0) && !is_empty());
}
