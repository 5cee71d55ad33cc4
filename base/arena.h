/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Bump allocator with a hard limit: one for each request or batch, nothing is freed singly.
 * Thread: its owner's; no locking.
 * Outcome: NULL means that the limit (or memory) is reached: a normal outcome for foreign input.
 */
#include <stddef.h>

struct arena_block;

struct arena {
    struct arena_block *head;
    size_t limit_bytes; /* of all blocks together */
    size_t used_bytes;
};

void arena_init(struct arena *arena, size_t limit_bytes);
void arena_reset(struct arena *arena); /* keeps one block for the next round */
void arena_close(struct arena *arena); /* may be called twice */

/* 16-byte aligned, not zeroed. */
void *arena_alloc(struct arena *arena, size_t size);
void *arena_zalloc(struct arena *arena, size_t size);
void *arena_dup(struct arena *arena, const void *data, size_t size);
