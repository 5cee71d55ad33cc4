/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file may have two indices of FDEs: of .eh_frame and of .debug_frame. In a program built without
 * unwind tables, .eh_frame only describes the C library's startup code, and .debug_frame the
 * program's own code. strip moves .debug_frame to the debug file.
 */
#include "agent-bpf/unwind/eh_frame.h"
#include "agent-bpf/heartbeat.h"
#include "agent-bpf/unwind/eh_entry.h"
#include "agent-bpf/files/elf_compressed.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define TABLE_CHUNK_BYTES 4096
#define LOOK_BACK         4  /* entries: those in front may be of no addresses */
#define GAP_BYTES         64 /* less is what aligns functions */

struct found_fde { /* by scanning */
    uint64_t start;
    uint64_t position;
};

struct table_entry { /* of .eh_frame_hdr; relative to its address */
    int32_t start;
    int32_t fde;
};

struct eh_frame {
    struct elf elf;
    struct elf separate; /* has its .debug_frame; fd -1: there is none such */
    struct eh_entries entries;
    struct eh_region table; /* the file's own, unless scanned */
    uint64_t table_base;
    struct eh_window table_window;
    struct found_fde *scanned; /* or NULL */
    size_t n_fdes;
    uint8_t *decoded; /* the section, if it was compressed */
    size_t decoded_bytes;
    bool is_all;            /* there is no other section to search (any more) */
    struct eh_frame *debug; /* .debug_frame beside .eh_frame; NULL = not opened, or none */
};

/* ---- the index of FDEs: the file's, or our own ---- */

static int fde_at(struct eh_frame *frame, size_t i, struct found_fde *found)
{
    if (frame->scanned) {
        *found = frame->scanned[i];
        return 0;
    }
    struct table_entry entry;
    const uint8_t *bytes;
    int error = eh_window_get(&frame->table_window, &frame->elf, &frame->table, i * sizeof(entry),
                              sizeof(entry), &bytes);
    if (error)
        return error;
    memcpy(&entry, bytes, sizeof(entry));
    found->start = frame->table_base + (uint64_t)(int64_t)entry.start;
    found->position =
        frame->table_base + (uint64_t)(int64_t)entry.fde - frame->entries.region.vaddr;
    return 0;
}

/* *n: how many begin below address. */
static int fdes_below(struct eh_frame *frame, uint64_t address, size_t *n)
{
    size_t first = 0, end = frame->n_fdes;
    while (first < end) {
        struct found_fde found;
        size_t middle = first + (end - first) / 2;
        int error = fde_at(frame, middle, &found);
        if (error)
            return error;
        if (found.start < address)
            first = middle + 1;
        else
            end = middle;
    }
    *n = first;
    return 0;
}

static bool segment_region(const struct elf *elf, uint64_t vaddr, struct eh_region *region)
{
    for (uint32_t i = 0; i < elf->n_segments; i++) {
        const Elf64_Phdr *segment = &elf->segments[i];
        if (segment->p_type != PT_LOAD || vaddr < segment->p_vaddr ||
            vaddr - segment->p_vaddr >= segment->p_filesz || segment->p_offset > elf->size)
            continue;
        uint64_t left = elf->size - segment->p_offset;
        region->vaddr = segment->p_vaddr;
        region->offset = segment->p_offset;
        region->size = segment->p_filesz < left ? segment->p_filesz : left;
        return true;
    }
    return false;
}

