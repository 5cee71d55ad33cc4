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

static bool inflate_all(uint32_t type, struct bytes in, uint8_t *out, size_t size)
{
    uLongf inflated = size;
    if (type == ELFCOMPRESS_ZLIB)
        return uncompress(out, &inflated, in.data, in.len) == Z_OK && inflated == size;
    return ZSTD_decompress(out, size, in.data, in.len) == size;
}

int elf_compressed_head(const struct elf *elf, const Elf64_Shdr *section, size_t max,
                        struct elf_compressed *out)
{
    Elf64_Chdr head;
    if (section->sh_offset > elf->size || section->sh_size > elf->size - section->sh_offset ||
        section->sh_size < sizeof(head))
        return ELF_MALFORMED;
    int error = elf_read(elf, section->sh_offset, &head, sizeof(head));
    if (error)
        return error;
    *out = (struct elf_compressed){.type = head.ch_type,
                                   .offset = section->sh_offset + sizeof(head),
                                   .len = section->sh_size - sizeof(head),
                                   .size = head.ch_size};
    bool known = head.ch_type == ELFCOMPRESS_ZLIB || head.ch_type == ELFCOMPRESS_ZSTD;
    return !known || out->size > max || out->len > max ? ELF_MALFORMED : 0;
}

static int section_decode(const struct elf *elf, const struct elf_compressed *head, uint8_t *out)
{
    uint8_t *in = malloc(head->len ? head->len : 1);
    int error = in ? elf_read(elf, head->offset, in, head->len) : -ENOMEM;
    if (!error && !inflate_all(head->type, BYTES(in, head->len), out, head->size))
        error = ELF_MALFORMED;
    free(in);
    return error;
}

int elf_decompress(const struct elf *elf, const Elf64_Shdr *section, size_t max, uint8_t **out,
                   size_t *size)
{
    struct elf_compressed head;
    *out = NULL;
    int error = elf_compressed_head(elf, section, max, &head);
    if (error)
        return error;
    uint8_t *decoded = malloc(head.size ? head.size : 1);
    error = decoded ? section_decode(elf, &head, decoded) : -ENOMEM;
    if (error) {
        free(decoded);
        return error;
    }
    *out = decoded;
    *size = head.size;
    return 0;
}
