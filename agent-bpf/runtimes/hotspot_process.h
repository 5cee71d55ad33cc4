/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause */
#pragma once
/*
 * What the walk over HotSpot's frames needs of a process, and what naming them needs: shared by the
 * BPF programs (after vmlinux.h) and user space. Written by hotspot_attach.c from the tables that a
 * JVM exports for debuggers (hotspot_tables.h); nothing in it is compiled in but what no table
 * tells. Offsets are bytes from the start of the named object; HOTSPOT_NONE: it has no such field.
 */
#ifndef __VMLINUX_H__
#include <linux/types.h>
#endif

#define HOTSPOT_HEAPS       4 /* one, or non-nmethods, profiled, non-profiled; 27: hot ones too */
#define HOTSPOT_ENTRIES_MAX 8 /* method entries of the interpreter that make a frame; seen: 6 */
#define HOTSPOT_NONE        0xffff
#define HOTSPOT_BLOB_BYTES  400 /* read of HeapBlock and CodeBlob; largest seen: 16 + 376 */
#define HOTSPOT_SYMBOL_HEAD 8   /* read of a Symbol: it has its length and its references */

/* Frames that are missing in a stack: FRAME_JVM_GAP. */
enum hotspot_gap {
    HOTSPOT_GAP_FROZEN = 0, /* of a virtual thread, not on this stack */
    HOTSPOT_GAP_NATIVE = 1, /* of native code that nothing tells how to unwind */
};

/* A code heap: `segmap` has a byte for each segment of 1 << segment_shift bytes, which leads to the
 * header of the block that the segment belongs to. An unused heap has low == high. */
struct hotspot_heap {
    __u64 low;
    __u64 high;
    __u64 segmap;
};

/* A method entry of the interpreter, in bytes from its start. In front of `pop` the return address
 * is on top of the stack, up to `push` it is in rax, from `push` on the frame is made, from `saved`
 * on the Method is in it. */
struct hotspot_entry {
    __u32 start;
    __u32 end;
    __u32 pop;
    __u32 push;
    __u32 saved;
};

/* Bytes behind `push`: push rax, push rbp, mov rbp, rsp, push r13. */
#define HOTSPOT_PUSH_RBP 1
#define HOTSPOT_MOV_RBP  2
#define HOTSPOT_SAVED_SP 7 /* r13 is pushed: the caller's stack pointer is in the frame */

/* Of CodeBlob and nmethod, within HOTSPOT_BLOB_BYTES. */
struct hotspot_blob_layout {
    __u16 block_bytes; /* sizeof(HeapBlock), which lies in front of each CodeBlob */
    __u16 block_length;
    __u16 block_used;
    __u16 name;
    __u16 size;
    __u16 header_size;
    __u16 frame_size; /* words */
    __u16 frame_complete;
    __u16 code_begin; /* pointers, or (has_offsets) offsets from the CodeBlob */
    __u16 code_end;
    __u16 compile_id;
    __u16 level;
    __u16 deopt; /* of nmethods; pointers, or (deopt_is_offset) offsets from the CodeBlob */
    __u16 deopt_method_handle;
    __u16 original_pc;   /* int: where a deoptimized frame has its pc, from its stack pointer */
    __u16 nmethod_bytes; /* header_size of an nmethod and of no other CodeBlob */
    __u8 has_offsets;
    __u8 deopt_is_offset;
    __u8 length_bytes;         /* width of the field: 4 or 8 */
    __u8 header_size_bytes;    /* 2 or 4 */
    __u8 frame_complete_bytes; /* 2 or 4 */
    __u8 level_bytes;          /* 1 or 4 */
};

/* Of Method and ConstMethod, as far as the walk needs them. */
struct hotspot_method_layout {
    __u16 const_method; /* in Method */
    __u16 code_size;    /* in ConstMethod */
    __u16 bytecodes;    /* sizeof(ConstMethod): they lie behind it */
    __u16 bcp_slot;     /* bytes below an interpreted frame's frame pointer */
};

/* Where a thread notes its last frame of Java when it leaves Java's code. */
struct hotspot_thread_layout {
    __u16 module;   /* the library's blocks of thread-local variables, in the DTV; 0: not known */
    __u16 variable; /* in its block: the address of the thread's Thread */
    __u16 anchor;   /* in JavaThread */
    __u16 anchor_sp;
    __u16 anchor_pc;
    __u16 anchor_fp;
};

/* What only names need. */
struct hotspot_names_layout {
    __u16 method; /* in nmethod */
    /* Metadata (Method pointers): at metadata_base (a pointer in the nmethod) plus metadata, an int
     * in the nmethod; HOTSPOT_NONE as the base: at the CodeBlob. The same for the other two. */
    __u16 metadata_base;
    __u16 metadata;
    __u16 metadata_more; /* a further int that is added */
    __u16 scopes_data_base;
    __u16 scopes_data;     /* HOTSPOT_NONE: the base points to it */
    __u16 scopes_data_end; /* int, from the base on; HOTSPOT_NONE: where the PcDescs begin */
    __u16 scopes_pcs_base;
    __u16 scopes_pcs;
    __u16 scopes_pcs_end;
    __u16 pc_desc_bytes; /* sizeof(PcDesc) */
    __u16 pc_desc_pc;
    __u16 pc_desc_scope;
    __u16 const_method_constants;
    __u16 const_method_size; /* words */
    __u16 const_method_flags;
    __u16 const_method_name;
    __u16 const_method_signature;
    __u16 pool_holder;
    __u16 pool_bytes; /* sizeof(ConstantPool): its entries lie behind it */
    __u16 pool_source_file;
    __u16 klass_source_file; /* in InstanceKlass: HotSpot 14 and earlier */
    __u16 klass_name;
    __u16 klass_constants; /* in InstanceKlass */
    __u16 klass_next;      /* of the same ClassLoaderData */
    __u16 klass_loader_data;
    __u16 loader_classes; /* in ClassLoaderData, from 11 on */
    __u16 loader_kind;    /* a bool behind the one that says that the loader is gone */
    __u16 symbol_length;
    __u16 symbol_body;
    __u16 symbol_references;  /* 16 bits; 0: it was freed. HOTSPOT_NONE: not known */
    __u8 metadata_bytes;      /* width of `metadata`: 2 or 4 */
    __u8 symbol_length_shift; /* 16: the upper half of an int */
    __u8 unsigned5_excluded;  /* 1: no byte of a number is 0 */
    __u8 major;               /* version */
};

struct hotspot_process {
    struct hotspot_heap heaps[HOTSPOT_HEAPS];
    __u64 interpreter; /* its code */
    __u64 interpreter_end;
    __u64 call_stub_return; /* address that Java methods called from native code return to */
    __u64 stub_list;        /* variable with the first StubCodeDesc; 0: not known */
    __u64 return_barrier;   /* what the lowest frame of a virtual thread returns to; 0: none */
    __u32 entries_start;    /* method entries of any kind, from `interpreter` on */
    __u32 entries_end;
    struct hotspot_entry entries[HOTSPOT_ENTRIES_MAX];
    __u32 n_entries;
    __u32 segment_shift;
    struct hotspot_blob_layout blob;
    struct hotspot_method_layout method;
    struct hotspot_thread_layout thread;
    struct hotspot_names_layout names;
} __attribute__((aligned(8)));

_Static_assert(sizeof(struct hotspot_process) % 8 == 0, "it is a part of a BPF map value");