/* The forms of encoding that linkers write; with others the table is not used. */
static int use_table(struct eh_frame *frame)
{
    static const uint8_t known[4] = {1, 0x1b, 0x03, 0x3b};
    struct {
        uint8_t encodings[4]; /* version, pointer to .eh_frame, count, table */
        int32_t eh_frame;
        uint32_t count;
    } head;
    const struct elf *elf = &frame->elf;
    const Elf64_Phdr *segment = elf_segment(elf, PT_GNU_EH_FRAME);
    if (!segment || segment->p_filesz < sizeof(head))
        return ELF_MISSING;
    int error = elf_read(elf, segment->p_offset, &head, sizeof(head));
    if (error)
        return error;
    uint64_t eh_frame = segment->p_vaddr + 4 + (uint64_t)(int64_t)head.eh_frame;
    uint64_t room = (segment->p_filesz - sizeof(head)) / sizeof(struct table_entry);
    if (memcmp(head.encodings, known, sizeof(known)) != 0 || !head.count || head.count > room ||
        !segment_region(elf, eh_frame, &frame->entries.region))
        return ELF_MISSING;
    frame->table_base = segment->p_vaddr;
    frame->table = (struct eh_region){.vaddr = segment->p_vaddr + sizeof(head),
                                      .offset = segment->p_offset + sizeof(head),
                                      .size = head.count * sizeof(struct table_entry)};
    frame->table_window.chunk = TABLE_CHUNK_BYTES;
    frame->n_fdes = head.count;
    return 0;
}

static int add_found(struct eh_frame *frame, size_t *cap, const struct found_fde *found)
{
    if (frame->n_fdes == *cap) {
        size_t more = *cap ? *cap * 2 : 256;
        struct found_fde *scanned = realloc(frame->scanned, more * sizeof(*scanned));
        if (!scanned)
            return -ENOMEM;
        frame->scanned = scanned;
        *cap = more;
    }
    frame->scanned[frame->n_fdes++] = *found;
    return 0;
}

static int by_start(const void *a, const void *b)
{
    const struct found_fde *left = a, *right = b;
    if (left->start != right->start)
        return left->start < right->start ? -1 : 1;
    return left->position < right->position ? -1 : left->position > right->position;
}

static int take_section(struct eh_frame *frame, const Elf64_Shdr *section)
{
    struct eh_region *region = &frame->entries.region;
    if (section->sh_type == SHT_NOBITS || section->sh_offset > frame->elf.size)
        return ELF_MISSING;
    uint64_t left = frame->elf.size - section->sh_offset;
    region->vaddr = section->sh_addr;
    region->offset = section->sh_offset;
    region->size = section->sh_size < left ? section->sh_size : left;
    if (section->sh_flags & SHF_COMPRESSED) {
        int error = elf_decompress(&frame->elf, section, EH_DECODED_MAX, &frame->decoded,
                                   &frame->decoded_bytes);
        if (error)
            return error;
        region->bytes = frame->decoded;
        region->size = frame->decoded_bytes;
    }
    region->size = region->size < EH_SCAN_BYTES_MAX ? region->size : EH_SCAN_BYTES_MAX;
    return 0;
}

/* What follows a malformed length cannot be found. */
static int find_fdes(struct eh_frame *frame)
{
    uint64_t size = frame->entries.region.size, position = 0;
    size_t cap = 0;
    int error = 0;
    frame->entries.budget_bytes = 2 * size; /* with their CIEs, read again now and then */
    for (uint64_t i = 0; position < size && frame->n_fdes < EH_FDES_MAX && error >= 0; i++) {
        struct eh_fde fde;
        heartbeat_at(i);
        error = eh_fde_read(&frame->entries, position, &fde);
        if (!error)
            error = add_found(frame, &cap, &(struct found_fde){fde.start, position});
        position = fde.next;
    }
    if (error < 0)
        return error;
    if (frame->n_fdes)
        qsort(frame->scanned, frame->n_fdes, sizeof(*frame->scanned), by_start);
    return frame->n_fdes ? 0 : ELF_MISSING;
}

static int eh_frame_scan(struct eh_frame *frame, const char *name)
{
    Elf64_Shdr section;
    int error = elf_section_named(&frame->elf, name, &section);
    error = error ? error : take_section(frame, &section);
    return error ? error : find_fdes(frame);
}

static int open_index(struct eh_frame *frame)
{
    if (frame->entries.is_debug)
        return eh_frame_scan(frame, ".debug_frame");
    int error = use_table(frame);
    return error > 0 ? eh_frame_scan(frame, ".eh_frame") : error;
}

