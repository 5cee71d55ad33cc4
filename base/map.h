/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Hash map from byte keys of one fixed length to pointers; open addressing, keyed hash (keys may be
 * chosen by strangers). The key is not copied: it lies inside the value, at key_offset.
 * Thread: its owner's. The map owns no values.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct map {
    void **slots;
    size_t cap;
    size_t count;
    size_t tombs;
    size_t key_offset; /* of the key within a value */
    size_t key_len;
    uint8_t seed[16]; /* random at init */
};

void map_init(struct map *map, size_t key_offset, size_t key_len);
void map_close(struct map *map); /* may be called twice */

void *map_get(const struct map *map, const void *key);
/* Adds value, or replaces the one with the same key, which goes to *old (NULL if none); old may be
 * NULL. 0 or -ENOMEM. */
int map_put(struct map *map, void *value, void **old);
void *map_remove(struct map *map, const void *key); /* the removed value or NULL */

/* Walk: for (size_t i = 0; (value = map_next(map, &i)); ). The current value may be removed. */
void *map_next(const struct map *map, size_t *cursor);

#define MAP_INIT(map, type, member)                                                                \
    map_init((map), offsetof(type, member), sizeof(((type *)0)->member))
