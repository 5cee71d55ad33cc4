/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Folds stacks into a tree of frames (a flame graph, which flame_write.h writes out) or into a list
 * of functions. Pure; thread: any, one at a time.
 *
 * Frames with the same key are one frame. The frame shows the line number that was added first, so
 * add the heaviest stacks first. Two profiles can be compared: add the second one as the baseline.
 * Limits: memory_bytes; max_nodes: the heaviest max_nodes / 2 nodes stay, and the lighter children
 * of a parent become one node `others`. Errors: -ENOMEM, also at memory_bytes.
 */
#include "base/arena.h"
#include "store/query/history_reader.h"

#define FLAME_OTHERS HISTORY_FRAME_TYPES /* a frame type: the nodes that were merged */
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
    struct flame_weights weights, base; /* total: includes callees; each stack counts once */
};

struct flame {
    size_t n_frames, n_nodes;     /* valid after flame_finish() */
    struct history_frame *frames; /* texts are the flame's own */
    struct flame_node *nodes;     /* preorder, siblings heaviest first */
    struct flame_weight all, base_all;
    uint32_t types;              /* bits of the frame types that the stacks have, shown or not */
    struct flame_builder *build; /* private */
};

int flame_open(struct flame *flame, enum flame_view view, size_t memory_bytes);
void flame_close(struct flame *flame); /* may be called twice */
/* Shows frames of this type alone: of each stack the others are left out, and their time is their
 * caller's; stacks without any are left out whole. Before the first flame_add(). */
void flame_only(struct flame *flame, enum history_frame_type type);
/* Adds a stack, leaf first; n 0: only the weight is known. Copies what it needs. */
int flame_add(struct flame *flame, const struct history_frame *const *frames, size_t n,
              struct flame_weight weight, bool baseline);
/* Builds and prunes the tree. No flame_add() after this. */
int flame_finish(struct flame *flame, size_t max_nodes);
/* Instead of flame_finish(), in any view: the functions that were added, heaviest first. The flame
 * owns them. */
int flame_functions(struct flame *flame, bool by_total, const struct flame_function **functions,
                    size_t *n);
