/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Functions, files and lines of Python frames, from the code objects in the memory of their
 * process. An object whose identity is another one than at the tick is stale. All frames of a
 * request are read together: once for the code objects, once for the beginnings of their texts and
 * line tables, once for what is longer. Symbolizer only. Limits: PYTHON_CODES_MAX code objects a
 * request, PYTHON_TEXT_MAX characters of a text, PYTHON_TABLE_MAX bytes of a table: beyond, frames
 * are unknown, texts are cut, lines are not known.
 */
#include "agent-bpf/runtimes/python/python_file.h"
#include "agent-bpf/runtimes/python/python_text.h"

#define PYTHON_CODES_MAX 512
#define PYTHON_TABLE_MAX (1u << 20)

/* As `names` of struct runtime_reader. Frames of other kinds are unknown. */
int python_names(const struct python_constants *constants, const struct python_process *process,
                 struct runtime_memory *memory, const struct record_frame *frames, size_t n,
                 struct runtime_names *out);
