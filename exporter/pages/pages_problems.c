/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One table: which counter means which problem, and what helps. Counters count since the start, so
 * an old problem is still reported, with its count.
 */
#include "exporter/pages/pages_status.h"
#include <stdio.h>

#define OLD_S          60 /* if a request waits longer, its backend is away */
#define SERVICES_SHOWN 3
#define PROBLEM_MAX    1024

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
    {"spanprof_contexts_unreadable_total", "reason=\"unsupported_nodejs\"", false,
     "times a Node.js program had a context whose layout is unknown",
     "Readable are those of @datadog/pprof from 5.17 on; a newer spanprof may know others."},
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

/* "shop, cart, pay and 2 more" */
static void services_list(const struct pages_programs *programs, struct buf *text)
{
    size_t n = 0;
    int error = 0;
    for (size_t i = 0; i < programs->n && !error; i++) {
        const struct pages_program *program = &programs->programs[i];
        if (!program->need || pages_program_repeats(programs, i) || n++ >= SERVICES_SHOWN)
            continue;
        error = buf_printf(text, "%s%.*s", n > 1 ? ", " : "", (int)program->service.len,
                           (const char *)program->service.data);
    }
    if (n > SERVICES_SHOWN)
        buf_printf(text, " and %zu more", n - SERVICES_SHOWN);
}

/* Services whose spans arrive and whose processes do not publish. False: there are none. */
static bool put_wanting(const struct pages_programs *programs, struct json_writer *json)
{
    _cleanup_buf_ struct buf services = BUF_INIT(PROBLEM_MAX);
    char what[PROBLEM_MAX + 128];
    services_list(programs, &services);
    if (!services.len)
        return false;
    snprintf(what, sizeof(what),
             "Spans of %.*s have no CPU time: it is not published which span a thread works on.",
             (int)services.len, (const char *)services.data);
    put_problem(json, what,
                "The list of processes has the one switch for each, or says what is missing.");
    return true;
}

/* Problems of the join: no spans arrive, samples name no spans, or none match. */
static void put_halves(const struct pages_facts *facts, const struct pages_programs *programs,
                       struct json_writer *json)
{
    bool wanting = put_wanting(programs, json);
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
    if (spans && facts->sampling && taken > 1000 && in_context <= 0 && !wanting)
        put_problem(json,
                    "No program on this node publishes which span its threads work on, so no "
                    "sample finds its span.",
                    "The list below gives the reason for each process; docs/design/contexts.md "
                    "lists the sources that are read.");
    if (spans && in_context > 100 && !matched)
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

void pages_status_problems(const struct pages_facts *facts, const struct pages_programs *programs,
                           const struct pages_queue *queues, size_t n_queues,
                           struct json_writer *json)
{
    json_begin_array(json, "problems");
    put_sampling(facts, json);
    put_halves(facts, programs, json);
    put_queues(queues, n_queues, json);
    put_symptoms(json);
    json_end_array(json);
}
