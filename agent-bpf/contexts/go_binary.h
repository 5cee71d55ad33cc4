/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What is needed of a Go executable to read its goroutines' pprof labels: the version of its
 * runtime, which determines the offsets, and where a thread keeps its g. It needs neither symbols
 * nor DWARF, so it works for stripped programs. Symbolizer only; reads only through its arguments.
 * Go 1.13 to 1.27, x86-64 and aarch64; other versions give GO_BINARY_UNSUPPORTED. Sources: the Go
 * runtime's own (runtime2.go, asm_*.s, tls_*.s); debug/buildinfo for the version.
 */
#include "agent-bpf/files/elf.h"
#include "agent-bpf/record.h"

struct go_binary {
    bool found;          /* it is a Go executable */
    uint8_t labels_form; /* enum go_labels_form; 0 = labels cannot be read (unsupported version) */
    uint16_t major, minor;
    uint16_t g_m, m_curg, g_labels; /* offsets in bytes */
    bool g_in_word; /* the offset lies in the word at g_vaddr (runtime.tlsg), in memory */
    uint64_t g_vaddr;
    bool g_in_register; /* aarch64 without cgo: x28 alone */
    int64_t g_offset;   /* otherwise: from the thread pointer */
};

enum { GO_BINARY_UNSUPPORTED = 1 }; /* a Go executable of an unknown version */

/* 0 (also if it is no Go executable: see .found), GO_BINARY_UNSUPPORTED, ELF_MALFORMED,
 * negative errno. */
int go_binary_find(const struct elf *elf, struct go_binary *go);

struct thread_local_process;
/* Fills all of the variable; thread_local_model THREAD_LOCAL_NONE: g is in the register alone. 0,
 * THREAD_LOCAL_UNRESOLVED, negative errno. */
int go_binary_locate(const struct go_binary *go, const struct thread_local_process *process,
                     struct context_variable *variable);
