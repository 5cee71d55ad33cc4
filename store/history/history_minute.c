/* SPDX-License-Identifier: Apache-2.0 */
/* Sorted numbers, each encoded as the difference to the previous one. */
#include "store/history/history_minute.h"
#include <errno.h>
#include <stdlib.h>

static bool is_id(int64_t id)
{
    return id >= 0 && id < INT64_MAX / 2;
}

int history_minute_open(struct history_minute_entries *entries, struct bytes body)
{
    *entries = (struct history_minute_entries){.in = {.left = body}};
    entries->left = blob_get_number(&entries->in);
    entries->period_ns = blob_get_number(&entries->in);
    return entries->in.bad || entries->left > body.len ? -EUCLEAN : 0;
}

int history_minute_next(struct history_minute_entries *entries, struct history_minute_entry *entry)
{
    struct blob_reader *in = &entries->in;
    if (!entries->left)
        return 0;
    *entry = entries->entry;
    uint64_t further = blob_get_number(in), stack = blob_get_number(in);
    if (further > INT64_MAX / 2 || stack > INT64_MAX / 2)
        return -EUCLEAN;
    entry->series += (int64_t)further;
    entry->stack = further ? (int64_t)stack : entry->stack + (int64_t)stack;
    entry->samples = blob_get_number(in);
    entry->value_ns = entry->samples * entries->period_ns + (uint64_t)blob_get_signed(in);
    if (in->bad || !is_id(entry->series) || !is_id(entry->stack))
        return -EUCLEAN;
    entries->entry = *entry;
    entries->left--;
    return 1;
}

static int compare_entries(const void *a, const void *b)
{
    const struct history_minute_entry *x = a, *y = b;
    if (x->series != y->series)
        return x->series < y->series ? -1 : 1;
    return x->stack < y->stack ? -1 : x->stack > y->stack;
}

void history_minute_encode(struct blob_writer *out, struct history_minute_entry *entries, size_t n,
                           uint64_t period_ns)
{
    int64_t series = 0, stack = 0;
    if (n)
        qsort(entries, n, sizeof(*entries), compare_entries);
    blob_put_number(out, n);
    blob_put_number(out, period_ns);
    for (size_t i = 0; i < n; i++) {
        const struct history_minute_entry *entry = &entries[i];
        bool same = entry->series == series;
        blob_put_number(out, (uint64_t)(entry->series - series));
        blob_put_number(out, (uint64_t)(same ? entry->stack - stack : entry->stack));
        blob_put_number(out, entry->samples);
        blob_put_signed(out, (int64_t)(entry->value_ns - entry->samples * period_ns));
        series = entry->series;
        stack = entry->stack;
    }
}

void history_stacks_encode(struct blob_writer *out, const struct id_set *stacks)
{
    int64_t before = 0;
    for (size_t i = 0; i < stacks->count; i++) {
        blob_put_number(out, (uint64_t)(stacks->ids[i] - before));
        before = stacks->ids[i];
    }
}

int history_stacks_next(struct blob_reader *in, int64_t *stack)
{
    if (!in->left.len)
        return 0;
    uint64_t further = blob_get_number(in);
    if (in->bad || further > INT64_MAX / 2 || !is_id(*stack + (int64_t)further))
        return -EUCLEAN;
    *stack += (int64_t)further;
    return 1;
}
