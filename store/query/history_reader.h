/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Queries on the history. Thread: the reading connection's. The connection is not shared with the
 * exporters, because a query may take long.
 *
 * Answers are in the caller's arena. Texts are UTF-8, sanitized on input, but may contain any other
 * character: escape them for display. A query stops at its limits of time (HISTORY_TIME_MAX_NS) and
 * arena; then `complete` is false, and the answer is what was found so far. Errors: negative errno
 * of db.h; -ENOENT: no such trace; -ENOMEM; -EAGAIN: the store's log is too long to answer now
 * (log_limit.h).
 */
#include "base/arena.h"
#include "base/buf.h"
#include "store/db/db.h"

#define HISTORY_TIME_MAX_NS    (5 * UINT64_C(1000000000))
#define HISTORY_ATTRIBUTES_MAX 8
#define HISTORY_TRACES_MAX     1000
#define HISTORY_GROUPS_MAX     200 /* of history_groups(); the rest is one group, `others` */
#define HISTORY_BUCKETS_MAX    1000
#define HISTORY_STACKS_MAX     20000 /* of a profile: the heaviest; the rest is `others` */
#define HISTORY_FRAMES_BYTES   ((size_t)16 << 20) /* of cached frames and names */

struct history_reader;

int history_reader_open(struct db *reader_db, struct history_reader **reader);
void history_reader_close(struct history_reader *reader); /* NULL is fine */
/* Replaces HISTORY_TIME_MAX_NS for later queries. */
void history_reader_set_time(struct history_reader *reader, uint64_t max_ns);
/* The host of all samples of the history; borrowed. */
void history_reader_set_host(struct history_reader *reader, struct bytes host);

struct history_pair {
    struct bytes key, value;
};

/* Empty, 0 and false mean: any. Texts match as a whole. */
struct history_filter {
    uint64_t from_unix_ns, to_unix_ns;
    struct bytes service, span_name, thread, container, host;
    uint32_t pid;
    struct bytes function;                     /* samples with it anywhere in their stack */
    uint64_t min_duration_ns, max_duration_ns; /* of the trace's longest local span */
    size_t n_attributes;
    struct history_pair attributes[HISTORY_ATTRIBUTES_MAX]; /* of spans; all must match */
    bool by_trace, by_span;
    bool alone; /* by_span: leave out the span's descendants; without by_trace they are always left
                   out */
    bool as_left; /* use durations and descendants known when the sample left the join, as
                     history_scrape() does */
    uint8_t trace_id[16], span_id[8];
};

/* ---- traces ---- */

/* HISTORY_SLOWEST with a filter on service, name or attributes orders by the slowest matching span
 * of a trace. */
enum history_order { HISTORY_SLOWEST, HISTORY_LATEST, HISTORY_MOST_CPU };

struct history_trace_summary {
    uint8_t trace_id[16];
    uint8_t span_id[8]; /* span_id to duration_ns: of the longest local span */
    struct bytes service, name;
    uint64_t start_unix_ns, duration_ns;
    uint64_t cpu_ns, samples; /* of all its local spans */
    uint32_t n_spans;
    bool error;                /* one of its spans has an error */
    struct bytes top_function; /* most self time; may be empty */
};

struct history_traces {
    size_t n;
    struct history_trace_summary *traces;
    uint64_t searched_spans;
    bool complete;
};

int history_traces(struct history_reader *reader, const struct history_filter *filter,
                   enum history_order order, size_t limit, struct arena *arena,
                   struct history_traces *traces);

struct history_busy { /* time on a CPU, as offset from the span's start: the periods before its
                         samples, merged */
    uint64_t offset_ns, length_ns;
};

struct history_span {
    uint8_t span_id[8], parent_id[8]; /* parent: zero = none, or not local and not known */
    struct bytes service, name;
    uint32_t kind; /* enum otlp_span_kind */
    bool error;
    bool known; /* false: only samples have arrived, not the span; start is that of the first sample
                 */
    uint64_t start_unix_ns, duration_ns;
    uint64_t cpu_ns, samples; /* without the span's descendants */
    struct bytes top_function;
    size_t n_attributes;
    struct history_pair *attributes; /* values as text */
    size_t n_busy;
    struct history_busy *busy; /* ascending */
};

struct history_trace {
    uint64_t start_unix_ns, duration_ns; /* from first start to last end of `spans` */
    uint64_t cpu_ns, samples;
    size_t n_spans;
    struct history_span *spans; /* parents before children, siblings by start */
    bool complete;
};

/* Uses trace_id of the filter alone; answers with all kept spans of the trace. */
int history_trace(struct history_reader *reader, const struct history_filter *filter,
                  struct arena *arena, struct history_trace *trace);

/* ---- stacks ---- */

struct history_stack {
    int64_t id;
    uint64_t samples, cpu_ns;
};

struct history_profile {
    uint64_t from_unix_ns, to_unix_ns; /* the part of the range that the history covers */
    uint64_t samples, cpu_ns;          /* of all stacks, including `others` */
    uint64_t period_ns;                /* most frequent period */
    size_t n;
    struct history_stack *stacks; /* most CPU time first */
    struct history_stack others;  /* sum beyond HISTORY_STACKS_MAX; id 0 */
    bool complete;
};

int history_profile(struct history_reader *reader, const struct history_filter *filter,
                    struct arena *arena, struct history_profile *profile);

