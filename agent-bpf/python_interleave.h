/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Puts the list of Python frames between the native frames that executed them (record.h). Each
 * activation of the evaluation function, a FRAME_NATIVE_EVAL, is replaced by the frames that belong
 * to it: they end with its entry (FRAME_PYTHON_ENTRY), whose address is that of a variable of the
 * activation, so it lies below the frame's CFA and above the frames that were called from there.
 * Before 3.11 each Python frame has an activation of its own and entries have no address. An
 * activation without frames, because it was interrupted in its first or last instructions, stays as
 * a native frame. A list that does not end with an entry was cut. Pure; any words are taken, what
 * is malformed is left out. Thread: any.
 */
#include <stddef.h>
#include <stdint.h>

/* Remarks on the result. */
enum {
    PYTHON_INTERLEAVE_CUT = 1,      /* the list ended before the outermost frame */
    PYTHON_INTERLEAVE_APPENDED = 2, /* Python frames stand behind the native ones: these ended
                                       early, or are not known to evaluate Python */
};

struct python_interleave {
    const uint64_t *user; /* words of the user frames, leaf first */
    size_t n_user;
    const uint64_t *list; /* words of the list, leaf first */
    size_t n_list;
};

/* out: room for n_user + n_list words. Returns their number; neither FRAME_NATIVE_EVAL nor
 * FRAME_PYTHON_ENTRY is among them. *remarks: PYTHON_INTERLEAVE_*. */
size_t python_interleave(const struct python_interleave *stack, uint64_t *out, unsigned *remarks);
