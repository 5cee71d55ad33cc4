/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Processes whose first thread has exited. The kernel's stream does not tell whether other threads
 * go on, or one of them execs and takes over the pid. So they are kept here until no thread is
 * left. Thread: the owner's. Limit: EXITED_LEADERS_MAX.
 */
#include <stdbool.h>
#include <stdint.h>

#define EXITED_LEADERS_MAX     4096
#define EXITED_LEADERS_BUCKETS 1024

struct exited_leaders {
    uint32_t count;
    uint32_t pids[EXITED_LEADERS_MAX]; /* dense */
    int16_t next[EXITED_LEADERS_MAX];  /* in the bucket; -1 ends */
    int16_t heads[EXITED_LEADERS_BUCKETS];
};

enum { EXITED_LEADERS_FULL = 1 };

void exited_leaders_init(struct exited_leaders *exited_leaders);
int exited_leaders_add(struct exited_leaders *exited_leaders,
                       uint32_t pid); /* 0 (also when in), EXITED_LEADERS_FULL */
bool exited_leaders_remove(struct exited_leaders *exited_leaders, uint32_t pid); /* was it in? */
/* Removes and returns a process without threads, searching from *cursor (0 at first); 0: no more.
 */
uint32_t exited_leaders_next_gone(struct exited_leaders *exited_leaders, uint32_t *cursor);
