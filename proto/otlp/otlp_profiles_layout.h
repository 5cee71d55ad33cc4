/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Profiles of earlier versions of opentelemetry-proto. A request does not say which version it
 * means; the wire types of its fields tell it. Pure; thread: any.
 *
 *     until    Sample                                   Profile
 *     1.7      location ranges, no stack table          time 4, duration 5, period_type 6, period 7
 *     1.8      2 values, 3 attribute_indices, 4 link    comments 7, profile_id 8, dropped 9, ... 12
 *     1.9      as 1.8                                   profile_id 7, dropped 8, ... 11
 *     today    2 attribute_indices, 3 link, 4 values    as 1.9
 */
#include "proto/otlp/otlp_spans.h"

enum profiles_layout {
    PROFILES_TODAY, /* since 1.10; also: nothing is in it that tells */
    PROFILES_1_9,
    PROFILES_1_8,
    PROFILES_1_8_COMMENTS, /* has comments, for which there is no field today */
    PROFILES_1_7,     /* or before: it has no stacks, so renumbering does not make it today's */
    PROFILES_UNCLEAR, /* valid both as 1.9's and as today's, with another meaning */
    PROFILES_LAYOUTS
};

/*
 * Lists are packed, a link is not; so fields 3 and 4 of a Sample identify its layout. In samples
 * that have neither, field 2 is a list of values (1.9) or of attributes (today). It is of the
 * layout by which each sample is valid: today's list has only indices of the dictionary, none twice
 * in a row, and the sample has timestamps; 1.9's has a value for each timestamp, or one. Where both
 * are true, a development version of 1 decides for today, and without it the request is unclear.
 * OTLP_OK or OTLP_MALFORMED.
 */
int profiles_layout_of(struct bytes request, bool says_version_1, enum profiles_layout *layout);

/* Gives a request of 1.8 or 1.9 today's numbers, in place: nothing else changes, nor the size.
 * OTLP_OK or OTLP_MALFORMED (a tag that is longer than it need be). */
int profiles_layout_renumber(uint8_t *request, size_t len, enum profiles_layout layout);
