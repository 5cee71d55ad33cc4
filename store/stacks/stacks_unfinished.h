/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Unfinished stacks: those of which an answer is still to come. Their samples do not leave.
 *
 * Open frames: the end of the walk, or names of code that lies in no file, are still to be found.
 * Such a stack has a row of its own with the frames so far, for one sample. Once finished it is the
 * same as another stack, and everything in stacks.h that takes an id answers for that one.
 * Open names: functions of some of its frames, which lie in files, are asked for and not answered.
 * A stack may be open in both ways.
 *
 * Writer thread only. All of it is in memory alone: after a restart or a rollback no answer comes,
 * so each stack counts as it is stored. Limits: STACKS_OPEN_NAMES_MAX names and
 * STACKS_UNFINISHED_MAX stacks with open names, more do not wait; open frames are limited by the
 * caller. Each outcome is counted. Errors as in stacks.h.
 */
#include "store/stacks/stacks.h"

#define STACKS_OPEN_NAMES_MAX 32768
#define STACKS_UNFINISHED_MAX 16384

enum stack_open { STACK_OPEN_FRAMES, STACK_OPEN_NAMES, STACK_OPENS };

/* How waiting ended, or why there was none. */
enum stack_result {
    STACK_FINISHED,
    STACK_LATE,            /* no answer in time */
    STACK_FORGOTTEN,       /* the row, or what its frames name, is no longer known */
    STACK_ROLLED_BACK,     /* with the transaction */
    STACK_NO_ROOM,         /* the room of its samples was needed */
    STACK_FULL,            /* a limit of open stacks or names is reached */
    STACK_NO_MEMORY,       /* not asked */
    STACK_PROCESS_UNKNOWN, /* not asked: no mapping of the process is known there */
    STACK_STOPPING,        /* the service stops */
    STACK_RESULTS
};

/* The one question of those who let samples go: is anything of this stack still open? */
bool stacks_is_unfinished(const struct stacks *stacks, int64_t id);
bool stacks_has_open_frames(const struct stacks *stacks, int64_t id);
size_t stacks_unfinished_count(const struct stacks *stacks, enum stack_open what);

/* A row with these frames, for now. asked_ns: when the sample was taken, CLOCK_MONOTONIC, about in
 * order. As stacks_intern(). */
int stacks_open_frames(struct stacks *stacks, const struct frame *frames, size_t n,
                       uint64_t asked_ns, int64_t *id);
/* same_as: the interned stack that it turned out to be. -ENOENT: its frames are not open, or its
 * row is no more; nothing is open afterwards. */
int stacks_finish_frames(struct stacks *stacks, int64_t id, int64_t same_as);
/* It stays as it is. Nothing happens if its frames are not open. */
void stacks_close_frames(struct stacks *stacks, int64_t id, enum stack_result why);
/* Counts what could not be opened. */
void stacks_frames_not_opened(enum stack_result why);

/* The name of this frame is asked for. -ENOSPC, -ENOMEM: it is not waited for. */
int stacks_open_name(struct stacks *stacks, const struct frame *frame, uint64_t asked_ns);
/* Answered, or will not be. */
void stacks_close_name(struct stacks *stacks, int64_t executable, uint64_t address);
/* The stack of these frames waits if any of their names is open. not_opened: error of one that
 * should be. */
void stacks_open_names(struct stacks *stacks, int64_t id, const struct frame *frames, size_t n,
                       int not_opened);

/* What was asked for at these times or earlier is late. CLOCK_MONOTONIC. */
struct stacks_deadlines {
    uint64_t frames_ns;
    uint64_t names_ns;
};

/* Closes what is late, and stacks whose names have all come. *n_late: names that did not come. */
int stacks_expire_unfinished(struct stacks *stacks, const struct stacks_deadlines *deadlines,
                             size_t *n_late);
/* Samples of this stack leave now, for their room is needed: names are waited for no longer. Open
 * frames stay open, for other users of the row. */
void stacks_leave_unfinished(struct stacks *stacks, int64_t id);
/* Names are waited for no longer. */
void stacks_stop_waiting_for_names(struct stacks *stacks);
