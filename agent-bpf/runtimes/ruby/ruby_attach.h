/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Makes the section of a process's entry that the tick reads Ruby frames by: the file's constants
 * with the process's addresses, and what leads to names, which is looked for in its memory.
 * Symbolizer only. Limits: RUBY_ATTACH_READS reads.
 */
#include "agent-bpf/runtimes/ruby/ruby_file.h"

#define RUBY_ATTACH_READS 64

/* Outcomes as in struct runtime_reader. -EAGAIN: the interpreter is not initialised yet. */
int ruby_attach(const struct ruby_constants *constants, uint64_t bias,
                struct runtime_memory *memory, struct ruby_process *process,
                enum runtime_refusal *why);
