/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The Resource of samples, as window.h defines it. Thread: any; pure except for a counter.
 */
#include "store/stacks/processes.h"
#include "base/buf.h"

/* Writes a Resource message to the empty buffer `out`. span_resource: Resource of the samples'
 * span; NULL: no span. facts: the samples' process. 0 or -ENOMEM. */
int profile_resource(struct buf *out, const struct bytes *span_resource,
                     const struct process_facts *facts);
