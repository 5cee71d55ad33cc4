/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause */
#pragma once
/*
 * CPython at the tick: its list of frames (python_list.h). Each frame costs two reads of the
 * process's memory.
 */
#include "agent-bpf/bpf/record_builder.bpf.h"
#include "agent-bpf/runtimes/runtime_process.h"

/* Global functions: each is verified once, for any memory. */
__noinline int python_begin(struct build *build, const struct runtime_process *runtime, __u64 tp)
{
    if (!build || !runtime)
        return RUNTIME_LIST_END;
    return python_list_begin(&runtime->python, tp, &build->walk.list.python);
}

__noinline int python_next(struct build *build, const struct runtime_process *runtime)
{
    if (!build || !runtime)
        return RUNTIME_LIST_END;
    return python_list_next(&runtime->python, &build->walk.list.python);
}
