/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Where optimised code calls, by what V8 itself goes by if it has to leave that code: behind the
 * instructions is a table of safepoints, whose entry of a return address leads to an entry of the
 * data for deoptimization, which has the offset in the bytecodes. The table of positions is less
 * exact: of a loop that Maglev has copied, it has the loop's. Each of the two entries names the
 * other's place, so neither can be taken from anything else. V8 13 and later. Outcomes and thread
 * as in v8_heap.h.
 */
#include "agent-bpf/runtimes/v8/v8_code.h"

/* offset: of the return address, from the start of the code. n_calls: of v8_code_calls() there.
 * *bytecode is in the innermost of them. 0; -ENOENT: not known, also if V8 makes another number of
 * frames of that place. */
int v8_deopt_bytecode(struct v8_heap *heap, const struct v8_code *code, uint64_t offset,
                      size_t n_calls, uint32_t *bytecode);
