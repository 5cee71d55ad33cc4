/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause */
#pragma once
/* All that differs between processors. */

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
#else
#error "this processor is not known yet"
#endif
