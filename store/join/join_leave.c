/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples leave the join: settled samples, samples that have waited for wait_ns, and the oldest
 * when room is needed. Samples with a time in the future (the clock was set back) leave, too.
 */
#include "store/db/db.h"
#include "base/stats.h"
#include "store/join/join_state.h"
#include "store/stacks/stacks_unfinished.h"

static const char *const reason_names[] = {
    [JOIN_JOINED] = "joined",        [JOIN_LATE] = "late",
    [JOIN_ENDED] = "ended",          [JOIN_NO_CONTEXT] = "no_context",
    [JOIN_UNSAMPLED] = "unsampled",  [JOIN_NOT_OWNER] = "not_owner",
    [JOIN_UNPROVEN] = "no_evidence", [JOIN_CROWDED] = "too_many_processes",
    [JOIN_TIMEOUT] = "timeout",      [JOIN_EVICTED] = "evicted",
    [JOIN_DROPPED] = "dropped",
};
STAT_COUNTERS(samples, "spanprof_join_samples_total", "Samples by how they were joined with spans.",
              STAT_LABEL("result", reason_names, JOIN_REASONS),
              .losses = STAT_BIT(JOIN_UNPROVEN) | STAT_BIT(JOIN_CROWDED) | STAT_BIT(JOIN_EVICTED) |
                        STAT_BIT(JOIN_DROPPED));

void join_count(enum join_reason reason, int64_t n)
{
    stat_add_of(&samples, reason, n);
}

static uint64_t leave_distance(uint64_t a, uint64_t b)
{
    return a > b ? a - b : b - a;
}

/* If the trace has exactly one local root here, the sample belongs to the root, even outside its
 * time. */
static int settle_with_only_root(struct join *join, struct pending_sample *entry,
                                 struct span_total *total)
{
    struct matched_span *matched = total->matched;
    struct span_total *exact;
    int error = join_exact_total(join, matched, total->process, &exact);
    if (!error)
        error = join_move(join, entry, total, exact);
    join_settle(join, entry, matched);
    join_count(JOIN_LATE, 1);
    return error;
}

static int give_up(struct join *join, struct pending_sample *entry, enum join_reason reason)
{
    struct span_total *total = entry->total;
    join_unchain(entry);
    if (span_total_is_by_trace(total) && total->matched && !total->matched->next_by_trace)
        return settle_with_only_root(join, entry, total);
    if (reason == JOIN_TIMEOUT && total->refused)
        reason = total->refused == TOTAL_UNPROVEN ? JOIN_UNPROVEN : JOIN_NOT_OWNER;
    join_settle_alone(join, entry, reason);
    return 0;
}

static int give_up_batch(struct join *join, struct pending_batch *batch, enum join_reason reason,
                         uint64_t now_unix_ns, uint64_t wait_ns)
{
    int error = 0;
    for (uint32_t i = 0; i < batch->count && batch->n_waiting && !error; i++) {
        struct pending_sample *entry = &batch->samples[i];
        if (entry->state == PENDING_WAITING &&
            leave_distance(pending_sample_time(entry), now_unix_ns) >= wait_ns)
            error = give_up(join, entry, reason);
    }
    return error;
}

static int end_waiting(struct join *join, uint64_t now_unix_ns)
{
    uint64_t wait_ns = join->settings.wait_ns;
    struct list *link, *tmp;
    list_each(link, tmp, &join->pending.batches)
    {
        struct pending_batch *batch = container_of(link, struct pending_batch, link);
        bool too_young =
            now_unix_ns >= batch->base_unix_ns && now_unix_ns - batch->base_unix_ns < wait_ns;
        int error = too_young ? 0 : give_up_batch(join, batch, JOIN_TIMEOUT, now_unix_ns, wait_ns);
        if (error)
            return error;
    }
    return 0;
}

static int make_room(struct join *join)
{
    size_t bytes = join->pending.bytes;
    struct list *link, *tmp;
    list_each(link, tmp, &join->pending.batches)
    {
        struct pending_batch *batch = container_of(link, struct pending_batch, link);
        if (bytes <= join->settings.max_pending_bytes)
            break;
        int error = give_up_batch(join, batch, JOIN_EVICTED, 0, 0);
        if (error)
            return error;
        bytes -= batch->bytes;
    }
    return 0;
}

static void drop_slot(struct join *join, struct pending_sample *entry)
{
    if (entry->state == PENDING_GONE)
        return;
    if (entry->state == PENDING_WAITING)
        join_unchain(entry);
    else if (entry->state == PENDING_JOINED)
        entry->matched->refs--;
    pending_sample_set(&join->pending, entry, PENDING_GONE);
    join_count(JOIN_DROPPED, 1);
}

