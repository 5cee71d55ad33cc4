/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Messages between the supervisor and a child, SOCK_SEQPACKET, one fd at most each. Private to
 * supervisor.c and supervisor_client.c. Thread: the socket's. Nothing blocks.
 */
#include <stdint.h>

enum control_kind {
    CONTROL_HEARTBEAT = 1, /* child: I am alive */
    CONTROL_STOP,          /* supervisor: drain and exit */
    CONTROL_RELOAD,
    CONTROL_SYMBOLIZER, /* supervisor, with fd */
    CONTROL_CPU_CAME,   /* supervisor, with fd: cpu, buffer_size */
    CONTROL_CPU_WENT,   /* supervisor: cpu */
    CONTROL_FILE,       /* supervisor, with fd: file */
    CONTROL_CONNECT,    /* symbolizer, with the fd for the answer: pid, path */
    CONTROL_CONNECTED,  /* that answer: outcome of elastic_socket_connect(), with its fd */
    CONTROL_READER,     /* supervisor: abandoned; the reader before is lost; with fd: another one */
    CONTROL_READER_OVERDUE, /* symbolizer: asked_ns */
    CONTROL_ANSWER,         /* config, with fd, or error: file */
};

#define CONTROL_PATH_MAX 108 /* as long as the address of a Unix socket */

struct control_message {
    uint32_t kind;
    union {
        uint32_t cpu;
        uint32_t file; /* index in supervisor_settings.files, or in what was asked */
        uint32_t pid;
        int32_t outcome;
        uint32_t abandoned; /* processes that cannot be ended, now */
    };
    union {
        uint64_t buffer_size;
        uint64_t asked_ns; /* CLOCK_MONOTONIC of the request without an answer */
        int32_t error;     /* negative errno, where there is no fd */
    };
    char path[CONTROL_PATH_MAX]; /* ended by 0, unless it fills it */
};

enum { CONTROL_NONE = 1, CONTROL_CLOSED = 2 };

int control_pair(int fds[2]); /* 0 or negative errno */
/* fd: passed along if it is not -1; stays the caller's. 0 or negative errno (-EAGAIN: full). */
int control_send(int socket, const struct control_message *message, int fd);
/* 0 with *fd = -1 or an fd that is the caller's; CONTROL_NONE; CONTROL_CLOSED; negative errno. */
int control_receive(int socket, struct control_message *message, int *fd);
