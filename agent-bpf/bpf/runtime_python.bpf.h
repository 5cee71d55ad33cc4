/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause */
#pragma once
/*
 * CPython at the tick: frames of the evaluation function are marked while the native stack is
 * walked, and the list of Python frames is read as a whole behind it (python_list.h). Only the
 * interrupted thread changes its list, so the list is complete even if another thread holds the
 * GIL. Each frame costs two reads of the process's memory.
 */
#include "agent-bpf/bpf/record_builder.bpf.h"
#include "agent-bpf/runtimes/runtime_process.h"

/* True: code of the evaluation function is at the address. */
static __always_inline bool python_evaluates(const struct runtime_process *runtime, __u64 address)
{
    return runtime->sections & RUNTIME_SECTION_PYTHON &&
           python_process_evaluates(&runtime->python, address);
}

/* Global functions: each is verified once, for any memory. */
__noinline int python_begin(struct build *build, const struct runtime_process *runtime, __u64 tp)
{
    if (!build || !runtime)
        return PYTHON_LIST_END;
    return python_list_begin(&runtime->python, tp, &build->walk.python);
}

__noinline int python_next(struct build *build, const struct runtime_process *runtime)
{
    if (!build || !runtime)
        return PYTHON_LIST_END;
    return python_list_next(&runtime->python, &build->walk.python);
}

/* Adds the words of the frame that was read last behind those of the walk and of the list. */
__noinline int python_add(struct build *build)
{
    if (!build)
        return 0;
    struct walk *walk = &build->walk;
    __u32 at = walk->frames_at + (walk->n_words + walk->n_list) * 8;
    for (__u32 i = 0; i < PYTHON_LIST_WORDS_MAX; i++) {
        if (i >= walk->python.n_words)
            break;
        *(__u64 *)(build->rest + ((at + i * 8) & BUILD_AT_MASK)) = walk->python.words[i];
        walk->n_list++;
    }
    return 0;
}

static __always_inline bool python_ends_with_entry(const struct build *build)
{
    const struct walk *walk = &build->walk;
    __u32 at = walk->frames_at + (walk->n_words + walk->n_list - 1) * 8;
    return build->rest[(at & BUILD_AT_MASK) + 7] == FRAME_PYTHON_ENTRY;
}

#define PYTHON_FRAMES_AT_ONCE 16 /* the verifier follows a loop in a global function once */

/* The next frames of the list, behind the words of the user frames; walk->n_list: its words. enum
 * python_list_outcome. */
__noinline int python_frames(struct build *build, const struct runtime_process *runtime)
{
    int outcome = PYTHON_LIST_GOES_ON;
    if (!build || !runtime)
        return PYTHON_LIST_END;
    struct walk *walk = &build->walk;
    for (int i = 0; i < PYTHON_FRAMES_AT_ONCE; i++) {
        if (outcome == PYTHON_LIST_END || outcome == PYTHON_LIST_UNREADABLE ||
            walk->n_words + walk->n_list + PYTHON_LIST_WORDS_MAX > RECORD_MAX_USER_WORDS)
            break;
        outcome = python_next(build, runtime);
        if (outcome == PYTHON_LIST_GOES_ON)
            python_add(build);
        if (outcome == PYTHON_LIST_AGAIN)
            walk->n_list = 0;
    }
    return outcome;
}

/* All of it. A list that was cut ends without an entry. */
static __always_inline void python_list_add(struct build *build,
                                            const struct runtime_process *runtime, __u64 tp)
{
    struct walk *walk = &build->walk;
    walk->n_list = 0;
    if (!(runtime->sections & RUNTIME_SECTION_PYTHON))
        return;
    int outcome = python_begin(build, runtime, tp);
    for (int i = 0; i < RECORD_MAX_USER_FRAMES / PYTHON_FRAMES_AT_ONCE; i++) {
        if (outcome == PYTHON_LIST_END || outcome == PYTHON_LIST_UNREADABLE ||
            (i >= WALK_FREE_FRAMES / PYTHON_FRAMES_AT_ONCE && walk_is_late(build)))
            break;
        outcome = python_frames(build, runtime);
    }
    if (outcome != PYTHON_LIST_END && walk->n_list && python_ends_with_entry(build))
        walk->n_list--;
}
