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
#endif
