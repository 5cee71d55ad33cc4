/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * All that a store's history says, read through the writer's connection. Asserts with cmocka.
 * Thread: the writer's.
 */
#include "store/history/history_samples.h"
#include "test/support/store_fixture.h"

#define TOLD_MAX 65536

struct told_sample {
    int64_t seq; /* of the block */
    struct history_context context;
    struct history_series_facts series;
    int64_t stack;
    uint32_t tid;
    uint64_t time_unix_ns, value_ns, period_ns;
    char attributes[64];
    size_t attributes_len;
};

struct told_span {
    int64_t seq;
    struct history_block_span row;
    struct history_series_facts series;
    char attributes[64];
    size_t attributes_len;
};

struct told_history {
    size_t n_blocks, n_minutes;
    size_t n_samples, n_spans;
    struct told_sample samples[TOLD_MAX];
    struct told_span spans[TOLD_MAX];
    uint64_t minute_samples, minute_value_ns; /* of minutes alone */
    uint64_t summed_samples, summed_value_ns; /* of minutes, and of blocks that are in none */
};

/* Also asserts that rows and bodies agree. In a static buffer. */
const struct told_history *history_told(struct fixture *fixture);
/* Text of the history, NUL-terminated, in one of a few static buffers. */
const char *history_text_of(struct fixture *fixture, int64_t id);

/* Each in a transaction of its own. */
size_t history_close_window(struct fixture *fixture, uint64_t now_unix_ns);
void history_tidy(struct fixture *fixture, uint64_t now_unix_ns);         /* as each second */
void history_receive(struct fixture *fixture, struct fixture_span *span); /* as a request does */
void history_receive_simple(struct fixture *fixture, unsigned trace, unsigned id, unsigned parent,
                            unsigned start, unsigned end);
void history_add_sample(struct fixture *fixture, uint64_t time_unix_ns, struct fixture_ids ids,
                        unsigned stack);
/* n windows from `begin` on, 5 s apart, with a sample each. */
void history_fill(struct fixture *fixture, unsigned n, uint64_t begin);

unsigned history_count(struct fixture *fixture, const char *sql); /* its first column */
