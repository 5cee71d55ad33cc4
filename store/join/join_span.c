/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matches a span with the totals of its ids: finds its owner, and takes samples from the totals.
 * The rule is at the top of join.c.
 */
#include "store/db/db.h"
#include "store/join/join_state.h"
#include "store/stacks/processes.h"
#include "store/stacks/stacks_unfinished.h"
#include <errno.h>
#include <stdlib.h>

STAT_COUNTER(spans_matched, "spanprof_join_spans_matched_total",
             "Spans that had samples (again for one that was sent again).");
STAT_LOSS(spans_contradicted, "spanprof_join_spans_not_owner_total",
          "Spans whose Resource contradicts a process with samples of the same ids.");

enum sender { SENDER_UNKNOWN, SENDER_ELSEWHERE, SENDERS };
static const char *const sender_names[] = {
    [SENDER_UNKNOWN] = "unknown", [SENDER_ELSEWHERE] = "other_cgroup"};
STAT_LOSSES(spans_unproven, "spanprof_join_spans_no_evidence_total",
            "Spans without evidence that a process with samples of the same ids made them, by what "
            "is known of their sender.",
            STAT_LABEL("sender", sender_names, SENDERS));

/* counts: the total that the samples of this one count in. */
static int settle_chain(struct join *join, struct span_total *total, struct span_total *counts,
                        struct matched_span *matched)
{
    struct pending_sample *entry;
    int error = 0;
    while (!error && (entry = total->first)) {
        bool over = join_is_over(matched, pending_sample_time(entry));
        if (over)
            error = join_uncount(join, entry, counts);
        join_unchain(entry);
        join_settle(join, entry, matched);
        join_count(over ? JOIN_ENDED : JOIN_JOINED, 1);
    }
    return error;
}

struct match {
    const struct otlp_span *span;
    const struct peer *sender;
    struct matched_resource *resource;
    struct span_total *exact, *by_trace, *by_span; /* totals of one process */
    bool whole_trace; /* all samples of by_trace are within the span's time */
    struct join_result *result;
};

/* A request may name the same span many times: the score is remembered, since it takes longer to
 * find than such a span takes to send. */
static int join_score(struct join *join, const struct match *match, struct span_total *total,
                      int *score)
{
    const struct process_facts *facts;
    uint64_t resource = match->span->resource_number;
    *score = total->score;
    if (resource && total->scored_resource == resource && total->scored_process == total->process)
        return 0;
    int error = total->process ? processes_get(join->processes, total->process, &facts) : -ENOENT;
    *score = match->sender->is_forwarder ? OWNER_OPEN : OWNER_UNPROVEN;
    if (!error)
        *score = owner_score(&match->resource->evidence, match->sender, facts);
    total->scored_resource = resource;
    total->scored_process = total->process;
    total->score = *score;
    return error == -ENOENT ? 0 : error;
}

static void total_refuse(const struct match *match, struct span_total *total, int score)
{
    if (score == OWNER_NOT) {
        stat_add(&spans_contradicted, 1);
        total->refused = TOTAL_CONTRADICTED;
        return;
    }
    stat_add_of(&spans_unproven, match->sender->cgroup_id ? SENDER_ELSEWHERE : SENDER_UNKNOWN, 1);
    total->refused = TOTAL_UNPROVEN;
    match->result->unproven_pid = total->who.pid;
}

/* who: only totals of this process; NULL: of any process. */
static int choose_owner(struct join *join, const struct match *match, struct span_total *chain_head,
                        const struct span_total *who, struct span_total **owner)
{
    int best = OWNER_NOT;
    *owner = NULL;
    for (struct span_total *total = chain_head; total; total = total->next) {
        int now;
        if (who && (who->who.pid != total->who.pid || who->who.start_ns != total->who.start_ns))
            continue;
        int error = join_score(join, match, total, &now);
        if (error)
            return error;
        if (now < OWNER_OPEN) {
            total_refuse(match, total, now);
            continue;
        }
        bool joined_before = *owner && now == best && total->matched && !(*owner)->matched;
        if (now > best || joined_before) {
            best = now;
            *owner = total;
        }
    }
    return 0;
}

static bool in_time(const struct match *match, uint64_t time_unix_ns)
{
    return span_time_has(match->span->start_unix_ns, match->span->end_unix_ns, time_unix_ns);
}

/* Whether this local root takes samples from the trace's total. */
static bool trace_applies(struct match *match, const struct span_total *total)
{
    match->whole_trace =
        in_time(match, total->first_unix_ns) && in_time(match, total->last_unix_ns);
    if (match->whole_trace)
        return total->samples || total->first;
    for (const struct pending_sample *entry = total->first; entry; entry = entry->next)
        if (in_time(match, pending_sample_time(entry)))
            return true;
    return false;
}

struct chains {
    struct span_total *exact, *by_trace, *by_span;
};

static int choose_owners(struct join *join, struct match *match, const struct chains *chains)
{
    int error = choose_owner(join, match, chains->exact, NULL, &match->exact);
    if (!error)
        error = choose_owner(join, match, chains->by_span, match->exact, &match->by_span);
    struct span_total *who = match->exact ? match->exact : match->by_span;
    if (!error)
        error = choose_owner(join, match, chains->by_trace, who, &match->by_trace);
    if (match->by_trace && !trace_applies(match, match->by_trace))
        match->by_trace = NULL;
    return error;
}

