/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Where a thread of a Go executable keeps its g, decoded from the one function of the runtime that
 * loads it: on x86-64 runtime.stackcheck (asm_amd64.s), on
 * aarch64 runtime.load_g (tls_arm64.s). They are found by their instructions, as a stripped program
 * has no names, and since Go 1.26 the table of functions does not say where the code begins.
 * Symbolizer only. Limits: GO_CODE_BYTES_MAX of code are looked through.
 */
#include "agent-bpf/files/elf.h"

#define GO_CODE_BYTES_MAX (UINT64_C(64) << 20) /* the linkers put the runtime first */

enum go_g_place {
    GO_G_AT_OFFSET,   /* offset, from the thread pointer */
    GO_G_IN_WORD,     /* the offset is in the word at vaddr, in memory */
    GO_G_IN_REGISTER, /* x28 alone: aarch64 without cgo uses no thread-local storage */
};

struct go_g {
    enum go_g_place place;
    int64_t offset;
    uint64_t vaddr;
};

/* 0, ELF_MISSING: not found, or not understood; negative errno. */
int go_code_find_g(const struct elf *elf, struct go_g *g);
