/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Unwind rows of Go code, from the runtime's own table of the stack depth of each function at each
 * address. It is exact where frame pointers miss callers (leaf functions, prologues), and exists in
 * stripped programs. Where the runtime switches stacks, the frame pointer leads to the goroutine's
 * stack and skips the function that asked for the switch. Thread: the page's owner's.
 */
#include "agent-bpf/go/go_symbols.h"
#include "agent-bpf/unwind/unwind_page.h"

/* Replaces the page's rows of Go code. 0 or negative errno. */
int go_unwind_page(const struct go_symbols *symbols, uint16_t elf_machine,
                   struct unwind_page *page);
