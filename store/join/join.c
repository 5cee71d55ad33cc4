/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples are few and indexed, spans many and probed: a span without samples costs one look into a
 * hash table (and one more while contexts without a trace, or without a span, are about).
 *
 * A sample counts in the tally of (trace, span, process), and waits in its chain. A span finds the
 * tallies with its ids, joins that of its owner, and becomes a `joined` span that later samples
 * find. Contexts that name no span but a local root count as that span's. Contexts with the trace
 * alone count in a tally of the trace, which a local root of the process joins: whole, if it spans
 * the time of all of them, else those that lie in its time. Contexts with the span alone count in a
 * tally of the span id. What a span takes of these moves to its own tally: a request sent twice
 * finds the same there.
 *
 * Whose is a span id? That process's whose SDK sent the span (a traceparent is visible to others).
 * The span's Resource is held against what is known of the process that was sampled:
 *   1. process.pid, if the Resource has it: must be the process's pid, in spanprof's PID namespace
 *      or in its own; and container.id, if both have it (one may be cut short).
 *   2. else service.instance.id, if the process has published one as well;
 *   3. else service.name with service.namespace, if the process has published them as well.
 * A contradiction: not the owner; its samples leave with their Link alone. Of several that could
 * be, the one with the most agreement joins, else the one whose first sample with that id came
 * first.
 *
 * What a slot's state is follows from the rows of tallies and joined spans: that is how a restart,
 * or a transaction rolled back, finds it again.
 */
#include "store/join/join_internal.h"
#include "store/db/db.h"
#include "store/stacks/processes.h"
#include "store/stacks/stacks.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

/* Settling */

static int canonical(void *context, int64_t stack, int64_t *same, bool *open)
{
    struct join *join = context;
    *open = stacks_is_promised(join->stacks, stack);
    int error = stacks_canonical(join->stacks, stack, same);
    return error == -ENOENT ? 0 : error; /* forgotten: its own */
}

static void chain(struct tally *tally, struct slot *slot)
{
    slot->tally = tally;
    slot->next = NULL;
    if (tally->last)
        tally->last->next = slot;
    else
        tally->first = slot;
    tally->last = slot;
}

/* Samples leave much in the order in which they came, so the walk is short. */
void join_unchain(struct slot *slot)
{
    struct tally *tally = slot->tally;
    struct slot **at = &tally->first, *before = NULL;
    while (*at != slot) {
        before = *at;
        at = &before->next;
    }
    *at = slot->next;
    if (tally->last == slot)
        tally->last = before;
    slot->next = NULL;
    slot->tally = NULL;
}

void join_settle(struct join *join, struct slot *slot, struct joined *joined)
{
    slot->joined = joined;
    joined->refs++;
    slot_set(&join->pending, slot, SLOT_JOINED);
}

void join_settle_alone(struct join *join, struct slot *slot, enum join_reason reason)
{
    slot_set(&join->pending, slot, SLOT_READY);
    join_count(reason, 1);
}

static void forgetting(void *context, struct tally *tally)
{
    struct join *join = context;
    struct slot *slot;
    while ((slot = tally->first)) {
        join_unchain(slot);
        join_settle_alone(join, slot, JOIN_EVICTED);
    }
    joined_unlink_tally(tally);
}

int join_exact_tally(struct join *join, struct joined *joined, int64_t process,
                     struct tally **result)
{
    struct tally_key key;
    if (joined->exact) {
        *result = joined->exact;
        return 0;
    }
    memcpy(key.trace_id, joined->facts.trace_id, sizeof(key.trace_id));
    memcpy(key.span_id, joined->facts.span_id, sizeof(key.span_id));
    *result = tallies_find(&join->tallies, &key, &joined->who);
    int error = *result ? 0 : tallies_make(&join->tallies, &key, &joined->who, result);
    if (error)
        return error;
    if (!(*result)->process)
        (*result)->process = process;
    joined_link(joined, *result);
    return 0;
}

int join_move(struct join *join, struct slot *slot, struct tally *from, struct tally *to)
{
    struct tally_sample sample = {.time_unix_ns = slot_time(slot),
                                  .value_ns = slot->value_ns,
                                  .stack = slot->stack,
                                  .cpu = slot->cpu};
    int error = tally_take(&join->tallies, from, &sample);
    if (!error)
        error = canonical(join, slot->stack, &sample.stack, &sample.promised);
    return error ? error : tally_add(&join->tallies, to, &sample);
}

/* Samples */

static bool has_context(const struct sample *sample)
{
    return !bytes_zero(sample->trace_id, sizeof(sample->trace_id)) ||
           !bytes_zero(sample->span_id, sizeof(sample->span_id)) ||
           !bytes_zero(sample->local_root_id, sizeof(sample->local_root_id));
}

static struct tally_key key_of(const struct sample *sample)
{
    struct tally_key key;
    bool has_span = !bytes_zero(sample->span_id, sizeof(sample->span_id));
    memcpy(key.trace_id, sample->trace_id, sizeof(key.trace_id));
    memcpy(key.span_id, has_span ? sample->span_id : sample->local_root_id, sizeof(key.span_id));
    return key;
}

static int who_of(struct join *join, int64_t process, struct tally_process *who)
{
    const struct process_facts *facts;
    *who = (struct tally_process){0};
    int error = process ? processes_get(join->processes, process, &facts) : -ENOENT;
    if (!error)
        *who = (struct tally_process){.start_ns = facts->start_ns, .pid = facts->pid};
    return error == -ENOENT ? 0 : error;
}

static void add_alone(struct join *join, struct slot *slot, enum join_reason reason, bool fresh)
{
    slot_set(&join->pending, slot, SLOT_READY);
    join_count(reason, fresh);
}