int join_drop_excess(struct join *join)
{
    size_t limit = join->settings.max_pending_bytes + join->settings.max_pending_bytes / 4;
    int error = 0;
    while (join->pending.bytes > limit && !error) {
        struct pending_batch *batch =
            container_of(list_first(&join->pending.batches), struct pending_batch, link);
        for (uint32_t i = 0; i < batch->count; i++)
            drop_slot(join, &batch->samples[i]);
        error = pending_remove(&join->pending, batch);
    }
    return error;
}

struct leaving {
    struct join *join;
    bool at_once;
    size_t max; /* a batch begins only below it */
    join_visit *visit;
    void *context;
    size_t n;
};

/* True: the stack is unfinished, so the sample stays. */
static bool leaving_stays(const struct leaving *leaving, int64_t stack)
{
    struct stacks *stacks = leaving->join->stacks;
    if (!leaving->at_once)
        return stacks_is_unfinished(stacks, stack);
    stacks_leave_unfinished(stacks, stack);
    return false;
}

/* Of what a thread does after its span's end, the trace alone is known. */
static int leave_without_span(const struct leaving *leaving, const struct sample *sample)
{
    struct sample left = *sample;
    memset(left.span_id, 0, sizeof(left.span_id));
    memset(left.local_root_id, 0, sizeof(left.local_root_id));
    return leaving->visit(leaving->context, &left, NULL);
}

static int sample_leave(void *context, struct pending_sample *entry, const struct sample *sample)
{
    struct leaving *leaving = context;
    if (leaving_stays(leaving, entry->stack))
        return PENDING_STAYS;
    struct matched_span *matched = entry->state == PENDING_JOINED ? entry->matched : NULL;
    bool over = sample->ended ||
                (matched && join_names_span(sample) && join_is_over(matched, sample->time_unix_ns));
    int error = over ? leave_without_span(leaving, sample)
                     : leaving->visit(leaving->context, sample, matched ? &matched->facts : NULL);
    if (error)
        return error;
    if (matched)
        matched->refs--;
    leaving->n++;
    return 0;
}

static int leave_batches(struct join *join, struct leaving *leaving)
{
    struct list *link, *tmp;
    int error = 0;
    list_each(link, tmp, &join->pending.batches)
    {
        struct pending_batch *batch = container_of(link, struct pending_batch, link);
        if (leaving->n >= leaving->max)
            return JOIN_LEAVE_MORE;
        if (batch->n_ready)
            error = pending_leave(&join->pending, batch, sample_leave, leaving);
        else if (!batch->n_waiting) /* the row with its bits was damaged */
            error = pending_remove(&join->pending, batch);
        if (error)
            return error;
    }
    return 0;
}

int join_leave(struct join *join, uint64_t now_unix_ns, size_t max_samples, join_visit *visit,
               void *context, size_t *n_samples)
{
    WRITER_THREAD(join->db);
    struct leaving leaving = {.join = join,
                              .at_once = join->pending.bytes > join->settings.max_pending_bytes,
                              .max = max_samples,
                              .visit = visit,
                              .context = context};
    int outcome = end_waiting(join, now_unix_ns);
    if (!outcome)
        outcome = make_room(join);
    if (!outcome)
        outcome = leave_batches(join, &leaving);
    *n_samples = leaving.n;
    if (outcome)
        return outcome;
    int error = span_totals_expire(&join->totals, now_unix_ns, join->settings.span_totals_ttl_ns);
    return error ? error : matched_spans_trim(&join->spans, NULL);
}

size_t join_pending_samples(const struct join *join)
{
    WRITER_THREAD(join->db);
    return join->pending.n_samples;
}

static int batch_references(const struct pending_batch *batch, struct id_set *stacks,
                            struct id_set *processes)
{
    int error = 0;
    for (uint32_t i = 0; i < batch->count && !error; i++)
        if (batch->samples[i].state != PENDING_GONE)
            error = id_set_add(stacks, batch->samples[i].stack);
    for (size_t i = 0; i < batch->processes.count && !error; i++)
        error = id_set_add(processes, batch->processes.ids[i]);
    return error;
}

static int span_total_references(const struct span_total *total, struct id_set *stacks,
                                 struct id_set *processes)
{
    int error = total->process ? id_set_add(processes, total->process) : 0;
    for (unsigned i = 0; i < total->n_stacks && !error; i++)
        error = id_set_add(stacks, total->stacks[i].stack);
    return error;
}

int join_references(const struct join *join, struct id_set *stacks, struct id_set *processes)
{
    WRITER_THREAD(join->db);
    struct list *link, *tmp;
    int error;
    list_each(link, tmp, &join->pending.batches)
    {
        error = batch_references(container_of(link, struct pending_batch, link), stacks, processes);
        if (error)
            return error;
    }
    list_each(link, tmp, &join->totals.ages)
    {
        error =
            span_total_references(container_of(link, struct span_total, age), stacks, processes);
        if (error)
            return error;
    }
    return 0;
}
