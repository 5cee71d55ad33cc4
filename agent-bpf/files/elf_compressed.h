/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Sections of strangers' files that are compressed (SHF_COMPRESSED: zlib, zstd), decoded into
 * memory. Source of the format: gABI "Compression Header". Thread: any. Symbolizer only.
 */
#include "agent-bpf/files/elf.h"

/* *out (to be freed) of *size bytes; neither they nor what is compressed are more than max. 0;
 * ELF_MALFORMED (also: beyond max); negative errno. On failure *out is NULL. */
int elf_decompress(const struct elf *elf, const Elf64_Shdr *section, size_t max, uint8_t **out,
                   size_t *size);
