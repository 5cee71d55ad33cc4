/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The symbolizer's messages to the service. A datagram that the socket does not take waits here, in
 * order. Above SYMBOLIZER_OUT_BYTES_MAX the queue is congested: its owner takes up no new work
 * until symbolizer_flush() has sent enough. Thread: the symbolizer's loop.
 */
#include "agent-bpf/symbolizer_messages.h"
#include "base/list.h"
#include "base/thread_owner.h"

#define SYMBOLIZER_OUT_BYTES_MAX (8u << 20) /* unsent; above, the queue is congested */
#define SYMBOLIZER_OUT_FDS_MAX   256        /* unsent; above, messages with descriptors are lost */

struct symbolizer_out {
    int fd; /* the service's socket; borrowed */
    struct list unsent;
    size_t bytes;              /* of all in unsent */
    size_t n_fds;              /* of those in unsent that have one */
    struct thread_owner owner; /* the loop */
};

void symbolizer_out_init(struct symbolizer_out *out, int fd);
void symbolizer_out_close(struct symbolizer_out *out); /* drops what is unsent */

/* A message that cannot be encoded or queued is lost, and counted. */
void symbolizer_send(struct symbolizer_out *out, const struct symbolizer_message *message);
/* The same with a descriptor, which it owns from now on. */
void symbolizer_send_fd(struct symbolizer_out *out, const struct symbolizer_message *message,
                        int fd);
void symbolizer_flush(struct symbolizer_out *out); /* the socket is writable */
bool symbolizer_congested(const struct symbolizer_out *out);

enum symbolizer_limit { SYMBOLIZER_LIMIT_WORK, SYMBOLIZER_LIMIT_PROCESSES, SYMBOLIZER_LIMITS };
void symbolizer_count_full(enum symbolizer_limit limit); /* something is left out */
