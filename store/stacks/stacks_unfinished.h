/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Unfinished stacks: stacks with open frames or open names. Their samples stay in the join.
 *
 * Open frames: the rest of the walk, or names of code that lies in no file, are not known yet. Such
 * a stack has its own row with the frames so far, for one sample. Once finished, it equals another
 * stack, and every function of stacks.h that takes its id answers for the other stack. Open names:
 * names of some frames in files are requested and not answered. A stack may have both open frames
 * and open names.
 *
 * Writer thread only. The state is in memory only: after a restart or a rollback no answer can
 * arrive, so each stack is used as stored. Limits: STACKS_OPEN_NAMES_MAX names and
 * STACKS_UNFINISHED_MAX stacks with open names; stacks beyond them do not wait. The caller limits
 * open frames. Each outcome is counted. Errors as in stacks.h.
 */
#include "store/stacks/stacks.h"

#define STACKS_OPEN_NAMES_MAX 32768
#define STACKS_UNFINISHED_MAX 16384

enum stack_open { STACK_OPEN_FRAMES, STACK_OPEN_NAMES, STACK_OPENS };

/* How waiting for an answer ended, or why it did not begin. */
enum stack_result {
    STACK_FINISHED,
    STACK_LATE,            /* no answer in time */
    STACK_FORGOTTEN,       /* the row, or a row that its frames refer to, was removed */
    STACK_ROLLED_BACK,     /* together with the transaction */
    STACK_NO_ROOM,         /* the room of its samples was needed */
    STACK_FULL,            /* a limit of open stacks or names is reached */
    STACK_NO_MEMORY,       /* not asked */
    STACK_PROCESS_UNKNOWN, /* not asked: no known mapping of the process at the address */
    STACK_STOPPING,        /* the service stops */
    STACK_RESULTS
};

/* True: the stack has open frames or open names, so its samples stay. */
bool stacks_is_unfinished(const struct stacks *stacks, int64_t id);
bool stacks_has_open_frames(const struct stacks *stacks, int64_t id);
size_t stacks_unfinished_count(const struct stacks *stacks, enum stack_open what);

/* Creates a row for a stack with open frames. asked_ns: time of the sample, CLOCK_MONOTONIC, nearly
 * ascending from call to call. Errors as stacks_intern(). */
int stacks_open_frames(struct stacks *stacks, const struct frame *frames, size_t n,
                       uint64_t asked_ns, int64_t *id);
/* Closes the open frames: the stack equals the interned stack same_as. -ENOENT: its frames are not
 * open, or its row was removed. After 0 and -ENOENT its frames are closed; after another error the
 * rollback closes them. */
int stacks_finish_frames(struct stacks *stacks, int64_t id, int64_t same_as);
/* Closes the open frames; the stack keeps the frames it has. No effect if its frames are not
 * open. */
void stacks_close_frames(struct stacks *stacks, int64_t id, enum stack_result why);
/* Counts a stack whose frames could not be opened. */
void stacks_frames_not_opened(enum stack_result why);

/* Records that the name of this frame was requested. -ENOSPC, -ENOMEM: no stack waits for the
 * name. */
int stacks_open_name(struct stacks *stacks, const struct frame *frame, uint64_t asked_ns);
/* The name was answered, or no answer will arrive. */
void stacks_close_name(struct stacks *stacks, int64_t executable, uint64_t address);
/* Stack `id` with these frames waits if any of their names is open. not_opened: the error of a name
 * that could not be opened, else 0. */
void stacks_open_names(struct stacks *stacks, int64_t id, const struct frame *frames, size_t n,
                       int not_opened);

/* Requests made at these times or earlier are late. CLOCK_MONOTONIC. */
struct stacks_deadlines {
    uint64_t frames_ns;
    uint64_t names_ns;
};

/* Closes late frames and names, and stacks without open names left. *n_late: number of late
 * names. */
int stacks_expire_unfinished(struct stacks *stacks, const struct stacks_deadlines *deadlines,
                             size_t *n_late);
/* The stack's samples leave the join now because their room is needed: the stack no longer waits
 * for names. Open frames stay open for other users of the row. */
void stacks_leave_unfinished(struct stacks *stacks, int64_t id);
/* No stack waits for names any longer. */
void stacks_stop_waiting_for_names(struct stacks *stacks);
