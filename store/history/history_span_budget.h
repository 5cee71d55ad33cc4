/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Chooses the spans without samples that are kept, so that a trace can be shown whole: spans of
 * traces that have samples, spans that are slow compared with others, and whole traces chosen by
 * id. The number per second is bounded; each of the three kinds has its share. Thread: the owner's.
 */
#include "base/bytes.h"

enum history_span_budget_why {
    HISTORY_KEEP_NOT,
    HISTORY_KEEP_SAMPLED, /* it has samples; never returned by history_span_budget_span() */
    HISTORY_KEEP_TRACE,   /* its trace has samples */
    HISTORY_KEEP_SLOW,    /* longer than nearly all recent spans */
    HISTORY_KEEP_CHOSEN,  /* by trace id */
    HISTORY_KEEP_WHYS
};

struct history_span_budget;

/* max_spans_per_second: 0 = none. -ENOMEM; negative errno of getrandom(). */
int history_span_budget_open(uint32_t max_spans_per_second, struct history_span_budget **keep);
void history_span_budget_close(struct history_span_budget *keep); /* NULL is fine */
/* Decides on a span without samples. */
enum history_span_budget_why history_span_budget_span(struct history_span_budget *keep,
                                                      const uint8_t trace_id[16],
                                                      uint64_t duration_ns);
/* The trace has samples: its later spans are worth keeping. A bounded number of traces is
 * remembered. */
void history_span_budget_trace(struct history_span_budget *keep, const uint8_t trace_id[16]);
/* Call it each second: the number of spans in past seconds sets the share to choose in the next. */
void history_span_budget_tick(struct history_span_budget *keep);
