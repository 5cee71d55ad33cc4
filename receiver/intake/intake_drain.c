/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A drain: the loop copies the contents of ring and process stream; the writer converts them to
 * samples and process events.
 */
#include "agent-bpf/process/symbolizer_client.h"
#include "agent-bpf/drain/procstream.h"
#include "agent-bpf/drain/ring.h"
#include "agent-bpf/sample_losses.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/list.h"
#include "receiver/intake/intake_state.h"
#include <errno.h>
#include <stdlib.h>

#define RECORD_BYTES_MAX (256u << 20)     /* in one drain: the largest ring */
#define FILLING_NS       (10 * NS_PER_MS) /* until the next drain, if somebody floods the stream */
#define EVENT_BYTES_MAX  (8u << 20)       /* a scan repairs what is beyond */

LIMIT(drains, LIMIT_SERVICE, "drains of the ring, answers of the symbolizer",
      .key = "sampler::ring_size_mib", .percent = 100,
      .bytes = INTAKE_PENDING_MAX + EVENT_BYTES_MAX);

struct drained_event {
    struct list link;
    struct process_event event;
};

struct batch_job {
    struct job job;
    struct intake *intake;
    struct buf records;
    struct arena arena; /* events and their paths */
    struct list events; /* struct drained_event, in their order */
    bool applied;       /* the events are: the process table is not rolled back */
    uint64_t n_records;
    int64_t unix_offset_ns;
    uint64_t now_ns;
    bool events_lost;
    struct list requests; /* for the symbolizer */
};

static void batch_free(struct batch_job *batch)
{
    symbolizer_requests_free(&batch->requests);
    buf_close(&batch->records);
    arena_close(&batch->arena);
    free(batch);
}

static void keep_record(void *context, const struct record_header *record)
{
    struct batch_job *batch = context;
    if (buf_append(&batch->records, record, record->size) == 0)
        batch->n_records++;
    else
        sample_count_lost(SAMPLE_LOST_MEMORY, 1);
}

static int batch_add_event(struct batch_job *batch, const struct process_event *event)
{
    struct drained_event *drained = arena_alloc(&batch->arena, sizeof(*drained));
    if (!drained)
        return -ENOMEM;
    *drained = (struct drained_event){.event = *event};
    const char *path = event->kind == PROCESS_MAPPED ? event->mapping.path : NULL;
    drained->event.mapping.path = path ? arena_dup(&batch->arena, path, strlen(path) + 1) : NULL;
    if (path && !drained->event.mapping.path)
        return -ENOMEM;
    list_append(&batch->events, &drained->link);
    return 0;
}

static void keep_event(void *context, const struct process_event *event)
{
    struct batch_job *batch = context;
    correlation_event(batch->intake->correlation, event);
    if (batch_add_event(batch, event))
        batch->events_lost = true;
}

/* What had no room is lost as if the kernel had lost it. */
static void apply_events(struct batch_job *batch)
{
    const struct process_event lost = {.kind = PROCESS_LOST, .time_ns = batch->now_ns};
    struct list *link, *tmp;
    list_each(link, tmp, &batch->events) process_table_apply(
        batch->intake->table, &container_of(link, struct drained_event, link)->event);
    if (batch->events_lost)
        process_table_apply(batch->intake->table, &lost);
}

static int add_records(struct batch_job *batch)
{
    struct samples *samples = batch->intake->samples;
    struct join *join = store_join(batch->intake->settings.store);
    int error = join_batch_begin(join);
    const uint8_t *at = batch->records.data, *end = at + batch->records.len;
    while (!error && at < end) {
        const struct record_header *record = (const void *)at;
        error = intake_samples_add(samples, record, batch->unix_offset_ns);
        at += record->size;
    }
    if (!error)
        error = join_batch_commit(join);
    if (!error)
        intake_samples_want_names(samples);
    return error;
}

/* The last room below the quota and on the disk is for deletes. Samples that used it would make
 * deletes fail, and the requests of the same batch. */
static int add_if_there_is_room(struct batch_job *batch)
{
    int error = outbox_take_room(store_outbox(batch->intake->settings.store), batch->records.len);
    if (error == -ENOSPC)
        sample_count_lost(SAMPLE_LOST_FULL, (int64_t)batch->n_records);
    if (error)
        return error == -ENOSPC ? 0 : error;
    return add_records(batch);
}

