/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Until opentelemetry-proto 1.9 the fields of a profile's Sample had other numbers: 2 values, 3
 * attribute_indices, 4 link_index; since 1.10 these are 4, 2 and 3. A request does not say which
 * it means. Pure; thread: any.
 */
#include "proto/otlp/otlp_spans.h"

/*
 * Whether the samples of a request are numbered as until 1.9. What tells: a list is packed, a link
 * is not, so fields 3 and 4 of either kind belong to one layout. A request whose samples have
 * neither is read as of today, unless that makes no sense (indices that lead nowhere, no
 * timestamps) and the other reading does for each sample. OTLP_OK or OTLP_MALFORMED.
 */
int otlp_profiles_is_former(struct bytes request, bool *former);

/* Gives the samples of such a request today's numbers, in place: nothing else changes, nor the
 * size. OTLP_OK or OTLP_MALFORMED (a tag that is longer than it need be). */
int otlp_profiles_renumber(uint8_t *request, size_t len);
