/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/runtimes/hotspot/hotspot_fetch.h"
#include "base/hash.h"
#include <assert.h>
#include <string.h>

int hotspot_fetch_run(struct hotspot_fetch *fetch)
{
    if (!fetch->error)
        fetch->error = hotspot_memory_read(fetch->memory, fetch->ranges, fetch->n);
    for (size_t i = 0; !fetch->error && i < fetch->n; i++)
        *fetch->done[i] = !fetch->ranges[i].error;
    fetch->n = fetch->bytes = 0;
    return fetch->error;
}

/* The slot of the place that begins at the address, or a free one. */
static size_t ahead_slot(const struct hotspot_ahead *ahead, uint64_t address)
{
    size_t slot = (size_t)(hash_mix(address) >> 52) % HOTSPOT_AHEAD_SLOTS;
    while (ahead->slots[slot] && ahead->places[ahead->slots[slot] - 1].address != address)
        slot = (slot + 1) % HOTSPOT_AHEAD_SLOTS;
    return slot;
}

static bool ahead_has(const struct hotspot_ahead *ahead, uint64_t address, void *out, size_t size)
{
    uint16_t index = ahead->slots[ahead_slot(ahead, address)];
    const struct hotspot_ahead_place *place = index ? &ahead->places[index - 1] : NULL;
    if (!place || !place->read || place->size < size)
        return false;
    if (size)
        memcpy(out, place->data, size);
    return true;
}

void hotspot_fetch_add(struct hotspot_fetch *fetch, uint64_t address, void *out, size_t size,
                       bool *done)
{
    assert(size <= READER_BYTES_MAX);
    *done = fetch->ahead && ahead_has(fetch->ahead, address, out, size);
    if (*done)
        return;
    if (fetch->n == READER_RANGES_MAX || fetch->bytes + size > READER_BYTES_MAX)
        hotspot_fetch_run(fetch);
    fetch->ranges[fetch->n] = (struct reader_range){address, out, (uint32_t)size, 0};
    fetch->done[fetch->n++] = done;
    fetch->bytes += size;
}

int hotspot_ahead_add(struct hotspot_ahead *ahead, struct hotspot_fetch *fetch, uint64_t address,
                      size_t size)
{
    size_t slot = ahead_slot(ahead, address);
    if (ahead->slots[slot] || ahead->n == HOTSPOT_AHEAD_MAX ||
        ahead->bytes + size > HOTSPOT_AHEAD_BYTES)
        return 0;
    uint8_t *data = arena_alloc(ahead->arena, size);
    if (!data)
        return -ENOMEM;
    struct hotspot_ahead_place *place = &ahead->places[ahead->n++];
    *place = (struct hotspot_ahead_place){address, size, data, false};
    ahead->slots[slot] = (uint16_t)ahead->n;
    ahead->bytes += size;
    hotspot_fetch_add(fetch, address, data, size, &place->read);
    return 0;
}
