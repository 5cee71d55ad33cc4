/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Processes whose first thread has left. That thread may be the only one, or the others go on, or
 * one of them execs and takes its number over: the kernel's stream does not say. So they are kept
 * here until no thread is left. Thread: whoever holds it. Limit: LEAVERS_MAX.
 */
#include <stdbool.h>
#include <stdint.h>

#define LEAVERS_MAX     4096
#define LEAVERS_BUCKETS 1024

struct leavers {
    uint32_t count;
    uint32_t pids[LEAVERS_MAX]; /* dense */
    int16_t next[LEAVERS_MAX];  /* in the bucket; -1 ends */
    int16_t heads[LEAVERS_BUCKETS];
};

enum { LEAVERS_FULL = 1 };

void leavers_init(struct leavers *leavers);
int leavers_add(struct leavers *leavers, uint32_t pid);     /* 0 (also when in), LEAVERS_FULL */
bool leavers_remove(struct leavers *leavers, uint32_t pid); /* was it in? */
/* Takes out one that is gone altogether, going on at *cursor (0 to begin); 0: no more. */
uint32_t leavers_next_gone(struct leavers *leavers, uint32_t *cursor);
