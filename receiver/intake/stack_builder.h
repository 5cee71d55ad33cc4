/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A stack under construction, leaf first: stack_builder_init(), calls that add frames
 * (intake_frames.h), stack_builder_end(). The caller owns the struct. Thread: any, one at a time.
 */
#include "agent-bpf/record.h"
#include "store/stacks/stacks.h"

/* Frames of a stack, including the frame that marks a cut. */
#define STACK_BUILDER_MAX (RECORD_MAX_FRAME_WORDS + 1)

struct stack_builder {
    size_t n;
    struct frame frames[STACK_BUILDER_MAX];
    /* 16 bytes: of frames[i]'s executable, borrowed until the next change of the process table;
     * NULL: names are not wanted. */
    const uint8_t *identities[STACK_BUILDER_MAX];
    uint8_t kernel_identity[16]; /* identities[] of kernel frames point here */
};

void stack_builder_init(struct stack_builder *builder); /* no frames */
/* Appends a frame; NULL: no room, the frame is left out. */
struct frame *stack_builder_add(struct stack_builder *builder, enum frame_kind kind,
                                uint64_t address);
/* Marks the frame added last: its names are wanted. */
void stack_builder_want_names(struct stack_builder *builder, const uint8_t *identity);
/* Appends frames of another builder, without asking for their names again. */
void stack_builder_copy(struct stack_builder *builder, const struct frame *frames, size_t n);
/* end: enum unwind_end. If the outermost frame is missing, appends a frame that says why. */
void stack_builder_end(struct stack_builder *builder, uint8_t end);
