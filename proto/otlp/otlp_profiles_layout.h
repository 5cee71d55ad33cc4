/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Until opentelemetry-proto 1.9 the fields of a profile's Sample had other numbers: 2 values, 3
 * attribute_indices, 4 link_index; since 1.10 these are 4, 2 and 3. A request does not say which
 * it means. Pure; thread: any.
 */
#include "proto/otlp/otlp_spans.h"

/*
 * Whether the samples of a request are numbered as until 1.9. Lists are packed, a link is not; so
 * the wire types of fields 3 and 4 identify the layout. A request whose samples have neither field
 * has today's layout, unless that reading is invalid (indices out of range, no timestamps) and the
 * other reading is valid for each sample. OTLP_OK or OTLP_MALFORMED.
 */
int otlp_profiles_is_former(struct bytes request, bool *former);

/* Gives the samples of such a request today's numbers, in place: nothing else changes, nor the
 * size. OTLP_OK or OTLP_MALFORMED (a tag that is longer than it need be). */
int otlp_profiles_renumber(uint8_t *request, size_t len);
