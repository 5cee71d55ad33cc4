/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause */
#pragma once
/*
 * Finds the file whose code an address of the current process is in, in the kernel's own tree of
 * mappings. So a new process, a library that was just loaded, and a file mapped over another one
 * are known at once. The tree is read without its lock while other threads may change it, so data
 * may be stale or garbage: each read may fail, the depth is limited, and a mapping only counts if
 * it belongs to this process and contains the address. (bpf_find_vma() takes the lock, but works
 * only once per tick, with interrupts off.) Source of the layout: the kernel's maple tree, 6.1
 * to 6.18; constants that are not in BTF are below.
 */
#include "agent-bpf/bpf/record_builder.bpf.h"

/* Set before loading. */
const volatile __u32 page_shift = 12; /* log2 of the bytes of a memory page */

#define MAPLE_DEPTH_MAX       8 /* 16^8 mappings */
#define MAPLE_LEAF_MAX        1 /* types of nodes: up to here leaves */
#define MAPLE_ARANGE          3
#define MAPLE_NODE_BYTES      256
#define MAPLE_TYPE(entry)     ((entry) >> 3 & 15)
#define MAPLE_IS_NODE(entry)  ((entry) > 4096) /* else it is empty, or a mark */
#define MAPLE_FIELD(type, at) (bpf_core_field_offset(struct type, at) / 8)

#define VM_EXEC       4
#define FMODE_BACKING (LINUX_KERNEL_VERSION >= KERNEL_VERSION(6, 14, 0) ? 1u << 24 : 1u << 25)

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 4096);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, struct unwind_file);
    __type(value, struct unwind_executable);
} executables SEC(".maps");

static __always_inline __u32 maple_slot(const struct walk *walk, __u64 address, __u32 pivots,
                                        __u32 n_pivots)
{
    __u32 slot = 0;
    for (; slot < 15; slot++) {
        __u64 pivot = walk->node[(pivots + slot) & 31];
        if (slot >= n_pivots || address <= pivot || (slot && !pivot)) /* 0: no further ones */
            break;
    }
    return slot;
}

/* The mapping of an address goes to walk->vma. */
__noinline int mapping_find_vma(struct build *build, __u64 address)
{
    if (!build)
        return 1;
    struct walk *walk = &build->walk;
    __u64 entry = walk->maple_root;
    for (int depth = 0; depth < MAPLE_DEPTH_MAX; depth++) {
        if (!MAPLE_IS_NODE(entry) ||
            bpf_probe_read_kernel(walk->node, MAPLE_NODE_BYTES,
                                  (void *)(entry & ~(MAPLE_NODE_BYTES - 1ULL))))
            return 1;
        __u64 type = MAPLE_TYPE(entry);
        bool arange = type == MAPLE_ARANGE;
        __u32 pivots =
            arange ? MAPLE_FIELD(maple_arange_64, pivot) : MAPLE_FIELD(maple_range_64, pivot);
        __u32 slots =
            arange ? MAPLE_FIELD(maple_arange_64, slot) : MAPLE_FIELD(maple_range_64, slot);
        entry = walk->node[(slots + maple_slot(walk, address, pivots, slots - pivots)) & 31];
        if (type <= MAPLE_LEAF_MAX)
            break;
    }
    walk->vma = entry;
    return !entry || (entry & 3);
}

extern int LINUX_KERNEL_VERSION __kconfig;

struct backing_file___user_path {
    struct path user_path;
} __attribute__((preserve_access_index));

/* Of a mapping of an overlay's file, vm_file is the file below. Where root has mounted the overlay,
 * its inode number proves which file that is. In a user namespace anybody mounts one, and the file
 * above is named. */
static __always_inline const struct inode *mapping_inode(const struct file *vm_file)
{
    const struct inode *below = BPF_CORE_READ(vm_file, f_inode);
    if (!bpf_core_field_exists(struct backing_file___user_path, user_path) ||
        !(BPF_CORE_READ(vm_file, f_mode) & FMODE_BACKING))
        return below;
    const struct backing_file___user_path *backing = (const void *)vm_file;
    const struct inode *above = BPF_CORE_READ(backing, user_path.dentry, d_inode);
    return above && BPF_CORE_READ(above, i_sb, s_user_ns, level) ? above : below;
}

