/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Minutes hold sums, blocks hold samples. A query over a range reads the minutes that are entirely
 * within the range, the blocks that are in no minute yet, and blocks for the partial minutes at
 * both ends. If the ends have many samples and the range is long, the range is rounded to whole
 * minutes instead.
 */
#include "store/query/history_reader_state.h"
#include "base/clock.h"
#include "base/stats.h"
#include <errno.h>
#include <stdlib.h>

#define ROWS_MAX          ((size_t)1 << 20)
#define ROUND_RANGE_NS    (10 * HISTORY_MINUTE_NS) /* a shorter range is never rounded */
#define ROUND_SAMPLES_MAX 100000                   /* limit for the ends of a range, about 10 ms */

STAT_LOSS(damaged, "spanprof_history_unreadable_total",
          "Blocks and minutes of the history that a question found damaged and left out.");

bool reader_scan_goes_on(struct reader_scan *scan)
{
    if (!scan->stopped)
        scan->stopped =
            clock_monotonic_ns() > scan->deadline_ns || db_log_is_full(scan->reader->db);
    scan->complete &= !scan->stopped;
    return !scan->stopped;
}

int reader_scan_left_out(struct reader_scan *scan, int error)
{
    if (error != -EUCLEAN && error != -ENOMEM)
        return error;
    stat_add(&damaged, error == -EUCLEAN);
    scan->stopped |= error == -ENOMEM;
    scan->complete = false;
    return 0;
}

/* Rows */

static uint64_t scan_number(sqlite3_stmt *row, int column)
{
    int64_t number = sqlite3_column_int64(row, column);
    return number > 0 ? (uint64_t)number : 0;
}

static int load_blocks(struct reader_scan *scan)
{
    sqlite3_stmt *row _cleanup_reset_ = scan->reader->blocks;
    size_t cap = 0;
    int outcome;
    while ((outcome = db_step(scan->reader->db, row)) == 1) {
        void *rows =
            reader_grow(scan->blocks, scan->n_blocks, &cap, ROWS_MAX, sizeof(*scan->blocks));
        if (!rows)
            return -ENOMEM;
        scan->blocks = rows;
        scan->blocks[scan->n_blocks++] = (struct reader_block){
            .seq = sqlite3_column_int64(row, 0),
            .written_unix_ns = scan_number(row, 1),
            .samples_from_unix_ns = scan_number(row, 2),
            .samples_to_unix_ns = scan_number(row, 3),
            .spans_from_unix_ns = scan_number(row, 4),
            .spans_to_unix_ns = scan_number(row, 5),
            .samples = scan_number(row, 6),
            .spans = scan_number(row, 7),
            .max_duration_ns = scan_number(row, 8),
        };
    }
    return outcome;
}

static int load_minutes(struct reader_scan *scan)
{
    sqlite3_stmt *row _cleanup_reset_ = scan->reader->minutes;
    size_t cap = 0;
    int outcome;
    while ((outcome = db_step(scan->reader->db, row)) == 1) {
        void *rows =
            reader_grow(scan->minutes, scan->n_minutes, &cap, ROWS_MAX, sizeof(*scan->minutes));
        if (!rows)
            return -ENOMEM;
        scan->minutes = rows;
        scan->minutes[scan->n_minutes++] = (struct reader_minute){
            .id = sqlite3_column_int64(row, 0),
            .minute_unix_ns = scan_number(row, 1),
            .written_unix_ns = scan_number(row, 3),
            .samples = scan_number(row, 4),
        };
        if (sqlite3_column_int64(row, 2) > scan->through)
            scan->through = sqlite3_column_int64(row, 2);
    }
    return outcome;
}

/* Ranges */

static uint64_t minute_of(uint64_t time)
{
    return time - time % HISTORY_MINUTE_NS;
}

static uint64_t minute_from(uint64_t time)
{
    uint64_t minute = minute_of(time);
    return minute == time || minute > UINT64_MAX - HISTORY_MINUTE_NS ? minute
                                                                     : minute + HISTORY_MINUTE_NS;
}

static bool reader_range_overlaps(const struct reader_range *range, uint64_t from, uint64_t to)
{
    return to >= range->from && from < range->to;
}

/* Number of samples in the blocks to read for the part of the range outside whole minutes. */
static uint64_t cost_of(const struct reader_scan *scan, uint64_t from, uint64_t to)
{
    const struct reader_range range = {from, to};
    uint64_t samples = 0;
    for (size_t i = 0; i < scan->n_blocks; i++) {
        const struct reader_block *block = &scan->blocks[i];
        if (block->seq <= scan->through &&
            reader_range_overlaps(&range, block->samples_from_unix_ns, block->samples_to_unix_ns))
            samples += block->samples;
    }
    return samples;
}

