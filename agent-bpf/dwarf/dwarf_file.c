/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/dwarf/dwarf_file.h"
#include "agent-bpf/files/elf_compressed.h"
#include "base/limits.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

LIMIT(dwarf, LIMIT_SYMBOLIZER, "the file being read", .bytes = DWARF_DECODED_MAX);

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

static int section_decode(struct dwarf_file *file, struct dwarf_section *section,
                          const struct elf *elf, const Elf64_Shdr *found)
{
    struct elf_compressed head;
    size_t max = DWARF_DECODED_MAX - file->compressed_bytes, size = 0;
    int error = elf_compressed_head(elf, found, max, &head);
    if (error)
        return error;
    file->compressed_bytes += (size_t)head.size;
    section->size = head.size;
    if (head.type == ELFCOMPRESS_ZLIB) {
        section->inflated =
            dwarf_inflated_open(&file->spans, file->fd, head.offset, head.len, head.size);
        return section->inflated ? 0 : -ENOMEM;
    }
    error = elf_decompress(elf, found, max, &section->decoded, &size);
    file->decoded_bytes += size;
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
    *section =
        (struct dwarf_section){.fd = file->fd, .offset = found.sh_offset, .size = found.sh_size};
    return found.sh_flags & SHF_COMPRESSED ? section_decode(file, section, elf, &found) : 0;
}

int dwarf_file_open(struct dwarf_file *file, const struct elf *elf)
{
    *file = (struct dwarf_file){.fd = fcntl(elf->fd, F_DUPFD_CLOEXEC, 0)};
    int error = file->fd < 0 ? -errno : 0;
    list_init(&file->spans.recent);
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
    for (int i = 0; i < DWARF_SECTIONS; i++) {
        free(file->sections[i].decoded);
        dwarf_inflated_close(file->sections[i].inflated);
    }
    if (file->fd >= 0)
        close(file->fd);
    *file = (struct dwarf_file){.fd = -1};
}

size_t dwarf_file_bytes(const struct dwarf_file *file)
{
    size_t bytes = file->decoded_bytes + file->spans.n * DWARF_SPAN_BYTES;
    for (int i = 0; i < DWARF_SECTIONS; i++)
        if (file->sections[i].inflated)
            bytes += dwarf_inflated_bytes(file->sections[i].inflated);
    return bytes;
}
