/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One table: which counter means which problem, and what helps. Counters count since the start, so
 * an old problem is still reported, with its count.
 */
#include "exporter/pages/pages_status.h"
#include <stdio.h>

#define OLD_S 60 /* if a request waits longer, its backend is away */

/* ---- from counters ---- */

static const struct symptom {
    const char *name;
    const char *labels; /* "" with any: the sum over all labels of the name */
    bool any;
    const char *what; /* text after the number */
    const char *action;
} symptoms[] = {
    {"spanprof_samples_lost_total", "reason=\"ring_full\"", false,
     "samples were lost because the ring between kernel and program was full",
     "Raise receivers::sampler::ring_size_mib, or lower frequency."},
    {"spanprof_samples_lost_total", "reason=\"store\"", false,
     "samples were lost because the store did not accept them",
     "Look for messages about the store in the log; the disk may be full or slow."},
    {"spanprof_window_samples_unsent_total", "", false,
     "samples are on these pages alone, because the store had no room for data that waits for the "
     "backend",
     "Check why the backend does not accept them; without a backend, use the exporter nop."},
    {"spanprof_outbox_dropped_items_total", "", true,
     "items were dropped because the store was full",
     "Raise extensions::sqlite_storage::max_size_mib, or check why the backend does not accept "
     "them."},
    {"spanprof_exporter_dropped_items_total", "", true,
     "items were dropped because a backend refused them or max_elapsed_time was over",
     "The log names the backend's answer."},
    {"spanprof_outbox_refused_total", "", true,
     "requests were refused because the store had no room",
     "Raise extensions::sqlite_storage::max_size_mib, or check why the backend does not accept "
     "what waits; senders retry meanwhile."},
    {"spanprof_store_corrupt_total", "", true,
     "times the store was damaged and replaced by an empty one",
     "Check the disk; the damaged file is beside the store as spanprof.db.corrupt."},
    {"spanprof_store_newer_total", "", true,
     "times the store of a newer spanprof was put aside: what waits in it is not sent",
     "Start the newer version with spanprof.db.newer under its old name, spanprof.db."},
    {"spanprof_store_log_reads_refused_total", "", true,
     "questions to these pages were refused because the store had too much to write",
     "Ask less often, or for less time; the disk may be slow."},
    {"spanprof_profiles_former_layout_total", "layout=\"1.7\"", false,
     "requests with profiles of OTLP 1.7 or before were refused", "Update their sender."},
    {"spanprof_profiles_former_layout_total", "layout=\"unclear\"", false,
     "requests with profiles were refused because their values may be attributes",
     "Update their sender, or have it send otlp-profiles-development-version: 1."},
    {"spanprof_join_spans_not_owner_total", "", true,
     "spans were sent by a different process than the one whose samples name them",
     "Each process needs its own service.instance.id, container.id or process.pid in its Resource; "
     "a copied one misleads."},
    {"spanprof_join_spans_no_evidence_total", "", true,
     "spans have no CPU time, because nothing shows that the process whose samples name them made "
     "them",
     "If a Collector or a proxy forwards spans, name it in processors::join::forwarders; or have "
     "SDKs send container.id, or publish and send the same service.instance.id."},
    {"spanprof_contexts_unreadable_total", "reason=\"no_variable\"", false,
     "times a program that publishes contexts was looked at whose files do not say where they are",
     "Export otel_thread_ctx_v1, or do not strip the file that has it; the log names the process "
     "at "
     "level debug."},
    {"spanprof_contexts_unreadable_total", "reason=\"unresolved_variable\"", false,
     "times a program's thread-local variable could not be located",
     "Harmless while programs start; else the log names the process at level debug."},
    {"spanprof_contexts_unreadable_total", "reason=\"unknown_libc\"", false,
     "times a program keeps its contexts in dynamic thread-local memory of a C library that is "
     "neither glibc nor musl, or whose file could not be read",
     "The log names the process at level debug; please report it."},
    {"spanprof_contexts_unreadable_total", "reason=\"records\"", false,
     "times most of what samples read of a program's contexts was no record",
     "The log names the process at level debug: its library may be damaged, or of another "
     "version."},
    {"spanprof_contexts_unreadable_total", "reason=\"unsupported_go\"", false,
     "Go programs have a version whose labels are unknown", "A newer spanprof may know them."},
    {"spanprof_unwind_pages_no_room_total", "", true,
     "times there was no room for unwind tables, so stacks were cut short",
     "Raise receivers::sampler::unwind_tables_mib."},
    {"spanprof_process_restarts_total", "process=\"service\"", false,
     "times the service process was started again after it had died",
     "The log says why; please report it."},
    {"spanprof_symbolizer_hangs_total", "", true,
     "times the symbolizer hung at a process and was started again",
     "The log names the process; its names and contexts are skipped for a while."},
    {"spanprof_history_left_out_total", "", true, "samples or spans were not kept for these pages",
     "Raise extensions::history::max_size_mib."},
};

