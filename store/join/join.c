/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples are few and indexed, spans are many and looked up: a span without samples costs one hash
 * table lookup (plus one while there are totals of contexts without a trace, and one while there
 * are totals of contexts without a span), and a note of 16 bytes that it has ended.
 *
 * A sample counts in the total of (trace, span, process), and waits in the chain of that total. A
 * span finds the totals with its ids, joins the total of its owner, and becomes a matched span that
 * later samples find. A context that names no span but a local root counts for the local root. A
 * context with the trace alone counts in a total of the trace. A local root of the process joins
 * that total: all its samples, if its time contains all of them, else the samples within its time.
 * A context with the span alone counts in a total of the span id. Samples that a span takes from
 * these totals move to the span's own total, so a span that is sent twice gets the same result.
 *
 * A sample from after the span's end is not the span's: it counts nowhere and leaves without one.
 * This is known of matched spans, and of the latest spans that came without samples.
 *
 * Which process owns a span id? The process whose SDK sent the span. Other processes see the
 * traceparent, too, and may publish it; others may send a span with these ids. So there has to be
 * evidence that a process made the span, one of:
 *   1. it was sent from the process's cgroup (and, at the top of the hierarchy, by its user);
 *   2. container.id or service.instance.id of the span's Resource are the process's, as the kernel
 *      says and as the process has published;
 *   3. a forwarder of the configuration sent it: then what its Resource says counts.
 * And its Resource must not contradict what is known of the process: container.id, k8s.pod.uid,
 * process.pid (in spanprof's PID namespace, the process's own, or as it publishes it itself), and,
 * if none of them says that it is the same, service.instance.id and service.name with
 * service.namespace, if published. Otherwise the samples keep only their Link, when they have
 * waited for a span that is theirs. Of several possible owners, the one with the highest score
 * joins, and for equal scores the one whose first sample with that id is older. A span changes
 * nothing for samples of other processes.
 *
 * The state of a pending sample follows from the rows of totals and matched spans: a restart, or a
 * rollback, restores it from them.
 */
#include "store/join/join_state.h"
#include "store/db/db.h"
#include "store/stacks/processes.h"
#include "store/stacks/stacks_unfinished.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

/* Settling */

bool join_is_over(const struct matched_span *matched, uint64_t time_unix_ns)
{
    const struct join_span_facts *span = &matched->facts;
    return time_unix_ns > span_time_over(span->start_unix_ns, span->end_unix_ns);
}

static int join_canonical(void *context, int64_t stack, int64_t *same, bool *open)
{
    struct join *join = context;
    *open = stacks_has_open_frames(join->stacks, stack);
    int error = stacks_canonical(join->stacks, stack, same);
    return error == -ENOENT ? 0 : error; /* the row was removed: the stack itself */
}

static void span_total_chain(struct span_total *total, struct pending_sample *entry)
{
    entry->total = total;
    entry->next = NULL;
    if (total->last)
        total->last->next = entry;
    else
        total->first = entry;
    total->last = entry;
}

/* Samples leave nearly in order of arrival, so the walk is short. */
void join_unchain(struct pending_sample *entry)
{
    struct span_total *total = entry->total;
    struct pending_sample **at = &total->first, *before = NULL;
    while (*at != entry) {
        before = *at;
        at = &before->next;
    }
    *at = entry->next;
    if (total->last == entry)
        total->last = before;
    entry->next = NULL;
    entry->total = NULL;
}

void join_settle(struct join *join, struct pending_sample *entry, struct matched_span *matched)
{
    entry->matched = matched;
    matched->refs++;
    pending_sample_set(&join->pending, entry, PENDING_JOINED);
}

void join_settle_alone(struct join *join, struct pending_sample *entry, enum join_reason reason)
{
    pending_sample_set(&join->pending, entry, PENDING_READY);
    join_count(reason, 1);
}

static void join_forgetting(void *context, struct span_total *total)
{
    struct join *join = context;
    struct pending_sample *entry;
    while ((entry = total->first)) {
        join_unchain(entry);
        join_settle_alone(join, entry, JOIN_EVICTED);
    }
    matched_span_unlink_total(total);
}

int join_exact_total(struct join *join, struct matched_span *matched, int64_t process,
                     struct span_total **result)
{
    struct span_total_key key;
    if (matched->exact) {
        *result = matched->exact;
        return 0;
    }
    memcpy(key.trace_id, matched->facts.trace_id, sizeof(key.trace_id));
    memcpy(key.span_id, matched->facts.span_id, sizeof(key.span_id));
    *result = span_totals_find(&join->totals, &key, &matched->who);
    int error = *result ? 0 : span_totals_make(&join->totals, &key, &matched->who, result);
    if (error)
        return error;
    if (!(*result)->process)
        (*result)->process = process;
    matched_span_link(matched, *result);
    return 0;
}

