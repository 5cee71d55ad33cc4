/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Puts the list of an interpreter's frames between the native frames that executed them (record.h).
 * Each activation of the evaluation function, a FRAME_NATIVE_EVAL, is replaced by the frames that
 * belong to it: they end with its entry (FRAME_LIST_ENTRY). So is the frame in front, if it is the
 * inner part of the evaluation (RECORD_EVAL_INNER). There are two kinds of entries:
 * - with the address of a variable of the activation, which lies below the frame's CFA and above
 *   the frames that were called from there (CPython from 3.11 on);
 * - without an address, where it is the kind of the frame that tells that it was the first of an
 *   activation (CPython before, Ruby, PHP). These are counted.
 * Frames that end with RECORD_LIST_OUTSIDE come last: code that is none of the interpreter's began
 * the stack with them.
 * An activation without frames, because it was interrupted in its first or last instructions, stays
 * as a native frame, and so does one of another interpreter than the list's. A list that does not
 * end with an entry was cut. Pure; any words are taken, what is malformed is left out. Thread: any.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Remarks on the result. */
enum {
    LIST_INTERLEAVE_CUT = 1,      /* the list ended before the outermost frame */
    LIST_INTERLEAVE_APPENDED = 2, /* its frames stand behind the native ones: these ended early, or
                                     are not known to evaluate it */
};

struct list_interleave {
    const uint64_t *user; /* words of the user frames, leaf first */
    size_t n_user;
    const uint64_t *list; /* words of the list, leaf first */
    size_t n_list;
    bool whole; /* the user frames go on to the outermost one */
};

/* out: room for n_user + n_list words. Returns their number; neither FRAME_NATIVE_EVAL nor
 * FRAME_LIST_ENTRY is among them. *remarks: LIST_INTERLEAVE_*. */
size_t list_interleave(const struct list_interleave *stack, uint64_t *out, unsigned *remarks);
