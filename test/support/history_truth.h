/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Some twenty minutes of a made-up node, put into a history, and the same in plain arrays: what a
 * question should be answered is counted by going through all of them. Asserts with cmocka.
 * Thread: one.
 */
#include "test/support/history_rig.h"

#define TRUTH_SERVICES 3
#define TRUTH_NAMES    3
#define TRUTH_THREADS  2
#define TRUTH_STACKS   12
#define TRUTH_MINUTES  20
#define TRUTH_T0       (FIXTURE_T0 - FIXTURE_T0 % HISTORY_MINUTE_NS)

struct truth_span {
    struct history_block_span span;
    unsigned trace, parent; /* parent: index of a span, from 1 on; 0 = none */
    unsigned service, name;
    char route[16];
    uint64_t comes_unix_ns;
};

struct truth_sample {
    struct history_sample sample;
    int span; /* index; -1: of none */
    unsigned service, thread, stack;
    uint64_t leaves_unix_ns;
};

struct truth {
    struct history_rig *rig;
    unsigned seed;
    size_t n_spans, n_samples, n_traces;
    struct truth_span *spans;
    struct truth_sample *samples;
    int64_t stacks[TRUTH_STACKS];
    uint64_t end_unix_ns; /* when all has come */
};

struct truth *truth_make(unsigned seed);
void truth_close(struct truth *truth);
unsigned truth_random(struct truth *truth, unsigned below);

const char *truth_service(unsigned service);
const char *truth_name(unsigned name);
const char *truth_thread(unsigned thread);
uint32_t truth_pid(unsigned service);
const char *truth_container(unsigned service);
/* "leaf_0" to "leaf_3", "mid_0" to "mid_2", "main" */
bool truth_stack_has(unsigned stack, struct bytes function, bool *self);

bool truth_passes(const struct truth *truth, const struct history_filter *filter,
                  const struct truth_sample *sample);
uint64_t truth_longest(const struct truth *truth, unsigned trace);
