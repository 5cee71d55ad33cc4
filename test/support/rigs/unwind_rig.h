/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Unwind tables for what a sampler meets: a real symbolizer in a child process, which is asked for
 * each stack that a tick could not unwind, with the mappings that /proc says now.
 */
#include "agent-bpf/drain/ring.h"
#include "agent-bpf/sampler/sampler.h"
#include "test/support/rigs/symbolizer_rig.h"

struct unwind_rig {
    struct rig symbolizer;
    struct unwind_maps maps;
    uint64_t tickets;
    uint64_t wanted; /* stacks that were asked for */
};

void unwind_rig_open(struct unwind_rig *rig, const struct sampler *sampler);
void unwind_rig_close(struct unwind_rig *rig);
/* Asks, if the record says that it is due. True: it does. */
bool unwind_rig_take(struct unwind_rig *rig, const struct record_header *record);
/* Drains until no record of this process was incomplete for quiet_ms, at most for timeout_ms. */
bool unwind_rig_settle(struct unwind_rig *rig, struct ring *ring, uint32_t pid, unsigned quiet_ms,
                       unsigned timeout_ms);
