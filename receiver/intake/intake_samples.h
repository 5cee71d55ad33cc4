/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A drain of the ring becomes samples of the store: addresses become places in executables
 * (intake_frames.h), those a stack (intake_stacks.h, questions.h); the thread's context becomes ids
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

/* names: of labels that hold ids; what they point at is borrowed. */
int intake_samples_open(struct store *store, struct process_table *table,
                        const struct label_names *names, struct samples **samples);
void intake_samples_close(struct samples *samples); /* NULL is fine */
/* Before the first sample: who counts samples for Elastic agents; borrowed. NULL, as at first:
 * nobody.
 */
void intake_samples_correlate(struct samples *samples, struct correlation *correlation);
void intake_samples_cover(struct samples *samples, struct coverage *coverage); /* likewise */

/* Events of the drain come first: process_table_apply(). Then each record, within the store's
 * batch. unix_offset_ns: what to add to CLOCK_MONOTONIC. 0 or negative errno of the store. */
int intake_samples_add(struct samples *samples, const struct record_header *record,
                       int64_t unix_offset_ns);
/* Asks for the names of frames that new stacks brought. Call after the last record of a drain. */
void intake_samples_want_names(struct samples *samples);
/* What the symbolizer says of executables, names, stacks and the kernel goes into the dictionary,
 * the rest into the process table. */
int intake_samples_answer(struct samples *samples, const struct symbolizer_message *message);
/* What did not come in time is waited for no longer. Each QUESTIONS_EXPIRE_EVERY_NS, and before
 * each profile window. CLOCK_MONOTONIC. Negative errno of the store. */
int intake_samples_expire(struct samples *samples, uint64_t now_ns);
/* The store was rolled back: rowids are void. */
void intake_samples_forget(struct samples *samples);
