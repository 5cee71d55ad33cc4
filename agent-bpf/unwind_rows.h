/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause */
#pragma once
/*
 * How to find the caller of a frame, in a form that BPF programs (after vmlinux.h) and user space
 * share. The text of an executable is divided into pages of UNWIND_PAGE_BYTES of its ELF addresses.
 * A page has rows, sorted by address, the first at 0: a row holds up to the next one. Each has the
 * index of one of the page's rules. So a page is self-contained: it is loaded and evicted as a
 * whole, and one file's rules never take room from those of another.
 *
 * A rule is followed with the registers of the frame:
 *   CFA ("canonical frame address") by rule.cfa; it is the caller's stack pointer
 *   return address, frame pointer and third register of the caller: each in memory, at
 *   offset * 8 from the CFA, the stack pointer or the frame pointer, or in a register of the frame
 *   (its own: unchanged), by UNWIND_PLACE()
 * Registers have their DWARF numbers. The "third register" is one that survives calls, and by which
 * hand-written code finds its CFA while it calls others: rbx (ld.so's lazy binding), x19. Other
 * registers are only good in a frame that was interrupted, whose registers are all known.
 *
 * What needs to be expressed was counted in 13 million rows of 2,250 files of a Debian 12 with
 * compilers, JDKs and LLVM. CFA: rsp 93.5 %, rbp 6.4 %; every expression was a dereference, the
 * PLT's, or (24 rows of libcrypto) an indexed dereference; other registers only in interrupted
 * frames, but for rbx. Return address: CFA-8, none, a register (82 rows), rsp+168 in
 * signal frames. Frame pointer: CFA, the frame pointer itself (stacks realigned), a register.
 * Source of the format: DWARF 5 section 6.4, LSB 5 "Exception Frames", psABIs of x86-64 and
 * aarch64.
 */
#ifndef __VMLINUX_H__
#include <linux/types.h>
#endif
#include "agent-bpf/unwind_end.h"

#define UNWIND_PAGE_SHIFT 16
#define UNWIND_PAGE_BYTES (1u << UNWIND_PAGE_SHIFT)
#define UNWIND_ROWS_MAX   UNWIND_PAGE_BYTES /* in a page */
#define UNWIND_RULES_MAX  4096              /* in a page; seen: 264; further ones: UNWIND_UNKNOWN */

struct unwind_row {
    __u16 low;  /* the low bits of its ELF address */
    __u16 rule; /* index in the page's rules */
};

enum unwind_cfa {
    UNWIND_NO_INFO = 0,  /* no information about this address: the frame pointer may be tried */
    UNWIND_UNKNOWN = 1,  /* the information cannot be expressed here */
    UNWIND_REGISTER = 2, /* base + cfa_offset */
    UNWIND_DEREF = 3,    /* *(base + cfa_offset) + cfa_add */
    UNWIND_PLT = 4,      /* base + cfa_offset, + 8 where (pc & 15) >= cfa_add */
    UNWIND_INDEXED = 5,  /* *(base + cfa_offset + 8 * UNWIND_INDEX) + UNWIND_INDEXED_ADD */
};

enum unwind_place {
    UNWIND_AT_CFA = 0,
    UNWIND_AT_SP = 1,
    UNWIND_AT_FP = 2,
    UNWIND_IN_REGISTER = 3, /* its number, or UNWIND_LOST */
};

enum unwind_slot { UNWIND_RA = 0, UNWIND_FP = 1, UNWIND_THIRD = 2, UNWIND_SLOTS = 3 };

#define UNWIND_LOST 255 /* of a return address: there is no caller; else: not known */
#define UNWIND_WORD 8

/* Flags of a rule. */
#define UNWIND_SIGNAL_FRAME 1 /* the caller was interrupted: its address is not behind a call */
#define UNWIND_OTHER_STACK  2 /* the caller may lie on another stack, or below */

struct unwind_rule {
    __s32 cfa_offset;
    __s16 cfa_add;
    __s16 offsets[UNWIND_SLOTS]; /* words of UNWIND_WORD bytes; or a register */
    __u8 cfa;                    /* enum unwind_cfa */
    __u8 base;                   /* register */
    __u8 places;                 /* enum unwind_place, two bits a slot */
    __u8 flags;
};

