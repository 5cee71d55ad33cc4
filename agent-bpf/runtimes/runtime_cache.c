/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/runtimes/runtime_cache.h"
#include "base/fair_share.h"
#include "base/map.h"
#include <errno.h>
#include <stdlib.h>

_Static_assert(sizeof(struct runtime_cache_key) == 48, "keys are compared as bytes");

struct cached {
    struct runtime_cache_key key;
    struct fair_entry kept;
    size_t size;
    uint8_t value[];
};

#define CACHED_BESIDE (16 + 2 * sizeof(void *)) /* of the heap and the map */

struct runtime_cache {
    struct map map;
    struct fair_lru kept; /* in bytes */
};

int runtime_cache_open(size_t bytes_max, struct runtime_cache **out)
{
    struct runtime_cache *cache = calloc(1, sizeof(*cache));
    if (!cache)
        return -ENOMEM;
    int error = fair_lru_init(&cache->kept, bytes_max);
    if (error) {
        free(cache);
        return error;
    }
    MAP_INIT(&cache->map, struct cached, key);
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
    fair_lru_remove(&cache->kept, &cached->kept);
    free(cached);
}

void runtime_cache_close(struct runtime_cache *cache)
{
    struct fair_entry *entry;
    if (!cache)
        return;
    while ((entry = fair_lru_any(&cache->kept)))
        cached_drop(cache, container_of(entry, struct cached, kept));
    map_close(&cache->map);
    free(cache);
}

bool runtime_cache_get(struct runtime_cache *cache, const struct runtime_cache_key *key,
                       struct bytes *value)
{
    struct cached *cached = cache ? map_get(&cache->map, key) : NULL;
    if (!cached)
        return false;
    fair_lru_use(&cache->kept, &cached->kept, cached->kept.tenant);
    *value = BYTES(cached->value, cached->size);
    return true;
}

void runtime_cache_put(struct runtime_cache *cache, uint64_t tenant,
                       const struct runtime_cache_key *key, struct bytes value)
{
    if (!cache || cached_bytes(value.len) > cache->kept.share.limit / 4)
        return;
    struct cached *before = map_get(&cache->map, key);
    struct fair_entry *excess;
    struct cached *cached = calloc(1, sizeof(*cached) + value.len);
    if (!cached)
        return;
    if (before)
        cached_drop(cache, before);
    cached->key = *key;
    cached->size = value.len;
    if (value.len)
        memcpy(cached->value, value.data, value.len);
    if (map_put(&cache->map, cached, NULL)) {
        free(cached);
        return;
    }
    fair_lru_add(&cache->kept, &cached->kept, tenant, (uint32_t)cached_bytes(value.len));
    while ((excess = fair_lru_excess(&cache->kept, &cached->kept)))
        cached_drop(cache, container_of(excess, struct cached, kept));
}
