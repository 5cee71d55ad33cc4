/* SPDX-License-Identifier: Apache-2.0 */
/* A sorted array: built once per generation, searched a few hundred times per step. */
#include "store/db/id_set.h"
#include <errno.h>
#include <stdlib.h>

static int set_compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* Most ids are added many times. Removing duplicates before growing keeps the array close to the
 * number of distinct ids. */
static int make_room(struct id_set *set)
{
    id_set_seal(set);
    if (set->count < set->cap - set->cap / 4)
        return 0;
    size_t cap = set->cap ? set->cap * 2 : 256;
    int64_t *ids = realloc(set->ids, cap * sizeof(*ids));
    if (!ids)
        return -ENOMEM;
    set->ids = ids;
    set->cap = cap;
    return 0;
}

int id_set_add(struct id_set *set, int64_t id)
{
    if (set->count == set->cap) {
        int error = make_room(set);
        if (error)
            return error;
    }
    set->ids[set->count++] = id;
    return 0;
}

void id_set_seal(struct id_set *set)
{
    if (set->count < 2)
        return;
    qsort(set->ids, set->count, sizeof(*set->ids), set_compare);
    size_t n = 1;
    for (size_t i = 1; i < set->count; i++)
        if (set->ids[i] != set->ids[n - 1])
            set->ids[n++] = set->ids[i];
    set->count = n;
}

bool id_set_has(const struct id_set *set, int64_t id)
{
    return set->count && bsearch(&id, set->ids, set->count, sizeof(id), set_compare);
}

void id_set_close(struct id_set *set)
{
    free(set->ids);
    *set = (struct id_set){0};
}