static struct tally_sample tally_sample_of(const struct join *join, const struct sample *sample)
{
    return (struct tally_sample){.time_unix_ns = sample->time_unix_ns,
                                 .value_ns = sample->value_ns,
                                 .stack = sample->stack,
                                 .promised = stacks_is_promised(join->stacks, sample->stack),
                                 .cpu = sample->kind == SAMPLE_CPU};
}

static int add_late(struct join *join, struct tally *tally, struct joined *joined,
                    const struct sample *sample)
{
    struct tally *exact;
    struct tally_sample counted = tally_sample_of(join, sample);
    int error = join_exact_tally(join, joined, sample->process, &exact);
    if (!error)
        error = tally_add(&join->tallies, exact, &counted);
    counted.cpu = false; /* it only keeps the other one from being forgotten */
    if (!error && tally != exact)
        error = tally_add(&join->tallies, tally, &counted);
    join_count(JOIN_LATE, 1);
    return error;
}

/* A span with these ids has come, and it was another process's. */
static bool joined_elsewhere(struct join *join, const struct tally *tally)
{
    if (tally_is_by_trace(tally)) /* a trace has local roots in many processes */
        return false;
    const struct tally *other = tallies_get(&join->tallies, &tally->key);
    while (other && (other == tally || !other->joined))
        other = other->next;
    return other;
}

static int add_to_tally(struct join *join, struct tally *tally, struct slot *slot,
                        const struct sample *sample, bool fresh)
{
    struct tally_sample counted = tally_sample_of(join, sample);
    struct joined *joined = joined_of(tally, sample->time_unix_ns);
    int error = 0;
    if (joined) {
        join_settle(join, slot, joined);
        return fresh ? add_late(join, tally, joined, sample) : 0;
    }
    if (fresh) {
        tally->process = sample->process;
        error = tally_add(&join->tallies, tally, &counted);
    }
    if (joined_elsewhere(join, tally)) {
        add_alone(join, slot, JOIN_NOT_OWNER, fresh);
        return error;
    }
    slot_set(&join->pending, slot, SLOT_WAITING);
    chain(tally, slot);
    return error;
}

static int index_sample(void *context, struct batch *batch, struct slot *slot,
                        const struct sample *sample, bool fresh)
{
    struct join *join = context;
    struct tally_process who;
    (void)batch;
    if (!has_context(sample)) {
        add_alone(join, slot, JOIN_NO_CONTEXT, fresh);
        return 0;
    }
    if (sample->flags_trusted && !(sample->trace_flags & 1)) {
        add_alone(join, slot, JOIN_UNSAMPLED, fresh);
        return 0;
    }
    struct tally_key key = key_of(sample);
    int error = who_of(join, sample->process, &who);
    if (error)
        return error;
    struct tally *tally = tallies_find(&join->tallies, &key, &who);
    if (!tally && !fresh) { /* forgotten meanwhile */
        add_alone(join, slot, JOIN_EVICTED, false);
        return 0;
    }
    if (!tally)
        error = tallies_make(&join->tallies, &key, &who, &tally);
    return error ? error : add_to_tally(join, tally, slot, sample, fresh);
}

int join_batch_begin(struct join *join)
{
    pending_begin(&join->pending);
    return 0;
}

int join_add_sample(struct join *join, const struct sample *sample)
{
    return pending_add(&join->pending, sample);
}

int join_batch_commit(struct join *join)
{
    size_t n_forgotten;
    int error = pending_commit(&join->pending, index_sample, join);
    if (!error)
        error = tallies_trim(&join->tallies, NULL, &n_forgotten);
    if (!error)
        error = join_drop_excess(join);
    return error;
}

/* Opening */

static struct tally *find_tally(struct join *join, const struct joined *joined, bool trace,
                                bool span)
{
    struct tally_key key = {0};
    if (trace)
        memcpy(key.trace_id, joined->facts.trace_id, 16);
    if (span)
        memcpy(key.span_id, joined->facts.span_id, 8);
    return tallies_find(&join->tallies, &key, &joined->who);
}

static void link_spans(struct join *join)
{
    struct list *link, *tmp;
    list_each(link, tmp, &join->spans.ages)
    {
        struct joined *joined = container_of(link, struct joined, age);
        struct tally *exact = find_tally(join, joined, true, true);
        struct tally *by_span = find_tally(join, joined, false, true);
        struct tally *by_trace =
            joined->facts.local_root ? find_tally(join, joined, true, false) : NULL;
        if (exact)
            joined_link(joined, exact);
        if (by_span)
            joined_link(joined, by_span);
        if (by_trace)
            joined_link(joined, by_trace);
    }
}

int join_reload(struct join *join)
{
    int error = joined_reload(&join->spans);
    if (!error)
        error = tallies_reload(&join->tallies);
    if (error)
        return error;
    link_spans(join);
    return pending_reload(&join->pending, index_sample, join);
}

int join_flush(struct join *join)
{
    return tallies_flush(&join->tallies);
}

static int open_all(struct join *join)
{
    const struct join_settings *settings = &join->settings;
    int error =
        joined_open(&join->spans, join->db, settings->max_recent_spans, settings->span_attributes);
    if (!error)
        error = tallies_open(&join->tallies, join->db, settings->max_tally_bytes);
    if (!error)
        error = pending_open(&join->pending, join->db);
    join->tallies.forgetting = forgetting;
    join->tallies.canonical = canonical;
    join->tallies.context = join;
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
    joined_close(&join->spans);
    tallies_close(&join->tallies);
    free(join);
}