static struct span_total_sample counted_of(const struct pending_sample *entry)
{
    return (struct span_total_sample){.time_unix_ns = pending_sample_time(entry),
                                      .value_ns = entry->value_ns,
                                      .stack = entry->stack,
                                      .cpu = entry->cpu};
}

int join_uncount(struct join *join, const struct pending_sample *entry, struct span_total *total)
{
    struct span_total_sample sample = counted_of(entry);
    return span_total_take(&join->totals, total, &sample);
}

int join_move(struct join *join, struct pending_sample *entry, struct span_total *from,
              struct span_total *to)
{
    struct span_total_sample sample = counted_of(entry);
    int error = span_total_take(&join->totals, from, &sample);
    if (!error)
        error = join_canonical(join, entry->stack, &sample.stack, &sample.stack_is_open);
    return error ? error : span_total_add(&join->totals, to, &sample);
}

/* Samples */

bool join_names_span(const struct sample *sample)
{
    return !bytes_zero(sample->span_id, sizeof(sample->span_id)) ||
           !bytes_zero(sample->local_root_id, sizeof(sample->local_root_id));
}

static bool has_context(const struct sample *sample)
{
    return !bytes_zero(sample->trace_id, sizeof(sample->trace_id)) || join_names_span(sample);
}

static struct span_total_key key_of(const struct sample *sample)
{
    struct span_total_key key;
    bool has_span = !bytes_zero(sample->span_id, sizeof(sample->span_id));
    memcpy(key.trace_id, sample->trace_id, sizeof(key.trace_id));
    memcpy(key.span_id, has_span ? sample->span_id : sample->local_root_id, sizeof(key.span_id));
    return key;
}

static int who_of(struct join *join, int64_t process, struct span_total_process *who)
{
    const struct process_facts *facts;
    *who = (struct span_total_process){0};
    int error = process ? processes_get(join->processes, process, &facts) : -ENOENT;
    if (!error)
        *who = (struct span_total_process){
            .start_ns = facts->start_ns, .pid = facts->pid, .tenant = facts->cgroup_id};
    return error == -ENOENT ? 0 : error;
}

static void add_alone(struct join *join, struct pending_sample *entry, enum join_reason reason,
                      bool fresh)
{
    pending_sample_set(&join->pending, entry, PENDING_READY);
    join_count(reason, fresh);
}

static struct span_total_sample span_total_sample_of(const struct join *join,
                                                     const struct sample *sample)
{
    return (struct span_total_sample){.time_unix_ns = sample->time_unix_ns,
                                      .value_ns = sample->value_ns,
                                      .stack = sample->stack,
                                      .stack_is_open =
                                          stacks_has_open_frames(join->stacks, sample->stack),
                                      .cpu = sample->kind == SAMPLE_CPU};
}

static int add_late(struct join *join, struct span_total *total, struct matched_span *matched,
                    const struct sample *sample)
{
    struct span_total *exact;
    struct span_total_sample counted = span_total_sample_of(join, sample);
    bool over = join_is_over(matched, sample->time_unix_ns);
    counted.cpu = counted.cpu && !over;
    int error = join_exact_total(join, matched, sample->process, &exact);
    if (!error)
        error = span_total_add(&join->totals, exact, &counted);
    counted.cpu = false; /* only keeps the other total from expiring */
    if (!error && total != exact)
        error = span_total_add(&join->totals, total, &counted);
    join_count(over ? JOIN_ENDED : JOIN_LATE, 1);
    return error;
}

static int add_to_total(struct join *join, struct span_total *total, struct pending_sample *entry,
                        const struct sample *sample, bool fresh)
{
    struct span_total_sample counted = span_total_sample_of(join, sample);
    struct matched_span *matched = matched_span_of(total, sample->time_unix_ns);
    int error = 0;
    if (matched) {
        join_settle(join, entry, matched);
        return fresh ? add_late(join, total, matched, sample) : 0;
    }
    if (fresh) {
        total->process = sample->process;
        error = span_total_add(&join->totals, total, &counted);
    }
    pending_sample_set(&join->pending, entry, PENDING_WAITING);
    span_total_chain(total, entry);
    return error;
}

static int index_sample(void *context, struct pending_batch *batch, struct pending_sample *entry,
                        const struct sample *sample, bool fresh)
{
    struct join *join = context;
    struct span_total_process who;
    (void)batch;
    if (!has_context(sample)) {
        add_alone(join, entry, JOIN_NO_CONTEXT, fresh);
        return 0;
    }
    if (sample->flags_trusted && !(sample->trace_flags & 1)) {
        add_alone(join, entry, JOIN_UNSAMPLED, fresh);
        return 0;
    }
    if (sample->ended) {
        add_alone(join, entry, JOIN_ENDED, fresh);
        return 0;
    }
    struct span_total_key key = key_of(sample);
    int error = who_of(join, sample->process, &who);
    if (error)
        return error;
    struct span_total *total = span_totals_find(&join->totals, &key, &who);
    if (!total && !fresh) { /* forgotten since the sample was added */
        add_alone(join, entry, JOIN_EVICTED, false);
        return 0;
    }
    bool has_room = true;
    if (!total)
        error = span_totals_make_room(&join->totals, &key, &who, &has_room);
    if (!error && !has_room) {
        add_alone(join, entry, JOIN_CROWDED, true);
        return 0;
    }
    if (!error && !total)
        error = span_totals_make(&join->totals, &key, &who, &total);
    return error ? error : add_to_total(join, total, entry, sample, fresh);
}

