/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Ruby's row of runtime_readers[]: 2.7 to 3.4. Outcomes as in struct runtime_reader. */
#include "agent-bpf/runtimes/runtime_reader.h"

int ruby_reader_open(const struct elf *elf, struct runtime_constants **constants,
                     enum runtime_refusal *why);
void ruby_reader_close(struct runtime_constants *constants);
int ruby_reader_attach(struct runtime_constants *constants, uint64_t load_bias,
                       struct runtime_memory *memory, struct runtime_process *entry,
                       enum runtime_refusal *why);
/* cache: not used, as the service remembers answers and a request asks for all of its frames at
 * once. */
int ruby_reader_names(struct runtime_constants *constants, const struct runtime_process *entry,
                      struct runtime_cache *cache, struct runtime_memory *memory,
                      const struct record_frame *frames, size_t n, struct runtime_names *out);
struct runtime_version ruby_reader_version(const struct runtime_constants *constants,
                                           const struct runtime_process *entry);
