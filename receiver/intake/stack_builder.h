/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A stack that is put together, leaf first: stack_builder_init(), the calls that add
 * (intake_frames.h), stack_builder_end(). Lies with its caller. Thread: any.
 */
#include "agent-bpf/record.h"
#include "store/stacks/stacks.h"

/* Of a stack, with the one that says it was cut. */
#define STACK_BUILDER_MAX (RECORD_MAX_FRAME_WORDS + 1)

struct stack_builder {
    size_t n;
    struct frame frames[STACK_BUILDER_MAX];
    /* 16 bytes: of frames[i]'s executable, borrowed until the next change of the process table;
     * NULL: names are not wanted. */
    const uint8_t *identities[STACK_BUILDER_MAX];
    uint8_t kernel_identity[16]; /* that identities of kernel frames point to */
};

void stack_builder_init(struct stack_builder *builder); /* no frames */
/* The next frame; NULL: there is no room, the frame is left out. */
struct frame *stack_builder_add(struct stack_builder *builder, enum frame_kind kind,
                                uint64_t address);
/* The names of the frame added last are wanted. */
void stack_builder_want_names(struct stack_builder *builder, const uint8_t *identity);
/* Frames of another builder; their names are not wanted again. */
void stack_builder_copy(struct stack_builder *builder, const struct frame *frames, size_t n);
/* enum unwind_end: unless the outermost frame is there, the stack says why not. */
void stack_builder_end(struct stack_builder *builder, uint8_t end);
