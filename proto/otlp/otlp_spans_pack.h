/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Bodies of a request with attributes added to its spans: for otlp_spans_rewrite(). Pure; thread:
 * any.
 */
#include "proto/otlp/otlp_spans.h"

struct edit {      /* what was added to one span */
    uint64_t span; /* ordinal in the request */
    size_t offset; /* into edits.added */
    size_t len;
};

struct edits {
    struct buf added;
    struct buf list; /* struct edit, by ordinal */
};

/* Emits the request in bodies of at most rewrite->max_body_bytes. bytes not NULL: only finds out
 * whether that can be done, and what they have at most in sum. OTLP_OK, OTLP_TOO_BIG,
 * OTLP_MALFORMED, -ENOMEM, or what emit returned. */
int spans_pack(const struct otlp_rewrite *rewrite, struct bytes request, const struct edits *edits,
               uint64_t *bytes);
