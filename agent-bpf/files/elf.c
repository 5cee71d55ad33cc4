/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers in the file are believed only after a comparison with the file's size, in a form that
 * cannot wrap (offset <= size, length <= size - offset); every walk has its own maximum besides.
 */
#include "agent-bpf/files/elf.h"
#include "agent-bpf/sha256.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define NOTE_GO_BUILD_ID 4
#define HASH_PART        4096

/* 0, ELF_MALFORMED at the end of the file, or negative errno. */
static int read_at(int fd, uint64_t offset, void *out, size_t size)
{
    for (size_t at = 0; at < size;) {
        if (offset > INT64_MAX - at)
            return ELF_MALFORMED;
        ssize_t n = pread(fd, (char *)out + at, size - at, (off_t)(offset + at));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            return ELF_MALFORMED;
        at += (size_t)n;
    }
    return 0;
}

/* Headers, symbols and names are small and near each other: nine of ten reads need no call. */
#define PAGE  UINT64_C(4096)
#define PAGES 4

static _Thread_local struct page {
    uint64_t number; /* elf.number; 0: none */
    uint64_t offset;
    size_t n; /* bytes that the file has of it */
    uint8_t bytes[PAGE];
} pages[PAGES];
static _Thread_local uint64_t n_opened, n_pages_read;

static struct page *page_find(const struct elf *elf, uint64_t offset)
{
    for (size_t i = 0; i < PAGES; i++)
        if (pages[i].number == elf->number && pages[i].offset == offset)
            return &pages[i];
    return NULL;
}

static const struct page *page_read(const struct elf *elf, uint64_t offset)
{
    struct page *page = &pages[n_pages_read++ % PAGES];
    uint64_t left = elf->size - offset;
    size_t n = left < PAGE ? (size_t)left : PAGE;
    bool failed = read_at(elf->fd, offset, page->bytes, n) != 0;
    page->number = failed ? 0 : elf->number;
    page->offset = offset;
    page->n = n;
    return failed ? NULL : page;
}

/* False: it is not within a page, or that could not be read. */
static bool read_from_page(const struct elf *elf, uint64_t offset, void *out, size_t size)
{
    uint64_t start = offset & ~(PAGE - 1), at = offset - start;
    if (!elf->number || size > PAGE - at)
        return false;
    const struct page *page = page_find(elf, start);
    if (!page)
        page = page_read(elf, start);
    if (!page || at + size > page->n)
        return false;
    memcpy(out, page->bytes + at, size);
    return true;
}

int elf_read(const struct elf *elf, uint64_t offset, void *out, size_t size)
{
    if (offset > elf->size || size > elf->size - offset)
        return ELF_MALFORMED;
    return read_from_page(elf, offset, out, size) ? 0 : read_at(elf->fd, offset, out, size);
}

static bool wanted_segment(uint32_t type)
{
    return type == PT_LOAD || type == PT_DYNAMIC || type == PT_INTERP || type == PT_NOTE ||
           type == PT_TLS || type == PT_GNU_EH_FRAME;
}

static int read_segments(struct elf *elf, const Elf64_Ehdr *header)
{
    if (header->e_phentsize != sizeof(Elf64_Phdr) || header->e_phnum > ELF_PROGRAM_HEADERS_MAX)
        return header->e_phnum ? ELF_MALFORMED : 0;
    for (uint32_t i = 0; i < header->e_phnum && elf->n_segments < ELF_SEGMENTS_MAX; i++) {
        Elf64_Phdr *segment = &elf->segments[elf->n_segments];
        if (header->e_phoff > elf->size)
            return ELF_MALFORMED;
        int error =
            elf_read(elf, header->e_phoff + i * sizeof(*segment), segment, sizeof(*segment));
        if (error)
            return error;
        if (wanted_segment(segment->p_type))
            elf->n_segments++;
    }
    return 0;
}

static bool header_is_ours(const Elf64_Ehdr *header)
{
    return !memcmp(header->e_ident, ELFMAG, SELFMAG) && header->e_ident[EI_CLASS] == ELFCLASS64 &&
           header->e_ident[EI_DATA] == ELFDATA2LSB &&
           (header->e_machine == EM_X86_64 || header->e_machine == EM_AARCH64) &&
           (header->e_type == ET_EXEC || header->e_type == ET_DYN || header->e_type == ET_REL);
}

