/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Finds where a thread of a Go executable keeps its g, by decoding a function of the runtime that
 * loads it: on x86-64 runtime.stackcheck (asm_amd64.s), on aarch64 runtime.load_g (tls_arm64.s).
 * The functions are found by their instructions: a stripped program has no names, and since Go 1.26
 * the function table does not contain the start of the code. Symbolizer only. Limit:
 * GO_CODE_BYTES_MAX of code are searched.
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

/* 0, ELF_MISSING: not found, or unknown instructions; negative errno. */
int go_code_find_g(const struct elf *elf, struct go_g *g);
