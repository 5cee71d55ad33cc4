/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The decoded length must be the one in the header, so memory is allocated once. A small section
 * that claims a large size only costs address space.
 */
#include "agent-bpf/files/elf_compressed.h"
#include <errno.h>
#include <stdlib.h>
#include <zlib.h>
#include <zstd.h>

#ifndef ELFCOMPRESS_ZSTD
#define ELFCOMPRESS_ZSTD 2
#endif

static bool inflate_all(uint32_t type, struct bytes in, uint8_t *out, size_t size)
{
    uLongf inflated = size;
    if (type == ELFCOMPRESS_ZLIB)
        return uncompress(out, &inflated, in.data, in.len) == Z_OK && inflated == size;
    return ZSTD_decompress(out, size, in.data, in.len) == size;
}

static int section_decode(const struct elf *elf, uint64_t offset, size_t len,
                          const Elf64_Chdr *head, uint8_t *out)
{
    uint8_t *in = malloc(len ? len : 1);
    int error = in ? elf_read(elf, offset, in, len) : -ENOMEM;
    if (!error && !inflate_all(head->ch_type, BYTES(in, len), out, head->ch_size))
        error = ELF_MALFORMED;
    free(in);
    return error;
}

int elf_decompress(const struct elf *elf, const Elf64_Shdr *section, size_t max, uint8_t **out,
                   size_t *size)
{
    Elf64_Chdr head;
    *out = NULL;
    if (section->sh_offset > elf->size || section->sh_size > elf->size - section->sh_offset ||
        section->sh_size < sizeof(head))
        return ELF_MALFORMED;
    int error = elf_read(elf, section->sh_offset, &head, sizeof(head));
    if (error)
        return error;
    size_t len = section->sh_size - sizeof(head);
    if ((head.ch_type != ELFCOMPRESS_ZLIB && head.ch_type != ELFCOMPRESS_ZSTD) ||
        head.ch_size > max || len > max)
        return ELF_MALFORMED;
    uint8_t *decoded = malloc(head.ch_size ? head.ch_size : 1);
    error = decoded ? section_decode(elf, section->sh_offset + sizeof(head), len, &head, decoded)
                    : -ENOMEM;
    if (error) {
        free(decoded);
        return error;
    }
    *out = decoded;
    *size = head.ch_size;
    return 0;
}
