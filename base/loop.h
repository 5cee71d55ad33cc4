/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The event loop: epoll, timers, and work handed back by other threads. Level-triggered.
 * Thread: the one that opened the loop; only loop_post() may be called from elsewhere.
 * Structs are embedded by their owner, who finds itself with container_of().
 */
#include "base/list.h"
#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

struct loop;

struct watch {
    int fd;
    uint32_t events; /* EPOLLIN | EPOLLOUT as wanted now */
    void (*ready)(struct watch *watch, uint32_t events);
    struct loop *loop; /* NULL while not watched */
};

struct timer {
    uint64_t due_ns; /* CLOCK_MONOTONIC; 0 = not armed */
    void (*fire)(struct timer *timer);
    struct loop *loop;
    struct list link; /* the loop's */
};

struct post {
    struct list link;
    void (*call)(struct post *post);
};

int loop_open(struct loop **loop);
void loop_close(struct loop *loop); /* NULL is fine; watches and timers must be gone */
int loop_run(struct loop *loop);    /* until loop_stop(); 0 or negative errno */
void loop_stop(struct loop *loop);
int loop_once(struct loop *loop, int timeout_ms); /* one round, for tests */
bool loop_is_current(const struct loop *loop);    /* true on the loop's thread */

/* First line of a function that belongs to the loop's thread: aborts on any other, in every build.
 * The cost is one comparison. */
#define LOOP_THREAD(loop) assert(loop_is_current(loop))

int watch_start(struct loop *loop, struct watch *watch); /* fd, events, ready are set */
/* With events 0, errors and hang-ups are still reported in every round: stop the watch then. */
int watch_change(struct watch *watch, uint32_t events);
void watch_stop(struct watch *watch); /* also when not started; also from within ready() */

void timer_start(struct loop *loop, struct timer *timer, uint64_t delay_ns); /* re-arms */
void timer_stop(struct timer *timer); /* also when not armed */

/* From any thread: call() runs on the loop. The post must stay alive until then, and be posted
 * once; its link is zero before the first post. Posts still waiting at loop_close() are called
 * there. */
void loop_post(struct loop *loop, struct post *post);
/* On the loop: takes back a post that still waits; fine when it does not. */
void loop_unpost(struct loop *loop, struct post *post);
