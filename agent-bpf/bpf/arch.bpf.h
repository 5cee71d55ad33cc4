/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause */
#pragma once
/* All that differs between processors. */
#include "agent-bpf/bpf/record_builder.bpf.h"

#if defined(__TARGET_ARCH_x86)
/* The saved base is right for a running thread too: clone, exec and arch_prctl all store it. Only a
 * program that moves FS with WRFSBASE is read wrongly until its next switch. */
static __always_inline __u64 arch_thread_pointer(const struct task_struct *task)
{
    return task->thread.fsbase;
}

static __always_inline bool arch_in_user_mode(const bpf_user_pt_regs_t *regs)
{
    return (regs->cs & 3) == 3;
}

/* Go's g where no thread-local variable holds it. */
static __always_inline __u64 arch_go_g(void)
{
    return 0;
}

/* DWARF numbers, as eh_machine has them. */
#define ARCH_SP           7
#define ARCH_FP           6
#define ARCH_THIRD        3
#define ARCH_ADDRESS_MASK (~0ULL)

#define X86_USER_CS 0x33 /* of 64-bit code */

/* From where user code is to be unwound; false: it is of 32 bits. */
static __always_inline bool arch_user_registers(const struct bpf_perf_event_data *ctx,
                                                bool user_mode, struct walk *walk)
{
    struct pt_regs *regs = (struct pt_regs *)walk->node; /* the stack of the programs is small */
    _Static_assert(sizeof(*regs) <= sizeof(walk->node), "scratch");
    if (user_mode)
        *regs = ctx->regs;
    else if (bpf_probe_read_kernel(regs, sizeof(*regs),
                                   (void *)bpf_task_pt_regs(bpf_get_current_task_btf())))
        return false;
    __u64 *of = walk->registers; /* by DWARF number */
    of[0] = regs->ax, of[1] = regs->dx, of[2] = regs->cx, of[3] = regs->bx;
    of[4] = regs->si, of[5] = regs->di, of[6] = regs->bp, of[7] = regs->sp;
    of[8] = regs->r8, of[9] = regs->r9, of[10] = regs->r10, of[11] = regs->r11;
    of[12] = regs->r12, of[13] = regs->r13, of[14] = regs->r14, of[15] = regs->r15;
    walk->known = 0xffff;
    walk->pc = regs->ip;
    return regs->cs == X86_USER_CS;
}
#elif defined(__TARGET_ARCH_arm64)
/* Saved when the thread is switched out. Programs set the register by themselves, but once a
 * thread, long before there is a context. */
static __always_inline __u64 arch_thread_pointer(const struct task_struct *task)
{
    return task->thread.uw.tp_value;
}

static __always_inline bool arch_in_user_mode(const bpf_user_pt_regs_t *regs)
{
    return (regs->pstate & 0xf) == 0; /* EL0 */
}

/* Without cgo the runtime keeps it in x28 alone. As user code left it, also within a system call.
 */
static __always_inline __u64 arch_go_g(void)
{
    const struct pt_regs *regs = (void *)bpf_task_pt_regs(bpf_get_current_task_btf());
    return BPF_CORE_READ(regs, regs[28]);
}

/* DWARF numbers, as eh_machine has them. Bits above an address may hold a signature. */
#define ARCH_SP           31
#define ARCH_FP           29
#define ARCH_THIRD        19
#define ARCH_ADDRESS_MASK ((1ULL << 48) - 1)

#define PSR_32_BIT 0x10

/* From where user code is to be unwound; false: it is of 32 bits. */
static __always_inline bool arch_user_registers(const struct bpf_perf_event_data *ctx,
                                                bool user_mode, struct walk *walk)
{
    struct user_pt_regs regs;
    if (user_mode)
        regs = ctx->regs;
    else if (bpf_probe_read_kernel(&regs, sizeof(regs), /* struct pt_regs begins with it */
                                   (void *)bpf_task_pt_regs(bpf_get_current_task_btf())))
        return false;
    for (int i = 0; i < 31; i++)
        walk->registers[i] = regs.regs[i];
    walk->registers[ARCH_SP] = regs.sp;
    walk->known = ~0u;
    walk->pc = regs.pc;
    return !(regs.pstate & PSR_32_BIT);
}
#else
#error "this processor is not known yet"
#endif
