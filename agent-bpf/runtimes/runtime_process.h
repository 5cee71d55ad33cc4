/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause */
#pragma once
/*
 * Value of the `runtimes` map, key: __u32 pid as in record_header.pid: what the tick must know of
 * the process's runtimes to walk their frames. Written by the symbolizer; the programs on exec and
 * exit delete it. A runtime's section is defined in its room and belongs to it alone.
 */
#include "agent-bpf/runtimes/hotspot_process.h"
#include "agent-bpf/runtimes/php_process.h"
#include "agent-bpf/runtimes/python_process.h"
#include "agent-bpf/runtimes/ruby_process.h"
#include "agent-bpf/runtimes/v8_process.h"

#define RUNTIME_PROCESSES_MAX 2048

enum runtime_section { /* bits of runtime_process.sections */
                       RUNTIME_SECTION_PYTHON = 1,
                       RUNTIME_SECTION_HOTSPOT = 2,
                       RUNTIME_SECTION_V8 = 4,
                       RUNTIME_SECTION_RUBY = 8,
                       RUNTIME_SECTION_PHP = 16,
                       RUNTIME_SECTION_PYTHON_TASKS = 32,
};

struct runtime_process {
    __u64 process_start_ns; /* as in struct context_process */
    __u32 sections;         /* enum runtime_section: those that are filled */
    struct python_tasks python_tasks;
    struct python_process python;
    struct php_process php;
    struct v8_process v8;
    struct hotspot_process hotspot;
    struct ruby_process ruby;
};

_Static_assert(sizeof(struct runtime_process) <= 960, "the kernel takes 1 KiB for each, or two");

/* If the code at the address works off a list: the tag of its CFA (FRAME_NATIVE_EVAL in record.h);
 * 0: it does not. */
static inline __attribute__((always_inline)) __u64
runtime_process_evaluates(const struct runtime_process *runtime, __u64 address)
{
    if (runtime->sections & RUNTIME_SECTION_PYTHON &&
        runtime_ranges_hold(runtime->python.evaluation, address))
        return (__u64)FRAME_PYTHON << RECORD_FRAME_SHIFT;
    if (runtime->sections & RUNTIME_SECTION_RUBY) {
        if (runtime_ranges_hold(runtime->ruby.evaluation, address))
            return (__u64)FRAME_RUBY << RECORD_FRAME_SHIFT;
        if (runtime_ranges_hold(runtime->ruby.inner, address))
            return (__u64)FRAME_RUBY << RECORD_FRAME_SHIFT | RECORD_EVAL_INNER;
    }
    if (runtime->sections & RUNTIME_SECTION_PHP &&
        runtime_ranges_hold(runtime->php.evaluation, address))
        return (__u64)FRAME_PHP << RECORD_FRAME_SHIFT;
    return 0;
}
