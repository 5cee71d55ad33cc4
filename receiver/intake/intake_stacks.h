/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The stack of a sample. One that the tick could not unwind, because the rows of its code were not
 * loaded yet, is promised (stacks.h) to the sample, and the symbolizer is asked to go on with the
 * copy; its answer fulfils the promise. So is one with code that lies in no file, whose names the
 * symbolizer is asked for: they are fixed here, for such code moves. WRITER thread only, within the
 * store's batch.
 *
 * Limits: STACKS_PROMISED_MAX open promises, STACKS_PROMISED_BYTES of frames and copies on their
 * way; beyond, and when no answer came STACKS_PROMISE_NS after the sample was taken, the frames
 * that the tick found count. Each is counted.
 */
#include "receiver/intake/intake_frames.h"

#define STACKS_PROMISED_MAX   4096
#define STACKS_PROMISED_BYTES ((size_t)8 << 20)
/* Less than PROCESS_GRACE_NS: the process's mappings are still known then. */
#define STACKS_PROMISE_NS (4 * UINT64_C(1000000000))

struct intake_stacks;

/* frames: used for each stack; borrowed. */
int intake_stacks_open(struct store *store, struct process_table *table, struct frames *frames,
                       struct intake_stacks **stacks);
void intake_stacks_close(struct intake_stacks *stacks); /* NULL is fine */
/* The store was rolled back. */
void intake_stacks_forget(struct intake_stacks *stacks);

/* The row of the record's stack. Errors as in intake_frames.h. */
int intake_stacks_row(struct intake_stacks *stacks, const struct record_header *record,
                      int64_t *id);
int intake_stacks_answer(struct intake_stacks *stacks, const struct symbolizer_unwound *unwound);
int intake_stacks_code(struct intake_stacks *stacks, const struct symbolizer_code *code);
/* Gives up what is late. CLOCK_MONOTONIC. */
void intake_stacks_expire(struct intake_stacks *stacks, uint64_t now_ns);