struct sum {
    const struct symptom *symptom;
    int64_t count;
};

static void add_to_sum(void *context, const struct stat_series *series)
{
    struct sum *sum = context;
    if (strcmp(series->metric->name, sum->symptom->name) == 0 &&
        (sum->symptom->any || strcmp(series->labels, sum->symptom->labels) == 0))
        sum->count += series->value;
}

static void put_problem(struct json_writer *json, const char *what, const char *action)
{
    json_begin_object(json, NULL);
    json_put_string(json, "what", what);
    json_put_string(json, "do", action);
    json_end_object(json);
}

static void put_symptoms(struct json_writer *json)
{
    for (size_t i = 0; i < sizeof(symptoms) / sizeof(symptoms[0]); i++) {
        struct sum sum = {.symptom = &symptoms[i]};
        char what[256];
        if (stats_each(add_to_sum, &sum) || sum.count <= 0)
            continue;
        snprintf(what, sizeof(what), "%lld %s.", (long long)sum.count, symptoms[i].what);
        put_problem(json, what, symptoms[i].action);
    }
}

/* ---- from what there is ---- */

int64_t pages_status_total(const char *name)
{
    const struct symptom all = {.name = name, .any = true};
    struct sum sum = {.symptom = &all};
    return stats_each(add_to_sum, &sum) ? 0 : sum.count;
}

static void put_sampling(const struct pages_facts *facts, struct json_writer *json)
{
    bool wanted = config_find_receiver(facts->config, CONFIG_RECEIVER_SAMPLER) != NULL;
    if (wanted && !facts->sampling)
        put_problem(json, "This node is not sampled: the sampler could not be started.",
                    "Start spanprof as root, or with CAP_BPF and CAP_PERFMON; the log says what "
                    "was missing.");
}

/* Problems of the join: no spans arrive, samples name no spans, or none match. */
static void put_halves(const struct pages_facts *facts, struct json_writer *json)
{
    int64_t spans = pages_status_total("spanprof_spans_received_total");
    int64_t taken = pages_status_total("spanprof_samples_total");
    int64_t in_context = pages_status_total("spanprof_intake_samples_total") -
                         stats_find("spanprof_intake_samples_total", "context=\"none\"");
    int64_t matched = pages_status_total("spanprof_join_spans_matched_total");
    bool traces = config_find_pipeline(facts->config, CONFIG_TRACES) != NULL;
    if (traces && !spans)
        put_problem(json, "No spans have arrived.",
                    "Point the programs' OTLP exporter here, for example with "
                    "OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318.");
    if (spans && facts->sampling && taken > 1000 && in_context <= 0)
        put_problem(json,
                    "No program on this node publishes which span its threads work on, so no "
                    "sample finds its span.",
                    "The list below gives the reason for each process; docs/design/contexts.md "
                    "lists the sources that are read.");
    else if (spans && in_context > 100 && !matched)
        put_problem(json, "Samples name spans, and spans arrive, but none of them match.",
                    "Programs sampled on this node must send their spans to this node.");
}

