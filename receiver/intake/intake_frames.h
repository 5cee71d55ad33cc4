/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Converts addresses to frames: places in executables, which get rows in the dictionary, and code
 * outside files. WRITER thread only, within the store's batch. Errors: negative errno of the store;
 * -ESTALE: the dictionary has dropped an executable that was unused for long: call
 * intake_frames_forget() and repeat.
 */
#include "agent-bpf/process/process.h"
#include "receiver/intake/stack_builder.h"
#include "store/store.h"

struct intake_frames;

int intake_frames_open(struct store *store, struct process_table *table,
                       struct intake_frames **frames);
void intake_frames_close(struct intake_frames *frames); /* NULL is fine */
/* Rowids are void: forgets them. */
void intake_frames_forget(struct intake_frames *frames);

/* address: of the instruction itself, or of the call. Frames that do not fit are left out. */
int intake_frames_add_kernel(struct intake_frames *frames, struct stack_builder *builder,
                             uint64_t address);
/* A user frame of record.h. */
int intake_frames_add_user(struct intake_frames *frames, struct stack_builder *builder,
                           const struct stack_sample *sample, const struct record_frame *frame);
/* Sets the known names of frames outside files. wanted (may be NULL; room for
 * RECORD_MAX_USER_FRAMES) gets the frames to ask for, each once. Returns their number. */
uint32_t intake_frames_name_code(struct intake_frames *frames, struct stack_builder *builder,
                                 const struct stack_sample *sample, struct record_frame *wanted);
/* intake_code_due() for the program that the process ran at that time. */
uint32_t intake_frames_code_due(struct intake_frames *frames, uint32_t pid, uint64_t time_ns,
                                struct record_frame *due, uint32_t max);
/* Stores the symbolizer's answer for a sample of time_ns. */
int intake_frames_put_code(struct intake_frames *frames, uint64_t time_ns,
                           const struct symbolizer_code *answer);

/* Finds the kernel's row. 0 also while the kernel is not yet known. */
int intake_frames_kernel_row(struct intake_frames *frames);
