/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/runtimes/runtime_cache.h"
#include "base/list.h"
#include "base/map.h"
#include <errno.h>
#include <stdlib.h>

_Static_assert(sizeof(struct runtime_cache_key) == 48, "keys are compared as bytes");

struct cached {
    struct runtime_cache_key key;
    struct list recent;
    size_t size;
    uint8_t value[];
};

#define CACHED_BESIDE (16 + 2 * sizeof(void *)) /* of the heap and the map */

struct runtime_cache {
    struct map map;
    struct list recent; /* least recently used first */
    size_t bytes, bytes_max;
};

int runtime_cache_open(size_t bytes_max, struct runtime_cache **out)
{
    struct runtime_cache *cache = calloc(1, sizeof(*cache));
    if (!cache)
        return -ENOMEM;
    MAP_INIT(&cache->map, struct cached, key);
    list_init(&cache->recent);
    cache->bytes_max = bytes_max;
    *out = cache;
    return 0;
}

static size_t cached_bytes(size_t size)
{
    return sizeof(struct cached) + size + CACHED_BESIDE;
}

static void cached_drop(struct runtime_cache *cache, struct cached *cached)
{
    map_remove(&cache->map, &cached->key);
    list_remove(&cached->recent);
    cache->bytes -= cached_bytes(cached->size);
    free(cached);
}

void runtime_cache_close(struct runtime_cache *cache)
{
    struct list *link;
    if (!cache)
        return;
    while ((link = list_first(&cache->recent)))
        cached_drop(cache, container_of(link, struct cached, recent));
    map_close(&cache->map);
    free(cache);
}

bool runtime_cache_get(struct runtime_cache *cache, const struct runtime_cache_key *key,
                       struct bytes *value)
{
    struct cached *cached = cache ? map_get(&cache->map, key) : NULL;
    if (!cached)
        return false;
    list_remove(&cached->recent);
    list_append(&cache->recent, &cached->recent);
    *value = BYTES(cached->value, cached->size);
    return true;
}

static void make_room(struct runtime_cache *cache, size_t bytes)
{
    while (cache->bytes + bytes > cache->bytes_max)
        cached_drop(cache, container_of(list_first(&cache->recent), struct cached, recent));
}

void runtime_cache_put(struct runtime_cache *cache, const struct runtime_cache_key *key,
                       struct bytes value)
{
    if (!cache || cached_bytes(value.len) > cache->bytes_max / 4)
        return;
    struct cached *before = map_get(&cache->map, key);
    struct cached *cached = calloc(1, sizeof(*cached) + value.len);
    if (!cached)
        return;
    if (before)
        cached_drop(cache, before);
    make_room(cache, cached_bytes(value.len));
    cached->key = *key;
    cached->size = value.len;
    if (value.len)
        memcpy(cached->value, value.data, value.len);
    if (map_put(&cache->map, cached, NULL)) {
        free(cached);
        return;
    }
    list_append(&cache->recent, &cached->recent);
    cache->bytes += cached_bytes(value.len);
}