static void put_queues(const struct pages_queue *queues, size_t n, struct json_writer *json)
{
    for (size_t i = 0; i < n; i++) {
        char what[CONFIG_NAME_MAX + 128];
        if (queues[i].oldest_s < OLD_S)
            continue;
        snprintf(what, sizeof(what), "%s: %s have been waiting for %llu s.", queues[i].exporter,
                 config_signal_name((enum config_signal)queues[i].signal),
                 (unsigned long long)queues[i].oldest_s);
        put_problem(json, what,
                    "Check whether the backend is up and reachable at the exporter's endpoint; "
                    "nothing is lost meanwhile, as long as the store has room.");
    }
}

void pages_status_problems(const struct pages_facts *facts, const struct pages_queue *queues,
                           size_t n_queues, struct json_writer *json)
{
    json_begin_array(json, "problems");
    put_sampling(facts, json);
    put_halves(facts, json);
    put_queues(queues, n_queues, json);
    put_symptoms(json);
    json_end_array(json);
}

/* ---- one process ---- */

#define SEE_CONTEXTS "(docs/design/contexts.md lists the sources that are read)"

/* None of its samples has a span id. */
static const char *why_silent(const struct coverage_process *process)
{
    if (process->publishes && !process->attached)
        return "It publishes which span it works on, but spanprof could not read it yet: see "
               "spanprof_contexts_unreadable_total among the losses.";
    if (process->unreadable * 2 > process->samples)
        return "Its context could not be read: it was being changed, or is damaged: see "
               "spanprof_contexts_unreadable_total among the losses.";
    if (process->publishes && process->spans)
        return "It publishes contexts, but no span was active when it was sampled: the work is "
               "done outside of spans, or on threads that do not get the span's context.";
    if (process->publishes)
        return "It publishes contexts, but no span was active, and no span of its service has "
               "arrived: is its tracing switched on, and does its OTLP exporter point at this "
               "node?";
    if (process->spans)
        return "Spans of its service arrive here, but it does not publish which of them its "
               "threads work on: use a library that does " SEE_CONTEXTS ".";
    return "It neither publishes which span it works on nor sends spans here: it needs tracing, "
           "and a library that publishes contexts " SEE_CONTEXTS ".";
}

/* Its samples have span ids, but few of those spans were found. */
static const char *why_not_found(const struct coverage_process *process)
{
    if (process->unsampled * 2 > process->has_ids)
        return "Its SDK does not sample these spans, so they are not sent: raise the ratio of its "
               "sampler (OTEL_TRACES_SAMPLER_ARG).";
    if (process->unproven)
        return "Spans that it works on arrive here, but from another container or host, so they "
               "may "
               "be another's: if a Collector or a proxy forwards them, name it in "
               "processors::join::forwarders; or have its SDK send container.id, or publish and "
               "send the same service.instance.id.";
    if (process->spans)
        return "Spans of its service arrive here, but not those that it works on: they take longer "
               "than processors::join::wait, are dropped on the way, or belong to another "
               "instance.";
    return "It publishes which span it works on, but no span of its service has arrived: point its "
           "OTLP exporter at this node.";
}

const char *pages_status_why(const struct history_series *process,
                             const struct coverage_process *coverage)
{
    const struct coverage_process unknown = {.samples = process->samples,
                                             .has_ids = process->in_context};
    if (!coverage)
        coverage = &unknown;
    if (!process->pid)
        return process->others
                   ? "All others, with less CPU time than the ones above."
                   : "The kernel's own threads, and processes that ended before they were known.";
    if (process->in_span * 10 >= process->samples * 9)
        return "";
    if (!coverage->has_ids)
        return why_silent(coverage);
    if (process->in_span * 2 < process->in_context)
        return why_not_found(coverage);
    return "The rest is work outside of spans: start-up, garbage collection, timers, idling "
           "threads.";
}