#define UNWIND_PLACE(rule, slot) ((rule)->places >> (2 * (slot)) & 3)

/* Both are in cfa_add. */
#define UNWIND_INDEX(rule)          ((__u16)(rule)->cfa_add >> 8) /* register */
#define UNWIND_INDEXED_ADD(rule)    ((rule)->cfa_add & UNWIND_INDEXED_ADD_MAX)
#define UNWIND_INDEXED_ADD_MAX      255
#define UNWIND_INDEXED_BY(reg, add) ((reg) << 8 | (add))

#define UNWIND_REGISTERS_MAX 32 /* by DWARF number */

_Static_assert(sizeof(struct unwind_row) == 4, "shared form");
_Static_assert(sizeof(struct unwind_rule) == 16, "shared form");

/*
 * The BPF maps that the symbolizer fills. The tick program identifies a file by the kernel's data
 * of its mapping, so an executable that is loaded serves every process that maps it, from its first
 * instruction on.
 *   executables: struct unwind_file -> struct unwind_executable
 *   pages: struct unwind_page_key -> struct unwind_page_entry
 *   blocks: struct unwind_block_key -> struct unwind_block
 * A page whose rows and rules do not fit one block is cut into 2^n equal ranges of addresses. What
 * is missing is requested by a record with RECORD_FLAG_STACK.
 */
struct unwind_file {
    __u64 inode;
    __u64 size;
    __u32 device; /* as the kernel has it: major << 20 | minor */
    __u32 generation;
};

/* The kernel's vdso, which is no file. */
#define UNWIND_VDSO_INODE  1
#define UNWIND_VDSO_DEVICE (~0u)

#define UNWIND_SEGMENTS_MAX 4

struct unwind_segment { /* of PT_LOAD, executable */
    __u64 offset;       /* in the file; first and last byte rounded out to memory pages */
    __u64 end;
    __u64 bias; /* ELF address minus offset */
};

enum unwind_how {
    UNWIND_BY_ROWS = 1,
    UNWIND_BY_FRAME_POINTERS = 2, /* it has no rows, or cannot be read */
};

struct unwind_executable {
    __u32 id; /* in the keys below; never used again */
    __u8 how; /* enum unwind_how */
    __u8 n_segments;
    __u16 reserved;
    struct unwind_segment segments[UNWIND_SEGMENTS_MAX];
};

#define UNWIND_ADDRESS_MAX (1ULL << 38) /* ELF addresses beyond: by frame pointers */
#define UNWIND_BLOCK_BYTES                                                                         \
    (16 + 16 * UNWIND_BLOCK_RULES_MAX) /* an entry of 4096 bytes with what the kernel adds */
#define UNWIND_BLOCK_RULES_MAX 248
#define UNWIND_BLOCK_ROWS_MAX  (4 * UNWIND_BLOCK_RULES_MAX)
#define UNWIND_BLOCK_SHIFT_MIN 6 /* 64 bytes of code always fit */

struct unwind_page_key {
    __u32 executable;
    __u32 page; /* ELF address >> UNWIND_PAGE_SHIFT */
};

struct unwind_page_entry {
    __u32 used_s;      /* CLOCK_MONOTONIC in seconds; the tick program notes it */
    __u32 block_shift; /* log2 of the bytes of code that a block is about */
};

struct unwind_block_key {
    __u32 executable;
    __u32 start; /* ELF address >> UNWIND_BLOCK_SHIFT_MIN */
};

/* Rows from the front, rules from the back: rule i is rules[UNWIND_BLOCK_RULES_MAX - 1 - i]. The
 * first row begins where the block does. */
struct unwind_block {
    /* Key and shift as they were looked up by: entries are reused while they are read. */
    struct unwind_block_key key;
    __u16 n_rows;
    __u16 n_rules;
    __u32 shift; /* log2 of the bytes of code that it is about */
    union {
        struct unwind_row rows[UNWIND_BLOCK_ROWS_MAX];
        struct unwind_rule rules[UNWIND_BLOCK_RULES_MAX];
    };
};

_Static_assert(sizeof(struct unwind_file) == 24, "map key");
_Static_assert(sizeof(struct unwind_executable) == 8 + 24 * UNWIND_SEGMENTS_MAX, "map value");
_Static_assert(sizeof(struct unwind_block) == UNWIND_BLOCK_BYTES, "map value");
