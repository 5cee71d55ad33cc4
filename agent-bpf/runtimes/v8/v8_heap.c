/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/runtimes/v8/v8_heap.h"
#include <errno.h>
#include <stdlib.h>

#define LINES_AT_ONCE (READER_BYTES_MAX / V8_HEAP_LINE)
#define UNREADABLE    UINT64_C(1)
#define ARRAY_LENGTH  8
#define WEAK          UINT64_C(3) /* tag of a pointer that does not keep its object */

_Static_assert((V8_HEAP_INDEX & (V8_HEAP_INDEX - 1)) == 0, "masked");
_Static_assert(V8_HEAP_LINES_MAX < V8_HEAP_INDEX, "a free slot ends each search");

int v8_heap_open(struct v8_heap *heap, const struct v8_file *file, struct runtime_memory *memory)
{
    *heap = (struct v8_heap){.file = file, .memory = memory};
    heap->lines = malloc(sizeof(*heap->lines) * V8_HEAP_LINES_MAX);
    heap->addresses = malloc(sizeof(*heap->addresses) * V8_HEAP_LINES_MAX);
    heap->index = calloc(V8_HEAP_INDEX, sizeof(*heap->index));
    if (heap->lines && heap->addresses && heap->index)
        return 0;
    v8_heap_close(heap);
    return -ENOMEM;
}

void v8_heap_close(struct v8_heap *heap)
{
    free(heap->lines);
    free(heap->addresses);
    free(heap->index);
    heap->lines = NULL;
    heap->addresses = NULL;
    heap->index = NULL;
}

static uint16_t *line_slot(struct v8_heap *heap, uint64_t address)
{
    uint64_t hash = address / V8_HEAP_LINE * UINT64_C(0x9e3779b97f4a7c15) >> 40;
    for (;; hash++) {
        uint16_t *slot = &heap->index[hash % V8_HEAP_INDEX];
        if (!*slot || (heap->addresses[*slot - 1] & ~UNREADABLE) == address)
            return slot;
    }
}

/* A line of the request: 0, -EAGAIN, -EFAULT, -E2BIG. */
static int line_get(struct v8_heap *heap, uint64_t address, uint32_t *number)
{
    uint16_t *slot = line_slot(heap, address);
    if (!*slot) {
        if (heap->n_lines == V8_HEAP_LINES_MAX || heap->exhausted)
            return -E2BIG;
        heap->addresses[heap->n_lines++] = address;
        *slot = (uint16_t)heap->n_lines;
    }
    *number = *slot - 1u;
    if (*number >= heap->n_fetched)
        return heap->exhausted ? -E2BIG : -EAGAIN;
    return heap->addresses[*number] & UNREADABLE ? -EFAULT : 0;
}

int v8_heap_fetch(struct v8_heap *heap)
{
    struct reader_range
        ranges[LINES_AT_ONCE < READER_RANGES_MAX ? LINES_AT_ONCE : READER_RANGES_MAX];
    size_t n = 0, max = sizeof(ranges) / sizeof(*ranges);
    if (heap->n_fetched == heap->n_lines)
        return -ENODATA;
    if (max > heap->memory->bytes_left / V8_HEAP_LINE)
        max = heap->memory->bytes_left / V8_HEAP_LINE;
    for (uint32_t i = heap->n_fetched; i < heap->n_lines && n < max; i++, n++)
        ranges[n] = (struct reader_range){heap->addresses[i], heap->lines[i], V8_HEAP_LINE, 0};
    if (!n) {
        heap->exhausted = true;
        return 0; /* the decoders are told by their next read */
    }
    int error = heap->memory->read(heap->memory->context, ranges, n);
    if (error)
        return error;
    for (size_t i = 0; i < n; i++)
        if (ranges[i].error)
            heap->addresses[heap->n_fetched + i] |= UNREADABLE;
    heap->n_fetched += (uint32_t)n;
    return 0;
}

int v8_heap_read(struct v8_heap *heap, uint64_t address, void *out, size_t size)
{
    int outcome = 0;
    for (size_t done = 0; done < size;) {
        size_t at = (address + done) % V8_HEAP_LINE, chunk = V8_HEAP_LINE - at;
        uint32_t number;
        if (chunk > size - done)
            chunk = size - done;
        int error = line_get(heap, address + done - at, &number);
        if (error && error != -EAGAIN)
            return error;
        heap->touched[number / 64] |= UINT64_C(1) << number % 64;
        if (error)
            outcome = error; /* the other lines of it are wanted, too */
        else
            memcpy((uint8_t *)out + done, heap->lines[number] + at, chunk);
        done += chunk;
    }
    return outcome;
}

