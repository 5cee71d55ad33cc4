/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/sender_acks.h"
#include "base/clock.h"
#include "base/log.h"
#include <stdlib.h>
#include <string.h>

#define AGAIN_NS (100 * NS_PER_MS)
#define LATER_NS (20 * NS_PER_MS)

struct ack {
    struct job job;
    struct list link;
    struct sender_acks *acks; /* NULL: closed meanwhile */
    struct outbox *outbox;
    size_t destination;
    size_t n;
    int64_t seqs[];
};

static int ack_run(struct job *job)
{
    struct ack *ack = container_of(job, struct ack, job);
    int error = 0;
    for (size_t i = 0; !error && i < ack->n; i++)
        error = outbox_done(ack->outbox, ack->destination, ack->seqs[i]);
    return error;
}

static void ack_done(struct job *job, int error)
{
    struct ack *ack = container_of(job, struct ack, job);
    struct sender_acks *acks = ack->acks;
    list_remove(&ack->link);
    if (error)
        log_debug("exporter", "a request that was sent could not be marked: it may be sent again");
    free(ack);
    if (!acks)
        return;
    acks->n--;
    acks->lost |= error != 0;
    if (list_empty(&acks->waiting) && list_empty(&acks->at_writer))
        timer_stop(&acks->again);
    acks->done(acks);
}

static void acks_submit(struct sender_acks *acks)
{
    struct list *link, *next;
    list_each(link, next, &acks->waiting)
    {
        struct ack *ack = container_of(link, struct ack, link);
        if (worker_submit_later(acks->settings->writer, &ack->job) != 0) {
            timer_start(acks->settings->loop, &acks->again, AGAIN_NS);
            break;
        }
        list_remove(link);
        list_append(&acks->at_writer, link);
    }
}

static void on_again(struct timer *timer)
{
    struct sender_acks *acks = container_of(timer, struct sender_acks, again);
    acks_submit(acks);
    if (!list_empty(&acks->at_writer)) /* no other transaction took them along */
        worker_wake(acks->settings->writer);
}

void sender_acks_init(struct sender_acks *acks, const struct exporter_settings *settings,
                      void (*done)(struct sender_acks *acks))
{
    LOOP_THREAD(settings->loop);
    *acks = (struct sender_acks){.settings = settings, .done = done, .again.fire = on_again};
    list_init(&acks->waiting);
    list_init(&acks->at_writer);
}

void sender_acks_put(struct sender_acks *acks, const int64_t *seqs, size_t n, bool later)
{
    LOOP_THREAD(acks->settings->loop);
    struct ack *ack = calloc(1, sizeof(*ack) + n * sizeof(*seqs));
    if (!ack) {
        acks->lost = true; /* sent again */
        return;
    }
    ack->job = (struct job){.run = ack_run, .done = ack_done};
    ack->acks = acks;
    ack->outbox = acks->settings->outbox;
    ack->destination = acks->settings->destination;
    ack->n = n;
    memcpy(ack->seqs, seqs, n * sizeof(*seqs));
    acks->n++;
    list_append(&acks->waiting, &ack->link);
    acks_submit(acks);
    if (!later)
        worker_wake(acks->settings->writer);
    else if (!acks->again.due_ns)
        timer_start(acks->settings->loop, &acks->again, LATER_NS);
}

void sender_acks_close(struct sender_acks *acks)
{
    LOOP_THREAD(acks->settings->loop);
    struct list *link;
    timer_stop(&acks->again);
    while ((link = list_pop(&acks->waiting)))
        free(container_of(link, struct ack, link));
    while ((link = list_pop(&acks->at_writer))) /* ack_done() frees it */
        container_of(link, struct ack, link)->acks = NULL;
}
