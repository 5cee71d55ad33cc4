/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One child of the supervisor: how it is ended, reaped, and given up. SIGKILL may be without effect
 * for as long as the process waits for an answer of a foreign file system (FUSE), so nothing here
 * waits without limit. A child that is still there CHILD_END_NS after its SIGKILL is abandoned: its
 * successor starts, and the process is reaped whenever it dies. Abandoned processes outlive
 * supervisor_run(), so the list of them belongs to the process.
 * Limit: CHILDREN_ABANDONED_MAX; beyond it a child is waited for, and has no successor.
 * Private to the supervisor. Thread: the supervisor's.
 */
#include "agent-bpf/supervisor/hang_detector.h"
#include "base/stats.h"
#include <sys/types.h>

#define CHILD_END_NS           (2 * NS_PER_SEC)
#define CHILDREN_ABANDONED_MAX 16

enum supervised {
    SUPERVISED_SERVICE,
    SUPERVISED_SYMBOLIZER,
    SUPERVISED_READER,
    SUPERVISED, /* these are started again; the others run to their end */
    SUPERVISED_CONFIG = SUPERVISED,
    SUPERVISED_KINDS,
};

struct child {
    enum supervised role;
    const char *name;
    uint64_t hang_ns; /* of silence; 0 = it does not send heartbeats */
    pid_t pid;        /* 0 = not running */
    int pidfd;        /* -1 = not running */
    int control_fd;   /* -1 */
    uint64_t started_ns;
    uint64_t killed_ns;        /* when it got SIGKILL; 0 = it did not */
    struct hang_detector hang; /* since it was heard */
    uint64_t due_ns;           /* to be started then; 0 = not to be */
    uint64_t backoff_ns;
    unsigned starts;
};

/* hang_ns: 0 = it does not send heartbeats. */
void child_init(struct child *child, enum supervised role, uint64_t hang_ns);
/* It has just been forked; due_ns is cleared. */
void child_started(struct child *child, pid_t pid);
/* SIGKILL, once; nothing if it is not running. */
void child_kill(struct child *child, uint64_t now_ns);
/* True: it has ended with this status, or was abandoned (as if ended by SIGKILL). Its control
 * socket is closed. */
bool child_reap(struct child *child, uint64_t now_ns, int *status);
/* SIGKILL, and no wait at all: a successor may start at once. False: no room to remember it, so it
 * is to be waited for. */
bool child_leave(struct child *child, uint64_t now_ns);
/* The same where there may be no room: then it is forgotten, which is logged. */
void child_give_up(struct child *child, uint64_t now_ns);
/* The next start, after a delay that grows while starts fail. */
void child_plan_restart(struct child *child, uint64_t now_ns);
/* CLOCK_MONOTONIC when child_reap() or children_reap_left() is to be called; UINT64_MAX: never. */
uint64_t child_due(const struct child *child);

/* Kills all, and waits CHILD_END_NS for them in all. */
void children_end(struct child *children, size_t n);
/* Of those that were left or abandoned. */
void children_reap_left(uint64_t now_ns);
size_t children_abandoned(void);
/* Processes of this role that were left and are still there, abandoned or not yet. */
size_t children_left(enum supervised role);
bool children_have_left(pid_t pid); /* one of them */
