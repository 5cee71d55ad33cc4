/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * V8's tables from code to positions in the source, from their bytes. A position of unoptimised
 * code is an offset in the script; one of optimised code has the number of an inlined call, too.
 * Pure. Source: V8's source-position-table.cc, source-position.h, bytecode-offset-iterator.cc.
 */
#include "agent-bpf/runtimes/v8/v8_file.h"

/* The position of the last entry at or in front of the offset in the code. False: there is none, or
 * the table is malformed. */
bool v8_positions_find(const struct v8_file *file, struct bytes table, uint64_t offset,
                       int64_t *position);

/* Parts of a position. */
#define V8_POSITION_SCRIPT(position)   ((int32_t)((position) >> 1 & 0x3fffffff) - 1)
#define V8_POSITION_INLINED(position)  ((uint32_t)((position) >> 31 & 0xffff)) /* 0: not */
#define V8_POSITION_EXTERNAL(position) ((position)&1)

/* Baseline code: offset in the bytecodes of what is at the offset in the code; -1: what comes in
 * front of the first. */
bool v8_positions_baseline(const struct v8_file *file, struct bytes table, struct bytes bytecodes,
                           uint64_t offset, int32_t *bytecode);
