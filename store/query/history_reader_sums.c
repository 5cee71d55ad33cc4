/* SPDX-License-Identifier: Apache-2.0 */
/* Ids are rowids, which no sender can choose: a multiplication is a good enough hash. */
#include "base/hash.h"
#include "store/query/history_reader_state.h"
#include <errno.h>
#include <stdlib.h>

#define FIRST_CAP 1024

static size_t place_of(const struct reader_sums *sums, int64_t id)
{
    size_t i = (size_t)(hash_mix((uint64_t)id) >> 20) & (sums->cap - 1);
    while (sums->sums[i].id && sums->sums[i].id != id)
        i = (i + 1) & (sums->cap - 1);
    return i;
}

static int reader_sums_grow(struct reader_sums *sums)
{
    struct reader_sums larger = *sums;
    if (sums->n < sums->cap / 2)
        return 0;
    larger.cap = sums->cap ? sums->cap * 2 : FIRST_CAP;
    larger.sums = calloc(larger.cap, sizeof(*larger.sums));
    if (!larger.sums)
        return -ENOMEM;
    for (size_t i = 0; i < sums->cap; i++)
        if (sums->sums[i].id)
            larger.sums[place_of(&larger, sums->sums[i].id)] = sums->sums[i];
    free(sums->sums);
    *sums = larger;
    return 0;
}

struct reader_sum *reader_sums_find(const struct reader_sums *sums, int64_t id)
{
    if (!sums->cap)
        return NULL;
    struct reader_sum *sum = &sums->sums[place_of(sums, id)];
    return sum->id ? sum : NULL;
}

static void reader_sum_add(struct reader_sum *sum, const struct reader_sum *more)
{
    sum->samples += more->samples;
    sum->value_ns += more->value_ns;
    sum->self_ns += more->self_ns;
}

int reader_sums_add(struct reader_sums *sums, const struct reader_sum *more)
{
    int error = reader_sums_grow(sums);
    if (error)
        return error;
    struct reader_sum *sum = more->id ? &sums->sums[place_of(sums, more->id)] : &sums->others;
    if (!sum->id && more->id && sums->n >= sums->max_count)
        sum = &sums->others;
    else if (!sum->id && more->id) {
        sum->id = more->id;
        sums->n++;
    }
    reader_sum_add(sum, more);
    return 0;
}

/* Sorts free places last. */
static int sums_compare(const void *left, const void *right)
{
    const struct reader_sum *a = left, *b = right;
    if (!a->id || !b->id)
        return (b->id != 0) - (a->id != 0);
    if (a->value_ns != b->value_ns)
        return a->value_ns < b->value_ns ? 1 : -1;
    return a->id < b->id ? -1 : a->id > b->id;
}

void reader_sums_sort(struct reader_sums *sums, size_t max_count)
{
    size_t n = 0;
    for (size_t i = 0; i < sums->cap; i++)
        if (sums->sums[i].id)
            sums->sums[n++] = sums->sums[i];
    if (n)
        qsort(sums->sums, n, sizeof(*sums->sums), sums_compare);
    for (; n > max_count; n--)
        reader_sum_add(&sums->others, &sums->sums[n - 1]);
    sums->n = n;
}

void reader_sums_close(struct reader_sums *sums)
{
    free(sums->sums);
    *sums = (struct reader_sums){0};
}

#define N_PERIODS(periods) (sizeof((periods)->of) / sizeof(*(periods)->of))

void reader_periods_add(struct reader_periods *periods, uint64_t period_ns, uint64_t samples)
{
    size_t least = 0;
    for (size_t i = 0; i < N_PERIODS(periods); i++) {
        if (periods->of[i].period_ns == period_ns) {
            periods->of[i].samples += samples;
            return;
        }
        if (periods->of[i].samples < periods->of[least].samples)
            least = i;
    }
    if (periods->of[least].samples <= samples) { /* free, or the least frequent */
        periods->of[least].period_ns = period_ns;
        periods->of[least].samples += samples;
    }
}

uint64_t reader_periods_most(const struct reader_periods *periods)
{
    size_t most = 0;
    for (size_t i = 1; i < N_PERIODS(periods); i++)
        if (periods->of[i].samples > periods->of[most].samples)
            most = i;
    return periods->of[most].period_ns;
}