static int open_one(const struct elf *elf, bool is_debug, struct eh_frame **out)
{
    struct eh_frame *frame = calloc(1, sizeof(*frame));
    *out = NULL;
    if (!frame)
        return -ENOMEM;
    frame->elf = *elf;
    frame->separate.fd = -1;
    frame->is_all = is_debug;
    eh_entries_init(&frame->entries, &frame->elf);
    frame->entries.is_debug = is_debug;
    frame->elf.fd = fcntl(elf->fd, F_DUPFD_CLOEXEC, 0);
    int error = frame->elf.fd < 0 ? -errno : open_index(frame);
    if (error)
        eh_frame_close(frame);
    else
        *out = frame;
    return error;
}

int eh_frame_open_loaded(const struct elf *elf, struct eh_frame **frame)
{
    int error = open_one(elf, false, frame);
    if (!error)
        (*frame)->is_all = true;
    return error;
}

static bool has_debug_frame(const struct elf *elf)
{
    Elf64_Shdr section;
    return !elf_section_named(elf, ".debug_frame", &section) && section.sh_type != SHT_NOBITS;
}

static int keep_separate(struct eh_frame *frame, const struct elf *debug)
{
    frame->separate = *debug;
    frame->separate.fd = fcntl(debug->fd, F_DUPFD_CLOEXEC, 0);
    return frame->separate.fd < 0 ? -errno : 0;
}

int eh_frame_open_with(const struct elf *elf, const struct elf *debug, struct eh_frame **frame)
{
    const struct elf *described = debug && !has_debug_frame(elf) ? debug : elf;
    int error = open_one(elf, false, frame);
    if (error > 0)
        return open_one(described, true, frame);
    if (!error && described == debug && has_debug_frame(debug))
        error = keep_separate(*frame, debug);
    if (error) {
        eh_frame_close(*frame);
        *frame = NULL;
    }
    return error;
}

int eh_frame_open(const struct elf *elf, struct eh_frame **frame)
{
    return eh_frame_open_with(elf, NULL, frame);
}

/* NULL: there is none, or it cannot be read. */
static struct eh_frame *debug_of(struct eh_frame *frame)
{
    const struct elf *described = frame->separate.fd >= 0 ? &frame->separate : &frame->elf;
    if (!frame->is_all && open_one(described, true, &frame->debug))
        frame->debug = NULL;
    frame->is_all = true;
    return frame->debug;
}

void eh_frame_close(struct eh_frame *frame)
{
    if (!frame)
        return;
    eh_frame_close(frame->debug);
    if (frame->elf.fd >= 0)
        close(frame->elf.fd);
    if (frame->separate.fd >= 0)
        close(frame->separate.fd);
    eh_entries_close(&frame->entries);
    free(frame->table_window.bytes);
    free(frame->scanned);
    free(frame->decoded);
    free(frame);
}

size_t eh_frame_bytes(const struct eh_frame *frame)
{
    size_t bytes = sizeof(*frame) + frame->entries.fdes.cap + frame->entries.cie.cap +
                   frame->table_window.cap + frame->decoded_bytes;
    bytes += frame->scanned ? frame->n_fdes * sizeof(*frame->scanned) : 0;
    return bytes + (frame->debug ? eh_frame_bytes(frame->debug) : 0);
}

/* ---- pages ---- */

struct filling {
    struct unwind_page *page;
    const struct eh_fde *fde;
    const struct eh_machine *machine;
};

static const struct unwind_rule no_info, unknown = {.cfa = UNWIND_UNKNOWN};

static int put_row(void *context, uint64_t start, uint64_t end, const struct eh_state *state)
{
    const struct filling *filling = context;
    struct unwind_page *page = filling->page;
    struct unwind_rule rule;
    if (end <= page->start)
        return 0;
    eh_rule(state, filling->machine, filling->fde->cie->flags, &rule);
    return unwind_page_put(page, start > page->start ? start : page->start, &rule);
}

