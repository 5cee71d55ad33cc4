/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/dwarf_file.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#ifndef ELFCOMPRESS_ZSTD
#define ELFCOMPRESS_ZSTD 2
#endif

static const char *const names[DWARF_SECTIONS] = {
    [DWARF_INFO] = ".debug_info",
    [DWARF_ABBREV] = ".debug_abbrev",
    [DWARF_LINE] = ".debug_line",
    [DWARF_STR] = ".debug_str",
    [DWARF_LINE_STR] = ".debug_line_str",
    [DWARF_RANGES] = ".debug_ranges",
    [DWARF_RNGLISTS] = ".debug_rnglists",
    [DWARF_ADDR] = ".debug_addr",
    [DWARF_STR_OFFSETS] = ".debug_str_offsets",
};

static bool inflate_all(uint32_t type, struct bytes in, uint8_t *out, size_t size)
{
    uLongf inflated = size;
    if (type == ELFCOMPRESS_ZLIB)
        return uncompress(out, &inflated, in.data, in.len) == Z_OK && inflated == size;
    return ZSTD_decompress(out, size, in.data, in.len) == size;
}

static int decode(struct dwarf_file *file, struct dwarf_section *section, const struct elf *elf)
{
    Elf64_Chdr head;
    if (section->size < sizeof(head) || elf_read(elf, section->offset, &head, sizeof(head)))
        return ELF_MALFORMED;
    size_t size = section->size - sizeof(head);
    if ((head.ch_type != ELFCOMPRESS_ZLIB && head.ch_type != ELFCOMPRESS_ZSTD) ||
        head.ch_size > DWARF_DECODED_MAX - file->decoded_bytes || size > DWARF_DECODED_MAX)
        return ELF_MALFORMED;
    uint8_t *in = malloc(size ? size : 1);
    section->decoded = malloc(head.ch_size ? head.ch_size : 1);
    int error = in && section->decoded ? 0 : -ENOMEM;
    error = error ? error : elf_read(elf, section->offset + sizeof(head), in, size);
    if (!error && !inflate_all(head.ch_type, BYTES(in, size), section->decoded, head.ch_size))
        error = ELF_MALFORMED;
    free(in);
    section->size = head.ch_size;
    file->decoded_bytes += head.ch_size;
    return error;
}

static int open_section(struct dwarf_file *file, const struct elf *elf,
                        enum dwarf_section_name name)
{
    Elf64_Shdr found;
    struct dwarf_section *section = &file->sections[name];
    int error = elf_section_named(elf, names[name], &found);
    if (error == ELF_MISSING || (!error && found.sh_type == SHT_NOBITS))
        return 0;
    if (error)
        return error;
    if (found.sh_offset > elf->size || found.sh_size > elf->size - found.sh_offset)
        return ELF_MALFORMED;
    *section = (struct dwarf_section){file->fd, found.sh_offset, found.sh_size, NULL};
    return found.sh_flags & SHF_COMPRESSED ? decode(file, section, elf) : 0;
}

int dwarf_file_open(struct dwarf_file *file, const struct elf *elf)
{
    *file = (struct dwarf_file){.fd = fcntl(elf->fd, F_DUPFD_CLOEXEC, 0)};
    int error = file->fd < 0 ? -errno : 0;
    for (int i = 0; i < DWARF_SECTIONS && !error; i++) {
        error = open_section(file, elf, (enum dwarf_section_name)i);
        if (!error && i == DWARF_INFO && !file->sections[i].size)
            error = ELF_MISSING;
    }
    if (error)
        dwarf_file_close(file);
    return error;
}

void dwarf_file_close(struct dwarf_file *file)
{
    for (int i = 0; i < DWARF_SECTIONS; i++)
        free(file->sections[i].decoded);
    if (file->fd >= 0)
        close(file->fd);
    *file = (struct dwarf_file){.fd = -1};
}
