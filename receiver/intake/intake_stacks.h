/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Makes the stack of a sample. If the sampler could not unwind the whole stack, because the unwind
 * rows of its code were not loaded yet, the symbolizer unwinds the rest from the copy. The
 * symbolizer also names code outside files; those names are stored with the stack, since such code
 * moves. Until the answer comes or expires, the stack is unfinished
 * (store/stacks/stacks_unfinished.h, questions.h). Without an answer the stack has the sampler's
 * frames. WRITER thread only, within the store's batch.
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
/* Gives up late answers. now_ns: CLOCK_MONOTONIC. Errors of the store. */
int intake_stacks_expire(struct intake_stacks *stacks, uint64_t now_ns);
