/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/runtimes/hotspot/hotspot_trail.h"
#include "agent-bpf/runtimes/runtime_reader.h"

static struct runtime_cache_key key_of(uint64_t program, enum hotspot_kept kind, uint64_t object)
{
    return (struct runtime_cache_key){
        .words = {object}, .program = program, .runtime = RUNTIME_JAVA, .kind = kind};
}

void hotspot_trail_fetch(struct hotspot_trail *trail, struct hotspot_fetch *fetch, uint64_t address,
                         void *out, size_t size, bool *done)
{
    if (trail->n < HOTSPOT_TRAIL_PLACES)
        trail->places[trail->n++] = (struct hotspot_place){address, size};
    hotspot_fetch_add(fetch, address, out, size, done);
}

void hotspot_trail_put(const struct hotspot_trail *trail, bool complete,
                       struct runtime_cache *cache, const struct runtime_memory *memory,
                       enum hotspot_kept kind, uint64_t object)
{
    const struct runtime_cache_key key = key_of(memory->program, kind, object);
    const struct bytes places = BYTES(trail->places, trail->n * sizeof(*trail->places));
    struct bytes kept;
    if (!cache || !trail->n)
        return;
    bool known = runtime_cache_get(cache, &key, &kept);
    if (!known || (complete ? !bytes_equal(kept, places) : kept.len < places.len))
        runtime_cache_put(cache, memory->tenant, &key, places);
}

int hotspot_trail_follow(struct hotspot_ahead *ahead, struct hotspot_fetch *fetch,
                         struct runtime_cache *cache, enum hotspot_kept kind, uint64_t object)
{
    const struct runtime_cache_key key = key_of(fetch->memory->program, kind, object);
    struct hotspot_place place;
    struct bytes places;
    int error = 0;
    if (!runtime_cache_get(cache, &key, &places))
        return 0;
    for (; places.len && !error; places = bytes_skip(places, sizeof(place))) {
        memcpy(&place, places.data, sizeof(place));
        error = hotspot_ahead_add(ahead, fetch, place.address, (size_t)place.size);
    }
    return error;
}
