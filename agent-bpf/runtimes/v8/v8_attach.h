/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What the sampler needs to walk V8's frames in one process (v8_process.h). Reads only through its
 * arguments. Thread: the symbolizer's loop.
 */
#include "agent-bpf/runtimes/runtime_memory.h"
#include "agent-bpf/runtimes/v8/v8_file.h"

/* load_bias: address minus ELF address. 0; -EAGAIN: V8 is not initialised yet; negative errno. */
int v8_attach(const struct v8_file *file, uint64_t load_bias, struct runtime_memory *memory,
              struct v8_process *process);
