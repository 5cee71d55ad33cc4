/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Divides a bounded amount among tenants: a tenant may have at most FAIR_SHARE_FACTOR times what
 * nobody has. So one tenant alone gets four fifths, each of n that want everything gets
 * FAIR_SHARE_FACTOR / (1 + n * FAIR_SHARE_FACTOR), and there is always something left for a tenant
 * that has little. These are the dynamic thresholds of Choudhury and Hahne (1998), by which
 * switches divide their buffers.
 *
 * A tenant is any number: a cgroup, a user. 0 is the tenant of everything that is not known.
 * Rarely, by a keyed hash, two tenants have one share. Thread: the owner's. Nothing is allocated.
 */
#include "base/list.h"
#include <stdbool.h>
#include <stdint.h>

#define FAIR_SHARES       256
#define FAIR_SHARE_FACTOR 4

struct fair_share {
    uint64_t limit, used; /* used = sum of of[]; more than limit if amounts were taken anyway */
    uint8_t key[16];
    uint64_t of[FAIR_SHARES];
};

int fair_share_init(struct fair_share *share, uint64_t limit); /* negative errno of getrandom() */
void fair_share_clear(struct fair_share *share);               /* nobody has anything */
/* Index in of[]. */
unsigned fair_share_index(const struct fair_share *share, uint64_t tenant);
/* Whether the tenant may have `size` more. */
bool fair_share_has_room(const struct fair_share *share, uint64_t tenant, uint64_t size);
/* The index of the largest share. */
unsigned fair_share_largest(const struct fair_share *share);
/* Whether the largest share is larger than a share may be: its tenant has to give something back.
 */
bool fair_share_is_exceeded(const struct fair_share *share);
void fair_share_take(struct fair_share *share, uint64_t tenant, uint64_t size);
void fair_share_give(struct fair_share *share, uint64_t tenant, uint64_t size);

/*
 * What is kept of tenants until its room is needed: of the tenant that has too much, what was used
 * longest ago goes. Entries that were unused for FAIR_IDLE_S go first, of any tenant: otherwise
 * tenants that have ended would keep their shares. An entry is a part of what its owner keeps.
 *
 * What several tenants use counts for one of them that has little, so the flood of another does not
 * take it away.
 */
#define FAIR_IDLE_S 60

struct fair_entry {
    struct list age; /* linked: it is kept */
    uint64_t tenant; /* that it counts for */
    uint32_t size;
    uint32_t used_s; /* CLOCK_MONOTONIC */
};

struct fair_lru {
    struct fair_share share;
    struct list ages[FAIR_SHARES]; /* of each share, used longest ago first */
};

int fair_lru_init(struct fair_lru *lru, uint64_t limit); /* negative errno of getrandom() */
void fair_lru_add(struct fair_lru *lru, struct fair_entry *entry, uint64_t tenant, uint32_t size);
void fair_lru_remove(struct fair_lru *lru, struct fair_entry *entry); /* one not kept: nothing */
/* It is used now, by this tenant. */
void fair_lru_use(struct fair_lru *lru, struct fair_entry *entry, uint64_t tenant);
void fair_lru_resize(struct fair_lru *lru, struct fair_entry *entry, uint32_t size);
/* What has to go next, other than `except` (NULL: any); NULL: nothing. What is larger than a share
 * stays if there is room for it; above the limit, others go for the sake of `except`. */
struct fair_entry *fair_lru_excess(const struct fair_lru *lru, const struct fair_entry *except);
struct fair_entry *fair_lru_any(const struct fair_lru *lru); /* NULL: there is none */
