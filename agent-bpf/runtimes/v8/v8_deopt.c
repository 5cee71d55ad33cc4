/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words of 32 bits begin the table of safepoints: stack slots, number of entries, sizes of what an
 * entry has; Maglev's has one word more. An entry: offset behind the call; then, each one more than
 * it is, number of the entry for deoptimization and offset of the code that begins it; Maglev: a
 * byte; registers. Source: V8's safepoint-table.h, maglev-safepoint-table.h, and what Node 24 to 26
 * write.
 *
 * An entry for deoptimization leads to a translation: an opcode, and three numbers of 7 bits a
 * byte: how far it is from one that it repeats, how many frames it makes, and how many of them are
 * of JavaScript; of the last two the lowest bit is the sign. Source: V8's
 * frame-translation-builder.cc, vlq.h.
 */
#include "agent-bpf/runtimes/v8/v8_deopt.h"
#include <errno.h>

#define SINCE       V8_VERSION(13, 0)
#define TABLE_MAX   (32u << 10)
#define ENTRY_WORDS 3 /* for deoptimization: offset in the bytecodes, how, offset in the code */

#define NUMBER_MAX      5 /* bytes */
#define TRANSLATION_MAX (1 + 3 * NUMBER_MAX)

enum { TRANSLATIONS = 0 }; /* index in the data for deoptimization */
enum { HAS_DEOPT = 1, REGISTERS_SHIFT = 1, PC_SHIFT = 4, INDEX_SHIFT = 7, SIZE_MASK = 7 };
enum { ENTRIES = 1, SIZES = 2, HEAD = 3 };                    /* words */
enum { EAGER_BEHIND = 2, LAZY_BEHIND = 3, FIRST_BEHIND = 4 }; /* indexes behind that of inlining */

struct safepoint {
    uint32_t index;  /* for deoptimization */
    uint32_t begins; /* offset in the code */
};

static uint32_t number(const uint8_t *bytes, uint32_t size)
{
    uint32_t value = 0;
    for (uint32_t i = 0; i < size && i < sizeof(value); i++)
        value |= (uint32_t)bytes[i] << (8 * i);
    return value;
}

/* Of a return address. */
static int safepoint_find(struct v8_heap *heap, const struct v8_code *code, uint64_t offset,
                          bool maglev, struct safepoint *found)
{
    static uint8_t table[TABLE_MAX]; /* one thread */
    uint64_t at = code->start + code->size;
    uint32_t head[HEAD];
    int error = v8_heap_read(heap, at, head, sizeof(head));
    if (error)
        return error;
    uint32_t sizes = head[SIZES], pc_size = sizes >> PC_SHIFT & SIZE_MASK;
    uint32_t index_size = sizes >> INDEX_SHIFT & SIZE_MASK;
    uint32_t size = 2 * pc_size + index_size + (sizes >> REGISTERS_SHIFT & SIZE_MASK) + maglev;
    if (!(sizes & HAS_DEOPT) || !pc_size || !index_size || head[ENTRIES] > TABLE_MAX / size)
        return -ENOENT;
    size_t skip = sizeof(head) + maglev * sizeof(*head);
    error = v8_heap_read(heap, at + skip, table, (size_t)head[ENTRIES] * size);
    for (uint32_t i = 0; !error && i < head[ENTRIES]; i++) {
        const uint8_t *entry = table + (size_t)i * size;
        if (number(entry, pc_size) != offset)
            continue;
        uint32_t index = number(entry + pc_size, index_size);
        *found = (struct safepoint){index - 1, number(entry + pc_size + index_size, pc_size) - 1};
        return index ? 0 : -ENOENT;
    }
    return error ? error : -ENOENT;
}

static int deopt_smi(struct v8_heap *heap, const struct v8_code *code, uint32_t index,
                     int32_t *value)
{
    uint64_t word;
    int error = v8_heap_element(heap, code->data, index, &word);
    *value = v8_heap_smi(word);
    return error ? error : v8_heap_is_smi(word) ? 0 : -ENOENT;
}

