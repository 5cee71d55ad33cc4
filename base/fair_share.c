/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fair_share.h"
#include "base/bytes.h"
#include "base/clock.h"
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
    if (share->used <= free * FAIR_SHARE_FACTOR)
        return false; /* the largest has no more than all */
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

/* ---- what is kept ---- */

static uint32_t now_s(void)
{
    return (uint32_t)(clock_monotonic_ns() / NS_PER_SEC);
}

static struct list *ages_of(struct fair_lru *lru, uint64_t tenant)
{
    return &lru->ages[fair_share_index(&lru->share, tenant)];
}

int fair_lru_init(struct fair_lru *lru, uint64_t limit)
{
    for (unsigned i = 0; i < FAIR_SHARES; i++)
        list_init(&lru->ages[i]);
    return fair_share_init(&lru->share, limit);
}

void fair_lru_add(struct fair_lru *lru, struct fair_entry *entry, uint64_t tenant, uint32_t size)
{
    entry->tenant = tenant;
    entry->size = size;
    entry->used_s = now_s();
    fair_share_take(&lru->share, tenant, size);
    list_append(ages_of(lru, tenant), &entry->age);
}

void fair_lru_remove(struct fair_lru *lru, struct fair_entry *entry)
{
    if (!list_linked(&entry->age))
        return;
    list_remove(&entry->age);
    fair_share_give(&lru->share, entry->tenant, entry->size);
}

static uint64_t poorer_of(const struct fair_share *share, uint64_t a, uint64_t b)
{
    return share->of[fair_share_index(share, b)] < share->of[fair_share_index(share, a)] ? b : a;
}

void fair_lru_use(struct fair_lru *lru, struct fair_entry *entry, uint64_t tenant)
{
    fair_lru_remove(lru, entry);
    if (tenant != entry->tenant)
        tenant = poorer_of(&lru->share, entry->tenant, tenant);
    fair_lru_add(lru, entry, tenant, entry->size);
}

void fair_lru_resize(struct fair_lru *lru, struct fair_entry *entry, uint32_t size)
{
    fair_share_give(&lru->share, entry->tenant, entry->size);
    fair_share_take(&lru->share, entry->tenant, size);
    entry->size = size;
}

static struct fair_entry *oldest_but(const struct list *ages, const struct fair_entry *except)
{
    for (struct list *link = ages->next; link != ages; link = link->next)
        if (!except || link != &except->age)
            return container_of(link, struct fair_entry, age);
    return NULL;
}

static struct fair_entry *oldest_of_all(const struct fair_lru *lru, const struct fair_entry *except)
{
    struct fair_entry *oldest = NULL;
    for (unsigned i = 0; i < FAIR_SHARES; i++) {
        struct fair_entry *entry = oldest_but(&lru->ages[i], except);
        if (entry && (!oldest || entry->used_s < oldest->used_s))
            oldest = entry;
    }
    return oldest;
}

/* Of who has most beside the one that has this share. */
static struct fair_entry *oldest_of_others(const struct fair_lru *lru, unsigned own)
{
    unsigned largest = own ? 0 : 1;
    for (unsigned i = 0; i < FAIR_SHARES; i++)
        if (i != own && lru->share.of[i] > lru->share.of[largest])
            largest = i;
    return oldest_but(&lru->ages[largest], NULL);
}

struct fair_entry *fair_lru_excess(const struct fair_lru *lru, const struct fair_entry *except)
{
    const struct fair_share *share = &lru->share;
    if (!fair_share_is_exceeded(share))
        return NULL;
    struct fair_entry *oldest = oldest_of_all(lru, except);
    if (oldest && now_s() - oldest->used_s >= FAIR_IDLE_S)
        return oldest;
    unsigned largest = fair_share_largest(share);
    oldest = oldest_but(&lru->ages[largest], except);
    return oldest || share->used <= share->limit ? oldest : oldest_of_others(lru, largest);
}

struct fair_entry *fair_lru_any(const struct fair_lru *lru)
{
    return oldest_of_all(lru, NULL);
}