int join_batch_begin(struct join *join)
{
    WRITER_THREAD(join->db);
    pending_begin(&join->pending);
    return 0;
}

/* It is asked before the sample is written, so that it holds after a restart as well. */
static int find_ended(struct join *join, struct sample *sample)
{
    const struct process_facts *facts = NULL;
    if (bytes_zero(sample->trace_id, sizeof(sample->trace_id)) || !join_names_span(sample) ||
        !sample->process)
        return 0;
    int error = processes_get(join->processes, sample->process, &facts);
    sample->ended = !error && ended_spans_has(&join->ended, sample, facts);
    return error == -ENOENT ? 0 : error;
}

int join_add_sample(struct join *join, const struct sample *sample)
{
    WRITER_THREAD(join->db);
    struct sample added = *sample;
    int error = find_ended(join, &added);
    return error ? error : pending_add(&join->pending, &added);
}

int join_batch_commit(struct join *join)
{
    WRITER_THREAD(join->db);
    int error = pending_commit(&join->pending, index_sample, join);
    if (!error)
        error = span_totals_trim(&join->totals);
    if (!error)
        error = join_drop_excess(join);
    return error;
}

/* Opening */

static struct span_total *find_total(struct join *join, const struct matched_span *matched,
                                     bool trace, bool span)
{
    struct span_total_key key = {0};
    if (trace)
        memcpy(key.trace_id, matched->facts.trace_id, 16);
    if (span)
        memcpy(key.span_id, matched->facts.span_id, 8);
    return span_totals_find(&join->totals, &key, &matched->who);
}

static void link_spans(struct join *join)
{
    struct list *link, *tmp;
    list_each(link, tmp, &join->spans.ages)
    {
        struct matched_span *matched = container_of(link, struct matched_span, age);
        struct span_total *exact = find_total(join, matched, true, true);
        struct span_total *by_span = find_total(join, matched, false, true);
        struct span_total *by_trace =
            matched->facts.local_root ? find_total(join, matched, true, false) : NULL;
        if (exact)
            matched_span_link(matched, exact);
        if (by_span)
            matched_span_link(matched, by_span);
        if (by_trace)
            matched_span_link(matched, by_trace);
    }
}

int join_reload(struct join *join)
{
    WRITER_THREAD(join->db);
    int error = matched_spans_reload(&join->spans);
    if (!error)
        error = span_totals_reload(&join->totals);
    if (error)
        return error;
    link_spans(join);
    return pending_reload(&join->pending, index_sample, join);
}

int join_flush(struct join *join)
{
    WRITER_THREAD(join->db);
    return span_totals_flush(&join->totals);
}

static int open_all(struct join *join)
{
    const struct join_settings *settings = &join->settings;
    int error = matched_spans_open(
        &join->spans, join->db,
        &(struct matched_spans_settings){.max_count = settings->max_recent_spans,
                                         .max_bytes = settings->max_recent_bytes,
                                         .attributes = settings->span_attributes});
    if (!error)
        error = span_totals_open(&join->totals, join->db, settings->max_span_totals_bytes);
    if (!error)
        error = pending_open(&join->pending, join->db);
    if (!error)
        error = ended_spans_open(&join->ended);
    join->totals.forgetting = join_forgetting;
    join->totals.canonical = join_canonical;
    join->totals.context = join;
    return error ? error : join_reload(join);
}

int join_open(struct db *db, struct stacks *stacks, struct processes *processes,
              const struct join_settings *settings, struct join **result)
{
    struct join *join = calloc(1, sizeof(*join));
    if (!join)
        return -ENOMEM;
    join->db = db;
    join->stacks = stacks;
    join->processes = processes;
    join->settings = *settings;
    if (join->settings.top_stacks > JOIN_TOP_STACKS_MAX)
        join->settings.top_stacks = JOIN_TOP_STACKS_MAX;
    int error = open_all(join);
    if (error) {
        join_close(join);
        return error;
    }
    *result = join;
    return 0;
}

void join_close(struct join *join)
{
    if (!join)
        return;
    pending_close(&join->pending);
    matched_spans_close(&join->spans);
    span_totals_close(&join->totals);
    ended_spans_close(&join->ended);
    free(join);
}