void v8_heap_begin(struct v8_heap *heap)
{
    memset(heap->touched, 0, sizeof(heap->touched));
}

size_t v8_heap_touched(const struct v8_heap *heap, uint64_t *lines, size_t max)
{
    size_t n = 0;
    for (uint32_t i = 0; i < heap->n_lines && n < max; i++)
        if (heap->touched[i / 64] >> i % 64 & 1)
            lines[n++] = heap->addresses[i] & ~UNREADABLE;
    return n;
}

void v8_heap_want(struct v8_heap *heap, uint64_t address, size_t size)
{
    uint32_t number;
    uint64_t first = address - address % V8_HEAP_LINE;
    for (uint64_t at = first; at < address + size; at += V8_HEAP_LINE)
        if (line_get(heap, at, &number) == -E2BIG)
            return;
}

int v8_heap_field(struct v8_heap *heap, uint64_t object, size_t offset, void *out, size_t size)
{
    return v8_heap_is_object(object) ? v8_heap_read(heap, object - 1 + offset, out, size) : -EFAULT;
}

int v8_heap_word(struct v8_heap *heap, uint64_t object, size_t offset, uint64_t *word)
{
    return v8_heap_field(heap, object, offset, word, sizeof(*word));
}

int v8_heap_count(struct v8_heap *heap, uint64_t object, size_t offset, uint32_t *count)
{
    uint64_t word;
    int error = v8_heap_word(heap, object, offset, &word);
    if (error)
        return error;
    if (!v8_heap_is_smi(word) || v8_heap_smi(word) < 0)
        return -EFAULT;
    *count = (uint32_t)v8_heap_smi(word);
    return 0;
}

int v8_heap_type(struct v8_heap *heap, uint64_t object, uint16_t *type)
{
    uint64_t map;
    int error = v8_heap_word(heap, object, 0, &map);
    return error ? error : v8_heap_field(heap, map, heap->file->map_type, type, sizeof(*type));
}

int v8_heap_check(struct v8_heap *heap, uint64_t object, uint16_t type)
{
    uint16_t found;
    int error = v8_heap_type(heap, object, &found);
    return error ? error : found == type ? 0 : -EFAULT;
}

static int array_length(struct v8_heap *heap, uint64_t object, const uint16_t *types, size_t n,
                        uint32_t *length)
{
    uint16_t type;
    int error = v8_heap_type(heap, object, &type);
    if (error)
        return error;
    for (size_t i = 0; i < n; i++)
        if (types[i] && type == types[i])
            return v8_heap_count(heap, object, ARRAY_LENGTH, length);
    return -EFAULT;
}

int v8_heap_bytes(struct v8_heap *heap, uint64_t object, uint32_t *length)
{
    const struct v8_types *types = &heap->file->types;
    const uint16_t kinds[] = {types->byte_array, types->trusted_byte_array};
    return array_length(heap, object, kinds, sizeof(kinds) / sizeof(*kinds), length);
}

int v8_heap_words(struct v8_heap *heap, uint64_t array, uint32_t *length)
{
    const struct v8_types *types = &heap->file->types;
    const uint16_t kinds[] = {types->fixed_array,
                              types->protected_fixed_array,
                              types->trusted_fixed_array,
                              types->weak_fixed_array,
                              types->trusted_weak_fixed_array,
                              types->protected_weak_fixed_array};
    return array_length(heap, array, kinds, sizeof(kinds) / sizeof(*kinds), length);
}

int v8_heap_element(struct v8_heap *heap, uint64_t array, uint32_t index, uint64_t *word)
{
    uint32_t length;
    int error = v8_heap_words(heap, array, &length);
    if (error)
        return error;
    if (index >= length)
        return -EFAULT;
    error = v8_heap_word(heap, array, V8_ARRAY_DATA + 8 * (size_t)index, word);
    if (!error && (*word & WEAK) == WEAK)
        *word -= WEAK - 1; /* the same object, not held */
    return error;
}

int v8_heap_length(struct v8_heap *heap, uint64_t array, uint32_t *length)
{
    const uint16_t kind = heap->file->types.fixed_array;
    return array_length(heap, array, &kind, 1, length);
}
