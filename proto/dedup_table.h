/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A set of byte strings, numbered from 0 in insertion order: the tables of otlp_profiles. Thread:
 * any, one at a time. Limit: the user accounts for an entry's cost before adding it.
 */
#include "base/buf.h"

struct profiles_entry {
    uint64_t hash;
    size_t offset; /* of the key */
    size_t len;
    int32_t number; /* in the encoded table; before numbering PROFILES_UNUSED or PROFILES_USED */
};

enum { PROFILES_UNUSED = -2, PROFILES_USED = -1 };

struct profiles_table {
    struct buf keys;
    struct buf entries; /* struct profiles_entry */
    int32_t *slots;     /* index + 1; 0 = free */
    size_t n_slots;     /* a power of two, or 0 */
};

void profiles_table_close(struct profiles_table *table); /* may be called twice */
int32_t profiles_table_count(const struct profiles_table *table);
/* Keys are compared byte by byte. The secret seed prevents chosen hash collisions. Index, -ENOENT.
 */
int32_t profiles_table_find(const struct profiles_table *table, const uint8_t seed[16],
                            struct bytes key);
/* Adds a key that is not in the table. Index, -ENOMEM (nothing was added). */
int32_t profiles_table_add(struct profiles_table *table, const uint8_t seed[16], struct bytes key);
struct profiles_entry *profiles_table_entry(const struct profiles_table *table, int32_t index);
struct bytes profiles_table_key(const struct profiles_table *table, int32_t index);
/* The key as the fixed struct that was added. */
void profiles_table_read(const struct profiles_table *table, int32_t index, void *key, size_t size);

/* At finish, in this order: unmark sets all entries but entry 0 to unused; mark marks one as used
 * (true: it was not marked before); number numbers the used ones. */
void profiles_table_unmark(struct profiles_table *table);
bool profiles_table_mark(struct profiles_table *table, int32_t index);
void profiles_table_number(struct profiles_table *table);