/* What a frame is: SYMBOL of the constant, text as in profile.frame.type. */
#define HISTORY_FRAME_ROWS(ROW)                                                                    \
    ROW(KERNEL, "kernel")                                                                          \
    ROW(NATIVE, "native")                                                                          \
    ROW(GO, "go")                                                                                  \
    ROW(JIT, "jit")                                                                                \
    ROW(CPYTHON, "cpython")                                                                        \
    ROW(JVM, "jvm")                                                                                \
    ROW(V8JS, "v8js")                                                                              \
    ROW(RUBY, "ruby")                                                                              \
    ROW(PHP, "php")                                                                                \
    ROW(DOTNET, "dotnet")                                                                          \
    ROW(BEAM, "beam")                                                                              \
    ROW(LUAJIT, "luajit")                                                                          \
    ROW(TRUNCATED, "truncated") /* the stack goes on, but could not be followed */

#define HISTORY_FRAME_ENUM_ROW(symbol, text) HISTORY_FRAME_##symbol,
enum history_frame_type { HISTORY_FRAME_ROWS(HISTORY_FRAME_ENUM_ROW) HISTORY_FRAME_TYPES };
#undef HISTORY_FRAME_ENUM_ROW

const char *history_frame_type_name(enum history_frame_type type);

struct history_frame {
    uint64_t key;          /* equal for frames shown as one: same function, file, module, type */
    struct bytes function; /* never empty: [MODULE] if no name is known, 0xADDRESS without module */
    struct bytes file;     /* source file; may be empty */
    struct bytes module;   /* path of the executable; may be empty */
    uint64_t address;      /* in the module */
    int64_t line;          /* 0 = not known */
    uint8_t build_id[20];  /* GNU */
    uint8_t build_id_size;
    uint8_t type; /* enum history_frame_type */
    bool inlined, unnamed;
};

/* Frames leaf first; an inlined function is a frame of its own. *n = 0 if the stack is empty or not
 * known. Borrowed until the next call. Cached across calls, within HISTORY_FRAMES_BYTES, until the
 * database file is renewed; keys stay the same as long as the reader is open. */
int history_frames(struct history_reader *reader, int64_t stack,
                   const struct history_frame *const **frames, size_t *n);

/* ---- groups ---- */

enum history_group {
    HISTORY_BY_SERVICE,
    HISTORY_BY_SPAN, /* service and span name */
    HISTORY_BY_SPAN_NAME,
    HISTORY_BY_THREAD,
    HISTORY_BY_CONTAINER,
    HISTORY_BY_PROCESS,
    HISTORY_BY_HOST
};

struct history_series {
    struct bytes service; /* HISTORY_BY_SPAN; HISTORY_BY_PROCESS: its first service */
    struct bytes name;    /* HISTORY_BY_PROCESS: executable */
    uint32_t pid;         /* HISTORY_BY_PROCESS */
    struct bytes route;   /* HISTORY_BY_SPAN: http.route or rpc.method, if equal in latest spans */
    uint64_t samples, cpu_ns;
    uint64_t self_ns;    /* with filter.function: time with it as the leaf */
    uint64_t in_context; /* samples whose thread published a trace or span */
    uint64_t in_span;    /* samples joined with their span */
    /* HISTORY_BY_SPAN: trace with the most CPU time among the latest; zero = none */
    uint8_t example_trace_id[16];
    uint64_t *buckets; /* ns; n_buckets entries */
    bool others;       /* the rest in one series, always the last; no other series has its name */
};

struct history_groups {
    uint64_t from_unix_ns, bucket_ns;
    size_t n_buckets, n;
    struct history_series *series; /* most CPU time first */
    uint64_t cpu_ns, samples;
    bool complete;
};

/* n_buckets: at most this many, fewer if buckets are rounded up to whole minutes; 0: sums only. */
int history_groups(struct history_reader *reader, const struct history_filter *filter,
                   enum history_group group, size_t n_buckets, struct arena *arena,
                   struct history_groups *groups);

/* Values for a filter: the services, span names ... of the range, most CPU time first. */
enum history_text {
    HISTORY_SERVICES,
    HISTORY_SPAN_NAMES,
    HISTORY_THREADS,
    HISTORY_CONTAINERS,
    HISTORY_HOSTS
};
int history_texts(struct history_reader *reader, const struct history_filter *filter,
                  enum history_text text, struct arena *arena, struct bytes **texts, size_t *n);

/* ---- one by one ---- */

struct history_labelled {             /* samples of one stack, span and thread */
    uint8_t trace_id[16], span_id[8]; /* zero = not known */
    struct bytes service, span_name, thread, container, task;
    const struct history_frame *const *frames; /* as history_frames() */
    size_t n_frames;
    uint64_t samples, cpu_ns;
};

struct history_whole {
    uint64_t from_unix_ns, to_unix_ns; /* the part of the range that the history covers */
    uint64_t period_ns;                /* most frequent period */
    bool complete;
};

/* Visits all CPU samples that match the filter; contents of `labelled` are borrowed for the call.
 * Returns 0, or the first nonzero value of visit. */
typedef int history_visit(void *context, const struct history_labelled *labelled);
int history_each(struct history_reader *reader, const struct history_filter *filter,
                 history_visit *visit, void *context, struct history_whole *whole);

/* ---- scraping ---- */

struct history_scrape {
    uint64_t since; /* cursor from an earlier call; 0: everything */
    size_t max_bytes;
    const char *scope_version;
    /* Results: */
    uint64_t next;    /* the cursor for the next call */
    uint64_t samples; /* number in the request; 0: nothing was appended */
    uint64_t missed;  /* blocks after `since` that have expired */
    bool more;        /* more blocks are available now */
};

/* Appends an ExportProfilesServiceRequest with the CPU samples that left the join after `since`,
 * correlated as in the export, but without the CPU number, and with times rounded down to
 * HISTORY_TICK_NS. The same cursor gives the same samples as long as they are kept. */
int history_scrape(struct history_reader *reader, const struct history_filter *filter,
                   struct history_scrape *scrape, struct buf *out);
