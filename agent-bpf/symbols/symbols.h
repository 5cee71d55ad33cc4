/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Function symbols of one executable: a sorted table of its .symtab, or .dynsym when it has none,
 * and of the .symtab of its debug file. Names stay in the files and are read on request, so a table
 * takes 16 bytes per symbol. Limit: SYMBOLS_MAX symbols, the rest is left out and counted. Thread:
 * the owner's.
 */
#include "agent-bpf/files/elf.h"

#define SYMBOLS_MAX      (4u << 20)
#define SYMBOLS_NAME_MAX 2048 /* with NUL; longer ones are cut */

struct symbols;

/* Keeps its own descriptors of the files. debug: another file that has symbols of these addresses,
 * or NULL. 0 (also with no symbol at all), ELF_MALFORMED, negative errno. */
int symbols_open(const struct elf *elf, const struct elf *debug, struct symbols **symbols);
void symbols_close(struct symbols *symbols);         /* NULL is fine */
size_t symbols_bytes(const struct symbols *symbols); /* memory */
size_t symbols_count(const struct symbols *symbols);
/* The function that covers this ELF address; the linker's name, sanitized. 0 or
 * ELF_MISSING. */
int symbols_find(const struct symbols *symbols, uint64_t vaddr, char name[SYMBOLS_NAME_MAX]);
