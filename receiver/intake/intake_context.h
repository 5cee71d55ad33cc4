/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Converts the span context of a record, in its publisher's format (record.h), to ids, flags and
 * attributes of a sample. WRITER thread only.
 *
 * The name of the task that the thread runs becomes the attribute python.asyncio.task.name.
 *
 * Ids come from one source: the header's, unless labels hold some and the header's come from a
 * source of lower precedence. Labels that hold no id become attributes process.context.label.KEY,
 * the name that OpenTelemetry's eBPF profiler gives them. Limits: SAMPLE_ATTRIBUTES_MAX bytes of
 * attributes per sample. A label that does not fit, is not UTF-8 or has no name is left out and
 * counted. Labels that the sampler cut end at a whole character.
 */
#include "agent-bpf/drain/labels.h"
#include "agent-bpf/process/process.h"
#include "agent-bpf/record.h"
#include "store/join/sample.h"

struct sample_context;

/* names: copied, their texts are borrowed. 0 or -ENOMEM. */
int intake_context_open(const struct label_names *names, struct sample_context **context);
void intake_context_close(struct sample_context *context); /* NULL is fine */

enum { SAMPLE_CONTEXT_CHANGED = 1 };
/* Sets source, ids, flags and attributes (borrowed until the next call) and counts the sample by
 * its source. 0, or SAMPLE_CONTEXT_CHANGED: the process has published a new context since the
 * symbolizer read it; the symbolizer should read it again. */
int intake_context_fill(struct sample_context *context, const struct record_header *record,
                        const struct process_details *details, struct sample *sample);
