/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Builds a profile request from samples: turns rowids into OTLP Resource, stack, Link and
 * attributes; window.h defines their contents. Thread: that of its dictionary.
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
    struct processes *processes; /* may be NULL if only profile_request_put() is used */
    uint64_t first_unix_ns;
    struct arena arena; /* memory of the three maps */
    struct map resources_seen, stacks_seen, locations_seen;
};

void profile_request_open(struct profile_request *request, const struct stack_dictionary *stacks,
                          struct processes *processes);
void profile_request_close(struct profile_request *request);
int profile_request_begin(struct profile_request *request,
                          size_t max_bytes); /* empties the request */
/* 0; -EMSGSIZE: the sample does not fit, nothing was added; negative errno. */
int profile_request_add(struct profile_request *request, const struct sample *sample,
                        const struct join_span_facts *span);
/* As profile_request_add(), with a prepared Resource. Equal numbers mean equal Resources. */
int profile_request_put(struct profile_request *request, int64_t number, struct bytes resource,
                        const struct sample *sample, const struct join_span_facts *span);
