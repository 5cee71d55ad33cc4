/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What the runtimes of all processes have in common, divided among tenants (base/fair_share.h):
 * entries in the sampler's map, and the symbolizer's time. One that forges what costs most takes
 * its own share (symbolizer_tenant()). Thread: the symbolizer's loop.
 */
#include "base/clock.h"
#include "base/fair_share.h"

/* Of each window the runtimes get so much; a tenant alone four fifths of that. */
#define RUNTIME_WINDOW_NS (500 * NS_PER_MS)
#define RUNTIME_TIME_NS   (400 * NS_PER_MS)

struct runtime_shares {
    struct fair_share entries; /* processes */
    struct fair_share time;    /* nanoseconds of this window */
    uint64_t window_ns;        /* when it began */
};

int runtime_shares_open(struct runtime_shares *shares); /* negative errno of getrandom() */
/* False: it has used up its time of this window. */
bool runtime_shares_have_time(struct runtime_shares *shares, uint64_t tenant, uint64_t now_ns);
/* from_ns to now_ns were taken for it. */
void runtime_shares_spend(struct runtime_shares *shares, uint64_t tenant, uint64_t from_ns,
                          uint64_t now_ns);
/* False: it has too many entries. Else one more is its own, until it is given back. */
bool runtime_shares_take_entry(struct runtime_shares *shares, uint64_t tenant);
void runtime_shares_give_entry(struct runtime_shares *shares, uint64_t tenant);
