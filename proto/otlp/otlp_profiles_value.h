/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Normalizes foreign attribute values for a profiles request. String table indices are removed:
 * they refer to another table, and a receiver refuses the whole request if one is out of range.
 * Equal values get equal encodings, so that no table has duplicates. Pure; thread: any. Input:
 * messages that pb_check() passed, which bounds the recursion here.
 */
#include "base/buf.h"

/* Appends the contents of an AnyValue; not longer than it was. 0, BUF_FULL, -ENOMEM. */
int profiles_value_put(struct buf *out, struct bytes any_value, bool *had_index);
/* Appends a Resource with its attributes in that form. */
int profiles_value_put_resource(struct buf *out, struct bytes resource, bool *had_index);
/* Key and value of a KeyValue; NULL data where missing. */
void profiles_value_split(struct bytes key_value, struct bytes *key, struct bytes *value);
