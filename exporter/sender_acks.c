/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/sender_acks.h"
#include "base/clock.h"
#include "base/log.h"
#include <stdlib.h>
#include <string.h>

#define AGAIN_NS (100 * NS_PER_MS)
#define LATER_NS (20 * NS_PER_MS)

struct mark {
    struct job job;
    struct list link;
    struct sender_acks *marks; /* NULL: closed meanwhile */
    struct outbox *outbox;
    size_t destination;
    size_t n;
    int64_t seqs[];
};

static int mark_run(struct job *job)
{
    struct mark *mark = container_of(job, struct mark, job);
    int error = 0;
    for (size_t i = 0; !error && i < mark->n; i++)
        error = outbox_done(mark->outbox, mark->destination, mark->seqs[i]);
    return error;
}

static void mark_done(struct job *job, int error)
{
    struct mark *mark = container_of(job, struct mark, job);
    struct sender_acks *marks = mark->marks;
    list_remove(&mark->link);
    if (error)
        log_debug("exporter", "a request that was sent could not be marked: it may be sent again");
    free(mark);
    if (!marks)
        return;
    marks->n--;
    marks->lost |= error != 0;
    if (list_empty(&marks->waiting) && list_empty(&marks->at_writer))
        timer_stop(&marks->again);
    marks->done(marks);
}

static void submit(struct sender_acks *marks)
{
    struct list *link, *next;
    list_each(link, next, &marks->waiting)
    {
        struct mark *mark = container_of(link, struct mark, link);
        if (worker_submit_later(marks->settings->writer, &mark->job) != 0) {
            timer_start(marks->settings->loop, &marks->again, AGAIN_NS);
            break;
        }
        list_remove(link);
        list_append(&marks->at_writer, link);
    }
}

static void on_again(struct timer *timer)
{
    struct sender_acks *marks = container_of(timer, struct sender_acks, again);
    submit(marks);
    if (!list_empty(&marks->at_writer)) /* no transaction came that would have taken them */
        worker_wake(marks->settings->writer);
}

void sender_acks_init(struct sender_acks *marks, const struct exporter_settings *settings,
                      void (*done)(struct sender_acks *marks))
{
    *marks = (struct sender_acks){.settings = settings, .done = done, .again.fire = on_again};
    list_init(&marks->waiting);
    list_init(&marks->at_writer);
}

void sender_acks_put(struct sender_acks *marks, const int64_t *seqs, size_t n, bool later)
{
    struct mark *mark = calloc(1, sizeof(*mark) + n * sizeof(*seqs));
    if (!mark) {
        marks->lost = true; /* sent again */
        return;
    }
    mark->job = (struct job){.run = mark_run, .done = mark_done};
    mark->marks = marks;
    mark->outbox = marks->settings->outbox;
    mark->destination = marks->settings->destination;
    mark->n = n;
    memcpy(mark->seqs, seqs, n * sizeof(*seqs));
    marks->n++;
    list_append(&marks->waiting, &mark->link);
    submit(marks);
    if (!later)
        worker_wake(marks->settings->writer);
    else if (!marks->again.due_ns)
        timer_start(marks->settings->loop, &marks->again, LATER_NS);
}

void sender_acks_close(struct sender_acks *marks)
{
    struct list *link;
    timer_stop(&marks->again);
    while ((link = list_pop(&marks->waiting)))
        free(container_of(link, struct mark, link));
    while ((link = list_pop(&marks->at_writer))) /* mark_done() frees it */
        container_of(link, struct mark, link)->marks = NULL;
}
