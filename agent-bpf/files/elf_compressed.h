/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Decodes compressed sections (SHF_COMPRESSED: zlib, zstd) of untrusted files into memory. Source
 * of the format: gABI "Compression Header". Thread: any. Symbolizer only.
 */
#include "agent-bpf/files/elf.h"

#ifndef ELFCOMPRESS_ZSTD
#define ELFCOMPRESS_ZSTD 2
#endif

struct elf_compressed {
    uint32_t type;        /* ELFCOMPRESS_ZLIB, ELFCOMPRESS_ZSTD */
    uint64_t offset, len; /* of the compressed bytes in the file */
    uint64_t size;        /* decoded */
};

/* What the section says of itself. The limit `max` is for both sizes. 0; ELF_MALFORMED (also:
 * beyond max, or compressed in another way); negative errno. */
int elf_compressed_head(const struct elf *elf, const Elf64_Shdr *section, size_t max,
                        struct elf_compressed *head);

/* *out (to be freed) has *size bytes. The limit `max` is for both compressed and decoded bytes. 0;
 * ELF_MALFORMED (also: beyond max); negative errno. On failure *out is NULL. */
int elf_decompress(const struct elf *elf, const Elf64_Shdr *section, size_t max, uint8_t **out,
                   size_t *size);
