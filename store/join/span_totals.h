/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What each (trace, span, process) has had of samples: CPU time, count, the stacks seen most.
 * Memory is what counts; a row follows at each commit. A key with span zero stands for a trace, one
 * with trace zero for a span whose trace is not known. Thread: the writer. Limits: max_bytes of
 * memory; SPAN_TOTAL_STACKS_MAX stacks a total (the rarest makes room). Errors: negative errno of
 * db.h; they broke the transaction.
 */
#include "base/list.h"
#include "base/map.h"
#include <sqlite3.h>

struct db;
struct matched_span;
struct slot;

#define SPAN_TOTAL_STACKS_MAX 32

struct span_total_key {
    uint8_t trace_id[16];
    uint8_t span_id[8];
};

struct span_total_process { /* tells processes apart, also when their facts change */
    uint64_t start_ns;
    uint32_t pid;
};

struct span_total_stack {
    int64_t stack;
    uint64_t count;
};

struct span_total_sample {
    uint64_t time_unix_ns;
    uint64_t value_ns;
    int64_t stack;
    bool stack_is_open; /* it may turn out to be the same as another */
    bool cpu;           /* else only its time counts */
};

struct span_total {
    struct span_total_key key;
    struct span_total
        *next; /* the same key, another process; in the order of their first samples */
    struct span_total_process who;
    bool contradicted;    /* a span came with this key, whose Resource says another process */
    bool has_open_stacks; /* some of its stacks may be the same as others: span_total_unite() */
    uint8_t n_stacks, cap_stacks;
    int64_t id;
    int64_t process; /* the latest row of facts */
    uint64_t cpu_ns, samples;
    uint64_t first_unix_ns, last_unix_ns;
    struct span_total_stack *stacks;
    struct slot *first, *last;    /* samples that wait; join.c's */
    struct matched_span *matched; /* the span; of a trace the first of its local roots; join.c's */
    struct list age, changed;
};

struct span_totals {
    struct db *db;
    struct map by_key;
    struct list ages; /* longest without a sample first */
    struct list changed;
    size_t bytes, max_bytes;
    size_t n_by_trace, n_by_span;
    int64_t next_id;
    /* Called before one is freed: nothing may point at it afterwards. */
    void (*forgetting)(void *context, struct span_total *total);
    /* The stack that this one is the same as, as far as is known; *open: that may still change. 0
     * or negative errno. */
    int (*canonical)(void *context, int64_t stack, int64_t *canonical, bool *open);
    void *context;
    sqlite3_stmt *put, *remove, *load;
};

int span_totals_open(struct span_totals *totals, struct db *db, size_t max_bytes);
void span_totals_close(struct span_totals *totals);
int span_totals_reload(struct span_totals *totals); /* without a call of forgetting() */
int span_totals_flush(struct span_totals *totals);

struct span_total *span_totals_get(const struct span_totals *totals,
                                   const struct span_total_key *key);
struct span_total *span_totals_find(const struct span_totals *totals,
                                    const struct span_total_key *key,
                                    const struct span_total_process *who);
int span_totals_make(struct span_totals *totals, const struct span_total_key *key,
                     const struct span_total_process *who, struct span_total **total);
int span_totals_forget(struct span_totals *totals, struct span_total *total);
/* Down to max_bytes, but for `keep`; *n: how many were forgotten. */
int span_totals_trim(struct span_totals *totals, const struct span_total *keep, size_t *n);
int span_totals_expire(struct span_totals *totals, uint64_t now_unix_ns, uint64_t ttl_ns);

int span_total_add(struct span_totals *totals, struct span_total *total,
                   const struct span_total_sample *sample);
int span_total_take(struct span_totals *totals, struct span_total *total,
                    const struct span_total_sample *sample);
/* Counts of stacks that are known to be the same become one. */
int span_total_unite(struct span_totals *totals, struct span_total *total);
/* All of `from` goes to `into`. */
int span_total_merge(struct span_totals *totals, struct span_total *into, struct span_total *from);
bool span_total_is_by_trace(const struct span_total *total);
bool span_total_is_by_span(const struct span_total *total);
