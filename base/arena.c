/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks double up to a bound, so that a small request costs one block and a large one few.
 * Something larger than a block gets one of its own, behind the head, so that the head's room is
 * not lost. Under AddressSanitizer the room not handed out is poisoned: reading past an
 * allocation's block is found.
 */
#include "base/arena.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#define ARENA_POISON 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_POISON 1
#endif
#endif
#ifdef ARENA_POISON
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size)   ((void)(address), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#endif

#define ARENA_ALIGN           ((size_t)16)
#define ARENA_FIRST_BYTES     ((size_t)4096)
#define ARENA_BLOCK_MAX_BYTES ((size_t)256 * 1024)

struct arena_block {
    struct arena_block *next;
    size_t size;
    size_t used;
    _Alignas(16) uint8_t data[];
};

void arena_init(struct arena *arena, size_t limit_bytes)
{
    *arena = (struct arena){.limit_bytes = limit_bytes};
}

static void block_free(struct arena *arena, struct arena_block *block)
{
    arena->used_bytes -= block->size;
    ASAN_UNPOISON_MEMORY_REGION(block->data, block->size);
    free(block);
}

void arena_reset(struct arena *arena)
{
    struct arena_block *keep = arena->head;
    if (!keep)
        return;
    while (keep->next) {
        struct arena_block *block = keep->next;
        keep->next = block->next;
        block_free(arena, block);
    }
    if (keep->size >
        ARENA_BLOCK_MAX_BYTES) { /* one large request must not hold its memory for ever */
        block_free(arena, keep);
        arena->head = NULL;
        return;
    }
    keep->used = 0;
    ASAN_POISON_MEMORY_REGION(keep->data, keep->size);
}

void arena_close(struct arena *arena)
{
    while (arena->head) {
        struct arena_block *block = arena->head;
        arena->head = block->next;
        block_free(arena, block);
    }
}

/* How large the next block is: room for size, more if the limit allows it; 0 = the limit is
 * reached. */
static size_t block_size(const struct arena *arena, size_t size)
{
    size_t left = arena->limit_bytes - arena->used_bytes;
    if (size > left)
        return 0;
    size_t want = ARENA_FIRST_BYTES;
    if (arena->head && arena->head->size >= want)
        want = arena->head->size * 2;
    if (want > ARENA_BLOCK_MAX_BYTES)
        want = ARENA_BLOCK_MAX_BYTES;
    if (want > left)
        want = left & ~(ARENA_ALIGN - 1);
    return size > want ? size : want;
}

static struct arena_block *block_add(struct arena *arena, size_t size)
{
    if (arena->head && !arena->head->used && !arena->head->next)
        arena_close(arena); /* kept by a reset, and too small: its bytes count against the limit */
    size_t room = block_size(arena, size);
    struct arena_block *block = room ? malloc(sizeof(*block) + room) : NULL;
    if (!block)
        return NULL;
    block->size = room;
    block->used = 0;
    ASAN_POISON_MEMORY_REGION(block->data, block->size);
    arena->used_bytes += room;
    struct arena_block **place = &arena->head;
    if (arena->head && size > ARENA_BLOCK_MAX_BYTES / 2)
        place = &arena->head->next;
    block->next = *place;
    *place = block;
    return block;
}

void *arena_alloc(struct arena *arena, size_t size)
{
    if (size > SIZE_MAX / 2)
        return NULL;
    size_t rounded = size ? (size + ARENA_ALIGN - 1) & ~(ARENA_ALIGN - 1) : ARENA_ALIGN;
    struct arena_block *block = arena->head;
    if (!block || block->size - block->used < rounded) {
        block = block_add(arena, rounded);
        if (!block)
            return NULL;
    }
    void *result = block->data + block->used;
    block->used += rounded;
    ASAN_UNPOISON_MEMORY_REGION(result, size);
    return result;
}

void *arena_zalloc(struct arena *arena, size_t size)
{
    void *result = arena_alloc(arena, size);
    return result ? memset(result, 0, size) : NULL;
}

void *arena_dup(struct arena *arena, const void *data, size_t size)
{
    void *result = arena_alloc(arena, size);
    if (result && size)
        memcpy(result, data, size);
    return result;
}
