/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What supervisor.c (what happens to children) and supervisor_start.c (how they are started) share.
 */
#include "agent-bpf/supervisor/supervisor_sampling.h"
#include "agent-bpf/supervisor/privileges.h"
#include "agent-bpf/supervisor/supervisor_broker.h"
#include "agent-bpf/supervisor/supervisor_child.h"
#include <stddef.h>

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
    int program_fd;                       /* this program, to be executed by children; -1 */
    int signal_fd;
    union {
        struct child children[SUPERVISED];
        struct { /* in the order of enum supervised */
            struct child service;
            struct child symbolizer;
            struct child reader;
        };
    };
    struct brokers brokers;
    struct files_reading files; /* of settings */
    uint64_t stop_due_ns;       /* while STOPPING or RELOADING */
    uint64_t tick_due_ns;
    uint64_t obi_due_ns; /* its map is looked for then */
    uint64_t filter_due_ns;
    int exit_code;
};

_Static_assert(offsetof(struct supervisor, service) ==
                       offsetof(struct supervisor, children[SUPERVISED_SERVICE]) &&
                   offsetof(struct supervisor, symbolizer) ==
                       offsetof(struct supervisor, children[SUPERVISED_SYMBOLIZER]) &&
                   offsetof(struct supervisor, reader) ==
                       offsetof(struct supervisor, children[SUPERVISED_READER]),
               "names of the children");

/* answer_fd and alive_fd stay the caller's. 0 or negative errno. */
int supervisor_execute_broker(struct supervisor *supervisor, const struct control_message *wanted,
                              int answer_fd, int alive_fd);
/* ROLE_CONFIG; answer_fd stays the caller's. The pid, or negative errno. */
pid_t supervisor_execute_config(const struct supervisor_question *question, int answer_fd);
/* Starts it, with all that is its own; due_ns is cleared. 0 or negative errno. */
int supervisor_start_service(struct supervisor *supervisor);
int supervisor_start_symbolizer(struct supervisor *supervisor); /* while the service runs */
int supervisor_start_reader(struct supervisor *supervisor);     /* while the symbolizer runs */
