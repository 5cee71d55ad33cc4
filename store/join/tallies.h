/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What each (trace, span, process) has had of samples: CPU time, count, the stacks seen most.
 * Memory is what counts; a row follows at each commit. A key with span zero stands for a trace, one
 * with trace zero for a span whose trace is not known. Thread: the writer. Limits: max_bytes of
 * memory; TALLY_STACKS_MAX stacks a tally (the rarest makes room). Errors: negative errno of db.h;
 * they broke the transaction.
 */
#include "base/list.h"
#include "base/map.h"
#include <sqlite3.h>

struct db;
struct joined;
struct slot;

#define TALLY_STACKS_MAX 32

struct tally_key {
    uint8_t trace_id[16];
    uint8_t span_id[8];
};

struct tally_process { /* tells processes apart, also when their facts change */
    uint64_t start_ns;
    uint32_t pid;
};

struct tally_stack {
    int64_t stack;
    uint64_t count;
};

struct tally_sample {
    uint64_t time_unix_ns;
    uint64_t value_ns;
    int64_t stack;
    bool promised; /* the stack may turn out to be the same as another */
    bool cpu;      /* else only its time counts */
};

struct tally {
    struct tally_key key;
    struct tally *next; /* the same key, another process; in the order of their first samples */
    struct tally_process who;
    bool contradicted; /* a span came with this key, whose Resource says another process */
    bool promised;     /* some of its stacks may be the same as others: tally_unite() */
    uint8_t n_stacks, cap_stacks;
    int64_t id;
    int64_t process; /* the latest row of facts */
    uint64_t cpu_ns, samples;
    uint64_t first_unix_ns, last_unix_ns;
    struct tally_stack *stacks;
    struct slot *first, *last; /* samples that wait; join.c's */
    struct joined *joined;     /* the span; of a trace the first of its local roots; join.c's */
    struct list age, changed;
};

struct tallies {
    struct db *db;
    struct map by_key;
    struct list ages; /* longest without a sample first */
    struct list changed;
    size_t bytes, max_bytes;
    size_t n_by_trace, n_by_span;
    int64_t next_id;
    /* Called before one is freed: nothing may point at it afterwards. */
    void (*forgetting)(void *context, struct tally *tally);
    /* The stack that this one is the same as, as far as is known; *open: that may still change. 0
     * or negative errno. */
    int (*canonical)(void *context, int64_t stack, int64_t *canonical, bool *open);
    void *context;
    sqlite3_stmt *put, *remove, *load;
};

int tallies_open(struct tallies *tallies, struct db *db, size_t max_bytes);
void tallies_close(struct tallies *tallies);
int tallies_reload(struct tallies *tallies); /* without a call of forgetting() */
int tallies_flush(struct tallies *tallies);

struct tally *tallies_get(const struct tallies *tallies, const struct tally_key *key);
struct tally *tallies_find(const struct tallies *tallies, const struct tally_key *key,
                           const struct tally_process *who);
int tallies_make(struct tallies *tallies, const struct tally_key *key,
                 const struct tally_process *who, struct tally **tally);
int tallies_forget(struct tallies *tallies, struct tally *tally);
/* Down to max_bytes, but for `keep`; *n: how many were forgotten. */
int tallies_trim(struct tallies *tallies, const struct tally *keep, size_t *n);
int tallies_expire(struct tallies *tallies, uint64_t now_unix_ns, uint64_t ttl_ns);

int tally_add(struct tallies *tallies, struct tally *tally, const struct tally_sample *sample);
int tally_take(struct tallies *tallies, struct tally *tally, const struct tally_sample *sample);
/* Counts of stacks that are known to be the same become one. */
int tally_unite(struct tallies *tallies, struct tally *tally);
/* All of `from` goes to `into`. */
int tally_merge(struct tallies *tallies, struct tally *into, struct tally *from);
bool tally_is_by_trace(const struct tally *tally);
bool tally_is_by_span(const struct tally *tally);
