/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Addresses become frames: places in executables, which get their rows in the dictionary, and code
 * that lies in no file. WRITER thread only, within the store's batch. Errors: negative errno of the
 * store; -ESTALE: an executable was not used for so long that the dictionary let it go:
 * intake_frames_forget(), and again.
 */
#include "agent-bpf/process/process.h"
#include "receiver/intake/stack_builder.h"
#include "store/store.h"

struct intake_frames;

int intake_frames_open(struct store *store, struct process_table *table,
                       struct intake_frames **frames);
void intake_frames_close(struct intake_frames *frames); /* NULL is fine */
/* Rowids are void. */
void intake_frames_forget(struct intake_frames *frames);

/* Addresses of the instruction itself, or of the call. What does not fit is left out. */
int intake_frames_add_kernel(struct intake_frames *frames, struct stack_builder *builder,
                             uint64_t address);
int intake_frames_add_user(struct intake_frames *frames, struct stack_builder *builder,
                           uint32_t pid, uint64_t time_ns, uint64_t address);
/* Names those frames that lie in no file, as far as is known. wanted (may be NULL) gets the
 * addresses that are to be asked for, each once; it holds RECORD_MAX_USER_FRAMES. Returns how many.
 */
uint32_t intake_frames_name_code(struct intake_frames *frames, struct stack_builder *builder,
                                 uint32_t pid, uint64_t time_ns, uint64_t *wanted);
/* What the symbolizer answered, for a sample of that time. */
int intake_frames_put_code(struct intake_frames *frames, uint64_t time_ns,
                           const struct symbolizer_code *answer);

/* The kernel's row; 0 also while nothing is known of it. */
int intake_frames_kernel_row(struct intake_frames *frames);
