/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Each process of spanprof is an execution of its own of the one program: its addresses and
 * canaries are its own, and it has no memory of the supervisor. Its arguments say what it is to be,
 * and name a sealed memfd that holds what it is given: --role=service:17. All other descriptors
 * that it has are named in there. Thread: main of the child, before there are others.
 */
#include "agent-bpf/control.h"
#include "agent-bpf/supervisor/supervisor.h"
#include "base/buf.h"

enum role {
    ROLE_NONE,
    ROLE_SERVICE,
    ROLE_SYMBOLIZER,
    ROLE_READER,
    ROLE_BROKER,
    ROLE_CONFIG,
    ROLES
};

struct broker_handles {
    int answer_fd;
    int alive_fd; /* open for as long as the process lives */
    struct control_message wanted;
};

struct config_handles {
    enum question question;
    int answer_fd; /* supervisor_answer.h */
};

struct role_start {
    enum role role;
    struct service_handles service;       /* of ROLE_SERVICE */
    struct symbolizer_handles symbolizer; /* of ROLE_SYMBOLIZER */
    struct broker_handles broker;         /* of ROLE_BROKER */
    struct reader_handles reader;         /* of ROLE_READER */
    struct config_handles config;         /* of ROLE_CONFIG */
    struct buf settings;                  /* role_settings.bytes */
};

/* First thing in main(). 0: what *start says, ROLE_NONE if these arguments name no role; then the
 * process dies with the supervisor, logs and counts with it. Negative errno: it cannot be what it
 * is to be, and ends with SERVICE_EXIT_FATAL. */
int role_take(int argc, char *const *argv, struct role_start *start);
