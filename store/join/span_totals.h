/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Totals of samples per (trace, span, process): CPU time, count, most frequent stacks. Memory is
 * authoritative; each commit writes the changed totals as rows. A key with span zero stands for a
 * trace; a key with trace zero, for a span whose trace is not known. Thread: the writer. Limits:
 * max_bytes of memory, of which each tenant (the cgroup of the process) has a fair share: beyond it
 * the oldest of its own totals go; SPAN_TOTAL_STACKS_MAX stacks per total (the rarest is replaced).
 * SPAN_TOTAL_PROCESSES_MAX totals per key. Errors: negative errno of db.h; the transaction has
 * failed.
 */
#include "base/fair_share.h"
#include "base/list.h"
#include "base/map.h"
#include <sqlite3.h>

struct db;
struct matched_span;
struct pending_sample;

#define SPAN_TOTAL_STACKS_MAX    32
#define SPAN_TOTAL_PROCESSES_MAX 16 /* with totals of one key */

struct span_total_key {
    uint8_t trace_id[16];
    uint8_t span_id[8];
};

struct span_total_process { /* start_ns and pid identify it, also when its facts change */
    uint64_t start_ns;
    uint32_t pid;
    uint64_t tenant; /* its cgroup */
};

struct span_total_stack {
    int64_t stack;
    uint64_t count;
};

struct span_total_sample {
    uint64_t time_unix_ns;
    uint64_t value_ns;
    int64_t stack;
    bool stack_is_open; /* it may turn out to equal another stack */
    bool cpu;           /* false: only its time is used */
};

struct span_total {
    struct span_total_key key;
    struct span_total *next; /* same key, another process; in the order of their first samples */
    struct span_total_process who;
    enum {
        TOTAL_NOT_REFUSED,
        TOTAL_CONTRADICTED, /* a span with this key has the Resource of another process */
        TOTAL_UNPROVEN,     /* it may be the process's, but there is no evidence */
    } refused;              /* the last span that was not the process's */
    bool has_open_stacks;   /* some stacks may turn out to be equal: span_total_unite() */
    uint8_t n_stacks, cap_stacks;
    int64_t id;
    int64_t process; /* latest row in processes.h */
    uint64_t cpu_ns, samples;
    uint64_t first_unix_ns, last_unix_ns;
    struct span_total_stack *stacks;
    struct pending_sample *first, *last; /* waiting samples; set by join.c */
    struct matched_span *matched;      /* the span, or a trace's first local root; set by join.c */
    struct list age, own_age, changed; /* own_age: of those with the same share */
    uint64_t scored_resource; /* join_span.c: the Resource and the process that score is of */
    int64_t scored_process;
    int score;
};

struct span_totals {
    struct db *db;
    struct map by_key;
    struct list ages; /* least recently sampled first */
    struct list changed;
    struct fair_share share;
    struct list own_ages[FAIR_SHARES]; /* by fair_share_index() */
    size_t n_by_trace, n_by_span;
    int64_t next_id;
    /* Called before a total is freed: it must remove every pointer to the total. */
    void (*forgetting)(void *context, struct span_total *total);
    /* The stack that this stack equals, as far as is known; *open: the answer may still change. 0
     * or negative errno. */
    int (*canonical)(void *context, int64_t stack, int64_t *canonical, bool *open);
    void *context;
    sqlite3_stmt *put, *remove, *load;
};

int span_totals_open(struct span_totals *totals, struct db *db, size_t max_bytes);
void span_totals_close(struct span_totals *totals);
int span_totals_reload(struct span_totals *totals); /* does not call forgetting() */
int span_totals_flush(struct span_totals *totals);

struct span_total *span_totals_get(const struct span_totals *totals,
                                   const struct span_total_key *key);
struct span_total *span_totals_find(const struct span_totals *totals,
                                    const struct span_total_key *key,
                                    const struct span_total_process *who);
/* Makes room for a process among the totals of this key: if there are as many as may be, the oldest
 * of the tenant that has most of them is forgotten. *has_room: false if this tenant has as many. */
int span_totals_make_room(struct span_totals *totals, const struct span_total_key *key,
                          const struct span_total_process *who, bool *has_room);
int span_totals_make(struct span_totals *totals, const struct span_total_key *key,
                     const struct span_total_process *who, struct span_total **total);
/* Forgets the oldest totals until max_bytes is kept. */
int span_totals_trim(struct span_totals *totals);
int span_totals_expire(struct span_totals *totals, uint64_t now_unix_ns, uint64_t ttl_ns);

int span_total_add(struct span_totals *totals, struct span_total *total,
                   const struct span_total_sample *sample);
int span_total_take(struct span_totals *totals, struct span_total *total,
                    const struct span_total_sample *sample);
/* Adds up the counts of stacks that are known to be equal. */
int span_total_unite(struct span_totals *totals, struct span_total *total);
/* Moves all counts of `from` to `into`. */
int span_total_merge(struct span_totals *totals, struct span_total *into, struct span_total *from);
bool span_total_is_by_trace(const struct span_total *total);
bool span_total_is_by_span(const struct span_total *total);
