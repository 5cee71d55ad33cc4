/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Unwinding in user space: registers, a copy of the stack and the rules of unwind_rows.h give the
 * addresses of a thread's frames, leaf first. The thread may have torn or forged everything: reads
 * stay within the copy, each step must go up the stack, and the number of frames is limited.
 * Thread: any; no state.
 */
#include "agent-bpf/record_frame.h"
#include "agent-bpf/unwind_rows.h"
#include "base/bytes.h"

#define UNWIND_FRAMES_MAX 512

struct unwind_registers {
    uint64_t pc;
    uint64_t of[UNWIND_REGISTERS_MAX]; /* by DWARF number */
    uint32_t known;                    /* a bit for each */
};

/* A step over a frame of a runtime, whose code has no rows. */
#define UNWIND_STEP_FRAMES 2
struct unwind_step {
    struct unwind_registers registers; /* of the frame; then of its caller */
    bool is_return;                    /* what registers.pc is, of both */
    uint32_t n_frames;                 /* that were found, leaf first; may be none */
    struct record_frame frames[UNWIND_STEP_FRAMES];
};

enum {
    UNWIND_GOES_ON = -1, /* of a step; else enum unwind_end */
    UNWIND_NOT_A_RUNTIME = -2,
};

struct unwind_input {
    uint16_t elf_machine; /* EM_X86_64, EM_AARCH64 */
    struct unwind_registers registers;
    bool is_return; /* registers.pc is behind a call; otherwise it is the instruction itself */
    uint64_t stack_start; /* address of the copy's first byte */
    struct bytes stack;
    /* The rule for an address of the thread; UNWIND_NO_INFO for unknown code. False: there
     * is no code. */
    bool (*find)(void *context, uint64_t address, struct unwind_rule *rule);
    /* NULL: no runtime. UNWIND_NOT_A_RUNTIME: the code at the address is none of a runtime's. */
    int (*step)(void *context, uint64_t address, struct unwind_step *step);
    /* NULL: none. If the code at the address works off an interpreter's list: the tag of its CFA
     * (FRAME_NATIVE_EVAL in record.h); 0: it does not. */
    uint64_t (*evaluates)(void *context, uint64_t address);
    void *context;
};

struct unwind_frame {
    uint64_t pc;
    bool is_return;           /* pc lies behind a call; else it is the instruction itself */
    uint64_t evaluates;       /* tag of the CFA of code that works off a list; else 0 */
    uint64_t cfa;             /* of code that does */
    struct record_frame code; /* of a runtime, instead of the others; all 0: it is none */
};

struct unwind_frames {
    struct unwind_frame frames[UNWIND_FRAMES_MAX];
    uint32_t n;
    enum unwind_end end;
    struct unwind_registers registers; /* of the first frame that is not among them */
};

void unwind(const struct unwind_input *input, struct unwind_frames *frames);
