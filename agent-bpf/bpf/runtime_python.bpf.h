/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause */
#pragma once
/*
 * CPython at the tick: its list of frames (python_list.h), of which each costs two reads of the
 * process's memory; and the name of the task that the thread runs (python_task.h): six reads if it
 * runs one, else one.
 */
#include "agent-bpf/bpf/record_builder.bpf.h"
#include "agent-bpf/runtimes/runtime_process.h"

/* Global functions: each is verified once, for any memory. */
__noinline int python_begin(struct build *build, const struct runtime_process *runtime, __u64 tp)
{
    if (!build || !runtime)
        return RUNTIME_LIST_END;
    const struct walk *walk = &build->walk;
    __u64 inner = walk->evaluations[0], outer = walk->evaluations[1];
    return python_list_begin(&runtime->python, tp, inner < outer ? outer - inner : 0,
                             &build->walk.list.python);
}

__noinline int python_next(struct build *build, const struct runtime_process *runtime)
{
    if (!build || !runtime)
        return RUNTIME_LIST_END;
    return python_list_next(&runtime->python, &build->walk.list.python);
}

/* Behind the list. */
__noinline int python_task_add(struct build *build, const struct runtime_process *runtime)
{
    if (!build || !runtime)
        return 0;
    struct walk *walk = &build->walk;
    struct record_task *task = &walk->list.python.task;
    __u32 at = walk->frames_at + (walk->n_words + walk->n_list) * 8;
    __u32 size = python_task(&runtime->python, &runtime->python_tasks, &walk->list.python);
    if (!(size & RECORD_TASK_MASK))
        return 0;
    size &= RECORD_TASK_MASK;
    bpf_probe_read_kernel(build->rest + (at & BUILD_AT_MASK), size, task);
    walk->n_task = size / 8;
    return 0;
}
