/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows overlap by ELF_SEARCH_AROUND, so each match begins in exactly one window and is complete
 * there.
 */
#include "agent-bpf/files/elf_search.h"
#include "agent-bpf/heartbeat.h"
#include <errno.h>
#include <stdlib.h>

#define WINDOW ((size_t)256 * 1024) /* places where a match may begin */
#define AROUND ((size_t)ELF_SEARCH_AROUND)

struct window {
    uint64_t vaddr; /* of the first place */
    size_t n;       /* places */
    uint8_t bytes[AROUND + WINDOW + AROUND];
};

static bool search_window(const struct window *window, const struct elf_search *search)
{
    const uint8_t *first = window->bytes + AROUND, *at = first;
    size_t reach = window->n + search->needle.len - 1;
    while (at < first + window->n) {
        at = memmem(at, reach - (size_t)(at - first), search->needle.data, search->needle.len);
        if (!at)
            return false;
        uint64_t vaddr = window->vaddr + (uint64_t)(at - first);
        if (!(vaddr & (search->align - 1)) && search->take(search->context, vaddr, at))
            return true;
        at++;
    }
    return false;
}

/* at: offset of the window in the segment, of which size bytes are in the file. */
static int read_window(const struct elf *elf, const Elf64_Phdr *segment, uint64_t size, uint64_t at,
                       struct window *window)
{
    size_t lead = at ? AROUND : 0;
    uint64_t left = size - at;
    size_t n = left < WINDOW + AROUND ? (size_t)left : WINDOW + AROUND;
    window->vaddr = segment->p_vaddr + at;
    window->n = n < WINDOW ? n : WINDOW;
    memset(window->bytes, 0, AROUND);
    memset(window->bytes + AROUND + n, 0,
           WINDOW + AROUND - n < AROUND ? WINDOW + AROUND - n : AROUND);
    return elf_read(elf, segment->p_offset + at - lead, window->bytes + AROUND - lead, lead + n);
}

static uint64_t bytes_in_file(const struct elf *elf, const Elf64_Phdr *segment)
{
    if (segment->p_offset >= elf->size)
        return 0;
    uint64_t left = elf->size - segment->p_offset;
    return segment->p_filesz < left ? segment->p_filesz : left;
}

/* A segment that cannot be read, for example because the file was truncated, has no match. */
int elf_search(const struct elf *elf, const struct elf_search *search)
{
    struct window *window = malloc(sizeof(*window));
    if (!window)
        return -ENOMEM;
    uint64_t budget = search->bytes_max;
    int error = ELF_MISSING;
    for (uint32_t i = 0; i < elf->n_segments && error > 0; i++) {
        const Elf64_Phdr *segment = &elf->segments[i];
        if (segment->p_type != PT_LOAD ||
            (segment->p_flags & search->segment_flags) != search->segment_flags)
            continue;
        uint64_t size = bytes_in_file(elf, segment);
        size = size < budget ? size : budget;
        budget -= size;
        error = ELF_MISSING;
        for (uint64_t at = 0; at < size && error == ELF_MISSING; at += WINDOW) {
            error = read_window(elf, segment, size, at, window);
            heartbeat();
            error = error ? error : search_window(window, search) ? 0 : ELF_MISSING;
        }
    }
    free(window);
    return error > 0 ? ELF_MISSING : error;
}
