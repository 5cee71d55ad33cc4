/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A store in a directory of its own, and samples and spans that are easy to name: trace 1, span 2.
 * Asserts with cmocka. Thread: one.
 */
#include "store/store.h"

#define FIXTURE_T0     UINT64_C(1700000000000000000) /* unix ns */
#define FIXTURE_TICK   UINT64_C(10000000)
#define FIXTURE_SECOND UINT64_C(1000000000)

struct fixture {
    char directory[64];
    struct store_settings settings;
    struct store *store;
};

/* A temporary directory, and settings with two destinations "first" and "second". Not opened yet.
 */
void fixture_make(struct fixture *fixture);
/* Before it is opened: a quota (0: none) that the history has no part of. */
void fixture_limit(struct fixture *fixture, uint64_t max_size_bytes);
void fixture_open(struct fixture *fixture);
void fixture_close(struct fixture *fixture);
void fixture_reopen(struct fixture *fixture);
void fixture_remove(struct fixture *fixture); /* closes, and deletes the directory */
/* For cmocka, as setup and teardown: the state is a fixture, made and open; or in a transaction
 * too, which the teardown commits unless the test did. */
int fixture_set_up(void **state);
int fixture_tear_down(void **state);
int fixture_set_up_in_transaction(void **state);
int fixture_tear_down_in_transaction(void **state);
/* "directory/name" in a static buffer */
const char *fixture_path(const struct fixture *fixture, const char *name);

void fixture_begin(struct fixture *fixture);
void fixture_commit(struct fixture *fixture);

/* The row of a process with this pid; resource: bytes of a Resource, may be empty. */
int64_t fixture_process(struct fixture *fixture, uint32_t pid, struct bytes resource);
/* The row of a stack, named by a number. */
int64_t fixture_stack(struct fixture *fixture, unsigned n);

struct fixture_ids { /* 0 = not known */
    unsigned trace, span, root;
};
void fixture_trace_id(unsigned n, uint8_t out[16]);
void fixture_span_id(unsigned n, uint8_t out[8]);
struct sample fixture_sample(uint64_t time_unix_ns, struct fixture_ids ids, int64_t stack,
                             int64_t process);
/* One batch with one sample, in a transaction of its own. */
void fixture_add(struct fixture *fixture, const struct sample *sample);

struct fixture_span {
    struct otlp_span span;
    uint8_t trace_id[16], span_id[8], parent_id[8];
    struct buf resource, raw;
};
/* A root span from second `start` to second `end` after T0; pid 0: none in its Resource. */
void fixture_span(struct fixture_span *span, unsigned trace, unsigned id, unsigned start,
                  unsigned end, int64_t pid);
void fixture_span_parent(struct fixture_span *span, unsigned parent);
void fixture_span_close(struct fixture_span *span);
/* Meets the store in a transaction of its own; the outcome of join_span(). */
int fixture_join(struct fixture *fixture, struct fixture_span *span, struct join_result *result);

/* What join_leave() hands out, in order. */
#define FIXTURE_LEFT_MAX 64
struct fixture_left {
    size_t n;
    struct fixture_leaving {
        struct sample sample;
        bool joined;
        uint8_t trace_id[16], span_id[8];
        char name[32];
    } samples[FIXTURE_LEFT_MAX];
};
/* In a transaction of its own. */
size_t fixture_leave(struct fixture *fixture, uint64_t now_unix_ns, bool everything,
                     struct fixture_left *left);
size_t fixture_left_joined(const struct fixture_left *left);
