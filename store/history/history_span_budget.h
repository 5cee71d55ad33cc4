/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Which spans without samples are kept, so that a trace can be shown whole: those of traces that
 * have samples, those that are slow among the spans that come, and whole traces chosen by their id.
 * A second's worth is bounded; each of the three has its part. Thread: whoever holds it.
 */
#include "base/bytes.h"

enum history_span_budget_why {
    HISTORY_KEEP_NOT,
    HISTORY_KEEP_SAMPLED, /* it has samples; history_span_budget_span() is not asked for it */
    HISTORY_KEEP_TRACE,   /* its trace has samples */
    HISTORY_KEEP_SLOW,    /* longer than nearly all that came lately */
    HISTORY_KEEP_CHOSEN,  /* by its trace's id */
    HISTORY_KEEP_WHYS
};

struct history_span_budget;

/* max_spans_per_second: 0 = none. -ENOMEM; negative errno of getrandom(). */
int history_span_budget_open(uint32_t max_spans_per_second, struct history_span_budget **keep);
void history_span_budget_close(struct history_span_budget *keep); /* NULL is fine */
/* A span came that has no samples. */
enum history_span_budget_why history_span_budget_span(struct history_span_budget *keep,
                                                      const uint8_t trace_id[16],
                                                      uint64_t duration_ns);
/* Spans of this trace that come later are worth keeping. A bounded number is remembered. */
void history_span_budget_trace(struct history_span_budget *keep, const uint8_t trace_id[16]);
/* Each second: what came since tells how many to choose of those that come now. */
void history_span_budget_tick(struct history_span_budget *keep);
