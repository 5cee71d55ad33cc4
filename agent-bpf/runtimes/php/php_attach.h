/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Makes the section of a process's entry that the tick reads PHP frames by: the layout of its
 * version, which its first extension tells, and the file's addresses in the process, checked
 * against its memory. Symbolizer only.
 */
#include "agent-bpf/runtimes/php/php_file.h"

/* Outcomes as in struct runtime_reader. -EAGAIN: PHP is not initialised yet. */
int php_attach(const struct php_constants *constants, uint64_t bias, struct runtime_memory *memory,
               struct php_process *process, enum runtime_refusal *why);
