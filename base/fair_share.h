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
