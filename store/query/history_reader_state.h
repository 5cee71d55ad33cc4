/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Shared by the files of the history reader. Private to these files. Errors, unless stated
 * otherwise: negative errno of db.h; -ENOMEM: a limit of memory was reached.
 *
 *   history_reader.c         opening, the consistent view, frames, texts
 *   history_reader_series.c  texts and series of the database, remembered
 *   history_reader_scan.c    which blocks and minutes a question reads, and their samples
 *   history_reader_match.c   which samples and spans a filter lets through
 *   history_reader_owners.c  which samples count in a trace
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
    struct history_series_facts facts; /* equal ids of texts imply equal texts */
    struct bytes service, span_name, thread, container, executable;
    uint64_t question; /* the query that `passes` is valid for */
    bool passes;
};

#define READER_SERIES_RECENT 8192

struct history_reader {
    struct db *db;
    uint64_t db_files; /* the file that the caches were read from */
    struct history_frames frames;
    struct arena names; /* texts and series, across queries */
    struct map texts, series;
    struct reader_series *recent[READER_SERIES_RECENT]; /* by id */
    struct arena scratch;                               /* of the current query */
    uint64_t question;                                  /* number of the current query */
    uint64_t time_max_ns;
    struct bytes host;
    sqlite3_blob *part; /* open for reads of parts */
    int64_t part_id;
    sqlite3_stmt *begin, *end, *get_text, *get_key, *find_text, *get_series;
    sqlite3_stmt *blocks, *minutes, *get_part, *get_minute;
};

/* Begins a consistent view, until reader_end(). Call reader_end() also after a failed
 * reader_begin(). */
int reader_begin(struct history_reader *reader);
void reader_end(struct history_reader *reader);

int reader_copy_text(struct arena *arena, struct bytes *text);
/* Returns the array with room for n + 1 entries, at most max; NULL: failed, the array is
 * unchanged. */
void *reader_grow(void *array, size_t n, size_t *cap, size_t max, size_t size);

/* Texts are borrowed until the next reader_begin(). A missing text is empty. */
int reader_text(struct history_reader *reader, int64_t id, struct bytes *text);
/* 1: the database has this text; 0: it does not. */
int reader_has_text(struct history_reader *reader, struct bytes text);
int reader_series(struct history_reader *reader, int64_t id, struct reader_series **series);
void reader_series_open(struct history_reader *reader);
void reader_series_forget(struct history_reader *reader);

/* ---- sums ---- */

struct reader_sum {
    int64_t id; /* 0: free place; adding id 0 adds to `others` */
    uint64_t samples, value_ns, self_ns;
};

/* Thread: the reader's. At most max_count ids; further ids are added to `others`. */
struct reader_sums {
    struct reader_sum *sums;
    size_t cap, n, max_count;
    struct reader_sum others;
};

int reader_sums_add(struct reader_sums *sums, const struct reader_sum *more);
struct reader_sum *reader_sums_find(const struct reader_sums *sums, int64_t id); /* or NULL */
/* Sorts by CPU time, descending, then by id; entries beyond max_count are added to `others`.
 * Afterwards reader_sums_find() does not work. */
void reader_sums_sort(struct reader_sums *sums, size_t max_count);
void reader_sums_close(struct reader_sums *sums);

/* Finds the most frequent sample period. */
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

struct reader_answer { /* whether the attributes at one place in the current block pass */
    uint64_t of;       /* 0: none */
    uint32_t len;
    bool passes;
};

/* Of one trace: the processes that have made its spans. Memory is in the reader's scratch. */
struct reader_owners {
    struct map spans, processes;
    bool any; /* a span has come */
};

void reader_owners_open(struct reader_owners *owners);
void reader_owners_close(struct reader_owners *owners);
/* 0, -ENOMEM, or an error of reader_series(). */
int reader_owners_add(struct reader_owners *owners, struct history_reader *reader,
                      const struct history_block_span *span);
/* Whether samples with this context, of the process `pid`, count in the trace. All its spans are
 * added. */
bool reader_owners_pass(const struct reader_owners *owners, const struct history_context *context,
                        uint32_t pid);

struct reader_match {            /* cached answers of the filter */
    bool by_traces;              /* the filter has a duration */
    bool by_tree;                /* the filter asks for a span and its descendants */
    struct map traces;           /* with the duration of their longest span */
    uint64_t noted_from_unix_ns; /* filter.as_left: blocks written from here on are noted */
    size_t noted;                /* index after the last noted block */
    struct map tree;             /* span ids */
    struct reader_owners owners; /* of the filter's trace */
    struct reader_sums stacks;
    struct history_context context; /* context of the latest group */
    bool context_known, context_passes;
    struct reader_answer attributes[READER_ATTRIBUTES_KNOWN];
    uint64_t sieve[READER_SIEVE_BITS / 64]; /* a trace without its bit set is not in `traces` */
};

struct reader_scan {
    struct history_reader *reader;
    const struct history_filter *filter;
    struct reader_range asked;
    struct reader_range whole;  /* minutes read from history_minute; from = to if none */
    struct reader_range answer; /* the part of `asked` that the history covers */
    uint64_t deadline_ns;
    int64_t through; /* blocks with seq <= through are in minutes */
    size_t n_blocks, n_minutes;
    struct reader_block *blocks; /* by seq */
    struct reader_minute *minutes;
    bool by_minutes; /* minutes can answer the query */
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
    uint64_t time_unix_ns;                    /* of the first sample; or their minute */
    bool self;                                /* filter.function is the leaf */
    const struct history_sample_group *group; /* NULL: from a minute */
};