static bool take_number(struct bytes *rest, uint32_t *number)
{
    *number = 0;
    for (unsigned i = 0; i < NUMBER_MAX && rest->len; i++) {
        uint8_t byte = *rest->data;
        *rest = bytes_skip(*rest, 1);
        *number |= (uint32_t)(byte & 0x7f) << (7 * i);
        if (!(byte & 0x80))
            return true;
    }
    return false;
}

/* Frames of JavaScript that a translation makes. */
static int deopt_frames(struct v8_heap *heap, const struct v8_code *code, int32_t translation,
                        uint32_t *n)
{
    uint8_t bytes[TRANSLATION_MAX];
    uint64_t array;
    uint32_t length, back, all;
    int error = v8_heap_element(heap, code->data, TRANSLATIONS, &array);
    if (!error)
        error = v8_heap_bytes(heap, array, &length);
    if (error)
        return error;
    if (translation < 0 || (uint32_t)translation >= length)
        return -ENOENT;
    uint32_t size = length - (uint32_t)translation;
    size = size < sizeof(bytes) ? size : sizeof(bytes);
    error = v8_heap_read(heap, array - 1 + V8_ARRAY_DATA + (uint32_t)translation, bytes, size);
    if (error)
        return error;
    struct bytes rest = BYTES(bytes + 1, size - 1); /* without its opcode */
    bool whole = take_number(&rest, &back) && take_number(&rest, &all) && take_number(&rest, n);
    if (!whole || (all & 1) || (*n & 1) || *n > all)
        return -ENOENT;
    *n >>= 1;
    return 0;
}

/* The offset in the bytecodes, if the entry is that of the safepoint and makes n_calls frames. */
static int deopt_entry(struct v8_heap *heap, const struct v8_code *code, uint64_t offset,
                       size_t n_calls, const struct safepoint *safepoint, uint32_t *bytecode)
{
    uint32_t inlining = heap->file->deopt_inlining;
    int32_t eager, lazy, place, told, translation;
    uint32_t n_frames;
    int error = deopt_smi(heap, code, inlining + EAGER_BEHIND, &eager);
    error = error ? error : deopt_smi(heap, code, inlining + LAZY_BEHIND, &lazy);
    if (error)
        return error;
    if (eager < 0 || lazy <= 0 || safepoint->index < (uint32_t)eager ||
        safepoint->index - (uint32_t)eager >= (uint32_t)lazy)
        return -ENOENT;
    uint32_t at = inlining + FIRST_BEHIND + ENTRY_WORDS * safepoint->index;
    error = deopt_smi(heap, code, at, &told);
    error = error ? error : deopt_smi(heap, code, at + 1, &translation);
    error = error ? error : deopt_smi(heap, code, at + 2, &place);
    error = error ? error : deopt_frames(heap, code, translation, &n_frames);
    if (error)
        return error;
    if (told < 0 || n_frames != n_calls ||
        ((uint32_t)place != offset && (uint32_t)place != safepoint->begins))
        return -ENOENT;
    *bytecode = (uint32_t)told;
    return 0;
}

int v8_deopt_bytecode(struct v8_heap *heap, const struct v8_code *code, uint64_t offset,
                      size_t n_calls, uint32_t *bytecode)
{
    if (heap->file->version < SINCE)
        return -ENOENT;
    for (int maglev = 0; maglev <= 1; maglev++) {
        struct safepoint safepoint;
        int outcome = safepoint_find(heap, code, offset, maglev, &safepoint);
        if (!outcome)
            outcome = deopt_entry(heap, code, offset, n_calls, &safepoint, bytecode);
        if (!outcome || outcome == -EAGAIN || outcome == -E2BIG)
            return outcome;
    }
    return -ENOENT;
}
