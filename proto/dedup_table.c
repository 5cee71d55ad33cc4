/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/dedup_table.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define FIRST_SLOTS ((size_t)64)

void profiles_table_close(struct profiles_table *table)
{
    buf_close(&table->keys);
    buf_close(&table->entries);
    free(table->slots);
    table->slots = NULL;
    table->n_slots = 0;
}

int32_t profiles_table_count(const struct profiles_table *table)
{
    return (int32_t)(table->entries.len / sizeof(struct profiles_entry));
}

struct profiles_entry *profiles_table_entry(const struct profiles_table *table, int32_t index)
{
    assert(index >= 0 && index < profiles_table_count(table));
    return (struct profiles_entry *)(void *)table->entries.data + index;
}

struct bytes profiles_table_key(const struct profiles_table *table, int32_t index)
{
    const struct profiles_entry *entry = profiles_table_entry(table, index);
    return entry->len ? BYTES(table->keys.data + entry->offset, entry->len) : BYTES(NULL, 0);
}

void profiles_table_read(const struct profiles_table *table, int32_t index, void *key, size_t size)
{
    struct bytes bytes = profiles_table_key(table, index);
    assert(bytes.len == size);
    if (size)
        memcpy(key, bytes.data, size);
}

/* The slot of the key, or the free one where it would go. */
static size_t find_slot(const struct profiles_table *table, uint64_t hash, struct bytes key)
{
    for (size_t i = (size_t)hash & (table->n_slots - 1);; i = (i + 1) & (table->n_slots - 1)) {
        if (table->slots[i] == 0)
            return i;
        int32_t index = table->slots[i] - 1;
        if (profiles_table_entry(table, index)->hash == hash &&
            bytes_equal(profiles_table_key(table, index), key))
            return i;
    }
}

int32_t profiles_table_find(const struct profiles_table *table, const uint8_t seed[16],
                            struct bytes key)
{
    if (table->n_slots == 0)
        return -ENOENT;
    int32_t slot = table->slots[find_slot(table, bytes_siphash(key, seed), key)];
    return slot ? slot - 1 : -ENOENT;
}

/* At most half full. */
static int profiles_table_grow(struct profiles_table *table)
{
    size_t count = (size_t)profiles_table_count(table);
    if (count * 2 < table->n_slots)
        return 0;
    size_t n_slots = table->n_slots ? table->n_slots * 2 : FIRST_SLOTS;
    int32_t *slots = calloc(n_slots, sizeof(*slots));
    if (!slots)
        return -ENOMEM;
    for (size_t index = 0; index < count; index++) {
        size_t i = (size_t)profiles_table_entry(table, (int32_t)index)->hash & (n_slots - 1);
        while (slots[i] != 0)
            i = (i + 1) & (n_slots - 1);
        slots[i] = (int32_t)index + 1;
    }
    free(table->slots);
    table->slots = slots;
    table->n_slots = n_slots;
    return 0;
}

int32_t profiles_table_add(struct profiles_table *table, const uint8_t seed[16], struct bytes key)
{
    struct profiles_entry entry = {.hash = bytes_siphash(key, seed),
                                   .offset = table->keys.len,
                                   .len = key.len,
                                   .number = PROFILES_UNUSED};
    if (profiles_table_grow(table) || buf_reserve(&table->entries, sizeof(entry)) ||
        buf_append_bytes(&table->keys, key))
        return -ENOMEM;
    size_t slot = find_slot(table, entry.hash, key);
    assert(table->slots[slot] == 0);
    buf_append(&table->entries, &entry, sizeof(entry)); /* there is room */
    int32_t count = profiles_table_count(table);
    table->slots[slot] = count;
    return count - 1;
}

void profiles_table_unmark(struct profiles_table *table)
{
    for (int32_t i = 0; i < profiles_table_count(table); i++)
        profiles_table_entry(table, i)->number = i == 0 ? PROFILES_USED : PROFILES_UNUSED;
}

bool profiles_table_mark(struct profiles_table *table, int32_t index)
{
    struct profiles_entry *entry = profiles_table_entry(table, index);
    if (entry->number == PROFILES_USED)
        return false;
    entry->number = PROFILES_USED;
    return true;
}

/* Rising with the index: so an entry's number is never longer on the wire than its index. */
void profiles_table_number(struct profiles_table *table)
{
    int32_t number = 0;
    for (int32_t i = 0; i < profiles_table_count(table); i++) {
        struct profiles_entry *entry = profiles_table_entry(table, i);
        if (entry->number == PROFILES_USED)
            entry->number = number++;
    }
}
