/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Unwinding in user space: registers, a copy of the stack and the rules of unwind_rows.h give the
 * addresses of a thread's frames, leaf first. The thread may have torn or forged everything: reads
 * stay within the copy, each step must go up the stack, and the number of frames is limited.
 * Thread: any; no state.
 */
#include "agent-bpf/unwind_rows.h"
#include "base/bytes.h"

#define UNWIND_FRAMES_MAX 512

struct unwind_registers {
    uint64_t pc;
    uint64_t of[UNWIND_REGISTERS_MAX]; /* by DWARF number */
    uint32_t known;                    /* a bit for each */
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
    void *context;
};

struct unwind_frame {
    uint64_t pc;
    bool is_return; /* pc lies behind a call; else it is the instruction itself */
};

struct unwind_frames {
    struct unwind_frame frames[UNWIND_FRAMES_MAX];
    uint32_t n;
    enum unwind_end end;
    struct unwind_registers registers; /* of the first frame that is not among them */
};

void unwind(const struct unwind_input *input, struct unwind_frames *frames);