/* No information from address on, if that is within the page. */
static int put_end(struct unwind_page *page, uint64_t address)
{
    if (address - page->start >= UNWIND_PAGE_BYTES)
        return 0;
    return unwind_page_put(page, address, &no_info);
}

static int put_fde(struct eh_frame *frame, const struct eh_fde *fde, struct unwind_page *page)
{
    struct filling filling = {page, fde, frame->entries.machine};
    struct eh_state state = fde->cie->initial;
    uint64_t last = page->start + (UNWIND_PAGE_BYTES - 1);
    uint64_t first = fde->start > page->start ? fde->start : page->start;
    struct eh_program program = {
        .machine = filling.machine,
        .instructions = fde->instructions,
        .code_align = fde->cie->code_align,
        .data_align = fde->cie->data_align,
        .start = fde->start,
        .end = fde->end <= last ? fde->end : last + 1,
        .initial = &fde->cie->initial,
        .emit = put_row,
        .context = &filling,
    };
    if (program.end <= first) /* in front of the page, or the last page of all addresses */
        return put_end(page, first);
    int error = eh_cfa_run(&program, &state);
    if (error > 0) {
        page->damaged++;
        error = unwind_page_put(page, first, &unknown);
    }
    return error ? error : fde->end > page->start ? put_end(page, fde->end) : 0;
}

/* Adds the FDE that the index names. */
static int put_found(struct eh_frame *frame, const struct found_fde *found,
                     struct unwind_page *page)
{
    struct eh_fde fde;
    int error = eh_fde_read(&frame->entries, found->position, &fde);
    if (error == ELF_MISSING || error < 0)
        return error < 0 ? error : 0;
    if (error || fde.start != found->start) {
        page->damaged++;
        return 0;
    }
    return put_fde(frame, &fde, page);
}

static int make_page(struct eh_frame *frame, uint64_t address, struct unwind_page *page)
{
    uint64_t start = address & ~(uint64_t)(UNWIND_PAGE_BYTES - 1);
    uint64_t behind = 0;
    size_t i, n_max = EH_PAGE_FDES_MAX;
    frame->entries.budget_bytes = EH_PAGE_BYTES_MAX;
    int error = fdes_below(frame, start, &i);
    error = error ? error : unwind_page_init(page, start);
    if (error)
        return error;
    for (i = i > LOOK_BACK ? i - LOOK_BACK : 0; i < frame->n_fdes && n_max-- && !error; i++) {
        struct found_fde found;
        error = fde_at(frame, i, &found);
        if (error || (found.start > start && found.start - start >= UNWIND_PAGE_BYTES))
            break;
        if (found.start >= behind) /* else out of order */
            error = put_found(frame, &found, page);
        else
            page->damaged++;
        behind = found.start > behind ? found.start : behind;
    }
    if (error)
        unwind_page_close(page);
    return error;
}

int eh_frame_page(struct eh_frame *frame, uint64_t address, struct unwind_page *page)
{
    int error = make_page(frame, address, page);
    if (error || !unwind_page_has_gap(page, GAP_BYTES))
        return error;
    struct eh_frame *debug = debug_of(frame);
    struct unwind_page more;
    if (!debug || make_page(debug, address, &more))
        return 0;
    error = unwind_page_fill(page, &more);
    unwind_page_close(&more);
    if (error)
        unwind_page_close(page);
    return error;
}

static int next_start(struct eh_frame *frame, uint64_t address, uint64_t *start)
{
    struct found_fde found;
    size_t i;
    int error = fdes_below(frame, address, &i);
    if (!error && i == frame->n_fdes)
        return ELF_MISSING;
    error = error ? error : fde_at(frame, i, &found);
    if (!error)
        *start = found.start;
    return error;
}

int eh_frame_next(struct eh_frame *frame, uint64_t address, uint64_t *start)
{
    uint64_t other;
    struct eh_frame *debug = debug_of(frame);
    int error = next_start(frame, address, start);
    if (!debug || error < 0 || next_start(debug, address, &other))
        return error;
    *start = error || other < *start ? other : *start;
    return 0;
}
