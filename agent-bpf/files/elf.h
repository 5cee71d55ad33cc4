/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A bounded reader of untrusted ELF files (ELF64, little-endian, x86-64 and aarch64): program
 * headers, section headers, notes. Everything is read by pread() into own memory: if a file is
 * truncated meanwhile, the read is short, where a mapping would give SIGBUS. Source of the format:
 * System V ABI chapters 4 and 5; Linux note types. Thread: the owner's. Outcomes: 0; ELF_MALFORMED;
 * ELF_MISSING; negative errno from reading.
 */
#include "base/bytes.h"
#include <elf.h>

#define ELF_SEGMENTS_MAX        64 /* kept; of at most ELF_PROGRAM_HEADERS_MAX */
#define ELF_PROGRAM_HEADERS_MAX 256
#define ELF_SECTIONS_MAX        4096        /* searched */
#define ELF_NOTE_BYTES_MAX      (64 * 1024) /* of one note segment or section */
#define ELF_GO_BUILD_ID_MAX     128
#define ELF_GNU_BUILD_ID_MAX    20
#define ELF_SECTION_NAME_MAX    31

enum { ELF_MALFORMED = 1, ELF_MISSING = 2 };

struct elf {
    int fd;          /* borrowed */
    uint64_t number; /* of this opening: what elf_read() keeps belongs to it; private */
    uint64_t size;
    uint16_t machine; /* EM_X86_64, EM_AARCH64 */
    uint16_t type;    /* ET_EXEC, ET_DYN; ET_REL, as dwz writes */
    uint64_t section_offset;
    uint32_t n_sections;
    uint32_t names_section; /* index of the section that holds the sections' names */
    uint32_t n_segments;
    Elf64_Phdr
        segments[ELF_SEGMENTS_MAX]; /* PT_LOAD, _DYNAMIC, _INTERP, _NOTE, _TLS, _GNU_EH_FRAME */
};

struct elf_build_ids {
    uint8_t gnu[ELF_GNU_BUILD_ID_MAX];
    size_t gnu_len; /* 0 = none */
    char go[ELF_GO_BUILD_ID_MAX + 1];
    size_t go_len; /* printable ASCII; 0 = none */
};

int elf_open(int fd, struct elf *elf);
/* Exactly size bytes at offset; ELF_MALFORMED if the file is shorter. Small reads are answered from
 * the last few pages that small reads were answered from, as they were then. */
int elf_read(const struct elf *elf, uint64_t offset, void *out, size_t size);
/* The first segment of that type, or NULL. */
const Elf64_Phdr *elf_segment(const struct elf *elf, uint32_t type);
bool elf_offset_of_address(const struct elf *elf, uint64_t vaddr, uint64_t *offset);
/* Any offset in the pages of a loaded segment. */
bool elf_address_of_offset(const struct elf *elf, uint64_t offset, uint64_t *vaddr);
int elf_section(const struct elf *elf, uint32_t index, Elf64_Shdr *section);
int elf_section_of_type(const struct elf *elf, uint32_t type, Elf64_Shdr *section);
/* name: at most ELF_SECTION_NAME_MAX bytes. */
int elf_section_named(const struct elf *elf, const char *name, Elf64_Shdr *section);

int elf_build_ids(const struct elf *elf, struct elf_build_ids *ids);
/* From the bytes of notes, also those of /sys/kernel/notes. align 4 or 8. */
void elf_build_ids_of_notes(struct bytes notes, size_t align, struct elf_build_ids *ids);
/* SHA-256 over first and last 4096 bytes and the length, cut to 16 bytes (of any file). */
int elf_htlhash(int fd, uint64_t size, uint8_t out[16]);
