/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause */
#pragma once
/*
 * What runtimes have in common whose frames are on a stack of their own: the code that works off
 * the list, and the words of a list's next frame (record.h). Shared by the BPF program and user
 * space. A runtime's list is read by two functions over its own state, which begins with struct
 * runtime_list_next: NAME_list_begin() and NAME_list_next(), of enum runtime_list_outcome.
 */
#include "agent-bpf/record.h"

#define RUNTIME_EVALUATION_MAX 4 /* ranges of an evaluation function: it and its cold parts */
#define RUNTIME_LIST_WORDS_MAX 4 /* of one call: a frame, and the entry that it ends with */

enum runtime_list_outcome {
    RUNTIME_LIST_END, /* of begin: the thread has no list of this runtime */
    RUNTIME_LIST_GOES_ON,
    RUNTIME_LIST_UNREADABLE, /* it goes on, but not here */
    RUNTIME_LIST_AGAIN,      /* it begins again: what was read so far is void; once at most */
};

struct runtime_list_next {
    __u64 words[RUNTIME_LIST_WORDS_MAX];
    __u32 n_words;
};

struct runtime_range {
    __u64 start; /* address in the process */
    __u64 end;   /* exclusive */
};

/* True: code of the evaluation function is at the address, of an instruction or within a call: its
 * frame is a FRAME_NATIVE_EVAL. */
static inline __attribute__((always_inline)) _Bool
runtime_ranges_hold(const struct runtime_range ranges[RUNTIME_EVALUATION_MAX], __u64 address)
{
    for (int i = 0; i < RUNTIME_EVALUATION_MAX; i++)
        if (address >= ranges[i].start && address < ranges[i].end)
            return 1;
    return 0;
}

/* Ends the frames of one activation. 0: its address is not told. */
static inline __attribute__((always_inline)) __u64 runtime_list_entry(__u64 address)
{
    return (__u64)FRAME_LIST_ENTRY << RECORD_FRAME_SHIFT | (address & RECORD_FRAME_MASK);
}
