/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Counts work instead of time, so that a test can tell linear work from more on a busy machine. For
 * programs linked by spanprof_counting_work(TARGET) of cmake/Tests.cmake: bytes that are compared,
 * copied, measured, hashed or searched for attributes, by our own code and static libraries, and
 * WORK_OF_STEP for each step of a statement. Thread: any; the count is the process's.
 */
#include <stdint.h>

#define WORK_OF_STEP 512

void count_work_begin(void);
uint64_t count_work_end(void); /* since the beginning */
