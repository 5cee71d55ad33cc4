/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A child's end of the keeper's control socket: heartbeats out; stop, reload and fds in.
 * Thread: the child's loop. A child without a loop calls heartbeat_send() each second and may
 * leave the socket unread. Long work on the loop calls heartbeat() (heartbeat.h).
 */
#include "base/loop.h"
#include <stddef.h>

/* Embedded by its owner; callbacks may be NULL: fds that nobody takes are closed. */
struct keeper_child {
    struct watch watch;
    struct timer beat;
    /* The keeper was asked to stop: drain and exit with 0, within 10 s. Also when the keeper is
     * gone. */
    void (*stop)(struct keeper_child *child);
    void (*reload)(struct keeper_child *child); /* SIGHUP */
    /* Service only: the socket (SOCK_SEQPACKET, non-blocking) to an analyst just started; the fd is
     * the callee's. Whatever socket there was is dead. */
    void (*analyst)(struct keeper_child *child, int fd);
    /* Service only: a CPU came: procstream_add() with these, then close fd. */
    void (*cpu_came)(struct keeper_child *child, uint32_t cpu, int fd, size_t buffer_size);
    void (*cpu_went)(struct keeper_child *child, uint32_t cpu); /* procstream_remove() */
    /* Service only: that of keeper_settings.files has other contents; the fd is the callee's. */
    void (*file_changed)(struct keeper_child *child, uint32_t file, int fd);
};

int keeper_child_start(struct keeper_child *child, struct loop *loop, int control_fd);
void keeper_child_stop(struct keeper_child *child); /* also when not started; leaves the fd open */
