/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/runtimes/runtime_cache.h"
#include "base/fair_share.h"
#include "base/list.h"
#include "base/map.h"
#include <errno.h>
#include <stdlib.h>

_Static_assert(sizeof(struct runtime_cache_key) == 48, "keys are compared as bytes");

struct cached {
    struct runtime_cache_key key;
    uint64_t tenant;
    struct list recent;
    size_t size;
    uint8_t value[];
};

#define CACHED_BESIDE (16 + 2 * sizeof(void *)) /* of the heap and the map */

struct runtime_cache {
    struct map map;
    struct fair_share share;         /* in bytes */
    struct list recent[FAIR_SHARES]; /* by fair_share_index(), least recently used first */
};

int runtime_cache_open(size_t bytes_max, struct runtime_cache **out)
{
    struct runtime_cache *cache = calloc(1, sizeof(*cache));
    if (!cache)
        return -ENOMEM;
    int error = fair_share_init(&cache->share, bytes_max);
    if (error) {
        free(cache);
        return error;
    }
    MAP_INIT(&cache->map, struct cached, key);
    for (unsigned i = 0; i < FAIR_SHARES; i++)
        list_init(&cache->recent[i]);
    *out = cache;
    return 0;
}

static size_t cached_bytes(size_t size)
{
    return sizeof(struct cached) + size + CACHED_BESIDE;
}

static struct list *recent_of(struct runtime_cache *cache, uint64_t tenant)
{
    return &cache->recent[fair_share_index(&cache->share, tenant)];
}

static void cached_drop(struct runtime_cache *cache, struct cached *cached)
{
    map_remove(&cache->map, &cached->key);
    list_remove(&cached->recent);
    fair_share_give(&cache->share, cached->tenant, cached_bytes(cached->size));
    free(cached);
}

void runtime_cache_close(struct runtime_cache *cache)
{
    struct list *link;
    if (!cache)
        return;
    for (unsigned i = 0; i < FAIR_SHARES; i++)
        while ((link = list_first(&cache->recent[i])))
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
    list_append(recent_of(cache, cached->tenant), &cached->recent);
    *value = BYTES(cached->value, cached->size);
    return true;
}

/* Of the tenant's own; once it has nothing, of who has most. */
static void make_room(struct runtime_cache *cache, uint64_t tenant, size_t bytes)
{
    while (!fair_share_has_room(&cache->share, tenant, bytes)) {
        struct list *recent = recent_of(cache, tenant);
        if (list_empty(recent))
            recent = &cache->recent[fair_share_largest(&cache->share)];
        cached_drop(cache, container_of(list_first(recent), struct cached, recent));
    }
}

void runtime_cache_put(struct runtime_cache *cache, uint64_t tenant,
                       const struct runtime_cache_key *key, struct bytes value)
{
    if (!cache || cached_bytes(value.len) > cache->share.limit / 4)
        return;
    struct cached *before = map_get(&cache->map, key);
    struct cached *cached = calloc(1, sizeof(*cached) + value.len);
    if (!cached)
        return;
    if (before)
        cached_drop(cache, before);
    make_room(cache, tenant, cached_bytes(value.len));
    cached->key = *key;
    cached->tenant = tenant;
    cached->size = value.len;
    if (value.len)
        memcpy(cached->value, value.data, value.len);
    if (map_put(&cache->map, cached, NULL)) {
        free(cached);
        return;
    }
    list_append(recent_of(cache, tenant), &cached->recent);
    fair_share_take(&cache->share, tenant, cached_bytes(value.len));
}
