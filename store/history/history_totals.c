/* SPDX-License-Identifier: Apache-2.0 */
#include "store/history/history_totals.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#define SETS   4096 /* a power of two */
#define WAYS   4
#define OLD_AT 24 /* in blocks: two minutes */

struct total { /* hash = 0: free */
    uint64_t hash, cpu_ns;
    uint32_t block;
    bool is_over;
};

struct history_totals {
    uint8_t seed[16];
    uint32_t block; /* counts them */
    struct total of[SETS][WAYS];
};

int history_totals_open(struct history_totals **result)
{
    struct history_totals *totals = calloc(1, sizeof(*totals)); /* pages are allocated on use */
    if (!totals)
        return -ENOMEM;
    if (getrandom(totals->seed, sizeof(totals->seed), 0) != (ssize_t)sizeof(totals->seed)) {
        int error = -errno;
        free(totals);
        return error;
    }
    *result = totals;
    return 0;
}

void history_totals_close(struct history_totals *totals)
{
    free(totals);
}

void history_totals_clear(struct history_totals *totals)
{
    memset(totals->of, 0, sizeof(totals->of));
}

static uint64_t hash_of(const struct history_totals *totals, const uint8_t trace_id[16])
{
    return bytes_siphash(BYTES(trace_id, 16), totals->seed) | 1;
}

static struct total *set_of(const struct history_totals *totals, uint64_t hash)
{
    return (struct total *)totals->of[(hash >> 32) % SETS];
}

static struct total *history_totals_find(const struct history_totals *totals, uint64_t hash)
{
    struct total *set = set_of(totals, hash);
    for (size_t i = 0; i < WAYS; i++)
        if (set[i].hash == hash)
            return &set[i];
    return NULL;
}

uint64_t history_totals_get(const struct history_totals *totals, const uint8_t trace_id[16])
{
    const struct total *total = history_totals_find(totals, hash_of(totals, trace_id));
    return total ? total->cpu_ns : 0;
}

static uint64_t worth_of(const struct history_totals *totals, const struct total *total)
{
    if (!total->hash || totals->block - total->block >= OLD_AT)
        return 0;
    return total->cpu_ns >> 1 | (total->is_over ? 0 : UINT64_C(1) << 63);
}

void history_totals_set(struct history_totals *totals, const uint8_t trace_id[16], uint64_t cpu_ns,
                        bool is_over)
{
    uint64_t hash = hash_of(totals, trace_id);
    struct total *total = history_totals_find(totals, hash), *set = set_of(totals, hash);
    if (!total)
        total = set;
    for (size_t i = 0; i < WAYS && total->hash != hash; i++)
        if (worth_of(totals, &set[i]) < worth_of(totals, total))
            total = &set[i];
    *total = (struct total){hash, cpu_ns, totals->block, is_over};
}

void history_totals_age(struct history_totals *totals)
{
    totals->block++;
}
