/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Interface to look up stacks and the names of their frames, in the writer's dictionary (stacks.h)
 * or through a reading connection (stacks_reader.h). The functions behave as those of stacks.h.
 * Thread: that of the implementation.
 */
#include "store/stacks/stacks.h"

struct stack_dictionary {
    void *context;
    int (*canonical)(void *context, int64_t id, int64_t *canonical);
    int (*frames)(void *context, int64_t id, const struct frame **frames, size_t *n);
    int (*public_id)(void *context, int64_t id, uint8_t out[16]);
    int (*executable)(void *context, int64_t id, const struct executable_facts **facts);
    int (*name)(void *context, const struct frame *frame, struct frame_name *name);
};

struct stack_dictionary stack_dictionary_of(struct stacks *stacks);
