/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Stacks with the names of their frames, read from the dictionary and cached. Private to the
 * reader; the public interface is history_reader.h. Thread: the reading connection's.
 *
 * Limit: HISTORY_FRAMES_BYTES; when it is reached, the whole cache is cleared. A stack whose names
 * alone exceed it is cut. A frame without a name is looked up again after a second at the earliest.
 * Errors: of db.h; -ENOMEM.
 */
#include "base/arena.h"
#include "base/map.h"
#include "store/query/history_reader.h"
#include "store/stacks/stacks_reader.h"

struct history_frames {
    struct stacks_reader stacks;
    struct arena arena; /* memory of the maps' entries */
    struct map stacks_seen, locations, executables, texts;
    uint8_t key[16];
    const struct history_frame **shown; /* frames of one stack */
    size_t cap_shown;
};

int history_frames_open(struct history_frames *frames, struct db *db);
void history_frames_close(struct history_frames *frames);
void history_frames_forget(struct history_frames *frames); /* the database file was renewed */
/* As history_frames(). Faster inside a read of the caller if many frames are not cached. */
int history_frames_get(struct history_frames *frames, int64_t stack,
                       const struct history_frame *const **shown, size_t *n);
/* Makes no read. False: something is not cached. */
bool history_frames_known(struct history_frames *frames, int64_t stack,
                          const struct history_frame *const **shown, size_t *n);
/* 1: the function is in the stack, *self: as its leaf; 0: it is not. */
int history_frames_have(struct history_frames *frames, int64_t stack, struct bytes function,
                        bool *self);
