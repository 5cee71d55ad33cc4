/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Shared by flame.c and flame_finish.c, private to them: the stacks in the order of flame_add(),
 * and the tree before it is pruned.
 */
#include "exporter/pages/flame.h"

struct flame_frame { /* same index as flame->frames */
    uint64_t key;
    uint32_t stack; /* the last stack that counted this frame, from 1 */
    struct flame_weights weights, base;
};

struct flame_stack {
    uint32_t first, n; /* of its steps */
    bool baseline;
    struct flame_weight weight;
};

struct flame_builder {
    enum flame_view view;
    bool only;                         /* of flame_only(): */
    uint8_t only_type;                 /* enum history_frame_type */
    const struct history_frame **kept; /* of one stack */
    size_t kept_cap;
    size_t memory_bytes;
    size_t used_bytes; /* of what follows */
    struct arena texts;
    struct flame_frame *frames;
    uint32_t *slots; /* frames by key, open addressing: index + 1, 0 = free */
    uint32_t *steps; /* frames of all stacks, the tree's root first */
    struct flame_stack *stacks;
    struct flame_node *nodes; /* parents before children */
    size_t frames_cap, slots_cap, steps_cap, stacks_cap, nodes_cap;
    size_t n_steps, n_stacks, n_nodes;
    struct flame_function *functions;
};

/* Room for one more: the array grows within memory_bytes. 0 or -ENOMEM. */
int flame_grow(struct flame_builder *build, void **items, size_t *cap, size_t wanted, size_t size);
/* The frame of `others` nodes. */
int flame_others(struct flame *flame, uint32_t *frame);
