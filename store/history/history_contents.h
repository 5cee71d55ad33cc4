/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What was written before, known by its bytes, so that it is written once. Thread: whoever holds
 * it.
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
/* 1: known, *before is the number it was put with first; 0: it is new, and has this number;
 * -ENOMEM. */
int history_contents_put(struct history_contents *contents, struct bytes content, uint32_t number,
                         uint32_t *before);
/* 1: known; 0: not. */
int history_contents_find(const struct history_contents *contents, struct bytes content,
                          uint32_t *number);
