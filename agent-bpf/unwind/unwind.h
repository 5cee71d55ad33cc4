/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Unwinding in user space: registers, a copy of the stack and the rules of unwind_rows.h give the
 * addresses of a thread's frames, leaf first. Everything that is read may be torn or made up by the
 * thread: reads stay within the copy, each step must climb the stack, and frames are counted.
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
    bool is_return;       /* what registers.pc is: behind a call, else the instruction itself */
    uint64_t stack_start; /* address of the copy's first byte */
    struct bytes stack;
    /* The rule for an address of the thread; UNWIND_NO_INFO for code of which nothing is known.
     * False: there is no code. */
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
};

void unwind(const struct unwind_input *input, struct unwind_frames *frames);
