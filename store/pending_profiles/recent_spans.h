/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The latest spans, with or without samples: a request of another profiler may arrive after the
 * spans that it names. In memory only. Thread: the writer. Limit: max_bytes; the oldest span is
 * dropped.
 */
#include "proto/otlp/otlp_profiles_links.h"
#include "store/join/owner.h"

struct recent_spans;

int recent_spans_open(size_t max_bytes, struct recent_spans **spans); /* 0 or -ENOMEM */
void recent_spans_close(struct recent_spans *spans);                  /* NULL is fine */

/* A span replaces an earlier one with the same ids. A span larger than max_bytes is skipped. 0, or
 * -ENOMEM: the span is not remembered. */
int recent_spans_put(struct recent_spans *spans, const struct profiles_span *span,
                     const struct owner_mark *mark);
/* False: not found. The contents of *span are borrowed until the next put. */
bool recent_spans_get(const struct recent_spans *spans, const struct profiles_ids *ids,
                      struct profiles_span *span, struct owner_mark *mark);
