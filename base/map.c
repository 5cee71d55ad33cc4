/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linear probing. A removed slot becomes a tombstone, which keeps a walk valid while values are
 * removed; tombstones go when the table is rebuilt, which happens at three quarters full, counting
 * them. A rebuild fits the table to what is in it, and an emptied large table is freed, so a crowd
 * that has left leaves no memory behind.
 */
#include "base/map.h"
#include "base/bytes.h"
#include "base/clock.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#define MAP_MIN_SLOTS ((size_t)16)
#define TOMB          ((void *)map_tomb)

static char map_tomb[1];

void map_init(struct map *map, size_t key_offset, size_t key_len)
{
    *map = (struct map){.key_offset = key_offset, .key_len = key_len};
    if (getrandom(map->seed, sizeof(map->seed), GRND_NONBLOCK) == sizeof(map->seed))
        return;
    uint64_t weak[2] = {clock_unix_ns(), clock_monotonic_ns() ^ (uintptr_t)map}; /* early in boot */
    memcpy(map->seed, weak, sizeof(map->seed));
}

void map_close(struct map *map)
{
    free(map->slots);
    map->slots = NULL;
    map->cap = map->count = map->tombs = 0;
}

static const uint8_t *key_of(const struct map *map, const void *value)
{
    return (const uint8_t *)value + map->key_offset;
}

static size_t first_slot(const struct map *map, const void *key)
{
    return (size_t)bytes_siphash(BYTES(key, map->key_len), map->seed) & (map->cap - 1);
}

/* The slot that holds key, or else NULL, with the slot for a new value in *vacant. */
static void **map_find(const struct map *map, const void *key, void ***vacant)
{
    void **free_slot = NULL;
    if (!map->cap)
        return NULL;
    for (size_t i = first_slot(map, key);; i = (i + 1) & (map->cap - 1)) {
        void **slot = &map->slots[i];
        if (!*slot) {
            if (vacant)
                *vacant = free_slot ? free_slot : slot;
            return NULL;
        }
        if (*slot == TOMB)
            free_slot = free_slot ? free_slot : slot;
        else if (!memcmp(key_of(map, *slot), key, map->key_len))
            return slot;
    }
}

static int map_rebuild(struct map *map)
{
    size_t cap = MAP_MIN_SLOTS, old_cap = map->cap;
    while (cap < (map->count + 1) * 2)
        cap *= 2;
    void **slots = calloc(cap, sizeof(*slots)), **old = map->slots;
    if (!slots)
        return -ENOMEM;
    map->slots = slots;
    map->cap = cap;
    map->tombs = 0;
    for (size_t i = 0; i < old_cap; i++) {
        void **vacant = NULL;
        if (!old[i] || old[i] == TOMB)
            continue;
        map_find(map, key_of(map, old[i]), &vacant);
        *vacant = old[i];
    }
    free(old);
    return 0;
}

void *map_get(const struct map *map, const void *key)
{
    void **slot = map_find(map, key, NULL);
    return slot ? *slot : NULL;
}

int map_put(struct map *map, void *value, void **old)
{
    assert(value);
    void **vacant = NULL, **slot = map_find(map, key_of(map, value), &vacant);
    if (old)
        *old = slot ? *slot : NULL;
    if (slot) {
        *slot = value;
        return 0;
    }
    if ((map->count + map->tombs + 1) * 4 > map->cap * 3) {
        int error = map_rebuild(map);
        if (error)
            return error;
        map_find(map, key_of(map, value), &vacant);
    }
    if (*vacant == TOMB)
        map->tombs--;
    *vacant = value;
    map->count++;
    return 0;
}

static void forget_tombs(struct map *map)
{
    if (map->cap > MAP_MIN_SLOTS) {
        map_close(map);
        return;
    }
    memset(map->slots, 0, map->cap * sizeof(*map->slots));
    map->tombs = 0;
}

void *map_remove(struct map *map, const void *key)
{
    void **slot = map_find(map, key, NULL);
    if (!slot)
        return NULL;
    void *value = *slot;
    *slot = TOMB;
    map->count--;
    map->tombs++;
    if (!map->count)
        forget_tombs(map);
    return value;
}

void *map_next(const struct map *map, size_t *cursor)
{
    while (*cursor < map->cap) {
        void *value = map->slots[(*cursor)++];
        if (value && value != TOMB)
            return value;
    }
    return NULL;
}
