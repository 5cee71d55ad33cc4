/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What the writer wants of the symbolizer: requests in the order in which they were put, until the
 * writer's job takes them to the loop (symbolizer_client_submit()). WRITER thread only. At most
 * SYMBOLIZER_QUEUE_MAX wait; a request beyond is left out and counted.
 */
#include "agent-bpf/symbolizer_messages.h"
#include "base/list.h"
#include "base/thread_owner.h"

#define SYMBOLIZER_QUEUE_MAX 16384

struct symbolizer_queue {
    struct list requests; /* struct symbolizer_request, owned */
    size_t n;
    struct thread_owner owner; /* the writer */
};

void symbolizer_queue_init(struct symbolizer_queue *queue);
void symbolizer_queue_deinit(struct symbolizer_queue *queue); /* frees what waits */
/* Copies the message. 0; -ENOMEM: left out (counted). */
int symbolizer_queue_put(struct symbolizer_queue *queue, const struct symbolizer_message *message);
/* One about a file, which takes its turn with those of other tenants (symbolizer_client.h). */
int symbolizer_queue_put_for(struct symbolizer_queue *queue, uint64_t tenant,
                             const struct symbolizer_message *message);
/* Moves all requests to the end of the list, which owns them from now on. */
void symbolizer_queue_take(struct symbolizer_queue *queue, struct list *requests);

enum symbolizer_queue_loss {
    SYMBOLIZER_QUEUE_FULL,        /* counted by symbolizer_queue_put() */
    SYMBOLIZER_QUEUE_OVER_BUDGET, /* one process wanted too much */
    SYMBOLIZER_QUEUE_LOSSES
};
void symbolizer_queue_count_dropped(enum symbolizer_queue_loss reason);
