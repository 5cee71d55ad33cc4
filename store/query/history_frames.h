/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Stacks with the names of their frames, from the dictionary by a reading connection, remembered;
 * history_reader.h is its face. Thread: the connection's.
 *
 * Limit: HISTORY_FRAMES_BYTES, after which all is forgotten. A stack whose names alone do not fit
 * is cut. What has no name yet is looked for again, a second later at the earliest. Errors: of
 * db.h; -ENOMEM.
 */
#include "base/arena.h"
#include "base/map.h"
#include "store/query/history_reader.h"
#include "store/stacks/stacks_reader.h"

struct history_frames {
    struct stacks_reader stacks;
    struct arena arena; /* of all that the maps hold */
    struct map stacks_seen, locations, executables, texts;
    uint8_t key[16];
    const struct history_frame **shown; /* of one stack */
    size_t cap_shown;
};

int history_frames_open(struct history_frames *frames, struct db *db);
void history_frames_close(struct history_frames *frames);
void history_frames_forget(struct history_frames *frames); /* the dictionary is another one */
/* As history_frames(). Within a read of the caller's, if there is a lot to look for. */
int history_frames_get(struct history_frames *frames, int64_t stack,
                       const struct history_frame *const **shown, size_t *n);
/* Without a read: false if there is something to look for. */
bool history_frames_known(struct history_frames *frames, int64_t stack,
                          const struct history_frame *const **shown, size_t *n);
/* 1: the function is in the stack, *self: as its leaf; 0: it is not. */
int history_frames_have(struct history_frames *frames, int64_t stack, struct bytes function,
                        bool *self);
