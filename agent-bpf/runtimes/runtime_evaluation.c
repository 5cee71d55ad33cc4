/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compilers move unlikely parts of a function away from it; in a build with profiles most of the
 * evaluation function may be such a part. It has a symbol of its own, or in a stripped file only an
 * FDE: one that the function jumps into and that jumps back into the middle of the function, which
 * no other function does. Jumps are looked for without decoding instructions: bytes that look like
 * one in both directions by chance are improbable. Source of the format: LSB 5, "Exception Frames".
 */
#include "agent-bpf/runtimes/runtime_evaluation.h"
#include "agent-bpf/files/elf_symtab.h"
#include <stdio.h>
#include <stdlib.h>

#define COLD_NAME_MAX    64
#define PART_BYTES_MAX   (1u << 20)
#define FDE_COUNT_MAX    (1u << 20)
#define CANDIDATES_MAX   64   /* parts that are looked into */
#define TARGETS_MAX      4096 /* jumps out of the function whose FDE is looked for; seen: 616 */
#define ENCODING_UDATA4  0x03
#define ENCODING_SDATA4  0x0b
#define ENCODING_DATAREL 0x30

struct search {
    const struct elf *elf;
    uint64_t table; /* address of .eh_frame_hdr */
    uint32_t count; /* of FDEs */
    struct runtime_range *ranges;
    uint32_t n_ranges;
    uint64_t tried[CANDIDATES_MAX]; /* starts */
    uint32_t n_tried;
};

static bool image_read(const struct elf *elf, uint64_t address, void *out, size_t size)
{
    uint64_t at;
    return elf_offset_of_address(elf, address, &at) && !elf_read(elf, at, out, size);
}

static bool table_open(struct search *search)
{
    const Elf64_Phdr *segment = elf_segment(search->elf, PT_GNU_EH_FRAME);
    struct {
        uint8_t version, pointer, count, table;
        int32_t frame;
        uint32_t n;
    } header;
    if (!segment || !image_read(search->elf, segment->p_vaddr, &header, sizeof(header)) ||
        header.version != 1 || header.count != ENCODING_UDATA4 ||
        header.table != (ENCODING_DATAREL | ENCODING_SDATA4) ||
        (header.pointer & 0x0f) != ENCODING_SDATA4)
        return false;
    search->table = segment->p_vaddr;
    search->count = header.n < FDE_COUNT_MAX ? header.n : FDE_COUNT_MAX;
    return true;
}

struct entry { /* of the table, relative to its address */
    int32_t start, fde;
};

static bool table_entry(const struct search *search, uint32_t index, struct entry *entry)
{
    return image_read(search->elf, search->table + 12 + (uint64_t)index * sizeof(*entry), entry,
                      sizeof(*entry));
}

/* The range of the FDE that an address is in. */
static bool part_of(const struct search *search, uint64_t address, struct runtime_range *part)
{
    uint32_t low = 0, high = search->count;
    struct entry entry;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (!table_entry(search, middle, &entry))
            return false;
        if (search->table + (uint64_t)(int64_t)entry.start <= address)
            low = middle;
        else
            high = middle;
    }
    struct {
        uint32_t length, cie;
        int32_t start;
        uint32_t size;
    } fde;
    if (low == high || !table_entry(search, low, &entry))
        return false;
    uint64_t at = search->table + (uint64_t)(int64_t)entry.fde;
    part->start = search->table + (uint64_t)(int64_t)entry.start;
    if (!image_read(search->elf, at, &fde, sizeof(fde)) ||
        at + 8 + (uint64_t)(int64_t)fde.start != part->start || fde.size > PART_BYTES_MAX)
        return false;
    part->end = part->start + fde.size;
    return address >= part->start && address < part->end;
}

/* The code of a range; the caller frees it. */
static uint8_t *part_read(const struct elf *elf, const struct runtime_range *part)
{
    size_t size = (size_t)(part->end - part->start);
    uint8_t *code = malloc(size + 1);
    if (code && !image_read(elf, part->start, code, size)) {
        free(code);
        code = NULL;
    }
    return code;
}