static void choose_minutes(struct reader_scan *scan, uint64_t newest)
{
    struct reader_range *asked = &scan->asked;
    if (!scan->by_minutes || !scan->n_minutes)
        return;
    if (asked->to > newest)
        asked->to = UINT64_MAX; /* after the newest data: the last minute counts as whole */
    if (asked->to - asked->from >= ROUND_RANGE_NS) {
        if (cost_of(scan, asked->from, minute_from(asked->from)) > ROUND_SAMPLES_MAX)
            asked->from = minute_of(asked->from);
        if (asked->to != UINT64_MAX &&
            cost_of(scan, minute_of(asked->to), asked->to) > ROUND_SAMPLES_MAX)
            asked->to = minute_from(asked->to);
    }
    scan->whole.from = minute_from(asked->from);
    scan->whole.to = asked->to == UINT64_MAX ? asked->to : minute_of(asked->to);
    if (scan->whole.from >= scan->whole.to)
        scan->whole = (struct reader_range){0};
}

static uint64_t scan_smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* A span may begin long before the kept samples, or at any time if its clock is wrong. */
static uint64_t reaches_back_to(const struct reader_block *block)
{
    return block->samples ? block->samples_from_unix_ns : block->written_unix_ns;
}

static void choose_range(struct reader_scan *scan)
{
    uint64_t oldest = UINT64_MAX, newest = 0;
    for (size_t i = 0; i < scan->n_blocks; i++) {
        const struct reader_block *block = &scan->blocks[i];
        oldest = scan_smaller(oldest, reaches_back_to(block));
        if (block->written_unix_ns > newest)
            newest = block->written_unix_ns;
    }
    for (size_t i = 0; i < scan->n_minutes; i++) {
        oldest = scan_smaller(oldest, scan->minutes[i].minute_unix_ns);
        if (scan->minutes[i].written_unix_ns > newest)
            newest = scan->minutes[i].written_unix_ns;
    }
    choose_minutes(scan, newest);
    scan->answer.to = scan_smaller(scan->asked.to, newest);
    scan->answer.from = scan->asked.from > oldest ? scan->asked.from : oldest;
    if (scan->answer.from > scan->answer.to)
        scan->answer.from = scan->answer.to;
}

int reader_scan_open(struct reader_scan *scan, struct history_reader *reader,
                     const struct history_filter *filter)
{
    *scan = (struct reader_scan){
        .reader = reader,
        .filter = filter,
        .asked = {filter->from_unix_ns, filter->to_unix_ns ? filter->to_unix_ns : UINT64_MAX},
        .deadline_ns = clock_monotonic_ns() + reader->time_max_ns,
        .by_minutes = !reader_match_needs_blocks(filter),
        .complete = true,
    };
    if (scan->asked.from > scan->asked.to)
        scan->asked.from = scan->asked.to;
    int error = load_blocks(scan);
    error = error ? error : load_minutes(scan);
    if (error)
        return error;
    choose_range(scan);
    int possible = reader_match_is_possible(reader, filter);
    if (possible < 0)
        return possible;
    if (!possible)
        scan->n_blocks = scan->n_minutes = 0;
    return reader_match_open(scan);
}

void reader_scan_close(struct reader_scan *scan)
{
    reader_match_close(scan);
    free(scan->blocks);
    free(scan->minutes);
    buf_close(&scan->spans_body);
    history_spans_close(&scan->spans);
    scan->blocks = NULL;
    scan->minutes = NULL;
}

/* Parts */

/* row: get_part; stays on the row until the caller resets it. -ENOENT. */
static int get_part(struct history_reader *reader, sqlite3_stmt *row, int64_t id,
                    struct bytes *body)
{
    sqlite3_bind_int64(row, 1, id);
    int outcome = db_step(reader->db, row);
    if (outcome <= 0)
        return outcome ? outcome : -ENOENT;
    *body = BYTES(sqlite3_column_blob(row, 0), (size_t)sqlite3_column_bytes(row, 0));
    return 0;
}

static int open_part(struct history_reader *reader, int64_t id)
{
    sqlite3 *handle = db_handle(reader->db);
    if (!handle)
        return -EIO;
    if (reader->part && reader->part_id == id)
        return 0;
    int code = reader->part ? sqlite3_blob_reopen(reader->part, id)
                            : sqlite3_blob_open(handle, "main", "history_part", "body", id, 0,
                                                &reader->part);
    reader->part_id = id;
    if (code == SQLITE_OK)
        return 0;
    reader_part_close(reader);
    return code == SQLITE_NOMEM ? -ENOMEM : -EUCLEAN;
}

void reader_part_close(struct history_reader *reader)
{
    sqlite3_blob_close(reader->part);
    reader->part = NULL;
}

