/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What the parts of SpanprofOtel::Native share. Thread: any that holds the interpreter's lock
 * (GVL), of the main Ractor; OpenTelemetry's SDK works in no other.
 */
#include <ruby/ruby.h>
#include <ruby/version.h>
#include <stdbool.h>
#include <stdint.h>

struct span_record {
    uint8_t trace_id[16];
    uint8_t span_id[8];
    uint8_t flags;
    uint8_t set; /* 0: there is no span to publish */
};

/* ---- current_span.c: OpenTelemetry's objects, read without a call of Ruby code ---- */

/* key: of the span in a context. stack: name of the Fiber's instance variable (an "@" in front), or
 * of the fiber-local variable, that holds the API's stack of contexts. */
void current_span_configure(VALUE key, VALUE stack);

/* The span that is current in the running fiber. Allocates nothing, raises nothing. */
void current_span_read(struct span_record *record);

/* ---- native.c ---- */

void publish_current(void);
void publish_record(const struct span_record *record);

/* ---- switches.c: what the interpreter reports ---- */

/* From now on publish_current() is called after each switch of fibers. Raises a Ruby exception if
 * that cannot be arranged. */
void switches_watch(void);

/* What the running Ruby thread publishes, in case it moves to another native thread. */
void switches_keep(const struct span_record *record);
