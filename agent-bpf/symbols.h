/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Function names of one executable: a sorted table of its function symbols (.symtab, or .dynsym
 * when that has none). Names stay in the file and are read when asked for, so a table costs 16
 * bytes a symbol. Thread: whoever holds it. Limits: SYMBOLS_MAX symbols, the rest is left out and
 * counted.
 */
#include "agent-bpf/elf.h"

#define SYMBOLS_MAX      (4u << 20)
#define SYMBOLS_NAME_MAX 512 /* with NUL */

struct symbols;

/* Keeps its own descriptor of the file. 0 (also with no symbol at all), ELF_MALFORMED, negative
 * errno. */
int symbols_open(const struct elf *elf, struct symbols **symbols);
void symbols_close(struct symbols *symbols);         /* NULL is fine */
size_t symbols_bytes(const struct symbols *symbols); /* memory */
size_t symbols_count(const struct symbols *symbols);
/* The function that covers this ELF address; sanitized name. 0 or ELF_MISSING. */
int symbols_find(const struct symbols *symbols, uint64_t vaddr, char name[SYMBOLS_NAME_MAX]);
