/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* V8's row in runtime_readers[]. Thread: the symbolizer's loop. */
#include "agent-bpf/runtimes/runtime_reader.h"

int v8_reader_open(const struct elf *elf, struct runtime_constants **constants,
                   enum runtime_refusal *why);
void v8_reader_close(struct runtime_constants *constants);
int v8_reader_attach(struct runtime_constants *constants, uint64_t load_bias,
                     struct runtime_memory *memory, struct runtime_process *entry,
                     enum runtime_refusal *why);
int v8_reader_names(struct runtime_constants *constants, const struct runtime_process *entry,
                    struct runtime_cache *cache, struct runtime_memory *memory,
                    const struct record_frame *frames, size_t n, struct runtime_names *out);
struct runtime_version v8_reader_version(const struct runtime_constants *constants,
                                         const struct runtime_process *entry);
