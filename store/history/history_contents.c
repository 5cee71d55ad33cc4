/* SPDX-License-Identifier: Apache-2.0 */
/* A 128-bit hash with a secret key identifies the bytes: collisions need not be handled. */
#include "store/history/history_contents.h"
#include <errno.h>

#define CONTENTS_BYTES_MAX ((size_t)16 << 20)

struct content {
    uint8_t hash[16];
    uint32_t number;
};

void history_contents_open(struct history_contents *contents)
{
    MAP_INIT(&contents->by_hash, struct content, hash);
    arena_init(&contents->arena, CONTENTS_BYTES_MAX);
}

void history_contents_close(struct history_contents *contents)
{
    map_close(&contents->by_hash);
    arena_close(&contents->arena);
}

void history_contents_clear(struct history_contents *contents)
{
    map_close(&contents->by_hash);
    arena_reset(&contents->arena);
}

static struct content *contents_find(const struct history_contents *contents, struct bytes content,
                                     uint8_t hash[16])
{
    bytes_siphash128(content, contents->by_hash.seed, hash);
    return map_get(&contents->by_hash, hash);
}

int history_contents_find(const struct history_contents *contents, struct bytes content,
                          uint32_t *number)
{
    uint8_t hash[16];
    const struct content *known = contents_find(contents, content, hash);
    if (known)
        *number = known->number;
    return known ? 1 : 0;
}

int history_contents_put(struct history_contents *contents, struct bytes content, uint32_t number,
                         uint32_t *before)
{
    uint8_t hash[16];
    struct content *known = contents_find(contents, content, hash);
    if (known) {
        *before = known->number;
        return 1;
    }
    known = arena_alloc(&contents->arena, sizeof(*known));
    if (!known)
        return -ENOMEM;
    memcpy(known->hash, hash, sizeof(known->hash));
    known->number = number;
    return map_put(&contents->by_hash, known, NULL);
}