/* A jump with an offset of 32 bits, conditional or not, that may begin at code[i]. */
static bool jump_target(const struct runtime_range *part, const uint8_t *code, size_t i,
                        uint64_t *target)
{
    size_t size = (size_t)(part->end - part->start), opcode = code[i] == 0xe9 ? 1 : 2;
    int32_t offset;
    if (i + opcode + sizeof(offset) > size ||
        (opcode == 2 && (code[i] != 0x0f || (code[i + 1] & 0xf0) != 0x80)))
        return false;
    memcpy(&offset, code + i + opcode, sizeof(offset));
    uint64_t next = part->start + i + opcode + sizeof(offset);
    *target = next + (uint64_t)(int64_t)offset;
    return true;
}

static bool part_jumps_into(const struct elf *elf, const struct runtime_range *part,
                            const struct runtime_range *function)
{
    uint8_t *code = part_read(elf, part);
    uint64_t target;
    bool jumps = false;
    for (size_t i = 0; code && !jumps && i < part->end - part->start; i++)
        jumps = jump_target(part, code, i, &target) && target > function->start &&
                target < function->end;
    free(code);
    return jumps;
}

static bool ranges_hold(const struct search *search, uint64_t address)
{
    for (uint32_t i = 0; i < search->n_ranges; i++)
        if (address >= search->ranges[i].start && address < search->ranges[i].end)
            return true;
    return false;
}

/* True, once: the part that begins there was not looked into yet. */
static bool part_is_new(struct search *search, uint64_t start)
{
    for (uint32_t i = 0; i < search->n_tried; i++)
        if (search->tried[i] == start)
            return false;
    if (search->n_tried == CANDIDATES_MAX)
        return false;
    search->tried[search->n_tried++] = start;
    return true;
}

static void parts_find(struct search *search)
{
    const struct runtime_range function = search->ranges[0];
    uint8_t *code = table_open(search) ? part_read(search->elf, &function) : NULL;
    uint32_t n_targets = 0;
    for (size_t i = 0; code && i < function.end - function.start; i++) {
        struct runtime_range part;
        uint64_t target;
        if (search->n_ranges == RUNTIME_EVALUATION_MAX || n_targets == TARGETS_MAX)
            break;
        if (!jump_target(&function, code, i, &target) || ranges_hold(search, target))
            continue;
        n_targets++;
        if (part_of(search, target, &part) && part.start != function.start &&
            part_is_new(search, part.start) && part_jumps_into(search->elf, &part, &function))
            search->ranges[search->n_ranges++] = part;
    }
    free(code);
}

bool runtime_evaluation_part(const struct elf *elf, uint64_t address, struct runtime_range *part)
{
    struct search search = {.elf = elf};
    return table_open(&search) && part_of(&search, address, part);
}

void runtime_evaluation_find(const struct elf *elf, const char *name, const Elf64_Sym *symbol,
                             struct runtime_range ranges[RUNTIME_EVALUATION_MAX])
{
    struct search search = {.elf = elf, .ranges = ranges, .n_ranges = 1};
    uint64_t size = symbol->st_size < PART_BYTES_MAX ? symbol->st_size : PART_BYTES_MAX;
    struct elf_symbol cold;
    char cold_name[COLD_NAME_MAX];
    snprintf(cold_name, sizeof(cold_name), "%s.cold", name);
    memset(ranges, 0, RUNTIME_EVALUATION_MAX * sizeof(*ranges));
    ranges[0] = (struct runtime_range){symbol->st_value, symbol->st_value + size};
    int error = elf_symtab_find(elf, cold_name, STT_FUNC, &cold);
    if (!error && cold.symbol.st_size < PART_BYTES_MAX)
        ranges[search.n_ranges++] = (struct runtime_range){
            cold.symbol.st_value, cold.symbol.st_value + cold.symbol.st_size};
    else if (error == ELF_MISSING)
        parts_find(&search);
}
