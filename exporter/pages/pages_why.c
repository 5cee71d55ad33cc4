/* SPDX-License-Identifier: Apache-2.0 */
/* Why samples of a process have no span, in sentences that say what to do. */
#include "context/runtime.h"
#include "exporter/pages/pages_programs.h"

#define SEE_CONTEXTS "(docs/design/contexts.md lists the sources that are read)"
#define LET_IT_SAY   "with SPANPROF_CONTEXT_DEBUG=1 in its environment it says why"

enum publisher_state pages_why_state(const struct history_series *process,
                                     const struct coverage_process *coverage)
{
    return coverage->has_ids || process->in_context
               ? PUBLISHER_ACTIVE
               : (enum publisher_state)coverage->program.publisher;
}

/* ---- it does not publish ---- */

static const char *why_no_publisher(const struct coverage_process *process)
{
    if (!process->spans && !process->sends_spans)
        return "No spans are known to come from it.";
    if (*runtime_row(process->program.runtime)->line)
        return "Spans of its service arrive here, but it does not publish which of them its "
               "threads work on: it has no publisher.";
    return "Spans of its service arrive here, but it does not publish which of them its threads "
           "work on: use a library that does " SEE_CONTEXTS ".";
}

/* What a publisher does not say, cannot be seen from outside: whether it failed, or was not asked.
 */
static const char *why_not_published(const struct coverage_process *process,
                                     enum publisher_state state)
{
    switch (state) {
    case PUBLISHER_OFF:
        return "Its publisher is switched off: SPANPROF_CONTEXT=off is in its environment.";
    case PUBLISHER_STARTED:
        return "It was started with a publisher, but has not loaded it: it has no OpenTelemetry "
               "SDK, or a version that the publisher does not know, or its publisher "
               "failed; " LET_IT_SAY ".";
    case PUBLISHER_NO_LIBRARY:
        return "It was started with a publisher whose library cannot be loaded there: it is for "
               "another C library, an older or newer machine, or lies where nothing may be "
               "executed; " LET_IT_SAY ".";
    case PUBLISHER_VERSION:
        return "It was started with a publisher that does not know the version of its runtime or "
               "of its OpenTelemetry SDK; " LET_IT_SAY ".";
    case PUBLISHER_TAKEN:
        return "Its publisher stands aside, for another library in it publishes (a process has "
               "one), but not which span its threads work on.";
    case PUBLISHER_FAILED:
        return "Its publisher failed; " LET_IT_SAY ".";
    case PUBLISHER_LOADED:
        return "Its publisher is loaded, but has published nothing: no span has begun in it, or "
               "the publisher failed; " LET_IT_SAY ".";
    case PUBLISHER_PROCESS:
        return "It publishes its Resource, but not which span its threads work on.";
    default:
        return why_no_publisher(process);
    }
}

#define REASON_ROW(symbol, name, sentence)                                                         \
    [CONTEXT_UNREADABLE_##symbol] =                                                                \
        "It publishes which span it works on, but that could not be read: " sentence ".",
static const char *const unreadable_sentences[CONTEXT_UNREADABLES] = {
    CONTEXT_UNREADABLE_ROWS(REASON_ROW)};

/* ---- it publishes ---- */

static const char *why_no_span_active(const struct coverage_process *process)
{
    if (process->spans || process->sends_spans)
        return "It publishes contexts, but no span was active when it was sampled: the work is "
               "done outside of spans, or on threads that do not get the span's context.";
    return "It publishes contexts, but no span was active, and no span of its service has "
           "arrived: is its tracing switched on, and does its OTLP exporter point at this "
           "node?";
}

/* None of its samples has a span id. */
static const char *why_silent(const struct coverage_process *process)
{
    enum publisher_state state = (enum publisher_state)process->program.publisher;
    if (process->unreadable * 2 > process->samples)
        return "Its context could not be read: it was being changed, or is damaged: see "
               "spanprof_contexts_unreadable_total among the losses.";
    if (state == PUBLISHER_UNREADABLE && process->program.unreadable < CONTEXT_UNREADABLES)
        return unreadable_sentences[process->program.unreadable];
    if (process->publishes && !process->attached)
        return "It publishes which span it works on, but spanprof could not read it yet: see "
               "spanprof_contexts_unreadable_total among the losses.";
    if (process->publishes || state == PUBLISHER_READ)
        return why_no_span_active(process);
    return why_not_published(process, state);
}

/* Its samples have span ids, but few of those spans were found. */
static const char *why_not_found(const struct coverage_process *process)
{
    if (process->unsampled * 2 > process->has_ids)
        return "Its SDK does not sample these spans, so they are not sent: raise the ratio of its "
               "sampler (OTEL_TRACES_SAMPLER_ARG).";
    if (process->unproven)
        return "Spans that it works on arrive here, but from another container or host, so they "
               "may be another's: if a Collector or a proxy forwards them, name it in "
               "processors::join::forwarders; or have its SDK send container.id, or publish and "
               "send the same service.instance.id.";
    if (process->spans)
        return "Spans of its service arrive here, but not those that it works on: they had ended "
               "before, take longer than processors::join::wait, are dropped on the way, or belong "
               "to another instance.";
    return "It publishes which span it works on, but no span of its service has arrived: point its "
           "OTLP exporter at this node.";
}

const char *pages_why(const struct history_series *process, const struct coverage_process *coverage)
{
    if (!process->pid)
        return process->others
                   ? "All others, with less CPU time than the ones above."
                   : "The kernel's own threads, and processes that ended before they were known.";
    if (process->in_span * 10 >= process->samples * 9)
        return "";
    if (pages_why_state(process, coverage) != PUBLISHER_ACTIVE)
        return why_silent(coverage);
    if (process->in_span * 2 < process->in_context)
        return why_not_found(coverage);
    return "The rest is work outside of spans: start-up, garbage collection, timers, idling "
           "threads.";
}

const char *pages_why_helper(void)
{
    return "Spans of its service arrive here, but another process of the service sends them, as it "
           "seems: this one makes none.";
}
