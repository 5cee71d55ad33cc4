/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The spans that came last, also those without samples: another profiler's request may come after
 * the spans that it names. Lies in memory alone. Thread: the writer. Limit: max_bytes; the oldest
 * makes room.
 */
#include "proto/otlp/otlp_profiles_links.h"
#include "store/join/owner.h"

struct recent_spans;

int recent_spans_open(size_t max_bytes, struct recent_spans **spans); /* 0 or -ENOMEM */
void recent_spans_close(struct recent_spans *spans);                  /* NULL is fine */

/* One with the same ids takes the place of the former; one that is too large for all is passed
 * over. 0 or -ENOMEM: then it is not remembered. */
int recent_spans_put(struct recent_spans *spans, const struct profiles_span *span,
                     const struct owner_mark *mark);
/* False: not among them. What *span borrows is valid until the next put. */
bool recent_spans_get(const struct recent_spans *spans, const struct profiles_ids *ids,
                      struct profiles_span *span, struct owner_mark *mark);
