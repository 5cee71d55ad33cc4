/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Converts a record of the kernel's perf stream (attributes: procstream_cpu.c) to a process event.
 * Pure.
 * Format: uapi linux/perf_event.h, enum perf_event_type, with sample_id_all of TID and TIME.
 */
#include "agent-bpf/process_event.h"

#define PERF_RECORD_SIZE_MIN (8 + 16) /* header and sample id */

enum perf_record_outcome {
    PERF_RECORD_EVENT = 1,
    PERF_RECORD_NEW_THREAD,  /* or another record that changes nothing for a process */
    PERF_RECORD_LEADER_LEFT, /* out: PROCESS_EXITED as of now; other threads may live on */
    PERF_RECORD_MALFORMED,
};

/*
 * record: size bytes, 8-byte aligned, with the kernel's header; size is the header's size, which
 * the caller has checked to be available. out->mapping.path points into record.
 */
enum perf_record_outcome perf_record_parse(const void *record, size_t size,
                                           struct process_event *out);
