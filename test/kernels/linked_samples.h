/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What exported requests say about one span: its samples, by what their stacks show, and what was
 * added to the span itself. Thread: any; the struct is the caller's. Malformed requests abort: they
 * are our own.
 */
#include "base/bytes.h"
#include <stdint.h>

struct linked_samples {
    uint8_t trace_id[16];
    uint8_t span_id[8];
    uint64_t total;        /* samples whose Link is the span */
    uint64_t with_span;    /* of those: they have the span's name */
    uint64_t burning;      /* burn_alpha() is the leaf */
    uint64_t kernel;       /* begin with frames of the kernel */
    uint64_t whole;        /* all of descend() and main() directly above are there */
    uint64_t kernel_whole; /* both */
    uint64_t annotated;    /* spanprof.samples of the span; 0: it has not come */
};

void linked_samples_add_profiles(struct linked_samples *samples, struct bytes request);
void linked_samples_add_traces(struct linked_samples *samples, struct bytes request);
