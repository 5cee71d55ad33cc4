/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The stack of a sample. If the tick could not unwind it, because the rows of its code were not
 * loaded yet, the symbolizer is asked to go on with the copy; likewise for names of code that lies
 * in no file, which are fixed here, for such code moves. Until the answer comes, or its time is
 * over, the sample has an unfinished stack (store/stacks/stacks_unfinished.h, questions.h); then
 * the frames that the tick found count. WRITER thread only, within the store's batch.
 */
#include "receiver/intake/intake_frames.h"
#include "receiver/intake/questions.h"

struct intake_stacks;

/* frames, questions: borrowed. */
int intake_stacks_open(struct store *store, struct intake_frames *frames,
                       struct questions *questions, struct intake_stacks **stacks);
void intake_stacks_close(struct intake_stacks *stacks); /* NULL is fine */
/* The store was rolled back. */
void intake_stacks_forget(struct intake_stacks *stacks);

/* The row of the record's stack. Errors as in intake_frames.h. */
int intake_stacks_row(struct intake_stacks *stacks, const struct record_header *record,
                      int64_t *id);
int intake_stacks_answer(struct intake_stacks *stacks, const struct symbolizer_unwound *unwound);
int intake_stacks_code(struct intake_stacks *stacks, const struct symbolizer_code *code);
/* Gives up what is late. CLOCK_MONOTONIC. Errors of the store. */
int intake_stacks_expire(struct intake_stacks *stacks, uint64_t now_ns);
