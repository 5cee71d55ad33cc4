/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause */
#pragma once
/*
 * Value of the `runtimes` map, key: __u32 pid as in record_header.pid: what the tick must know of
 * the process's runtimes to walk their frames. Written by the symbolizer; the programs on exec and
 * exit delete it. A runtime's section is defined in its room and belongs to it alone.
 */
#include "agent-bpf/runtimes/hotspot_process.h"
#include "agent-bpf/runtimes/python_process.h"
#include "agent-bpf/runtimes/v8_process.h"

#define RUNTIME_PROCESSES_MAX 2048

enum runtime_section { /* bits of runtime_process.sections */
                       RUNTIME_SECTION_PYTHON = 1,
                       RUNTIME_SECTION_HOTSPOT = 2,
                       RUNTIME_SECTION_V8 = 4,
};

struct runtime_process {
    __u64 process_start_ns; /* as in struct context_process */
    __u32 sections;         /* enum runtime_section: those that are filled */
    __u32 reserved;
    struct python_process python;
    struct v8_process v8;
    struct hotspot_process hotspot;
};

/* Of what kind the frames are (record.h) whose list the code at the address works off; FRAME_NONE:
 * of none. */
static inline __attribute__((always_inline)) enum record_frame_kind
runtime_process_evaluates(const struct runtime_process *runtime, __u64 address)
{
    if (runtime->sections & RUNTIME_SECTION_PYTHON &&
        runtime_ranges_hold(runtime->python.evaluation, address))
        return FRAME_PYTHON;
    return FRAME_NONE;
}
