/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Converts a drain of the ring to samples of the store: addresses to places in executables
 * (intake_frames.h), places to a stack (intake_stacks.h, questions.h), the thread's context to ids
 * and attributes (intake_context.h). WRITER thread only.
 */
#include "agent-bpf/drain/labels.h"
#include "agent-bpf/process/process.h"
#include "agent-bpf/record.h"
#include "base/buf.h"
#include "store/store.h"

struct correlation;
struct coverage;
struct samples;

/* names: of labels that hold ids; their texts are borrowed. */
int intake_samples_open(struct store *store, struct process_table *table,
                        const struct label_names *names, struct samples **samples);
void intake_samples_close(struct samples *samples); /* NULL is fine */
/* Call before the first sample: sets what counts samples for Elastic agents; borrowed. NULL (the
 * default): not counted. */
void intake_samples_correlate(struct samples *samples, struct correlation *correlation);
void intake_samples_cover(struct samples *samples,
                          struct coverage *coverage); /* call before the first sample; borrowed;
                                                         NULL (the default): not counted */

/* Adds a record, within the store's batch. Apply the drain's process events before its records:
 * process_table_apply(). unix_offset_ns: added to CLOCK_MONOTONIC gives Unix time. 0 or negative
 * errno of the store. */
int intake_samples_add(struct samples *samples, const struct record_header *record,
                       int64_t unix_offset_ns);
/* Asks for the function names of new stacks' frames. Call after the last record of a drain. */
void intake_samples_want_names(struct samples *samples);
/* Applies an answer of the symbolizer: executables, names, stacks and the kernel go into the
 * dictionary, other answers into the process table. */
int intake_samples_answer(struct samples *samples, const struct symbolizer_message *message);
/* Ends the waiting for answers that are late. Call every QUESTIONS_EXPIRE_EVERY_NS, and before each
 * profile window. now_ns: CLOCK_MONOTONIC. 0 or negative errno of the store. */
int intake_samples_expire(struct samples *samples, uint64_t now_ns);
/* The store was rolled back: rowids are void. */
void intake_samples_forget(struct samples *samples);
