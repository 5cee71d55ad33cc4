/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/unwind/eh_entry.h"
#include <errno.h>
#include <stdlib.h>

#define CHUNK_BYTES       4096 /* functions that are neighbours may have theirs far apart */
#define CIE_CHUNK_BYTES   256
#define CIE_BYTES_MAX     4096
#define AUGMENTATION_MAX  16
#define LENGTH_IS_64_BITS 0xffffffffu

enum { /* encodings of pointers */
       POINTER_FORMAT = 0x0f,
       POINTER_ABSOLUTE = 0x00,
       POINTER_ULEB = 0x01,
       POINTER_UDATA2 = 0x02,
       POINTER_UDATA4 = 0x03,
       POINTER_UDATA8 = 0x04,
       POINTER_SLEB = 0x09,
       POINTER_SDATA2 = 0x0a,
       POINTER_SDATA4 = 0x0b,
       POINTER_SDATA8 = 0x0c,
       POINTER_BASE = 0xf0,
       POINTER_PC_RELATIVE = 0x10,
       POINTER_ALIGNED = 0x50,
       POINTER_OMITTED = 0xff,
};

void eh_entries_init(struct eh_entries *entries, const struct elf *elf)
{
    *entries = (struct eh_entries){.elf = elf, .machine = eh_machine_of(elf->machine)};
    entries->fdes.chunk = CHUNK_BYTES;
    entries->cie.chunk = CIE_CHUNK_BYTES;
}

void eh_entries_close(struct eh_entries *entries)
{
    free(entries->fdes.bytes);
    free(entries->cie.bytes);
    entries->fdes.bytes = entries->cie.bytes = NULL;
}

static int window_fill(struct eh_window *window, const struct elf *elf,
                       const struct eh_region *region, uint64_t position, size_t size)
{
    if (size > window->cap) {
        uint8_t *bytes = realloc(window->bytes, size);
        if (!bytes)
            return -ENOMEM;
        window->bytes = bytes;
        window->cap = size;
    }
    window->len = 0;
    int error = elf_read(elf, region->offset + position, window->bytes, size);
    if (error)
        return error;
    window->position = position;
    window->len = size;
    return 0;
}

int eh_window_get(struct eh_window *window, const struct elf *elf, const struct eh_region *region,
                  uint64_t position, uint64_t size, const uint8_t **bytes)
{
    if (position > region->size || size > region->size - position || size > EH_ENTRY_BYTES_MAX)
        return ELF_MALFORMED;
    if (region->bytes) {
        *bytes = region->bytes + position;
        return 0;
    }
    uint64_t lead = position - window->position;
    if (position < window->position || lead > window->len || size > window->len - lead) {
        uint64_t left = region->size - position;
        uint64_t wanted = size > window->chunk ? size : window->chunk;
        int error =
            window_fill(window, elf, region, position, (size_t)(wanted < left ? wanted : left));
        if (error)
            return error;
    }
    *bytes = window->bytes + (position - window->position);
    return 0;
}

/* ---- entries ---- */

struct entry {
    struct eh_cursor cursor; /* behind the CIE pointer */
    uint64_t vaddr;          /* of the cursor's first byte */
    const uint8_t *first;
    uint64_t next;
    bool is_cie;
    uint64_t cie; /* position */
};

/* *next is set as soon as the length is known to lie within the region. */
static int read_entry(struct eh_entries *entries, struct eh_window *window, uint64_t position,
                      struct entry *entry)
{
    const struct eh_region *region = &entries->region;
    const uint8_t *bytes;
    uint64_t length = 0, head = 4, id = 0;
    size_t id_size = 4;
    int error = eh_window_get(window, entries->elf, region, position, 4, &bytes);
    if (error)
        return error;
    memcpy(&length, bytes, 4);
    if (length == LENGTH_IS_64_BITS) {
        head = 12;
        id_size = entries->is_debug ? 8 : 4;
        error = eh_window_get(window, entries->elf, region, position, head, &bytes);
        if (error)
            return error;
        memcpy(&length, bytes + 4, 8);
    }
    if (length > region->size - position - head)
        return ELF_MALFORMED;
    entry->next = position + head + length;
    if (length < id_size)
        return ELF_MISSING; /* the end mark */
    if (length > EH_ENTRY_BYTES_MAX - head || head + length > entries->budget_bytes)
        return ELF_MALFORMED;
    entries->budget_bytes -= head + length;
    error = eh_window_get(window, entries->elf, region, position, head + length, &bytes);
    if (error)
        return error;
    memcpy(&id, bytes + head, id_size);
    uint64_t body = head + id_size;
    entry->first = bytes + body;
    entry->cursor = (struct eh_cursor){entry->first, bytes + head + length, false};
    entry->vaddr = region->vaddr + position + body;
    entry->is_cie = entries->is_debug ? id == (id_size == 8 ? UINT64_MAX : UINT32_MAX) : id == 0;
    entry->cie = entries->is_debug ? id : position + head - id;
    return 0;
}

static int64_t read_pointer_format(struct eh_cursor *cursor, uint8_t format)
{
    switch (format) {
    case POINTER_ABSOLUTE:
    case POINTER_UDATA8:
    case POINTER_SDATA8:
        return (int64_t)eh_fixed(cursor, 8);
    case POINTER_UDATA4:
        return (int64_t)eh_fixed(cursor, 4);
    case POINTER_SDATA4:
        return (int32_t)eh_fixed(cursor, 4);
    case POINTER_UDATA2:
        return (int64_t)eh_fixed(cursor, 2);
    case POINTER_SDATA2:
        return (int16_t)eh_fixed(cursor, 2);
    case POINTER_ULEB:
        return (int64_t)eh_uleb(cursor);
    case POINTER_SLEB:
        return eh_sleb(cursor);
    default:
        cursor->failed = true;
        return 0;
    }
}

