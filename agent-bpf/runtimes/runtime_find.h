/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Which runtime an ELF file is, by what it exports or holds, never by its name (context/runtime.h).
 * Called once per file. Symbolizer only; reads only through its argument. Limit: of a file without
 * exports of a runtime at most RUNTIME_SEARCH_MAX bytes are searched.
 */
#include "agent-bpf/files/elf.h"
#include "context/runtime.h"

#define RUNTIME_SEARCH_MAX (UINT64_C(16) << 20)

/* RUNTIME_UNKNOWN: none, or the file is malformed; never RUNTIME_NATIVE, for which all files of a
 * process must be known. */
enum runtime runtime_find(const struct elf *elf);