int elf_open(int fd, struct elf *elf)
{
    memset(elf, 0, sizeof(*elf));
    elf->fd = fd;
    elf->number = ++n_opened;
    struct stat status;
    if (fstat(fd, &status))
        return -errno;
    if (status.st_size < (off_t)sizeof(Elf64_Ehdr))
        return ELF_MALFORMED;
    elf->size = (uint64_t)status.st_size;
    Elf64_Ehdr header;
    int error = elf_read(elf, 0, &header, sizeof(header));
    if (error)
        return error;
    if (!header_is_ours(&header))
        return ELF_MALFORMED;
    elf->machine = header.e_machine;
    elf->type = header.e_type;
    if (header.e_shentsize == sizeof(Elf64_Shdr) && header.e_shoff && header.e_shoff <= elf->size) {
        elf->section_offset = header.e_shoff;
        elf->n_sections = header.e_shnum < ELF_SECTIONS_MAX ? header.e_shnum : ELF_SECTIONS_MAX;
        elf->names_section = header.e_shstrndx;
    }
    return read_segments(elf, &header);
}

const Elf64_Phdr *elf_segment(const struct elf *elf, uint32_t type)
{
    for (uint32_t i = 0; i < elf->n_segments; i++)
        if (elf->segments[i].p_type == type)
            return &elf->segments[i];
    return NULL;
}

bool elf_offset_of_address(const struct elf *elf, uint64_t vaddr, uint64_t *offset)
{
    for (uint32_t i = 0; i < elf->n_segments; i++) {
        const Elf64_Phdr *segment = &elf->segments[i];
        if (segment->p_type != PT_LOAD || vaddr < segment->p_vaddr ||
            vaddr - segment->p_vaddr >= segment->p_filesz)
            continue;
        *offset = segment->p_offset + (vaddr - segment->p_vaddr);
        return true;
    }
    return false;
}

/* Executable segments first: on a page that two segments share, it is code that is asked for. */
bool elf_address_of_offset(const struct elf *elf, uint64_t offset, uint64_t *vaddr)
{
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < elf->n_segments; i++) {
            const Elf64_Phdr *segment = &elf->segments[i];
            bool executable = segment->p_flags & PF_X;
            uint64_t start = segment->p_offset & ~UINT64_C(0xfff);
            uint64_t lead = segment->p_offset - start;
            if (segment->p_type != PT_LOAD || executable != (pass == 0) || offset < start ||
                (offset - start >= lead && offset - start - lead >= segment->p_filesz))
                continue;
            *vaddr = segment->p_vaddr - segment->p_offset + offset;
            return true;
        }
    }
    return false;
}

int elf_section(const struct elf *elf, uint32_t index, Elf64_Shdr *section)
{
    if (index >= elf->n_sections)
        return ELF_MISSING;
    return elf_read(elf, elf->section_offset + index * sizeof(*section), section, sizeof(*section));
}

int elf_section_of_type(const struct elf *elf, uint32_t type, Elf64_Shdr *section)
{
    for (uint32_t i = 0; i < elf->n_sections; i++) {
        int error = elf_section(elf, i, section);
        if (error)
            return error;
        if (section->sh_type == type)
            return 0;
    }
    return ELF_MISSING;
}

int elf_section_named(const struct elf *elf, const char *name, Elf64_Shdr *section)
{
    Elf64_Shdr names;
    size_t size = strlen(name) + 1;
    char found[ELF_SECTION_NAME_MAX + 1];
    int error = size <= sizeof(found) ? elf_section(elf, elf->names_section, &names) : -EINVAL;
    for (uint32_t i = 0; i < elf->n_sections && !error; i++) {
        error = elf_section(elf, i, section);
        if (error || section->sh_name > names.sh_size || size > names.sh_size - section->sh_name ||
            names.sh_offset > elf->size)
            continue;
        error = elf_read(elf, names.sh_offset + section->sh_name, found, size);
        if (!error && !memcmp(found, name, size))
            return 0;
    }
    return error ? error : ELF_MISSING;
}

