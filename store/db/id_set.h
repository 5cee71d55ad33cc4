/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A set of rowids: ids are added in any order, then the set is sealed, then looked up. Thread: the
 * owner's.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct id_set {
    int64_t *ids;
    size_t count;
    size_t cap;
};

int id_set_add(struct id_set *set, int64_t id); /* 0 or -ENOMEM */
void id_set_seal(struct id_set *set);           /* sorts; adding again unseals */
bool id_set_has(const struct id_set *set, int64_t id);
void id_set_close(struct id_set *set); /* may be called twice */
