/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clocks are read within the published time: first the context is published, then the times are
 * taken; at the end the other way round. So a sample whose time lies in an "on" record must have
 * that span's ids, whatever the sampler does.
 */
#include "test/support/workloads/workload_span.h"

#include "context/spanprof_context.h"
#include "test/support/workloads/span_export.h"
#include "test/support/workloads/workload_burn.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

static _Thread_local struct workload_span *current_span;

void workload_random(void *data, uint64_t size)
{
    ssize_t got = getrandom(data, size, 0);
    assert(got == (ssize_t)size);
    (void)got;
}

static const char *hex(const uint8_t *bytes, size_t size, char *text)
{
    for (size_t i = 0; i < size; i++)
        sprintf(text + 2 * i, "%02x", bytes[i]);
    return text;
}

/* "trace_id":"...","span_id":"..." */
static const char *ids_text(const uint8_t trace_id[16], const uint8_t span_id[8], char text[96])
{
    char trace[33], span[17];
    snprintf(text, 96, "\"trace_id\":\"%s\",\"span_id\":\"%s\"", hex(trace_id, 16, trace),
             hex(span_id, 8, span));
    return text;
}

int workload_process_open(struct workload_process *process)
{
    uint8_t random[8];
    char text[17];
    workload_random(random, sizeof(random));
    snprintf(process->instance, sizeof(process->instance), "%s", hex(random, 8, text));
    if (!process->unpublished) {
        const struct spanprof_attribute resource[] = {{"service.name", process->service},
                                                      {"service.instance.id", process->instance}};
        int error = spanprof_context_publish(resource, 2);
        if (error)
            return error;
    }
    if (!process->quiet)
        printf("{\"type\":\"process\",\"pid\":%d,\"service\":\"%s\",\"instance\":\"%s\"}\n",
               getpid(), process->service, process->instance);
    return 0;
}

/* The thread now works on span, or on none. */
static void publish(const struct workload_process *process, const struct workload_span *span)
{
    if (process->unpublished)
        return;
    int error =
        span ? spanprof_context_set(span->trace_id, span->span_id, 1) : spanprof_context_clear();
    assert(!error);
    (void)error;
}

static void turn_on(const struct workload_process *process, struct workload_span *span)
{
    publish(process, span);
    span->on_unix_ns = burn_unix_ns();
    span->on_cpu_ns = burn_thread_cpu_ns();
}

/* Before the next one is published. */
static void turn_off(const struct workload_process *process, struct workload_span *span)
{
    char ids[96];
    span->cpu_ns += burn_thread_cpu_ns() - span->on_cpu_ns;
    uint64_t until = burn_unix_ns();
    if (!process->quiet)
        printf("{\"type\":\"on\",\"tid\":%d,%s,\"from\":%" PRIu64 ",\"to\":%" PRIu64 "}\n",
               gettid(), ids_text(span->trace_id, span->span_id, ids), span->on_unix_ns, until);
}

static void inherit(struct workload_span *span, const struct workload_span *parent)
{
    if (parent) {
        memcpy(span->trace_id, parent->trace_id, 16);
        memcpy(span->parent_id, parent->span_id, 8);
    } else {
        workload_random(span->trace_id, 16);
        memset(span->parent_id, 0, 8);
    }
    workload_random(span->span_id, 8);
}

void workload_span_begin(struct workload_process *process, struct workload_span *span,
                         const struct workload_span *parent)
{
    char ids[96];
    span->outer = current_span;
    span->cpu_ns = 0;
    inherit(span, parent ? parent : span->outer);
    span->start_unix_ns = burn_unix_ns();
    if (!process->quiet)
        printf("{\"type\":\"start\",\"tid\":%d,%s,\"name\":\"%s\"}\n", gettid(),
               ids_text(span->trace_id, span->span_id, ids), span->name);
    if (span->outer)
        turn_off(process, span->outer);
    current_span = span;
    turn_on(process, span);
}

static void tell(const struct workload_span *span, uint64_t end_unix_ns)
{
    static const uint8_t none[8];
    char ids[96], parent[17];
    printf("{\"type\":\"span\",%s,\"parent_id\":\"%s\",\"name\":\"%s\",\"tid\":%d,"
           "\"start\":%" PRIu64 ",\"end\":%" PRIu64 ",\"cpu_ns\":%" PRIu64
           ",\"function\":\"%s\"}\n",
           ids_text(span->trace_id, span->span_id, ids),
           memcmp(span->parent_id, none, 8) ? hex(span->parent_id, 8, parent) : "", span->name,
           gettid(), span->start_unix_ns, end_unix_ns, span->cpu_ns, span->function);
}

void workload_span_end(struct workload_process *process, struct workload_span *span)
{
    assert(current_span == span);
    turn_off(process, span);
    current_span = span->outer;
    if (current_span)
        turn_on(process, current_span);
    else
        publish(process, NULL);
    uint64_t end_unix_ns = burn_unix_ns();
    if (!process->quiet)
        tell(span, end_unix_ns);
    if (!process->exporter)
        return;
    const struct span_export_attribute attributes[] = {{"workload.function", span->function, 0},
                                                       {"http.route", "/workload", 0}};
    struct span_export_span ended = {.name = span->name,
                                     .kind = span->server ? SPAN_KIND_SERVER : SPAN_KIND_INTERNAL,
                                     .start_unix_ns = span->start_unix_ns,
                                     .end_unix_ns = end_unix_ns,
                                     .attributes = attributes,
                                     .n_attributes = 2};
    memcpy(ended.trace_id, span->trace_id, 16);
    memcpy(ended.span_id, span->span_id, 8);
    memcpy(ended.parent_id, span->parent_id, 8);
    span_export_add(process->exporter, &ended);
}

void workload_claim(const uint8_t trace_id[16], const uint8_t span_id[8])
{
    int error = spanprof_context_set(trace_id, span_id, 1);
    assert(!error);
    (void)error;
}

void workload_off(struct workload_process *process, uint64_t from_unix_ns)
{
    uint64_t until = burn_unix_ns();
    if (!process->quiet)
        printf("{\"type\":\"off\",\"tid\":%d,\"from\":%" PRIu64 ",\"to\":%" PRIu64 "}\n", gettid(),
               from_unix_ns, until);
}
