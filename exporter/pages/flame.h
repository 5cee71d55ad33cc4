/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Stacks folded to a tree of frames: a flame graph, which flame_write.h writes out; and to a list
 * of functions. Pure; thread: whoever holds it.
 *
 * Frames with the same key are one; of its lines the one that is added first is shown, so stacks
 * come heaviest first. Two profiles may be added, to be compared: the second is the baseline.
 * Limits: memory_bytes; max_nodes: what is lighter than the heaviest half as many becomes one node
 * `others` in each parent. Errors: -ENOMEM, also for memory_bytes.
 */
#include "base/arena.h"
#include "store/query/history_reader.h"

#define FLAME_OTHERS (HISTORY_FRAME_TRUNCATED + 1) /* a type of frame: the rest */
#define FLAME_NONE   UINT32_MAX

enum flame_view {
    FLAME_CALLEES,   /* roots first */
    FLAME_CALLERS,   /* leaves first */
    FLAME_FUNCTIONS, /* no tree, functions alone */
};

struct flame_weight {
    uint64_t ns, samples;
};

struct flame_weights {
    struct flame_weight self, total;
};

struct flame_node {
    uint32_t parent; /* FLAME_NONE: none */
    uint32_t frame;
    struct flame_weights weights, base; /* base: of the baseline */
};

struct flame_function {
    uint32_t frame;
    uint32_t rank, base_rank;           /* from 1, in the order asked for; 0: not in it */
    struct flame_weights weights, base; /* total: with all that it calls, each stack once */
};

struct flame {
    size_t n_frames, n_nodes;     /* of the finished tree */
    struct history_frame *frames; /* texts are the flame's own */
    struct flame_node *nodes;     /* preorder, siblings heaviest first */
    struct flame_weight all, base_all;
    struct flame_build *build; /* private */
};

int flame_open(struct flame *flame, enum flame_view view, size_t memory_bytes);
void flame_close(struct flame *flame); /* again: no harm */
/* Leaf first; none: what is known by its weight alone. Copies what it needs. */
int flame_add(struct flame *flame, const struct history_frame *const *frames, size_t n,
              struct flame_weight weight, bool baseline);
/* The tree is complete; nothing is added any more. */
int flame_finish(struct flame *flame, size_t max_nodes);
/* In any view, instead: the functions that were added, heaviest first; the flame's own. */
int flame_functions(struct flame *flame, bool by_total, const struct flame_function **functions,
                    size_t *n);
