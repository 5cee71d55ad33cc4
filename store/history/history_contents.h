/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Numbers byte strings by content, so that equal strings are written once. Thread: the owner's.
 */
#include "base/arena.h"
#include "base/bytes.h"
#include "base/map.h"

struct history_contents {
    struct map by_hash;
    struct arena arena;
};

void history_contents_open(struct history_contents *contents);
void history_contents_close(struct history_contents *contents);
void history_contents_clear(struct history_contents *contents);
/* 1: known, *before is its number; 0: new, and `number` is now its number; -ENOMEM. */
int history_contents_put(struct history_contents *contents, struct bytes content, uint32_t number,
                         uint32_t *before);
/* 1: known, *number is its number; 0: not known. */
int history_contents_find(const struct history_contents *contents, struct bytes content,
                          uint32_t *number);
