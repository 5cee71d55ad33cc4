/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A stack under construction, leaf first: stack_builder_init(), calls that add frames
 * (intake_frames.h), stack_builder_end(). The caller owns the struct. Thread: any, one at a time.
 */
#include "agent-bpf/record_frame.h"
#include "store/stacks/stacks.h"

/* Frames of a stack, including the frame that marks a cut. */
#define STACK_BUILDER_MAX STACKS_FRAMES_MAX
/* Different frames of runtimes; further ones stay without a name. */
#define STACK_BUILDER_CODES RECORD_MAX_USER_FRAMES

struct stack_sample { /* that the stack is of */
    uint32_t pid;
    uint64_t time_ns; /* CLOCK_MONOTONIC */
    uint64_t tenant;  /* cgroup: what is asked for it takes turns with what others ask for */
};

struct stack_words { /* frames of record.h, leaf first; borrowed */
    const uint64_t *kernel, *user, *list;
    size_t n_kernel, n_user, n_list;
};

struct stack_builder {
    size_t n;
    uint32_t n_codes; /* what FRAME_UNNAMED frames stand for, each once */
    struct frame frames[STACK_BUILDER_MAX];
    /* 16 bytes: of frames[i]'s executable, borrowed until the next change of the process table;
     * NULL: names are not wanted. */
    const uint8_t *identities[STACK_BUILDER_MAX];
    uint8_t kernel_identity[16]; /* identities[] of kernel frames point here */
    struct record_frame codes[STACK_BUILDER_CODES];
};

/* The address of a frame that is not named yet: its enum record_frame_kind, and the index of what
 * it stands for in codes; STACK_BUILDER_CODES: in none. */
#define UNNAMED_ADDRESS(kind, index) ((uint64_t)(kind) | (uint64_t)(index) << STACKS_UNNAMED_BITS)
#define UNNAMED_INDEX(address)       ((address) >> STACKS_UNNAMED_BITS)

void stack_builder_init(struct stack_builder *builder); /* no frames */
/* Appends a frame; NULL: no room, the frame is left out. */
struct frame *stack_builder_add(struct stack_builder *builder, enum frame_kind kind,
                                uint64_t address);
/* Marks the frame added last: its names are wanted. */
void stack_builder_want_names(struct stack_builder *builder, const uint8_t *identity);
/* Appends the frame of a runtime, to be named. */
void stack_builder_add_code(struct stack_builder *builder, const struct record_frame *code);
/* end: enum unwind_end. If the outermost frame is missing, appends a frame that says why. */
void stack_builder_end(struct stack_builder *builder, uint8_t end);
