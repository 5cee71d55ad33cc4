/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What supervisor.c (what happens to children) and supervisor_start.c (how they are started) share.
 */
#include "agent-bpf/supervisor/supervisor_sampling.h"
#include "agent-bpf/supervisor/privileges.h"
#include "agent-bpf/supervisor/hang_detector.h"
#include "base/stats.h"

struct child {
    const char *name;
    struct stat_ref restarts_stat;
    uint64_t hang_ns;
    pid_t pid;      /* 0 = not running */
    int control_fd; /* -1 */
    uint64_t started_ns;
    struct hang_detector hang; /* since it was heard */
    uint64_t due_ns;           /* to be started then; 0 = not to be */
    uint64_t backoff_ns;
    unsigned starts;
};

enum supervisor_state {
    SUPERVISOR_RUNNING,   /* children that end are started again */
    SUPERVISOR_STOPPING,  /* the service is to end by stop_due_ns, then the supervisor ends */
    SUPERVISOR_RELOADING, /* the same, and then supervisor_run() returns SUPERVISOR_RELOADED */
    SUPERVISOR_ENDED,
    SUPERVISOR_ENDED_TO_RELOAD,
};

struct supervisor {
    enum supervisor_state state;
    const struct supervisor_settings *settings;
    struct privileges target;
    struct supervisor_sampling *sampling; /* NULL: none */
    int signal_fd;
    struct child service;
    struct child symbolizer;
    uint64_t stop_due_ns; /* while STOPPING or RELOADING */
    uint64_t tick_due_ns;
    uint64_t obi_due_ns; /* its map is looked for then */
    uint64_t filter_due_ns;
    int exit_code;
};

/* Forks it, with all that is its own; due_ns is cleared. 0 or negative errno. */
int supervisor_start_service(struct supervisor *supervisor);
int supervisor_start_symbolizer(struct supervisor *supervisor); /* while the service runs */
