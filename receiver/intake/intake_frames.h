/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Addresses become frames: places in executables, which get their rows in the dictionary; and the
 * names of frames are asked for. WRITER thread only, within the store's batch. Errors: negative
 * errno of the store; -ESTALE: an executable was not used for so long that the dictionary let it
 * go: frames_forget(), and again.
 *
 * A stack is put together by frames_begin(), leaf first by the calls that add, and frames_end().
 */
#include "agent-bpf/process/process.h"
#include "agent-bpf/record.h"
#include "store/store.h"

/* Samples wait this long for names: as long as a symbolizer that hangs needs to be ended and its
 * successor to answer. */
#define FRAMES_NAMES_NS (10 * UINT64_C(1000000000))
#define FRAMES_MAX                                                                                 \
    (RECORD_MAX_FRAME_WORDS + 1) /* of a stack, with the one that says it was cut                  \
                                  */

struct frames;

int frames_open(struct store *store, struct process_table *table, struct frames **frames);
void frames_close(struct frames *frames); /* NULL is fine */
/* Rowids are void. */
void frames_forget(struct frames *frames);

void frames_begin(struct frames *frames);
/* Addresses of the instruction itself, or of the call. What does not fit is left out. */
int frames_add_kernel(struct frames *frames, uint64_t address);
int frames_add_user(struct frames *frames, uint32_t pid, uint64_t time_ns, uint64_t address);
/* As they were told by frames_at_hand() before; their names are not asked for again. */
void frames_add(struct frames *frames, const struct frame *add, size_t n);
/* Names those of the frames at hand that lie in no file, as far as is known. wanted (may be NULL)
 * gets the addresses that are to be asked for, each once; it holds RECORD_MAX_USER_FRAMES. Returns
 * how many. */
uint32_t frames_name_code(struct frames *frames, uint32_t pid, uint64_t time_ns, uint64_t *wanted);
/* What the symbolizer told, for a sample of that time. */
int frames_put_code(struct frames *frames, uint64_t time_ns, const struct symbolizer_code *told);
/* enum unwind_end: unless the outermost frame is there, the stack says why not. */
void frames_end(struct frames *frames, uint8_t end);
/* Borrowed until the next change. */
const struct frame *frames_at_hand(const struct frames *frames, size_t *n);

/* The names of the frames at hand are wanted, and asked for (once) with the next frames_ask(); the
 * stack of this row waits for them. */
void frames_want_names(struct frames *frames, int64_t stack, uint64_t time_ns);
void frames_ask(struct frames *frames);
/* What was wanted FRAMES_NAMES_NS ago is waited for no longer. CLOCK_MONOTONIC, as times of
 * samples. */
int frames_expire_names(struct frames *frames, uint64_t now_ns);

/* The kernel's row; 0 also while nothing is known of it. */
int frames_kernel_row(struct frames *frames);
