/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The section identifies a Go executable with few reads; only files without section headers are
 * searched. In a position independent executable the pointers of the old form are
 * written by relocations, and the linker's copy of them in the file may be zero: then the addends
 * count.
 */
#include "agent-bpf/go/go_buildinfo.h"
#include "agent-bpf/files/elf_dynamic.h"
#include "agent-bpf/files/elf_search.h"

#define HEADER          32
#define ALIGNMENT       16
#define FLAG_BIG_ENDIAN 1
#define FLAG_INLINE     2

static const char magic[] = "\xff Go buildinf:";

struct finder {
    const struct elf *elf;
    char *version;
    int error;
};

/* size bytes at an address, as the file has them. */
static int read_vaddr(const struct elf *elf, uint64_t vaddr, void *out, size_t size)
{
    uint64_t offset;
    if (!elf_offset_of_address(elf, vaddr, &offset))
        return ELF_MALFORMED;
    return elf_read(elf, offset, out, size);
}

struct pointer {
    uint64_t at; /* its address */
    uint64_t value;
};

static bool take_relative(void *context, const Elf64_Rela *relocation)
{
    struct pointer *pointer = context;
    if (relocation->r_offset != pointer->at)
        return false;
    pointer->value = (uint64_t)relocation->r_addend;
    return true;
}

static int read_pointer(const struct elf *elf, struct pointer *pointer)
{
    struct elf_dynamic dynamic;
    int error = read_vaddr(elf, pointer->at, &pointer->value, sizeof(pointer->value));
    if (error || pointer->value || elf_dynamic_open(elf, &dynamic))
        return error;
    return elf_dynamic_relocations(&dynamic, take_relative, pointer);
}

static int take_text(const struct elf *elf, uint64_t vaddr, uint64_t size, char *version)
{
    if (!size || size >= GO_VERSION_MAX)
        return ELF_MALFORMED;
    int error = read_vaddr(elf, vaddr, version, size);
    version[size] = 0;
    for (uint64_t i = 0; i < size && !error; i++)
        if (version[i] < 0x20 || version[i] > 0x7e)
            error = ELF_MALFORMED;
    return error;
}

static int read_by_pointers(const struct elf *elf, uint64_t vaddr, char *version)
{
    struct pointer string = {.at = vaddr + 16};
    int error = read_pointer(elf, &string);
    struct pointer data = {.at = string.value};
    error = error ? error : read_pointer(elf, &data);
    uint64_t size = 0;
    error = error ? error : read_vaddr(elf, string.value + 8, &size, sizeof(size));
    return error ? error : take_text(elf, data.value, size, version);
}

/* Of a length below GO_VERSION_MAX only, which needs one byte of its varint. */
static int read_inline(const struct elf *elf, uint64_t vaddr, char *version)
{
    uint8_t size;
    int error = read_vaddr(elf, vaddr + HEADER, &size, 1);
    return error ? error : take_text(elf, vaddr + HEADER + 1, size, version);
}

static int read_version(const struct elf *elf, uint64_t vaddr, char *version)
{
    uint8_t header[HEADER];
    int error = read_vaddr(elf, vaddr, header, sizeof(header));
    if (error)
        return error;
    if (memcmp(header, magic, sizeof(magic) - 1) != 0)
        return ELF_MALFORMED;
    if (header[15] & FLAG_INLINE)
        return read_inline(elf, vaddr, version);
    if (header[14] != sizeof(uint64_t) || header[15] & FLAG_BIG_ENDIAN)
        return ELF_MALFORMED;
    return read_by_pointers(elf, vaddr, version);
}

static bool take_magic(void *context, uint64_t vaddr, const uint8_t *match)
{
    (void)match;
    struct finder *finder = context;
    finder->error = read_version(finder->elf, vaddr, finder->version);
    return finder->error <= 0;
}

static int buildinfo_search(const struct elf *elf, char *version)
{
    struct finder finder = {.elf = elf, .version = version};
    struct elf_search search = {
        .segment_flags = PF_W,
        .needle = BYTES_LIT(magic),
        .align = ALIGNMENT,
        .bytes_max = GO_BUILDINFO_BYTES_MAX,
        .take = take_magic,
        .context = &finder,
    };
    int error = elf_search(elf, &search);
    return finder.error ? finder.error : error;
}

int go_buildinfo_version(const struct elf *elf, char version[GO_VERSION_MAX])
{
    if (!elf->n_sections)
        return buildinfo_search(elf, version);
    Elf64_Shdr section;
    int error = elf_section_named(elf, ".go.buildinfo", &section);
    return error ? error : read_version(elf, section.sh_addr, version);
}

/* Up to four digits, without a leading zero. */
static bool parse_number(const char **text, uint16_t *number)
{
    const char *start = *text;
    unsigned value = 0;
    while (**text >= '0' && **text <= '9' && *text - start < 4)
        value = value * 10 + (unsigned)(*(*text)++ - '0');
    *number = (uint16_t)value;
    return *text > start && (*start != '0' || *text == start + 1);
}

bool go_version_parse(const char *version, uint16_t *major, uint16_t *minor)
{
    if (strncmp(version, "go", 2) != 0)
        return false;
    version += 2;
    if (!parse_number(&version, major) || *version++ != '.' || !parse_number(&version, minor))
        return false;
    return (!*version || strchr(".-+ ", *version)) && strncmp(version, "-devel", 6) != 0;
}
