/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause */
#pragma once
/*
 * Ruby at the tick: its list of control frames (ruby_list.h). Each frame costs five reads of the
 * process's memory, one more for each block that it is within.
 */
#include "agent-bpf/bpf/record_builder.bpf.h"
#include "agent-bpf/runtimes/runtime_process.h"

/* Global functions: each is verified once, for any memory. */
__noinline int ruby_begin(struct build *build, const struct runtime_process *runtime, __u64 tp)
{
    if (!build || !runtime)
        return RUNTIME_LIST_END;
    return ruby_list_begin(&runtime->ruby, tp, &build->walk.list.ruby);
}

__noinline int ruby_next(struct build *build, const struct runtime_process *runtime)
{
    if (!build || !runtime)
        return RUNTIME_LIST_END;
    return ruby_list_next(&runtime->ruby, &build->walk.list.ruby);
}
