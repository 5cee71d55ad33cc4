/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A child's end of the supervisor's control socket: heartbeats out; stop, reload and fds in.
 * Thread: the child's loop. A child without a loop calls heartbeat_send() each second and may
 * leave the socket unread. Long work on the loop calls heartbeat() (heartbeat.h).
 */
#include "base/loop.h"
#include <stddef.h>

/* Embedded by its owner; callbacks may be NULL: the fds for them are closed then. */
struct supervisor_client {
    struct watch watch;
    struct timer beat;
    /* The supervisor was asked to stop: drain and exit with 0, within 10 s. Also when the
     * supervisor is gone. */
    void (*stop)(struct supervisor_client *child);
    void (*reload)(struct supervisor_client *child); /* SIGHUP */
    /* Service only: the socket (SOCK_SEQPACKET, non-blocking) to a symbolizer just started; the fd
     * is the callee's. Whatever socket there was is dead. */
    void (*symbolizer)(struct supervisor_client *child, int fd);
    /* Symbolizer only: the reader before is lost. fd: the socket to another one, the callee's; -1:
     * there is none now. abandoned: processes that cannot be ended. */
    void (*reader)(struct supervisor_client *child, int fd, unsigned abandoned);
    /* Service only: a CPU came: procstream_add() with these, then close fd. */
    void (*cpu_came)(struct supervisor_client *child, uint32_t cpu, int fd, size_t buffer_size);
    void (*cpu_went)(struct supervisor_client *child, uint32_t cpu); /* procstream_remove() */
    /* Service only: that of supervisor_settings.files has other contents; the fd is the callee's.
     */
    void (*file_changed)(struct supervisor_client *child, uint32_t file, int fd);
};

int supervisor_client_start(struct supervisor_client *child, struct loop *loop, int control_fd);
void supervisor_client_stop(
    struct supervisor_client *child); /* also when not started; leaves the fd open */
/* Symbolizer only: the reader has not answered a request of that time. */
void supervisor_client_reader_overdue(const struct supervisor_client *child, uint64_t asked_ns);
