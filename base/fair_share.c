/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fair_share.h"
#include "base/bytes.h"
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/random.h>

int fair_share_init(struct fair_share *share, uint64_t limit)
{
    *share = (struct fair_share){.limit = limit};
    return getrandom(share->key, sizeof(share->key), 0) == sizeof(share->key) ? 0 : -errno;
}

void fair_share_clear(struct fair_share *share)
{
    memset(share->of, 0, sizeof(share->of));
    share->used = 0;
}

/* Keyed, so that a tenant cannot choose whose share it has. */
unsigned fair_share_index(const struct fair_share *share, uint64_t tenant)
{
    const struct bytes name = BYTES((const void *)&tenant, sizeof(tenant));
    return (unsigned)(bytes_siphash(name, share->key) % FAIR_SHARES);
}

bool fair_share_has_room(const struct fair_share *share, uint64_t tenant, uint64_t size)
{
    uint64_t after = share->used + size;
    uint64_t free_after = after < share->limit ? share->limit - after : 0;
    return share->of[fair_share_index(share, tenant)] + size <= free_after * FAIR_SHARE_FACTOR;
}

unsigned fair_share_largest(const struct fair_share *share)
{
    unsigned largest = 0;
    for (unsigned i = 1; i < FAIR_SHARES; i++)
        if (share->of[i] > share->of[largest])
            largest = i;
    return largest;
}

bool fair_share_is_exceeded(const struct fair_share *share)
{
    uint64_t free = share->used < share->limit ? share->limit - share->used : 0;
    return share->of[fair_share_largest(share)] > free * FAIR_SHARE_FACTOR;
}

void fair_share_take(struct fair_share *share, uint64_t tenant, uint64_t size)
{
    share->of[fair_share_index(share, tenant)] += size;
    share->used += size;
}

void fair_share_give(struct fair_share *share, uint64_t tenant, uint64_t size)
{
    uint64_t *of = &share->of[fair_share_index(share, tenant)];
    assert(*of >= size && share->used >= size);
    *of -= size;
    share->used -= size;
}
