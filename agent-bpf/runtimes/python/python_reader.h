/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * CPython's rows of runtime_readers[]: the interpreter, 3.8 to 3.14, and asyncio, which is a file
 * of its own in most builds. Outcomes as in struct runtime_reader.
 */
#include "agent-bpf/runtimes/runtime_reader.h"

int python_reader_open(const struct elf *elf, struct runtime_constants **constants,
                       enum runtime_refusal *why);
int python_reader_open_tasks(const struct elf *elf, struct runtime_constants **constants,
                             enum runtime_refusal *why);
void python_reader_close(struct runtime_constants *constants);
int python_reader_attach(struct runtime_constants *constants, uint64_t load_bias,
                         struct runtime_memory *memory, struct runtime_process *entry,
                         enum runtime_refusal *why);
int python_reader_attach_tasks(struct runtime_constants *constants, uint64_t load_bias,
                               struct runtime_memory *memory, struct runtime_process *entry,
                               enum runtime_refusal *why);
/* cache: not used, as the service remembers answers and a request asks for all of its frames at
 * once. */
int python_reader_names(struct runtime_constants *constants, const struct runtime_process *entry,
                        struct runtime_cache *cache, struct runtime_memory *memory,
                        const struct record_frame *frames, size_t n, struct runtime_names *out);
struct runtime_version python_reader_version(const struct runtime_constants *constants,
                                             const struct runtime_process *entry);
