/* SPDX-License-Identifier: Apache-2.0 */
#include "store/history/history_sums.h"
#include "base/limits.h"
#include <errno.h>
#include <stdlib.h>

#define NEARLY_FULL (HISTORY_MINUTE_ENTRIES_MAX - HISTORY_BLOCK_SAMPLES_MAX)

LIMIT(sums, LIMIT_SERVICE, "history: sums of the running minute", .of = "history",
      .bytes = HISTORY_MINUTE_ENTRIES_MAX * UINT64_C(64));

struct sum_key {
    uint64_t minute_unix_ns;
    int64_t series, stack;
};

struct sum {
    struct sum_key key;
    uint64_t samples, value_ns;
};

void history_sums_open(struct history_sums *sums)
{
    *sums = (struct history_sums){0};
    MAP_INIT(&sums->by_key, struct sum, key);
    arena_init(&sums->arena, (size_t)HISTORY_MINUTE_ENTRIES_MAX * 2 * sizeof(struct sum));
}

void history_sums_close(struct history_sums *sums)
{
    map_close(&sums->by_key);
    arena_close(&sums->arena);
}

void history_sums_clear(struct history_sums *sums)
{
    map_close(&sums->by_key);
    arena_reset(&sums->arena);
}

bool history_sums_is_empty(const struct history_sums *sums)
{
    return !sums->by_key.count;
}

bool history_sums_is_full(const struct history_sums *sums)
{
    return sums->by_key.count >= NEARLY_FULL;
}

static struct sum *history_sums_make(struct history_sums *sums, const struct sum_key *key)
{
    struct sum *sum = arena_zalloc(&sums->arena, sizeof(*sum));
    if (!sum)
        return NULL;
    sum->key = *key;
    return map_put(&sums->by_key, sum, NULL) ? NULL : sum;
}

int history_sums_add(struct history_sums *sums, const struct history_sums_sample *sample)
{
    struct sum_key key = {sample->time_unix_ns - sample->time_unix_ns % HISTORY_MINUTE_NS,
                          sample->series, sample->stack};
    struct sum *sum = map_get(&sums->by_key, &key);
    if (!sum)
        sum = history_sums_make(sums, &key);
    if (!sum)
        return -ENOMEM;
    sum->samples += sample->samples;
    sum->value_ns += sample->value_ns;
    sums->period_ns = sample->period_ns;
    return 0;
}

int history_sums_stacks(const struct history_sums *sums, struct id_set *stacks)
{
    const struct sum *sum;
    int error = 0;
    for (size_t i = 0; !error && (sum = map_next(&sums->by_key, &i));)
        error = id_set_add(stacks, sum->key.stack);
    return error;
}

static int compare_minutes(const void *a, const void *b)
{
    const struct sum *x = *(const struct sum *const *)a, *y = *(const struct sum *const *)b;
    return x->key.minute_unix_ns < y->key.minute_unix_ns
               ? -1
               : x->key.minute_unix_ns > y->key.minute_unix_ns;
}

static int write_minutes(const struct sum **sorted, struct history_minute_entry *entries, size_t n,
                         history_sums_write *write, void *context)
{
    int error = 0;
    for (size_t i = 0, end; i < n && !error; i = end) {
        uint64_t minute = sorted[i]->key.minute_unix_ns;
        for (end = i; end < n && sorted[end]->key.minute_unix_ns == minute; end++)
            entries[end - i] =
                (struct history_minute_entry){sorted[end]->key.series, sorted[end]->key.stack,
                                              sorted[end]->samples, sorted[end]->value_ns};
        error = write(context, minute, entries, end - i);
    }
    return error;
}

int history_sums_each(const struct history_sums *sums, history_sums_write *write, void *context)
{
    size_t n = 0, count = sums->by_key.count;
    const struct sum **sorted = malloc((count + 1) * sizeof(*sorted));
    struct history_minute_entry *entries = malloc((count + 1) * sizeof(*entries));
    int error = sorted && entries ? 0 : -ENOMEM;
    for (size_t i = 0; !error && n < count; n++)
        sorted[n] = map_next(&sums->by_key, &i);
    if (!error && n)
        qsort(sorted, n, sizeof(const struct sum *), compare_minutes);
    if (!error)
        error = write_minutes(sorted, entries, n, write, context);
    free(sorted);
    free(entries);
    return error;
}