typedef int reader_visit(void *context, const struct reader_weight *weight);
typedef int reader_group_visit(void *context, const struct history_samples *samples,
                               const struct history_sample_group *group);

int reader_scan_open(struct reader_scan *scan, struct history_reader *reader,
                     const struct history_filter *filter);
void reader_scan_close(struct reader_scan *scan);
/* False: a limit is reached, the answer is not complete. */
bool reader_scan_goes_on(struct reader_scan *scan);
/* Returns 0 for errors that only make the answer incomplete: damage, and no memory. */
int reader_scan_left_out(struct reader_scan *scan, int error);
/* Visits all CPU samples that match the filter. times: each sample with its own time, except those
 * from minutes. */
int reader_scan_samples(struct reader_scan *scan, bool times, reader_visit *visit, void *context);

/* Extends the prefix of the part in *body to `want` bytes. *size: size of the whole part. */
int reader_part_begin(struct history_reader *reader, int64_t id, size_t want, struct buf *body,
                      size_t *size);
void reader_part_close(struct history_reader *reader);
/* Reads the whole part into *body, replacing its contents. -ENOENT. */
int reader_part_get(struct history_reader *reader, int64_t id, struct buf *body);
/* Reads len bytes from offset `at` on into *bytes, replacing its contents; len = SIZE_MAX: to the
 * end. -EUCLEAN: the part is shorter. */
int reader_part_read(struct history_reader *reader, int64_t id, size_t at, size_t len,
                     struct buf *bytes);
/* Restarts decoding from the beginning. */
static inline void reader_spans_forget(struct history_block_spans *spans)
{
    spans->n = spans->offset = spans->trace_from = spans->trace_left = 0;
}

/* Decodes all spans of one block into scan->spans. -EUCLEAN: damaged. */
int reader_scan_spans(struct reader_scan *scan, const struct reader_block *block);
/* Visits all groups of one block. Ids of groups are valid if scan->spans holds the block's spans,
 * not if it is empty (n = 0). */
int reader_scan_groups(struct reader_scan *scan, const struct reader_block *block,
                       reader_group_visit *visit, void *context);
/* 1: the block may have samples or spans of the trace; 0: it has none. */
int reader_scan_may_have(struct reader_scan *scan, const struct reader_block *block,
                         const uint8_t trace_id[16]);

/* ---- match ---- */

bool reader_match_needs_blocks(
    const struct history_filter *filter); /* minutes lack the needed fields */
/* 0: nothing can match, because a name in the filter is not in the database or the host is another
 * one; 1: a match is possible. */
int reader_match_is_possible(struct history_reader *reader, const struct history_filter *filter);
int reader_match_open(struct reader_scan *scan);
void reader_match_close(struct reader_scan *scan);
/* For filter.as_left: notes the blocks up to `block`. Call it with ascending `block`. */
int reader_match_as_left(struct reader_scan *scan, size_t block);
void reader_match_new_block(struct reader_scan *scan); /* scan->spans has changed */
/* True: a sample without a trace cannot match. */
bool reader_match_needs_trace(const struct reader_scan *scan);
/* 1, 0, negative errno. */
int reader_match_block(struct reader_scan *scan, const struct reader_block *block);
int reader_match_series(struct reader_scan *scan, int64_t id, struct reader_series **series);
int reader_match_stack(struct reader_scan *scan, struct reader_weight *weight);
int reader_match_group(struct reader_scan *scan, const struct history_sample_group *group,
                       struct reader_weight *weight);
/* Matches service, span name and attributes. */
int reader_match_span(struct reader_scan *scan, const struct history_block_span *span,
                      struct bytes body);

/* ---- attributes ---- */

#define READER_VALUE_BYTES 32

/* The value of a KeyValue message as text, borrowed from the message or written to `own`. False:
 * the value is an array or another compound. */
bool reader_value_text(struct bytes key_value, char own[READER_VALUE_BYTES], struct bytes *text);
/* Finds the first attribute with this key in attributes framed as Span field 9. */
bool reader_attribute_find(struct bytes framed, struct bytes key, struct bytes *key_value);
bool reader_attributes_have(struct bytes framed, const struct history_pair *pair);

/* ---- the function with most self time ---- */

struct reader_tops { /* for several owners; an owner is an index */
    struct history_reader *reader;
    struct map of;
};

struct reader_top {
    uint64_t ns, key;
    struct bytes function; /* in reader->scratch */
};

void reader_tops_open(struct reader_tops *tops, struct history_reader *reader);
void reader_tops_close(struct reader_tops *tops);
int reader_tops_add(struct reader_tops *tops, uint64_t owner, int64_t stack, uint64_t ns);
/* best: n zeroed entries, for owners 0 to n - 1. */
void reader_tops_best(const struct reader_tops *tops, struct reader_top *best, size_t n);

/* ---- traces ---- */

#define READER_TRACE_SPANS_MAX 50000 /* further spans are left out */

/* Visits every span of the trace filter.trace_id in any block. span, and body with its attributes,
 * are borrowed for the call. */
typedef int reader_span_visit(void *context, const struct history_block_span *span,
                              struct bytes body);
int reader_trace_spans(struct reader_scan *scan, reader_span_visit *visit, void *context);
