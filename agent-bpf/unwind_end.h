/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause */
#pragma once
/*
 * Why a stack has no further user frames, once for all: the tick and the symbolizer decide on one,
 * the store keeps its number (so it never changes) and shows its name. Included by the BPF programs
 * too.
 */
#define UNWIND_END_ROWS(ROW)                                                                       \
    ROW(UNWIND_END_TRUNCATED, "depth") /* as many frames as there may be */                        \
    /* the stack cannot be read there, or lies beyond its copy */                                  \
    ROW(UNWIND_END_NO_MEMORY, "memory")                                                            \
    ROW(UNWIND_END_NO_PROGRESS, "no_progress")                                                     \
    /* a return address, or a leaf, that lies in no code */                                        \
    ROW(UNWIND_END_BAD_ADDRESS, "bad_address")                                                     \
    /* no rule is known, or one of a register that is not known */                                 \
    ROW(UNWIND_END_UNKNOWN, "no_unwind_info")                                                      \
    ROW(UNWIND_END_WANTED, "not_loaded") /* the rows of this code are not loaded (yet) */          \
    ROW(UNWIND_END_FOREIGN, "foreign")   /* code of another kind of machine: 32 bit */

#define UNWIND_END_ENUM_ROW(symbol, name) symbol,
enum unwind_end {
    UNWIND_END_OF_STACK, /* the outermost frame is there */
    UNWIND_END_ROWS(UNWIND_END_ENUM_ROW) UNWIND_ENDS,
};
#undef UNWIND_END_ENUM_ROW

/* Initialises an array of names by number; UNWIND_END_OF_STACK has none (NULL). */
#define UNWIND_END_NAME_ROW(symbol, name) [symbol] = name,
#define UNWIND_END_NAMES                                                                           \
    {                                                                                              \
        UNWIND_END_ROWS(UNWIND_END_NAME_ROW)                                                       \
    }