static int batch_run(struct job *job)
{
    struct batch_job *batch = container_of(job, struct batch_job, job);
    intake_follow_store(batch->intake);
    if (!batch->applied)
        apply_events(batch);
    batch->applied = true;
    int error = batch->n_records ? add_if_there_is_room(batch) : 0;
    process_table_expire(batch->intake->table, batch->now_ns);
    intake_take_requests(batch->intake, &batch->requests);
    return intake_broken(batch->intake, error);
}

static size_t batch_size(const struct batch_job *batch)
{
    return batch->records.len + batch->arena.used_bytes;
}

static void batch_done(struct job *job, int error)
{
    struct batch_job *batch = container_of(job, struct batch_job, job);
    if (error)
        sample_count_lost(SAMPLE_LOST_STORE, (int64_t)batch->n_records);
    batch->intake->pending_bytes -= batch_size(batch);
    symbolizer_client_submit(batch->intake->symbolizer, &batch->requests);
    batch_free(batch);
}

static struct batch_job *batch_new(struct intake *intake)
{
    struct batch_job *batch = calloc(1, sizeof(*batch));
    if (!batch)
        return NULL;
    batch->job = (struct job){.run = batch_run, .done = batch_done, .repeatable = true};
    batch->intake = intake;
    batch->records = BUF_INIT(RECORD_BYTES_MAX);
    arena_init(&batch->arena, EVENT_BYTES_MAX);
    list_init(&batch->events);
    list_init(&batch->requests);
    batch->events_lost = intake->events_lost;
    intake->events_lost = false;
    return batch;
}

/* The one that is being filled. NULL: no memory. */
static struct batch_job *batch_next(struct intake *intake)
{
    if (!intake->next_batch)
        intake->next_batch = batch_new(intake);
    return intake->next_batch;
}

/*
 * The ring is read first, then the process stream, so every event older than a drained sample is in
 * the same batch. When the writer has no room, samples stay in the ring; the ring counts what it
 * drops.
 */
void intake_drain(struct intake *intake)
{
    struct ring_counts counts = {0};
    struct batch_job *batch = intake_is_draining(intake) ? batch_next(intake) : NULL;
    if (!batch)
        return;
    intake->next_batch = NULL;
    intake->drained_ns = batch->now_ns = clock_monotonic_ns();
    batch->unix_offset_ns = clock_unix_offset_ns();
    ring_drain(intake->settings.ring, ring_position(intake->settings.ring), keep_record, batch,
               &counts);
    procstream_drain(intake->settings.procstream, keep_event, batch);
    sample_count_lost(SAMPLE_LOST_MALFORMED, (int64_t)counts.malformed);
    size_t size = batch_size(batch);
    if (size == 0 && !batch->events_lost)
        return batch_free(batch);
    if (worker_submit(intake->settings.writer, &batch->job) == 0) {
        intake->pending_bytes += size;
        return;
    }
    sample_count_lost(SAMPLE_LOST_STORE, (int64_t)batch->n_records);
    intake->events_lost = true;
    batch_free(batch);
}

/* Events of processes alone, which may come before the samples that they are about. */
static void intake_drain_events(struct intake *intake)
{
    struct batch_job *batch = intake_is_draining(intake) ? batch_next(intake) : NULL;
    if (batch)
        procstream_drain(intake->settings.procstream, keep_event, batch);
}

void intake_drain_last(struct intake *intake)
{
    timer_stop(&intake->drain_timer);
    intake_drain(intake);
    intake_requests_last(intake);
}

void intake_drain_close(struct intake *intake)
{
    if (intake->next_batch)
        batch_free(intake->next_batch);
    intake->next_batch = NULL;
}

/* While somebody floods the stream, it is read more often than the ring. */
void intake_drain_fire(struct timer *timer)
{
    struct intake *intake = container_of(timer, struct intake, drain_timer);
    uint64_t interval_ns = intake->settings.drain_interval_ns, now_ns = clock_monotonic_ns();
    if (intake_has_room(intake)) {
        if (now_ns - intake->drained_ns + FILLING_NS < interval_ns)
            intake_drain_events(intake);
        else
            intake_drain(intake);
    }
    bool filling =
        intake->settings.procstream && procstream_is_filling(intake->settings.procstream);
    uint64_t passed_ns = clock_monotonic_ns() - intake->drained_ns;
    uint64_t left_ns = passed_ns < interval_ns ? interval_ns - passed_ns : interval_ns;
    timer_start(intake->settings.loop, timer,
                filling && left_ns > FILLING_NS ? FILLING_NS : left_ns);
}