int reader_part_begin(struct history_reader *reader, int64_t id, size_t want, struct buf *body,
                      size_t *size)
{
    int error = open_part(reader, id);
    if (error)
        return error;
    *size = (size_t)sqlite3_blob_bytes(reader->part);
    if (want > *size)
        want = *size;
    if (want <= body->len)
        return 0;
    size_t more = want - body->len;
    error = buf_reserve(body, more);
    if (error)
        return error;
    if (sqlite3_blob_read(reader->part, body->data + body->len, (int)more, (int)body->len))
        return -EUCLEAN;
    body->len += more;
    return 0;
}

int reader_part_read(struct history_reader *reader, int64_t id, size_t at, size_t len,
                     struct buf *bytes)
{
    buf_clear(bytes);
    int error = open_part(reader, id);
    size_t size = error ? 0 : (size_t)sqlite3_blob_bytes(reader->part);
    if (error || at > size)
        return error ? error : -EUCLEAN;
    if (len == SIZE_MAX)
        len = size - at;
    if (len > size - at)
        return -EUCLEAN;
    error = buf_reserve(bytes, len);
    if (error)
        return error;
    if (len && sqlite3_blob_read(reader->part, bytes->data, (int)len, (int)at))
        return -EUCLEAN;
    bytes->len = len;
    return 0;
}

int reader_part_get(struct history_reader *reader, int64_t id, struct buf *copy)
{
    sqlite3_stmt *row _cleanup_reset_ = reader->get_part;
    struct bytes body;
    buf_clear(copy);
    int error = get_part(reader, row, id, &body);
    return error ? error : buf_append_bytes(copy, body);
}

int reader_scan_spans(struct reader_scan *scan, const struct reader_block *block)
{
    reader_spans_forget(&scan->spans);
    buf_clear(&scan->spans_body);
    reader_match_new_block(scan);
    if (!block->spans)
        return 0;
    int error = reader_part_read(scan->reader, history_part_id(block->seq, HISTORY_PART_SPANS), 0,
                                 SIZE_MAX, &scan->spans_body);
    if (error)
        return error;
    return history_spans_decode(&scan->spans, buf_bytes(&scan->spans_body), true, block->spans,
                                block->spans);
}

int reader_scan_may_have(struct reader_scan *scan, const struct reader_block *block,
                         const uint8_t trace_id[16])
{
    sqlite3_stmt *row _cleanup_reset_ = scan->reader->get_part;
    struct bytes body;
    int error =
        get_part(scan->reader, row, history_part_id(block->seq, HISTORY_PART_TRACES), &body);
    if (error)
        return error == -ENOENT ? 0 : error;
    return history_index_may_have(body, trace_id);
}

int reader_scan_groups(struct reader_scan *scan, const struct reader_block *block,
                       reader_group_visit *visit, void *context)
{
    sqlite3_stmt *row _cleanup_reset_ = scan->reader->get_part;
    const struct history_sample_group *group;
    struct history_samples samples;
    struct bytes body;
    if (!block->samples)
        return 0;
    int outcome =
        get_part(scan->reader, row, history_part_id(block->seq, HISTORY_PART_SAMPLES), &body);
    if (outcome)
        return outcome == -ENOENT ? -EUCLEAN : outcome;
    outcome = history_samples_open(&samples, body, scan->spans.n ? scan->spans.spans : NULL,
                                   block->spans);
    int error = outcome;
    while (!error && (outcome = history_samples_next(&samples, &group)) == 1)
        error = visit(context, &samples, group);
    history_samples_close(&samples);
    return error ? error : outcome;
}

/* Samples */

struct sampling {
    struct reader_scan *scan;
    const struct reader_block *block;
    bool times, inside, needs_trace;
    reader_visit *visit;
    void *context;
};

static bool is_in(const struct reader_scan *scan, int64_t seq, uint64_t time)
{
    if (time < scan->asked.from || time >= scan->asked.to)
        return false;
    return seq > scan->through || time < scan->whole.from || time >= scan->whole.to;
}

/* True: the whole block is within the range. */
static bool is_inside(const struct reader_scan *scan, const struct reader_block *block)
{
    uint64_t from = block->samples_from_unix_ns, to = block->samples_to_unix_ns;
    if (!is_in(scan, block->seq, from) || !is_in(scan, block->seq, to))
        return false;
    return block->seq > scan->through || to < scan->whole.from || from >= scan->whole.to;
}

static bool is_needed(const struct reader_scan *scan, const struct reader_block *block)
{
    uint64_t from = block->samples_from_unix_ns, to = block->samples_to_unix_ns;
    if (!block->samples || !reader_range_overlaps(&scan->asked, from, to))
        return false;
    return block->seq > scan->through || from < scan->whole.from || to >= scan->whole.to;
}

