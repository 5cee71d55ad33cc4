/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Functions, files and lines of PHP frames, from the strings that their words have the addresses of
 * (php_process.h). Strings that are others than at the tick are stale. Symbolizer only. Limits:
 * those of php_texts.h.
 */
#include "agent-bpf/runtimes/php_process.h"
#include "agent-bpf/runtimes/runtime_reader.h"

/* As `names` of struct runtime_reader. Frames of other kinds are unknown. */
int php_names(struct runtime_memory *memory, const struct record_frame *frames, size_t n,
              struct runtime_names *out);
