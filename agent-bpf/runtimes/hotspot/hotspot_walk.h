/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause */
#pragma once
/*
 * What a step over frames of HotSpot has to hand: registers, a window of the stack, the CodeBlob
 * and the code around pc, each read at once. Shared by the BPF programs and user space.
 */
#include "agent-bpf/record.h"
#include "agent-bpf/runtimes/hotspot_process.h"

#define HOTSPOT_BLOB_LEAST     160 /* at the end of a mapping: the largest other CodeBlob */
#define HOTSPOT_BLOB_MASK      0x1ff
#define HOTSPOT_HOPS_MAX       16
#define HOTSPOT_WINDOW_WORDS   64
#define HOTSPOT_CODE_BEFORE    32
#define HOTSPOT_CODE_BYTES     64
#define HOTSPOT_SEGMENT_FREE   0xff
#define HOTSPOT_FRAME_MAX      (1u << 20) /* bytes of a frame */
#define HOTSPOT_WORDS_MAX      4
#define HOTSPOT_EFFORT_MAX     512 /* of a walk: more than any that was seen */
#define HOTSPOT_EFFORT_FAILED  8   /* what a read takes that fails */
#define HOTSPOT_NO_BCI         0xffffULL
#define HOTSPOT_ADDRESS_MASK   ((1ULL << 48) - 1)
#define HOTSPOT_UNWINDS        (-1) /* else: enum unwind_end */
#define HOTSPOT_WINDOW_NOWHERE 1    /* no address of a word */

struct hotspot_caller {
    __u64 pc;
    __u64 sp;
    __u64 fp;
};

struct hotspot_walk {
    __u64 pc; /* of this frame; a step replaces the three by the caller's */
    __u64 sp;
    __u64 fp;
    __u64 rax; /* these are only looked at if has_registers */
    __u64 rbx;
    __u64 r13;
    __u8 is_leaf; /* pc is the instruction itself, not behind a call */
    __u8 has_registers;
    __u8 n_frames; /* of what the step found: words, tagged as record.h says */
    __u8 n_words;
    __u64 words[HOTSPOT_WORDS_MAX];
    __u32 effort;                 /* of the walk so far, beyond what each frame takes */
    struct hotspot_caller caller; /* as far as it is found */
    __u64 blob;                   /* address of the CodeBlob that pc lies in */
    __u32 blob_at;                /* where it begins in bytes[] */
    __u64 target;                 /* of the last call that was sure */
    __u64 code_begin;             /* its code */
    __u64 code_end;
    __u64 window_start; /* of window[] */
    __u64 window[HOTSPOT_WINDOW_WORDS];
    __u8 bytes[HOTSPOT_BLOB_MASK + 1 + 8];
    __u8 code[HOTSPOT_CODE_BYTES + 8]; /* pc is at HOTSPOT_CODE_BEFORE */
};
