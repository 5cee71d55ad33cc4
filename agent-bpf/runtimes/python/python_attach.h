/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Makes the section of a process's entry that the tick reads Python frames by: the file's constants
 * with the process's addresses, checked against its memory. Symbolizer only. Limits:
 * PYTHON_ATTACH_THREADS thread states of PYTHON_ATTACH_INTERPRETERS interpreters are looked at.
 */
#include "agent-bpf/runtimes/python/python_file.h"

#define PYTHON_ATTACH_INTERPRETERS 4
#define PYTHON_ATTACH_THREADS      8

/* Outcomes as in struct runtime_reader. -EAGAIN: the interpreter is not initialised yet, or no
 * thread's state is where the C library would have it. */
int python_attach(const struct python_constants *constants, uint64_t bias,
                  struct runtime_memory *memory, struct python_process *process,
                  enum runtime_refusal *why);
