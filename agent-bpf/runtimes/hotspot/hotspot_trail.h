/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Where the way from an object to its name went the last time, in the cache of the runtimes. An
 * object of another class may lie at the same address now, so a name is always read again, but all
 * places of the trails of a request are read ahead, together. The way is then gone step by step as
 * ever; where it leads elsewhere, that is read.
 */
#include "agent-bpf/runtimes/hotspot/hotspot_fetch.h"
#include "agent-bpf/runtimes/runtime_cache.h"

#define HOTSPOT_TRAIL_PLACES 20 /* of an object; further ones are not noted. Seen: 14 */

struct hotspot_place {
    uint64_t address;
    uint64_t size;
};

struct hotspot_trail {
    uint32_t n;
    struct hotspot_place places[HOTSPOT_TRAIL_PLACES];
};

enum hotspot_kept { /* kinds of keys */
                    HOTSPOT_KEPT_NAME,
                    HOTSPOT_KEPT_METHOD,
                    HOTSPOT_KEPT_STUB,
                    HOTSPOT_KEPT_STUB_LIST,
};

/* Reads as hotspot_fetch_add(), and notes where. */
void hotspot_trail_fetch(struct hotspot_trail *trail, struct hotspot_fetch *fetch, uint64_t address,
                         void *out, size_t size, bool *done);
/* complete: else it was given up, and a longer one that is known is better. */
void hotspot_trail_put(const struct hotspot_trail *trail, bool complete,
                       struct runtime_cache *cache, const struct runtime_memory *memory,
                       enum hotspot_kept kind, uint64_t object);
/* Adds the object's trail, if one is known, to what is read ahead. 0 or -ENOMEM. */
int hotspot_trail_follow(struct hotspot_ahead *ahead, struct hotspot_fetch *fetch,
                         struct runtime_cache *cache, enum hotspot_kept kind, uint64_t object);
