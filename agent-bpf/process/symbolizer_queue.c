/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request that is left out because too many wait is made again later: with the next sample of the
 * process, the next mapping of the file, the next loss of events.
 */
#include "agent-bpf/process/symbolizer_queue.h"
#include "agent-bpf/process/symbolizer_client.h"
#include "base/stats.h"
#include <assert.h>
#include <errno.h>

static const char *const loss_names[] = {
    [SYMBOLIZER_QUEUE_FULL] = "queue_full", [SYMBOLIZER_QUEUE_OVER_BUDGET] = "process_budget"};
STAT_LOSSES(requests_dropped, "spanprof_process_requests_dropped_total",
            "Requests to the symbolizer that were not made: queue_full: too many are waiting; "
            "process_budget: too many for one process.",
            STAT_LABEL("reason", loss_names, SYMBOLIZER_QUEUE_LOSSES));

void symbolizer_queue_count_dropped(enum symbolizer_queue_loss reason)
{
    stat_add_of(&requests_dropped, reason, 1);
}

void symbolizer_queue_init(struct symbolizer_queue *queue)
{
    *queue = (struct symbolizer_queue){0};
    list_init(&queue->requests);
}

void symbolizer_queue_deinit(struct symbolizer_queue *queue)
{
    symbolizer_requests_free(&queue->requests);
    queue->n = 0;
}

int symbolizer_queue_put_for(struct symbolizer_queue *queue, uint64_t tenant,
                             const struct symbolizer_message *message)
{
    CLAIM_THREAD(&queue->owner);
    assert(queue->n <= SYMBOLIZER_QUEUE_MAX);
    struct symbolizer_request *request = NULL;
    if (queue->n < SYMBOLIZER_QUEUE_MAX)
        request = symbolizer_request_make(message);
    if (!request) {
        symbolizer_queue_count_dropped(SYMBOLIZER_QUEUE_FULL);
        return -ENOMEM;
    }
    request->tenant = tenant;
    list_append(&queue->requests, &request->link);
    queue->n++;
    return 0;
}

int symbolizer_queue_put(struct symbolizer_queue *queue, const struct symbolizer_message *message)
{
    return symbolizer_queue_put_for(queue, 0, message);
}

void symbolizer_queue_take(struct symbolizer_queue *queue, struct list *requests)
{
    CLAIM_THREAD(&queue->owner);
    struct list *link;
    for (; (link = list_pop(&queue->requests)); queue->n--)
        list_append(requests, link);
    assert(queue->n == 0);
}
