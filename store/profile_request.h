/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A profile request being filled with samples: from rowids to Resource, stack, Link and attributes
 * of OTLP; window.h tells what they are. Thread: the writer.
 */
#include "base/arena.h"
#include "base/map.h"
#include "proto/otlp_profiles.h"
#include "store/join.h"

struct stacks;
struct processes;

struct profile_request {
    struct otlp_profiles *profiles; /* NULL until profile_request_begin() */
    struct stacks *stacks;
    struct processes *processes;
    uint64_t first_unix_ns;
    struct arena arena; /* of what is remembered: */
    struct map resources_seen, stacks_seen, locations_seen;
};

void profile_request_open(struct profile_request *request, struct stacks *stacks,
                          struct processes *processes);
void profile_request_close(struct profile_request *request);
int profile_request_begin(struct profile_request *request, size_t max_bytes); /* empties it */
/* 0; -EMSGSIZE: it does not fit, nothing was added; negative errno. */
int profile_request_add(struct profile_request *request, const struct sample *sample,
                        const struct join_span_facts *span);