/* Zero: it is no file. */
static __always_inline void mapping_file(struct unwind_file *file, const struct file *vm_file,
                                         bool vdso)
{
    __builtin_memset(file, 0, sizeof(*file));
    if (vdso) {
        file->inode = UNWIND_VDSO_INODE;
        file->device = UNWIND_VDSO_DEVICE;
    } else if (vm_file) {
        const struct inode *inode = mapping_inode(vm_file);
        file->inode = BPF_CORE_READ(inode, i_ino);
        file->size = (__u64)BPF_CORE_READ(inode, i_size);
        file->generation = BPF_CORE_READ(inode, i_generation);
        file->device = BPF_CORE_READ(inode, i_sb, s_dev);
    }
}

/* offset: of the address in the file; bias: what makes that offset of it. */
static __always_inline void mapping_place(struct walk_mapping *mapping, __u64 offset, __u64 bias)
{
    struct unwind_file file = mapping->file; /* kernel 6.1 takes no key from where build lies */
    const struct unwind_executable *executable = bpf_map_lookup_elem(&executables, &file);
    mapping->how = 0;
    if (!executable)
        return;
    mapping->executable = executable->id;
    mapping->how = UNWIND_BY_FRAME_POINTERS;
    for (int i = 0; i < UNWIND_SEGMENTS_MAX; i++) {
        const struct unwind_segment *segment = &executable->segments[i];
        if (i >= executable->n_segments || offset < segment->offset || offset >= segment->end)
            continue;
        mapping->bias = bias + segment->bias;
        mapping->how = executable->how;
        return;
    }
}

/* True: there is code at the address. It is remembered, at index walk->mapping. */
static __noinline bool mapping_learn(struct build *build, __u64 address)
{
    struct walk *walk = &build->walk;
    if (mapping_find_vma(build, address))
        return false;
    const struct vm_area_struct *vma = (const struct vm_area_struct *)walk->vma;
    __u64 start = BPF_CORE_READ(vma, vm_start), end = BPF_CORE_READ(vma, vm_end);
    if (address < start || address >= end || (__u64)BPF_CORE_READ(vma, vm_mm) != walk->mm ||
        !(BPF_CORE_READ(vma, vm_flags) & VM_EXEC))
        return false;
    __u32 at = walk->n_mappings++ % WALK_MAPPINGS;
    struct walk_mapping *mapping = &walk->mappings[at];
    const struct mm_struct *mm = (const struct mm_struct *)walk->mm;
    __u64 bias = (BPF_CORE_READ(vma, vm_pgoff) << page_shift) - start;
    bool vdso = start == (__u64)BPF_CORE_READ(mm, context.vdso);
    mapping->start = start;
    mapping->end = end;
    mapping_file(&mapping->file, BPF_CORE_READ(vma, vm_file), vdso);
    if (vdso)
        bias = -start;
    if (mapping->file.inode)
        mapping_place(mapping, address + bias, bias);
    else
        mapping->how = UNWIND_BY_FRAME_POINTERS; /* made at run time */
    walk->mapping = at;
    return true;
}

static __always_inline bool mapping_holds(const struct walk *walk, __u32 i, __u64 address)
{
    const struct walk_mapping *mapping = &walk->mappings[i % WALK_MAPPINGS];
    return address >= mapping->start && address < mapping->end;
}

static __always_inline bool mapping_find(struct build *build, __u64 address)
{
    struct walk *walk = &build->walk;
    if (mapping_holds(walk, walk->mapping, address))
        return true;
    for (__u32 i = 0; i < WALK_MAPPINGS; i++) {
        if (!mapping_holds(walk, i, address))
            continue;
        walk->mapping = i;
        return true;
    }
    return mapping_learn(build, address);
}

static __always_inline void mapping_begin(struct walk *walk, const struct mm_struct *mm)
{
    walk->mm = (__u64)mm;
    walk->maple_root = (__u64)BPF_CORE_READ(mm, mm_mt.ma_root);
    walk->n_mappings = walk->mapping = 0;
    for (int i = 0; i < WALK_MAPPINGS; i++)
        walk->mappings[i].end = 0;
}
