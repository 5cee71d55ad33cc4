/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Decodes compressed sections (SHF_COMPRESSED: zlib, zstd) of untrusted files into memory. Source
 * of the format: gABI "Compression Header". Thread: any. Symbolizer only.
 */
#include "agent-bpf/files/elf.h"

/* *out (to be freed) has *size bytes. The limit `max` is for both compressed and decoded bytes. 0;
 * ELF_MALFORMED (also: beyond max); negative errno. On failure *out is NULL. */
int elf_decompress(const struct elf *elf, const Elf64_Shdr *section, size_t max, uint8_t **out,
                   size_t *size);
