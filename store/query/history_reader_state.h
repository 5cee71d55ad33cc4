/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What the files of the history's reader share; nobody else includes it. Errors that are not told
 * of otherwise: negative errno of db.h; -ENOMEM: a limit of memory was reached.
 *
 *   history_reader.c         opening, the consistent view, frames, texts
 *   history_reader_series.c  texts and series of the database, remembered
 *   history_reader_scan.c    which blocks and minutes a question reads, and their samples
 *   history_reader_match.c   which samples and spans a filter lets through
 *   history_reader_sums.c    sums by an id
 *   history_reader_hottest.c    the function with most self time
 *   history_reader_attributes.c
 *   history_reader_profile.c, _groups.c, _texts.c, _traces.c, _trace.c, _scrape.c   the answers
 */
#include "store/query/history_frames.h"
#include "store/history/history_minute.h"
#include "store/query/history_reader.h"
#include "store/history/history_samples.h"
#include "store/join/sample.h"

struct reader_series {
    int64_t id;
    struct history_series_facts facts; /* equal ids of texts: equal texts */
    struct bytes service, span_name, thread, container, executable;
    uint64_t question; /* that `passes` was answered for */
    bool passes;
};

#define READER_SERIES_RECENT 8192

struct history_reader {
    struct db *db;
    uint64_t db_files; /* the file that what is remembered is of */
    struct history_frames frames;
    struct arena names; /* of texts and series, across questions */
    struct map texts, series;
    struct reader_series *recent[READER_SERIES_RECENT]; /* by id */
    struct arena scratch;                               /* of the question at hand */
    uint64_t question;                                  /* counts them */
    uint64_t time_max_ns;
    struct bytes host;
    sqlite3_blob *part; /* being read piece by piece */
    int64_t part_id;
    sqlite3_stmt *begin, *end, *get_text, *get_key, *find_text, *get_series;
    sqlite3_stmt *blocks, *minutes, *get_part, *get_minute;
};

/* A consistent view until reader_end(), which comes also after a failed begin. */
int reader_begin(struct history_reader *reader);
void reader_end(struct history_reader *reader);

int reader_copy_text(struct arena *arena, struct bytes *text);
/* The array with room for one more than n, at most max; NULL: it stays as it is. */
void *reader_grow(void *array, size_t n, size_t *cap, size_t max, size_t size);

/* Borrowed until the next reader_begin(), as all texts here. What is not there is empty. */
int reader_text(struct history_reader *reader, int64_t id, struct bytes *text);
/* 1: it is one of the texts; 0. */
int reader_has_text(struct history_reader *reader, struct bytes text);
int reader_series(struct history_reader *reader, int64_t id, struct reader_series **series);
void reader_series_open(struct history_reader *reader);
void reader_series_forget(struct history_reader *reader);

/* ---- sums ---- */

struct reader_sum {
    int64_t id; /* 0: a free place; added with it: `others` */
    uint64_t samples, value_ns, self_ns;
};

/* Thread: the reader's. At most max_count ids, what comes beyond goes to `others`. */
struct reader_sums {
    struct reader_sum *sums;
    size_t cap, n, max_count;
    struct reader_sum others;
};

int reader_sums_add(struct reader_sums *sums, const struct reader_sum *more);
struct reader_sum *reader_sums_find(const struct reader_sums *sums, int64_t id); /* or NULL */
/* Most CPU time first (by id where it is the same); what is beyond max_count goes to `others`. The
 * places are no longer those of ids. */
void reader_sums_sort(struct reader_sums *sums, size_t max_count);
void reader_sums_close(struct reader_sums *sums);

/* Which period most samples have. */
struct reader_periods {
    struct {
        uint64_t period_ns, samples;
    } of[8];
};
void reader_periods_add(struct reader_periods *periods, uint64_t period_ns, uint64_t samples);
uint64_t reader_periods_most(const struct reader_periods *periods);

/* ---- scan ---- */

struct reader_block { /* a row of history_block */
    int64_t seq;
    uint64_t written_unix_ns;
    uint64_t samples_from_unix_ns, samples_to_unix_ns, spans_from_unix_ns, spans_to_unix_ns;
    uint64_t samples, spans, max_duration_ns;
};

struct reader_minute { /* of history_minute */
    int64_t id;
    uint64_t minute_unix_ns, written_unix_ns, samples;
};

struct reader_range { /* [from, to) */
    uint64_t from, to;
};

#define READER_ATTRIBUTES_KNOWN 128
#define READER_SIEVE_BITS       65536

struct reader_answer { /* whether attributes pass, of one place in the block at hand */
    uint64_t of;       /* 0: none */
    uint32_t len;
    bool passes;
};

struct reader_match {            /* what a filter lets through: answers to be used again */
    bool by_traces;              /* filter has a duration */
    bool by_tree;                /* and asks for a span with those below it */
    struct map traces;           /* with the duration of their longest span */
    uint64_t noted_from_unix_ns; /* filter has as_left: of blocks written since then, */
    size_t noted;                /* up to this one, exclusive */
    struct map tree;             /* ids of spans */
    struct reader_sums stacks;
    struct history_context context; /* of the latest group */
    bool context_known, context_passes;
    struct reader_answer attributes[READER_ATTRIBUTES_KNOWN];
    uint64_t sieve[READER_SIEVE_BITS / 64]; /* of traces: one that is not in it is not there */
};

