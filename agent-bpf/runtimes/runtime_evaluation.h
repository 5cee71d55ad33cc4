/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Where the code of an interpreter's evaluation function lies: compilers move parts of it away.
 * Called once per file; pure but for reads of the file. Limits: RUNTIME_EVALUATION_MAX parts, 1 MiB
 * of code each.
 */
#include "agent-bpf/files/elf.h"
#include "agent-bpf/runtimes/runtime_list.h"

/* The function that the address is in, or the part of one, as the unwind tables have it. False: not
 * known. */
bool runtime_evaluation_part(const struct elf *elf, uint64_t address, struct runtime_range *part);

/* symbol: the function, whose name in the file is `name`; unused ranges are empty. */
void runtime_evaluation_find(const struct elf *elf, const char *name, const Elf64_Sym *symbol,
                             struct runtime_range ranges[RUNTIME_EVALUATION_MAX]);
