/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A page of rows cut into blocks as the kernel's maps hold them (unwind_rows.h). Pure.
 * Thread: any.
 */
#include "agent-bpf/unwind/unwind_page.h"

/* log2 of the bytes of code per block, such that each block of the page fits. */
unsigned unwind_block_shift(const struct unwind_page *page);

/* The block of the page that begins at start. */
void unwind_block_fill(const struct unwind_page *page, uint32_t executable, uint64_t start,
                       unsigned shift, struct unwind_block *block);
