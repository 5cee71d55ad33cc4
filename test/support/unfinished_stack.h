/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Records whose stack the tick could not follow to its end, answers of the analyst, and what is
 * counted of them; with a samples_rig. Asserts with cmocka. Thread: one.
 */
#include "base/stats.h"
#include "receiver/intake/intake_stacks.h"
#include "test/support/samples_rig.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#define JIT UINT64_C(0x7e0000000000) /* mapped by nobody */

struct copied {
    struct record_stack stack;
    uint64_t words[RECORD_STACK_MAX / 8];
};

static inline struct copied *copied_at(uint64_t pc, bool is_return)
{
    struct copied *copied = calloc(1, sizeof(*copied));
    assert_non_null(copied);
    copied->stack =
        (struct record_stack){.pc = pc, .start = 0x7ffd00000000, .is_return = is_return};
    return copied;
}

static inline void push(struct copied *copied, uint64_t word)
{
    copied->words[copied->stack.size / 8] = word;
    copied->stack.size += 8;
}

/* Two frames, the rest wanted from APP + 0x301 on, a return address. */
static inline struct record_parts unfinished(struct copied **copied)
{
    struct record_parts parts = samples_rig_user(2, (uint64_t[]){LIB + 0x100, LIB + 0x201});
    *copied = copied_at(APP + 0x301, true);
    push(*copied, 0);
    push(*copied, APP + 0x401);
    parts.head.end = UNWIND_END_WANTED;
    parts.head.flags |= RECORD_FLAG_TRUNCATED;
    parts.stack = BYTES((const void *)*copied, sizeof((*copied)->stack) + (*copied)->stack.size);
    return parts;
}

static inline uint64_t add_unfinished(struct samples_rig *rig)
{
    struct copied *copied;
    struct analyst_message asked;
    struct record_parts parts = unfinished(&copied);
    samples_rig_add(rig, &parts, 1);
    assert_int_equal(samples_rig_requests(rig, ANALYST_UNWIND_WANTED, &asked), 1);
    free(copied);
    return asked.unwind_wanted.ticket;
}

static inline void answer(struct samples_rig *rig, uint64_t ticket, enum unwind_end end, size_t n,
                          struct analyst_unwound_frame *frames)
{
    samples_rig_answer(rig, &(struct analyst_message){.kind = ANALYST_UNWOUND,
                                                      .unwound = {.ticket = ticket,
                                                                  .end = (uint8_t)end,
                                                                  .n = (uint32_t)n,
                                                                  .frames = frames}});
}

static inline void answer_usual(struct samples_rig *rig, uint64_t ticket)
{
    answer(rig, ticket, UNWIND_END_OF_STACK, 2,
           (struct analyst_unwound_frame[]){{APP + 0x301, 1}, {APP + 0x401, 1}});
}

/* The process gives no names to code that lies in no file. */
static inline void answer_nameless(struct samples_rig *rig)
{
    struct analyst_message asked;
    assert_int_equal(samples_rig_requests(rig, ANALYST_CODE_WANTED, &asked), 1);
    samples_rig_answer(rig, &(struct analyst_message){
                                .kind = ANALYST_CODE,
                                .code = {.ticket = asked.code_wanted.ticket, .pid = RIG_PID}});
}

/* Samples that a profile window would take. */
static inline size_t leave(struct samples_rig *rig, struct samples_rig_left *last)
{
    return samples_rig_leave_settled(rig, last);
}

static inline int64_t counted(const char *name, const char *labels)
{
    int64_t n = stats_find(name, labels);
    assert_true(n >= 0);
    return n;
}

static inline int64_t truncated(const char *reason)
{
    char labels[64];
    snprintf(labels, sizeof(labels), "reason=\"%s\"", reason);
    return counted("spanprof_stacks_truncated_total", labels);
}

static inline int64_t given_up(const char *reason)
{
    char labels[64];
    snprintf(labels, sizeof(labels), "reason=\"%s\"", reason);
    return counted("spanprof_stacks_promises_given_up_total", labels);
}

static inline int64_t not_promised(const char *reason)
{
    char labels[64];
    snprintf(labels, sizeof(labels), "reason=\"%s\"", reason);
    return counted("spanprof_stacks_not_promised_total", labels);
}

static inline void assert_frame(const struct frame *frame, bool has_executable, uint64_t address)
{
    assert_int_equal(frame->kind, STACK_FRAME_NATIVE);
    assert_int_equal(frame->executable != 0, has_executable);
    assert_int_equal(frame->address, address);
}

static inline void assert_cut(const struct samples_rig_left *left, size_t n, enum unwind_end end)
{
    assert_int_equal(left->n_frames, n + 1);
    assert_true(frame_is_truncation(&left->frames[n]));
    assert_int_equal(left->frames[n].address, end);
}
