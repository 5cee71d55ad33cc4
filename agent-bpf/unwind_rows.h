/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause */
#pragma once
/*
 * How to find the caller of a frame, in a form that BPF programs (after vmlinux.h) and user space
 * share. The text of an executable is divided into pages of UNWIND_PAGE_BYTES of its ELF addresses.
 * A page has rows, sorted by address, the first at 0: a row holds up to the next one. Each names
 * one of the page's rules by index. So a page is complete in itself: it is loaded, moved and thrown
 * out as one piece, and what a strange file says never takes room from another's rules.
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
 * What had to be expressed was counted: 13 million rows of 2,250 files of a Debian 12 with
 * compilers, JDKs and LLVM. CFA: rsp 93.5 %, rbp 6.4 %; every expression was a dereference, the
 * PLT's, or (24 rows of libcrypto) an indexed one, which is left out; other registers only in
 * interrupted frames, but for rbx. Return address: CFA-8, none, a register (82 rows), rsp+168 in
 * signal frames. Frame pointer: CFA, the frame pointer itself (stacks realigned), a register.
 * Source of the format: DWARF 5 section 6.4, LSB 5 "Exception Frames", psABIs of x86-64 and
 * aarch64.
 */
#ifndef __VMLINUX_H__
#include <linux/types.h>
#endif

#define UNWIND_PAGE_SHIFT 16
#define UNWIND_PAGE_BYTES (1u << UNWIND_PAGE_SHIFT)
#define UNWIND_ROWS_MAX   UNWIND_PAGE_BYTES /* in a page */
#define UNWIND_RULES_MAX  4096              /* in a page; seen: 264; further ones: UNWIND_UNKNOWN */

struct unwind_row {
    __u16 low;  /* the low bits of its ELF address */
    __u16 rule; /* index in the page's rules */
};

enum unwind_cfa {
    UNWIND_NO_INFO = 0,  /* nothing is said of this address: the frame pointer may be tried */
    UNWIND_UNKNOWN = 1,  /* something is said that cannot be expressed here */
    UNWIND_REGISTER = 2, /* base + cfa_offset */
    UNWIND_DEREF = 3,    /* *(base + cfa_offset) + cfa_add */
    UNWIND_PLT = 4,      /* base + cfa_offset, + 8 where (pc & 15) >= cfa_add */
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

/* The return address is where the caller was interrupted, not behind a call. */
#define UNWIND_SIGNAL_FRAME 1

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

_Static_assert(sizeof(struct unwind_row) == 4, "shared form");
_Static_assert(sizeof(struct unwind_rule) == 16, "shared form");
