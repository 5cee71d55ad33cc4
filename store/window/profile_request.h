/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A profile request being filled with samples: from rowids to Resource, stack, Link and attributes
 * of OTLP; window.h tells what they are. Thread: that of its dictionary.
 */
#include "base/arena.h"
#include "base/map.h"
#include "proto/otlp/otlp_profiles.h"
#include "store/join/join.h"
#include "store/stacks/stack_dictionary.h"

struct processes;

struct profile_request {
    struct otlp_profiles *profiles; /* NULL until profile_request_begin() */
    struct stack_dictionary stacks;
    struct processes *processes; /* NULL: profile_request_put() alone is used */
    uint64_t first_unix_ns;
    struct arena arena; /* of what is remembered: */
    struct map resources_seen, stacks_seen, locations_seen;
};

void profile_request_open(struct profile_request *request, const struct stack_dictionary *stacks,
                          struct processes *processes);
void profile_request_close(struct profile_request *request);
int profile_request_begin(struct profile_request *request, size_t max_bytes); /* empties it */
/* 0; -EMSGSIZE: it does not fit, nothing was added; negative errno. */
int profile_request_add(struct profile_request *request, const struct sample *sample,
                        const struct join_span_facts *span);
/* The same, with a Resource that was made before, known by a number. */
int profile_request_put(struct profile_request *request, int64_t number, struct bytes resource,
                        const struct sample *sample, const struct join_span_facts *span);