static void take_go_build_id(struct bytes value, struct elf_build_ids *ids)
{
    if (!value.len || value.len > ELF_GO_BUILD_ID_MAX || ids->go_len)
        return;
    for (size_t i = 0; i < value.len; i++)
        if (value.data[i] < 0x21 || value.data[i] > 0x7e)
            return;
    memcpy(ids->go, value.data, value.len);
    ids->go[value.len] = 0;
    ids->go_len = value.len;
}

static void take_note(const Elf64_Nhdr *note, struct bytes name, struct bytes value,
                      struct elf_build_ids *ids)
{
    if (note->n_type == NT_GNU_BUILD_ID && bytes_equal(name, BYTES("GNU", 4)) && value.len &&
        value.len <= sizeof(ids->gnu) && !ids->gnu_len) {
        memcpy(ids->gnu, value.data, value.len);
        ids->gnu_len = value.len;
    }
    if (note->n_type == NOTE_GO_BUILD_ID && bytes_equal(name, BYTES("Go\0", 4)))
        take_go_build_id(value, ids);
}

void elf_build_ids_of_notes(struct bytes notes, size_t align, struct elf_build_ids *ids)
{
    size_t at = 0;
    while (notes.len - at >= sizeof(Elf64_Nhdr)) {
        Elf64_Nhdr note;
        memcpy(&note, notes.data + at, sizeof(note));
        at += sizeof(note);
        size_t left = notes.len - at;
        size_t name_room = ((size_t)note.n_namesz + align - 1) & ~(align - 1);
        size_t value_room = ((size_t)note.n_descsz + align - 1) & ~(align - 1);
        if (name_room > left || note.n_descsz > left - name_room)
            return;
        struct bytes name = BYTES(notes.data + at, note.n_namesz);
        struct bytes value = BYTES(notes.data + at + name_room, note.n_descsz);
        take_note(&note, name, value, ids);
        if (value_room > left - name_room)
            return;
        at += name_room + value_room;
    }
}

static int read_notes(const struct elf *elf, uint64_t offset, uint64_t size, uint64_t align,
                      struct elf_build_ids *ids)
{
    if (size > ELF_NOTE_BYTES_MAX || offset > elf->size || size > elf->size - offset)
        return 0; /* not worth refusing the file for */
    uint8_t *notes = malloc(size ? size : 1);
    if (!notes)
        return -ENOMEM;
    int error = elf_read(elf, offset, notes, size);
    if (!error)
        elf_build_ids_of_notes(BYTES(notes, size), align == 8 ? 8 : 4, ids);
    free(notes);
    return error < 0 ? error : 0;
}

int elf_build_ids(const struct elf *elf, struct elf_build_ids *ids)
{
    memset(ids, 0, sizeof(*ids));
    for (uint32_t i = 0; i < elf->n_segments; i++) {
        const Elf64_Phdr *segment = &elf->segments[i];
        if (segment->p_type != PT_NOTE)
            continue;
        int error = read_notes(elf, segment->p_offset, segment->p_filesz, segment->p_align, ids);
        if (error)
            return error;
    }
    for (uint32_t i = 0; i < elf->n_sections && !ids->gnu_len; i++) {
        Elf64_Shdr section;
        int error = elf_section(elf, i, &section);
        if (error)
            return error < 0 ? error : 0;
        if (section.sh_type == SHT_NOTE)
            error = read_notes(elf, section.sh_offset, section.sh_size, section.sh_addralign, ids);
        if (error)
            return error;
    }
    return 0;
}

int elf_htlhash(int fd, uint64_t size, uint8_t out[16])
{
    uint8_t hashed[2 * HASH_PART + 8], digest[32];
    size_t n = size < HASH_PART ? (size_t)size : HASH_PART;
    int error = read_at(fd, 0, hashed, n);
    if (!error)
        error = read_at(fd, size - n, hashed + n, n);
    if (error)
        return error;
    for (size_t i = 0; i < 8; i++)
        hashed[2 * n + i] = (uint8_t)(size >> (56 - 8 * i));
    sha256_of(BYTES(hashed, 2 * n + 8), digest);
    memcpy(out, digest, 16);
    return 0;
}
