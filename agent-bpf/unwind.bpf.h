/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause */
#pragma once
/*
 * Stacks as tagged words (record.h), by frame pointers: the kernel's own walker.
 */

#include "agent-bpf/build.bpf.h"

/* The kind goes into the top byte of each word. A global function: verified once, for any
 * arguments, instead of anew for each length that the stacks may have. */
__noinline int unwind_tag(struct build *build, __u32 at, __u32 words, __u8 kind)
{
    if (!build)
        return 0;
    at &= UNWIND_AT_MASK;
    for (__u32 i = 0; i < RECORD_MAX_USER_FRAMES; i++) {
        if (i >= words)
            break;
        build->rest[at + i * 8 + 7] = kind;
    }
    return 0;
}

static __always_inline __u32 unwind_stack(void *ctx, void *frames, __u32 size, __u64 flags)
{
    long bytes = bpf_get_stack(ctx, frames, size, flags);
    return bytes > 0 ? ((__u32)bytes / 8) & 0x7f : 0;
}

/* Frames at rest[at], at <= RECORD_MAX_ATTRIBUTES. Sets the header's counts; returns words. */
static __always_inline __u32 unwind(void *ctx, struct build *build, __u32 at)
{
    struct record_header *header = &build->header;
    __u32 kernel_words = 0, user_words = 0;
    if (!(header->flags & RECORD_FLAG_USER_MODE))
        kernel_words = unwind_stack(ctx, build->rest + at, UNWIND_KERNEL_BYTES, 0);
    if (!(header->flags & RECORD_FLAG_KERNEL_THREAD))
        user_words = unwind_stack(ctx, build->rest + at + kernel_words * 8, UNWIND_USER_BYTES,
                                  BPF_F_USER_STACK);
    if (user_words == RECORD_MAX_USER_FRAMES)
        header->flags |= RECORD_FLAG_TRUNCATED;
    header->kernel_words = (__u16)kernel_words;
    header->user_words = (__u16)user_words;
    unwind_tag(build, at, kernel_words, FRAME_KERNEL);
    unwind_tag(build, at + kernel_words * 8, user_words, FRAME_NATIVE);
    return kernel_words + user_words;
}