static uint64_t read_address(struct entry *entry, uint8_t encoding)
{
    uint64_t here = entry->vaddr + (uint64_t)(entry->cursor.at - entry->first);
    uint64_t value = (uint64_t)read_pointer_format(&entry->cursor, encoding & POINTER_FORMAT);
    uint8_t base = encoding & POINTER_BASE;
    if (base == POINTER_PC_RELATIVE)
        return value + here;
    if (base)
        entry->cursor.failed = true;
    return value;
}

/* The data that a letter stands for; an unknown letter fails. */
static void read_augmentation(struct entry *entry, char letter, struct eh_cie *cie)
{
    uint8_t encoding;
    switch (letter) {
    case 'R':
        cie->pointers = (uint8_t)eh_fixed(&entry->cursor, 1);
        return;
    case 'P':
        encoding = (uint8_t)eh_fixed(&entry->cursor, 1);
        if ((encoding & POINTER_BASE) == POINTER_ALIGNED)
            entry->cursor.failed = true;
        else if (encoding != POINTER_OMITTED)
            read_pointer_format(&entry->cursor, encoding & POINTER_FORMAT);
        return;
    case 'L':
        eh_fixed(&entry->cursor, 1);
        return;
    case 'S':
        cie->flags |= UNWIND_SIGNAL_FRAME;
        return;
    case 'B': /* aarch64: signed with the B key */
    case 'G': /* aarch64: tagged stack memory */
        return;
    default:
        entry->cursor.failed = true;
    }
}

static int read_cie_head(const struct eh_entries *entries, struct entry *entry, struct eh_cie *cie)
{
    struct eh_cursor *cursor = &entry->cursor;
    char augmentation[AUGMENTATION_MAX + 1];
    size_t n = 0;
    uint64_t version = eh_fixed(cursor, 1);
    if (version != 1 && version != 3 && !(version == 4 && entries->is_debug))
        return ELF_MALFORMED;
    do
        augmentation[n] = (char)eh_fixed(cursor, 1);
    while (augmentation[n] && ++n <= AUGMENTATION_MAX);
    bool sized = augmentation[0] == 'z'; /* else there are no data, and no letters for any */
    if (n > AUGMENTATION_MAX || (!sized && augmentation[strspn(augmentation, "SBG")]))
        return ELF_MALFORMED;
    if (version == 4 && eh_fixed(cursor, 2) != 8) /* size of an address; of a segment: 0 */
        return ELF_MALFORMED;
    cie->code_align = eh_uleb(cursor);
    cie->data_align = eh_sleb(cursor);
    uint64_t ra = version == 1 ? eh_fixed(cursor, 1) : eh_uleb(cursor);
    cie->augmented = sized;
    uint64_t size = sized ? eh_uleb(cursor) : 0;
    if (size > (uint64_t)(cursor->end - cursor->at))
        return ELF_MALFORMED;
    const uint8_t *instructions = cursor->at + size;
    for (size_t i = sized; i < n; i++)
        read_augmentation(entry, augmentation[i], cie);
    if (cursor->at > instructions)
        return ELF_MALFORMED;
    cursor->at = instructions;
    return cursor->failed || ra != entries->machine->ra ? ELF_MALFORMED : 0;
}

static int read_cie(struct eh_entries *entries, uint64_t position, struct eh_cie *cie)
{
    struct entry entry;
    *cie = (struct eh_cie){.position = position};
    int error = read_entry(entries, &entries->cie, position, &entry);
    if (!error && (!entry.is_cie || entry.next - position > CIE_BYTES_MAX))
        error = ELF_MALFORMED;
    error = error ? error : read_cie_head(entries, &entry, cie);
    if (error)
        return error;
    struct eh_state none;
    eh_state_init(&none, entries->machine);
    cie->initial = none;
    struct eh_program program = {
        .machine = entries->machine,
        .instructions = eh_rest(&entry.cursor),
        .code_align = cie->code_align,
        .data_align = cie->data_align,
        .initial = &none,
    };
    return eh_cfa_run(&program, &cie->initial);
}

static int find_cie(struct eh_entries *entries, uint64_t position, const struct eh_cie **found)
{
    for (unsigned i = 0; i < EH_CIES_KEPT; i++) {
        *found = &entries->cies[i];
        if (entries->cies[i].used && entries->cies[i].position == position)
            return 0;
    }
    struct eh_cie *cie = &entries->cies[entries->next_cie++ % EH_CIES_KEPT];
    int error = read_cie(entries, position, cie);
    cie->used = !error;
    *found = cie;
    return error == ELF_MISSING ? ELF_MALFORMED : error;
}

int eh_fde_read(struct eh_entries *entries, uint64_t position, struct eh_fde *fde)
{
    struct entry entry = {.next = UINT64_MAX};
    int error = read_entry(entries, &entries->fdes, position, &entry);
    fde->next = entry.next;
    if (error || entry.is_cie)
        return error ? error : ELF_MISSING;
    error = find_cie(entries, entry.cie, &fde->cie);
    if (error)
        return error;
    fde->start = read_address(&entry, fde->cie->pointers);
    uint64_t size =
        (uint64_t)read_pointer_format(&entry.cursor, fde->cie->pointers & POINTER_FORMAT);
    if (fde->cie->augmented)
        eh_bytes(&entry.cursor, eh_uleb(&entry.cursor));
    if (entry.cursor.failed || __builtin_add_overflow(fde->start, size, &fde->end))
        return ELF_MALFORMED;
    fde->instructions = eh_rest(&entry.cursor);
    return size ? 0 : ELF_MISSING;
}
