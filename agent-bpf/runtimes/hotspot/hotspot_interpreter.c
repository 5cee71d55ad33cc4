/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Of an entry that makes a frame (of bytecodes, and of native methods) the code is, in this order:
 *     pop rax; lea r14, [rsp + rcx * 8 - 8]            the return address; the locals follow
 *     push rax; push rbp; mov rbp, rsp; push r13 ...   the frame
 *     push rbx                                         the Method
 * Source: disassembled code of 11, 17, 21 and 25.
 */
#include "agent-bpf/runtimes/hotspot/hotspot_interpreter.h"
#include "agent-bpf/runtimes/hotspot/hotspot_fetch.h"
#include <stdlib.h>
#include <string.h>

#define DESCRIPTION_BYTES 32 /* read of a codelet's description: it has the words below */
#define SAVED_WITHIN      32 /* bytes from push r13 to push rbx */

static const char entry_description[] = "method entry point (kind";
static const uint8_t pop_code[] = {0x58, 0x4c, 0x8d, 0x74, 0xcc};
static const uint8_t push_code[] = {0x50, 0x55, 0x48, 0x8b, 0xec};

struct queue { /* the first codelets, as they are in memory */
    uint8_t *bytes;
    uint32_t size;
    uint32_t n;
    uint32_t starts[HOTSPOT_CODELETS_MAX + 1];
    char descriptions[HOTSPOT_CODELETS_MAX][DESCRIPTION_BYTES + 1];
};

static int queue_read_bytes(struct queue *queue, const struct hotspot_process *process,
                            struct runtime_memory *memory)
{
    uint64_t size = process->interpreter_end - process->interpreter;
    queue->size = size < HOTSPOT_CODELETS_BYTES_MAX ? (uint32_t)size : HOTSPOT_CODELETS_BYTES_MAX;
    queue->bytes = calloc(1, queue->size);
    if (!queue->bytes)
        return -ENOMEM;
    for (uint32_t at = 0, n; at < queue->size; at += n) {
        n = queue->size - at < READER_BYTES_MAX ? queue->size - at : READER_BYTES_MAX;
        struct reader_range range = {process->interpreter + at, queue->bytes + at, n, 0};
        int error = hotspot_memory_read(memory, &range, 1);
        if (error || range.error)
            return error ? error : range.error;
    }
    return 0;
}

static int queue_split(struct queue *queue, const struct hotspot_codelets *codelets)
{
    uint32_t at = 0, max = codelets->n < HOTSPOT_CODELETS_MAX ? codelets->n : HOTSPOT_CODELETS_MAX;
    while (queue->n < max && at + codelets->header_bytes <= queue->size) {
        int32_t size;
        memcpy(&size, queue->bytes + at + codelets->size, sizeof(size));
        if (size < codelets->header_bytes || (uint32_t)size > queue->size - at)
            break;
        queue->starts[queue->n++] = at;
        at += (uint32_t)size;
    }
    queue->starts[queue->n] = at;
    return queue->n ? 0 : -ENOTSUP;
}

static int queue_read_descriptions(struct queue *queue, const struct hotspot_codelets *codelets,
                                   struct runtime_memory *memory)
{
    struct reader_range ranges[HOTSPOT_CODELETS_MAX];
    for (uint32_t i = 0; i < queue->n; i++) {
        uint64_t address;
        memcpy(&address, queue->bytes + queue->starts[i] + codelets->description, sizeof(address));
        ranges[i] = (struct reader_range){address, queue->descriptions[i], DESCRIPTION_BYTES, 0};
    }
    return hotspot_memory_read(memory, ranges, queue->n);
}

/* Offset of the bytes in [from, to), or `to`. */
static uint32_t queue_find(const struct queue *queue, uint32_t from, uint32_t to,
                           const uint8_t *code, uint32_t n)
{
    for (; from + n <= to; from++)
        if (memcmp(queue->bytes + from, code, n) == 0)
            return from;
    return to;
}

/* False: it makes no frame, as entries of intrinsics do not. */
static bool queue_entry(const struct queue *queue, uint32_t i, struct hotspot_entry *entry)
{
    static const uint8_t push_rbx[] = {0x53};
    uint32_t start = queue->starts[i], end = queue->starts[i + 1];
    uint32_t pop = queue_find(queue, start, end, pop_code, sizeof(pop_code));
    uint32_t push = queue_find(queue, pop, end, push_code, sizeof(push_code));
    if (push == end || push + HOTSPOT_SAVED_SP + SAVED_WITHIN > end)
        return false;
    uint32_t from = push + HOTSPOT_SAVED_SP;
    uint32_t saved = queue_find(queue, from, from + SAVED_WITHIN, push_rbx, sizeof(push_rbx));
    if (saved == from + SAVED_WITHIN)
        return false;
    *entry = (struct hotspot_entry){start, end, pop, push, saved + 1};
    return true;
}

static int queue_find_entries(const struct queue *queue, struct hotspot_process *process)
{
    for (uint32_t i = 0; i < queue->n; i++) {
        struct hotspot_entry entry;
        if (!strstr(queue->descriptions[i], entry_description))
            continue;
        if (!process->entries_end)
            process->entries_start = queue->starts[i];
        process->entries_end = queue->starts[i + 1];
        if (process->n_entries < HOTSPOT_ENTRIES_MAX && queue_entry(queue, i, &entry))
            process->entries[process->n_entries++] = entry;
    }
    return process->n_entries ? 0 : -EAGAIN;
}

int hotspot_interpreter_find_entries(const struct hotspot_codelets *codelets,
                                     struct runtime_memory *memory, struct hotspot_process *process)
{
    if (codelets->size + 4 > codelets->header_bytes ||
        codelets->description + 8 > codelets->header_bytes || codelets->header_bytes > 64)
        return -ENOTSUP;
    struct queue *queue = calloc(1, sizeof(*queue));
    if (!queue)
        return -ENOMEM;
    int error = queue_read_bytes(queue, process, memory);
    if (!error)
        error = queue_split(queue, codelets);
    if (!error)
        error = queue_read_descriptions(queue, codelets, memory);
    if (!error)
        error = queue_find_entries(queue, process);
    free(queue->bytes);
    free(queue);
    return error;
}
