/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A Java process looked at from outside, as the product does it, but with its threads stopped by
 * ptrace: native frames by unwind rows, Java frames by hotspot_step.h, names by hotspot_names.h.
 */
#include "agent-bpf/runtimes/hotspot/hotspot_attach.h"
#include "agent-bpf/unwind/unwind.h"

#define HOTSPOT_RIG_FRAMES 2048

enum hotspot_rig_kind {
    HOTSPOT_RIG_NATIVE,
    HOTSPOT_RIG_COMPILED,
    HOTSPOT_RIG_INTERPRETED,
    HOTSPOT_RIG_STUB,
    HOTSPOT_RIG_FROZEN,
};

struct hotspot_rig_frame {
    enum hotspot_rig_kind kind;
    struct record_frame frame; /* native: words[0] is the address */
};

struct hotspot_rig_stack {
    uint32_t n;
    int end; /* enum unwind_end */
    struct hotspot_rig_frame frames[HOTSPOT_RIG_FRAMES];
};

struct hotspot_rig;

/* NULL: it is no JVM, or not ready; *error says why. */
struct hotspot_rig *hotspot_rig_open(uint32_t pid, int *error);
void hotspot_rig_close(struct hotspot_rig *rig);
const struct hotspot_process *hotspot_rig_process(const struct hotspot_rig *rig);
struct runtime_cache *hotspot_rig_cache(struct hotspot_rig *rig); /* of names */
/* For one request. */
struct runtime_memory hotspot_rig_memory(struct hotspot_rig *rig);
/* Requests to the process and bytes since it was opened. */
void hotspot_rig_counts(const struct hotspot_rig *rig, uint64_t *requests, uint64_t *bytes);
/* Stops the thread, walks its stack, lets it go on. False: it is gone. */
bool hotspot_rig_walk(struct hotspot_rig *rig, uint32_t tid, struct hotspot_rig_stack *stack);
/* The same, and its names while it is stopped: those of Java frames, `named` in their order. */
bool hotspot_rig_walk_named(struct hotspot_rig *rig, uint32_t tid, struct hotspot_rig_stack *stack,
                            struct runtime_names *names, int *error);
/* The words of all frames that are not native; returns their number. */
size_t hotspot_rig_java(const struct hotspot_rig_stack *stack, struct record_frame *frames);
/* Of the last stack, where Java began: pc, sp, fp, rax, rbx, r13, whether it was the leaf; 0. NULL:
 * nowhere. */
const uint64_t *hotspot_rig_first(const struct hotspot_rig *rig);
/* Every range that is read from now on is passed on too (for images of memory). */
void hotspot_rig_record(struct hotspot_rig *rig,
                        void (*take)(void *context, uint64_t address, const void *data,
                                     size_t size),
                        void *context);