struct reader_scan {
    struct history_reader *reader;
    const struct history_filter *filter;
    struct reader_range asked;
    struct reader_range whole;  /* whole minutes that are read as such; else from = to */
    struct reader_range answer; /* what there is of what was asked for */
    uint64_t deadline_ns;
    int64_t through; /* blocks up to this one are in minutes */
    size_t n_blocks, n_minutes;
    struct reader_block *blocks; /* by seq */
    struct reader_minute *minutes;
    bool by_minutes; /* they can answer what is asked */
    bool stopped;    /* by a limit */
    bool complete;
    struct reader_match match;
    struct buf spans_body; /* of reader_scan_spans() */
    struct history_block_spans spans;
};

/* Samples of one series and stack. */
struct reader_weight {
    struct reader_series *series;
    int64_t stack;
    uint64_t samples, value_ns, period_ns;
    uint64_t time_unix_ns;                    /* of the first; their minute */
    bool self;                                /* filter.function is the leaf */
    const struct history_sample_group *group; /* NULL: of a minute */
};

typedef int reader_visit(void *context, const struct reader_weight *weight);
typedef int reader_group_visit(void *context, const struct history_samples *samples,
                               const struct history_sample_group *group);

int reader_scan_open(struct reader_scan *scan, struct history_reader *reader,
                     const struct history_filter *filter);
void reader_scan_close(struct reader_scan *scan);
/* False when a limit is reached: the answer is not complete. */
bool reader_scan_goes_on(struct reader_scan *scan);
/* Gives 0 for what an answer can do without: damage, and what there was no memory for. */
int reader_scan_left_out(struct reader_scan *scan, int error);
/* All CPU samples that the filter lets through. times: each with its own time, but for those of
 * whole minutes. */
int reader_scan_samples(struct reader_scan *scan, bool times, reader_visit *visit, void *context);

/* Of a part that is there as far as *body has it: so many bytes in all. *size: of the whole. */
int reader_part_begin(struct history_reader *reader, int64_t id, size_t want, struct buf *body,
                      size_t *size);
void reader_part_close(struct history_reader *reader);
/* Instead of what is in *body: all of it; -ENOENT. */
int reader_part_get(struct history_reader *reader, int64_t id, struct buf *body);
/* Likewise: len bytes from `at` on, SIZE_MAX: to the end. -EUCLEAN: there are not so many. */
int reader_part_read(struct history_reader *reader, int64_t id, size_t at, size_t len,
                     struct buf *bytes);
/* Decoding begins anew. */
static inline void reader_spans_forget(struct history_block_spans *spans)
{
    spans->n = spans->offset = spans->trace_from = spans->trace_left = 0;
}

/* One block. -EUCLEAN: damaged. All its spans, into scan->spans. */
int reader_scan_spans(struct reader_scan *scan, const struct reader_block *block);
/* All its groups; with ids if scan->spans are those of the block, else (n = 0) without. */
int reader_scan_groups(struct reader_scan *scan, const struct reader_block *block,
                       reader_group_visit *visit, void *context);
/* 1: it may have samples or spans of the trace; 0. */
int reader_scan_may_have(struct reader_scan *scan, const struct reader_block *block,
                         const uint8_t trace_id[16]);

/* ---- match ---- */

bool reader_match_needs_blocks(const struct history_filter *filter); /* minutes know too little */
/* 0: nothing can pass, for a name that is asked for was never seen, or is another host's; 1. */
int reader_match_is_possible(struct history_reader *reader, const struct history_filter *filter);
int reader_match_open(struct reader_scan *scan);
void reader_match_close(struct reader_scan *scan);
/* Filter has as_left: of blocks up to this one; they are asked for in their order. */
int reader_match_as_left(struct reader_scan *scan, size_t block);
void reader_match_new_block(struct reader_scan *scan); /* scan->spans are others now */
/* No sample passes that is of no trace. */
bool reader_match_needs_trace(const struct reader_scan *scan);
/* 1, 0, negative errno. */
int reader_match_block(struct reader_scan *scan, const struct reader_block *block);
int reader_match_series(struct reader_scan *scan, int64_t id, struct reader_series **series);
int reader_match_stack(struct reader_scan *scan, struct reader_weight *weight);
int reader_match_group(struct reader_scan *scan, const struct history_sample_group *group,
                       struct reader_weight *weight);
/* Service, span name and attributes. */
int reader_match_span(struct reader_scan *scan, const struct history_block_span *span,
                      struct bytes body);

/* ---- attributes ---- */

#define READER_VALUE_BYTES 32

/* The value of a KeyValue message as text: its own, or in `own`. False: it is no single value. */
bool reader_value_text(struct bytes key_value, char own[READER_VALUE_BYTES], struct bytes *text);
/* In framed attributes (as Span field 9): the first with this key. */
bool reader_attribute_find(struct bytes framed, struct bytes key, struct bytes *key_value);
bool reader_attributes_have(struct bytes framed, const struct history_pair *pair);

/* ---- the function with most self time ---- */

struct reader_tops { /* of several owners, known by an index */
    struct history_reader *reader;
    struct map of;
};

struct reader_top {
    uint64_t ns, key;
    struct bytes function; /* in the scratch */
};

void reader_tops_open(struct reader_tops *tops, struct history_reader *reader);
void reader_tops_close(struct reader_tops *tops);
int reader_tops_add(struct reader_tops *tops, uint64_t owner, int64_t stack, uint64_t ns);
/* best: n, zeroed; of owners 0 to n - 1. */
void reader_tops_best(const struct reader_tops *tops, struct reader_top *best, size_t n);

/* ---- traces ---- */

#define READER_TRACE_SPANS_MAX 50000 /* more are left out */

/* Every span of the trace filter.trace_id, wherever it lies; borrowed for the call, as the body of
 * its attributes. */
typedef int reader_span_visit(void *context, const struct history_block_span *span,
                              struct bytes body);
int reader_trace_spans(struct reader_scan *scan, reader_span_visit *visit, void *context);
