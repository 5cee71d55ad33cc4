/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Unwind rows of Go code, from the runtime's own table of how deep each function's stack is at each
 * address: exact where frame pointers miss callers (leaf functions, prologues), and there in
 * stripped programs. Where the runtime changes stacks the frame pointer leads to the goroutine's
 * own, past the function that asked for the change. Thread: whoever holds the page.
 */
#include "agent-bpf/go/go_symbols.h"
#include "agent-bpf/unwind/unwind_page.h"

/* Writes Go's rows over what the page says of Go's code. 0 or negative errno. */
int go_unwind_page(const struct go_symbols *symbols, uint16_t elf_machine,
                   struct unwind_page *page);
