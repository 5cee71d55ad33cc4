/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A busy node's samples and spans, made up, straight into the history of an open store: 12 services
 * in 48 processes and 24 containers, 144 routes, some 22000 stacks of 12 to 60 frames in 30
 * executables with 8000 named functions. Of the CPU time 60 % is in spans; a request has a root and
 * two children, 20 ms of CPU time on average, and there are as many spans again without samples.
 * The same seed makes the same. Thread: the writer's.
 */
#include "store/store.h"

#define HISTORY_LOAD_WINDOW_NS (5 * UINT64_C(1000000000))

struct history_load_settings {
    unsigned cpus, hertz; /* 64 and 97: 6208 samples a second */
    uint64_t seed;
};

struct history_load {
    struct history_load_settings settings;
    struct store *store;
    uint64_t random;
    bool dry;                    /* makes all up and puts nothing: what making up takes */
    uint64_t n_samples, n_spans; /* so far */
    uint64_t came_ns,
        flush_ns;              /* CPU time: what comes (making it up, too), and flush with commit */
    uint64_t longest_flush_ns; /* wall time */
    struct load_service *services;
};

/* 0 or negative errno, as below. Makes stacks, names and processes. */
int history_load_open(struct store *store, const struct history_load_settings *settings,
                      struct history_load *load);
void history_load_close(struct history_load *load);
/* One window that ends at this time, in a transaction of its own, as when it closes. */
int history_load_window(struct history_load *load, uint64_t now_unix_ns);