static int visit_times(struct sampling *sampling, const struct history_samples *samples,
                       const struct history_sample_group *group, struct reader_weight *weight)
{
    struct history_group_times times = history_times_of(samples, group);
    struct reader_weight one = *weight;
    uint64_t time, value;
    int error = 0;
    weight->samples = weight->value_ns = 0;
    while (!error && history_times_next(&times, &time, &value)) {
        if (!is_in(sampling->scan, sampling->block->seq, time))
            continue;
        one.samples = 1;
        one.value_ns = value;
        one.time_unix_ns = time;
        if (sampling->times) {
            error = sampling->visit(sampling->context, &one);
            continue;
        }
        weight->time_unix_ns = weight->samples ? weight->time_unix_ns : time;
        weight->samples++;
        weight->value_ns += value;
    }
    if (!error && weight->samples)
        error = sampling->visit(sampling->context, weight);
    return error;
}

enum { VISITED = 1 };

static int visit_group(void *context, const struct history_samples *samples,
                       const struct history_sample_group *group)
{
    struct sampling *sampling = context;
    if (sampling->needs_trace && bytes_zero(group->context.trace_id, 16) &&
        group->context.span == HISTORY_NO_SPAN)
        return VISITED; /* groups without a trace come last */
    struct reader_weight weight = {
        .stack = group->stack,
        .samples = group->n,
        .value_ns = group->value_ns,
        .period_ns = group->period_ns,
        .time_unix_ns = sampling->block->samples_from_unix_ns,
        .group = group,
    };
    int outcome = reader_match_group(sampling->scan, group, &weight);
    if (outcome <= 0)
        return outcome;
    return sampling->inside && !sampling->times ? sampling->visit(sampling->context, &weight)
                                                : visit_times(sampling, samples, group, &weight);
}

static int scan_block(struct reader_scan *scan, const struct reader_block *block, bool times,
                      reader_visit *visit, void *context)
{
    struct sampling sampling = {.scan = scan,
                                .block = block,
                                .times = times,
                                .inside = is_inside(scan, block),
                                .needs_trace = reader_match_needs_trace(scan),
                                .visit = visit,
                                .context = context};
    int outcome = reader_match_block(scan, block);
    if (outcome <= 0)
        return outcome;
    scan->spans.n = 0;
    int error = scan->by_minutes ? 0 : reader_scan_spans(scan, block);
    error = error ? error : reader_scan_groups(scan, block, visit_group, &sampling);
    return error == VISITED ? 0 : error;
}

static int visit_entries(struct reader_scan *scan, const struct reader_minute *minute,
                         struct history_minute_entries *entries, reader_visit *visit, void *context)
{
    struct reader_weight weight = {.time_unix_ns = minute->minute_unix_ns,
                                   .period_ns = entries->period_ns};
    struct history_minute_entry entry;
    int outcome, passes = 0, error = 0;
    while (!error && (outcome = history_minute_next(entries, &entry)) == 1) {
        if (!weight.series || weight.series->id != entry.series) {
            passes = reader_match_series(scan, entry.series, &weight.series);
            if (passes < 0)
                return passes;
        }
        if (!passes)
            continue;
        weight.stack = entry.stack;
        weight.samples = entry.samples;
        weight.value_ns = entry.value_ns;
        int found = reader_match_stack(scan, &weight);
        error = found > 0 ? visit(context, &weight) : found;
    }
    return error ? error : outcome;
}

static int scan_minute(struct reader_scan *scan, const struct reader_minute *minute,
                       reader_visit *visit, void *context)
{
    sqlite3_stmt *row _cleanup_reset_ = scan->reader->get_minute;
    struct history_minute_entries entries;
    sqlite3_bind_int64(row, 1, minute->id);
    int outcome = db_step(scan->reader->db, row);
    if (outcome <= 0)
        return outcome ? outcome : -EUCLEAN;
    const void *body = sqlite3_column_blob(row, 0);
    int error = history_minute_open(&entries, BYTES(body, (size_t)sqlite3_column_bytes(row, 0)));
    return error ? error : visit_entries(scan, minute, &entries, visit, context);
}

int reader_scan_samples(struct reader_scan *scan, bool times, reader_visit *visit, void *context)
{
    int error = 0;
    for (size_t i = scan->n_blocks; i-- && !error && reader_scan_goes_on(scan);) {
        if (is_needed(scan, &scan->blocks[i]))
            error = scan_block(scan, &scan->blocks[i], times, visit, context);
        error = reader_scan_left_out(scan, error);
    }
    for (size_t i = scan->n_minutes; i-- && !error && reader_scan_goes_on(scan);) {
        const struct reader_minute *minute = &scan->minutes[i];
        if (minute->minute_unix_ns >= scan->whole.from && minute->minute_unix_ns < scan->whole.to)
            error = scan_minute(scan, minute, visit, context);
        error = reader_scan_left_out(scan, error);
    }
    return error;
}