static int take_trace_part(struct join *join, const struct match *match,
                           struct matched_span *matched)
{
    struct pending_sample *entry, *next;
    int error = 0;
    for (entry = match->by_trace->first; entry && !error; entry = next) {
        next = entry->next;
        if (!in_time(match, pending_sample_time(entry)))
            continue;
        join_unchain(entry);
        error = join_move(join, entry, match->by_trace, match->exact);
        join_settle(join, entry, matched);
        join_count(JOIN_JOINED, 1);
    }
    return error;
}

static int take_whole(struct join *join, const struct match *match, struct span_total *from,
                      struct matched_span *matched)
{
    int error = span_total_merge(&join->totals, match->exact, from);
    return error ? error : settle_chain(join, from, match->exact, matched);
}

static int take_totals(struct join *join, struct match *match, struct matched_span *matched)
{
    int error = settle_chain(join, match->exact, match->exact, matched);
    if (!error && match->by_span) {
        matched_span_link(matched, match->by_span);
        error = take_whole(join, match, match->by_span, matched);
    }
    if (!error && match->by_trace) {
        matched_span_link(matched, match->by_trace);
        error = match->whole_trace ? take_whole(join, match, match->by_trace, matched)
                                   : take_trace_part(join, match, matched);
    }
    return error;
}

static int join_claim(struct join *join, struct match *match)
{
    struct span_total *any = match->exact     ? match->exact
                             : match->by_span ? match->by_span
                                              : match->by_trace;
    struct matched_span *matched = match->exact ? match->exact->matched : NULL;
    int error = matched ? 0
                        : matched_span_make(&join->spans, match->span, match->resource, &any->who,
                                            &matched);
    if (!error)
        error = join_exact_total(join, matched, any->process, &match->exact);
    if (!error)
        error = take_totals(join, match, matched);
    return error ? error : matched_spans_trim(&join->spans, matched);
}

static int more_samples(const void *a, const void *b)
{
    const struct span_total_stack *x = a, *y = b;
    if (x->count != y->count)
        return x->count < y->count ? 1 : -1;
    return x->stack < y->stack ? -1 : x->stack > y->stack;
}

/* A stack with open frames has no final public id yet. */
static int tell_stack(struct join *join, int64_t stack, struct join_result *result)
{
    if (stacks_has_open_frames(join->stacks, stack))
        return 0;
    int error = stacks_public_id(join->stacks, stack, result->stack_ids[result->n_stacks]);
    result->n_stacks += !error;
    return error == -ENOENT ? 0 : error;
}

static int join_report(struct join *join, struct span_total *total, struct join_result *result)
{
    struct span_total_stack stacks[SPAN_TOTAL_STACKS_MAX];
    int error = span_total_unite(&join->totals, total);
    if (error)
        return error;
    size_t n = total->n_stacks;
    if (n)
        memcpy(stacks, total->stacks, n * sizeof(*stacks));
    qsort(stacks, n, sizeof(*stacks), more_samples);
    result->pid = total->who.pid;
    result->cpu_ns = total->cpu_ns;
    result->samples = total->samples;
    result->n_stacks = 0;
    for (size_t i = 0; i < n && result->n_stacks < join->settings.top_stacks; i++) {
        error = tell_stack(join, stacks[i].stack, result);
        if (error)
            return error;
    }
    return total->samples ? JOIN_MATCHED : JOIN_NO_SAMPLES;
}

static int join_matched(struct join *join, struct match *match, const struct chains *chains)
{
    const struct otlp_span *span = match->span;
    int error =
        matched_resource_get(&join->spans, span->resource, span->resource_number, &match->resource);
    if (error)
        return error;
    error = choose_owners(join, match, chains);
    bool found = match->exact || match->by_span || match->by_trace;
    if (!error && found)
        error = join_claim(join, match);
    int dropped = matched_resource_drop(&join->spans, match->resource);
    error = error ? error : dropped;
    if (error || !found)
        return error ? error : JOIN_NO_SAMPLES;
    int outcome = join_report(join, match->exact, match->result);
    stat_add(&spans_matched, outcome == JOIN_MATCHED);
    return outcome;
}

static struct chains find_chains(struct join *join, const struct otlp_span *span,
                                 const struct span_total_key *key)
{
    struct span_total_key part = {0};
    struct chains chains = {.exact = span_totals_get(&join->totals, key)};
    if (join->totals.n_by_span) {
        memcpy(part.span_id, key->span_id, 8);
        chains.by_span = span_totals_get(&join->totals, &part);
    }
    if (join->totals.n_by_trace && otlp_span_is_local_root(span)) {
        part = (struct span_total_key){0};
        memcpy(part.trace_id, key->trace_id, 16);
        chains.by_trace = span_totals_get(&join->totals, &part);
    }
    return chains;
}

int join_span(struct join *join, const struct otlp_span *span, const struct peer *sender,
              struct join_result *result)
{
    WRITER_THREAD(join->db);
    struct span_total_key key;
    struct match match = {.span = span, .sender = sender, .result = result};
    int outcome = JOIN_NO_SAMPLES;
    result->unproven_pid = 0;
    if (span->trace_id.len != 16 || span->span_id.len != 8)
        return JOIN_NO_SAMPLES;
    memcpy(key.trace_id, span->trace_id.data, 16);
    memcpy(key.span_id, span->span_id.data, 8);
    if (bytes_zero(key.trace_id, 16) || bytes_zero(key.span_id, 8))
        return JOIN_NO_SAMPLES; /* a zero id would match a total of a trace or a span id */
    struct chains chains = find_chains(join, span, &key);
    if (chains.exact || chains.by_span || chains.by_trace)
        outcome = join_matched(join, &match, &chains);
    if (outcome == JOIN_NO_SAMPLES)
        ended_spans_add(&join->ended, span, sender);
    return outcome;
}
