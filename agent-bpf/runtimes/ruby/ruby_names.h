/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Functions, files and lines of Ruby frames, from the instruction sequences and method entries in
 * the memory of their process. One whose identity is another one than at the tick is stale. A
 * method has the path of its class in front ("Shop#render", "Shop.open", "block in Shop#render"),
 * if the method entry is that of the sequence. Symbolizer only. Limits: RUBY_FUNCTIONS_MAX
 * functions a request; beyond, frames are unknown.
 */
#include "agent-bpf/runtimes/ruby/ruby_layout.h"
#include "agent-bpf/runtimes/runtime_reader.h"

#define RUBY_FUNCTIONS_MAX 512

/* As `names` of struct runtime_reader. Frames of other kinds are unknown. */
int ruby_names(const struct ruby_layout *layout, const struct ruby_process *process,
               struct runtime_memory *memory, const struct record_frame *frames, size_t n,
               struct runtime_names *out);
