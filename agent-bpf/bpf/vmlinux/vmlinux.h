/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause */
#ifndef __VMLINUX_H__
#define __VMLINUX_H__
/*
 * The kernel types that the BPF programs use, and of these the fields alone that they use. Offsets
 * come from the running kernel's BTF (preserve_access_index); kernels 6.1 and later have them all.
 */
typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef _Bool bool;
enum { false = 0, true = 1 };

/* user-space ABI, whose values cannot change */
enum bpf_map_type {
    BPF_MAP_TYPE_HASH = 1,
    BPF_MAP_TYPE_ARRAY = 2,
    BPF_MAP_TYPE_PERCPU_ARRAY = 6,
    BPF_MAP_TYPE_LRU_HASH = 9,
    BPF_MAP_TYPE_ARRAY_OF_MAPS = 12,
    BPF_MAP_TYPE_RINGBUF = 27
};
enum { BPF_F_NO_PREALLOC = 1, BPF_RB_NO_WAKEUP = 1, BPF_RB_AVAIL_DATA = 0, BPF_RB_RING_SIZE = 1 };

#if defined(__TARGET_ARCH_x86)
struct pt_regs { /* as the kernel lays it down for user space (struct user_regs) */
    unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax;
    unsigned long ip, cs, flags, sp, ss;
};
typedef struct pt_regs bpf_user_pt_regs_t;
#elif defined(__TARGET_ARCH_arm64)
struct user_pt_regs {
    __u64 regs[31];
    __u64 sp, pc, pstate;
};
typedef struct user_pt_regs bpf_user_pt_regs_t;
#else
#error "no layout of the interrupted registers for this architecture yet"
#endif

struct bpf_perf_event_data {
    bpf_user_pt_regs_t regs;
    __u64 sample_period;
    __u64 addr;
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct ns_common {
    unsigned int inum;
};

struct pid_namespace {
    struct ns_common ns;
};

struct upid {
    int nr;
    struct pid_namespace *ns;
};

struct pid {
    unsigned int level;
    struct upid numbers[1];
};

typedef struct {
    int counter;
} atomic_t;

struct signal_struct {
    atomic_t live;
};

struct qstr {
    const unsigned char *name;
};

struct dentry {
    struct qstr d_name;
    struct inode *d_inode;
};

struct path {
    struct dentry *dentry;
};

struct user_namespace {
    int level;
};

struct super_block {
    __u32 s_dev;
    struct user_namespace *s_user_ns;
};

struct inode {
    unsigned long i_ino;
    long long i_size;
    __u32 i_generation;
    struct super_block *i_sb;
};

struct file {
    __u32 f_mode;
    struct path f_path;
    struct inode *f_inode;
};

struct vm_area_struct {
    unsigned long vm_start;
    unsigned long vm_end;
    struct mm_struct *vm_mm;
    unsigned long vm_flags;
    unsigned long vm_pgoff;
    struct file *vm_file;
};

struct maple_range_64 {
    unsigned long pivot[15];
    void *slot[16];
};

struct maple_arange_64 {
    unsigned long pivot[9];
    void *slot[10];
};

struct maple_tree {
    void *ma_root;
};

typedef struct {
    void *vdso;
} mm_context_t;

struct mm_struct {
    struct maple_tree mm_mt;
    struct file *exe_file;
    unsigned long start_stack;
    mm_context_t context;
};

#if defined(__TARGET_ARCH_x86)
struct thread_struct {
    unsigned long fsbase;
};
#elif defined(__TARGET_ARCH_arm64)
struct pt_regs {
    __u64 regs[31];
};

struct thread_struct {
    struct {
        unsigned long tp_value;
    } uw;
};
#endif

typedef struct {
    __u32 val;
} kuid_t;

struct cred {
    kuid_t fsuid;
};

struct task_struct {
    unsigned int flags;
    struct mm_struct *mm;
    int pid;
    int tgid;
    unsigned int in_execve : 1;
    struct task_struct *group_leader;
    struct pid *thread_pid;
    __u64 start_boottime;
    struct signal_struct *signal;
    struct thread_struct thread;
    const struct cred *cred;
};

struct sock_common {
    __u16 skc_family;
    __u16 skc_num;
    __be16 skc_dport;
};

struct kernfs_node {
    __u64 id;
};

struct cgroup {
    struct kernfs_node *kn;
};

struct sock_cgroup_data {
    struct cgroup *cgroup;
};

struct sock {
    struct sock_common __sk_common;
    __u16 sk_protocol;
    kuid_t sk_uid;
    struct sock_cgroup_data sk_cgrp_data;
};

struct tcp_sock {
    __u32 snd_una;
};

#pragma clang attribute pop
#endif
