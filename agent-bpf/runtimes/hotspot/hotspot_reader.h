/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* HotSpot's row of runtime_readers[]: 11 to 25. Outcomes as in struct runtime_reader. */
#include "agent-bpf/runtimes/runtime_reader.h"

#define HOTSPOT_FRAME_KINDS                                                                        \
    (1u << FRAME_JVM_COMPILED | 1u << FRAME_JVM_INTERPRETED | 1u << FRAME_JVM_STUB |               \
     1u << FRAME_JVM_GAP)

int hotspot_reader_open(const struct elf *elf, struct runtime_constants **constants,
                        enum runtime_refusal *why);
void hotspot_reader_close(struct runtime_constants *constants);
int hotspot_reader_attach(struct runtime_constants *constants, uint64_t load_bias,
                          struct runtime_memory *memory, struct runtime_process *entry,
                          enum runtime_refusal *why);
int hotspot_reader_names(struct runtime_constants *constants, const struct runtime_process *entry,
                         struct runtime_cache *cache, struct runtime_memory *memory,
                         const struct record_frame *frames, size_t n, struct runtime_names *out);
struct runtime_version hotspot_reader_version(const struct runtime_constants *constants,
                                              const struct runtime_process *entry);
