/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The Resource of samples: what window.h says. Thread: any; pure but for a counter.
 */
#include "store/stacks/processes.h"
#include "base/buf.h"

/* Appends to `out`, which is empty: a Resource message. span_resource: of the samples' span; NULL:
 * they have none. facts: of their process. 0 or -ENOMEM. */
int profile_resource(struct buf *out, const struct bytes *span_resource,
                     const struct process_facts *facts);
