/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause */
#pragma once
/*
 * Lists of interpreters at the tick: frames of an evaluation function are marked while the native
 * stack is walked, and the list is read as a whole behind it. Only the interrupted thread changes
 * its list, so the list is complete even if another thread holds the interpreter's lock. Of several
 * interpreters in a process the first counts that the thread has frames of.
 */
#include "agent-bpf/bpf/runtime_php.bpf.h"
#include "agent-bpf/bpf/runtime_python.bpf.h"
#include "agent-bpf/bpf/runtime_ruby.bpf.h"

/* Finds the list; walk->list_of: whose it is. enum runtime_list_outcome. */
static __always_inline int list_begin(struct build *build, const struct runtime_process *runtime,
                                      __u64 tp)
{
    struct walk *walk = &build->walk;
    int outcome = RUNTIME_LIST_END;
    walk->list_of = RUNTIME_SECTION_PYTHON;
    if (runtime->sections & RUNTIME_SECTION_PYTHON)
        outcome = python_begin(build, runtime, tp);
    if (outcome == RUNTIME_LIST_END && runtime->sections & RUNTIME_SECTION_RUBY) {
        walk->list_of = RUNTIME_SECTION_RUBY;
        outcome = ruby_begin(build, runtime, tp);
    }
    if (outcome == RUNTIME_LIST_END && runtime->sections & RUNTIME_SECTION_PHP) {
        walk->list_of = RUNTIME_SECTION_PHP;
        outcome = php_begin(build, runtime);
    }
    return outcome;
}

static __always_inline int list_next(struct build *build, const struct runtime_process *runtime)
{
    switch (build->walk.list_of) {
    case RUNTIME_SECTION_PYTHON:
        return python_next(build, runtime);
    case RUNTIME_SECTION_RUBY:
        return ruby_next(build, runtime);
    case RUNTIME_SECTION_PHP:
        return php_next(build, runtime);
    default:
        return RUNTIME_LIST_END;
    }
}

/* Adds the words of the frame that was read last behind those of the walk and of the list. */
__noinline int list_add(struct build *build)
{
    if (!build)
        return 0;
    struct walk *walk = &build->walk;
    __u32 at = walk->frames_at + (walk->n_words + walk->n_list) * 8;
    for (__u32 i = 0; i < RUNTIME_LIST_WORDS_MAX; i++) {
        if (i >= walk->list.next.n_words)
            break;
        *(__u64 *)(build->rest + ((at + i * 8) & BUILD_AT_MASK)) = walk->list.next.words[i];
        walk->n_list++;
    }
    return 0;
}

static __always_inline bool list_ends_with_entry(const struct build *build)
{
    const struct walk *walk = &build->walk;
    __u32 at = walk->frames_at + (walk->n_words + walk->n_list - 1) * 8;
    return build->rest[(at & BUILD_AT_MASK) + 7] == FRAME_LIST_ENTRY;
}

#define LIST_FRAMES_AT_ONCE 16 /* the verifier follows a loop in a global function once */

/* The next frames of the list, behind the words of the user frames; walk->n_list: its words. enum
 * runtime_list_outcome. */
__noinline int list_frames(struct build *build, const struct runtime_process *runtime)
{
    int outcome = RUNTIME_LIST_GOES_ON;
    if (!build || !runtime)
        return RUNTIME_LIST_END;
    struct walk *walk = &build->walk;
    for (int i = 0; i < LIST_FRAMES_AT_ONCE; i++) {
        if (outcome == RUNTIME_LIST_END || outcome == RUNTIME_LIST_UNREADABLE ||
            walk->n_words + walk->n_list + RUNTIME_LIST_WORDS_MAX > RECORD_MAX_USER_WORDS)
            break;
        outcome = list_next(build, runtime);
        if (outcome == RUNTIME_LIST_GOES_ON)
            list_add(build);
        if (outcome == RUNTIME_LIST_AGAIN)
            walk->n_list = 0;
    }
    return outcome;
}

/* Adds the list behind the frames; tp: the thread pointer. walk->n_list: its words. A list that was
 * cut ends without an entry. */
static __always_inline void runtime_list_add(struct build *build,
                                             const struct runtime_process *runtime, __u64 tp)
{
    struct walk *walk = &build->walk;
    walk->n_list = 0;
    int outcome = list_begin(build, runtime, tp);
    for (int i = 0; i < RECORD_MAX_USER_FRAMES / LIST_FRAMES_AT_ONCE; i++) {
        if (outcome == RUNTIME_LIST_END || outcome == RUNTIME_LIST_UNREADABLE ||
            (i >= WALK_FREE_FRAMES / LIST_FRAMES_AT_ONCE && walk_is_late(build)))
            break;
        outcome = list_frames(build, runtime);
    }
    if (outcome != RUNTIME_LIST_END && walk->n_list && list_ends_with_entry(build))
        walk->n_list--;
}

/* The task that the thread runs, behind the list. */
static __always_inline void runtime_task_add(struct build *build,
                                             const struct runtime_process *runtime)
{
    if (build->walk.list_of == RUNTIME_SECTION_PYTHON && runtime->python_tasks.thread_task)
        python_task_add(build, runtime);
}
