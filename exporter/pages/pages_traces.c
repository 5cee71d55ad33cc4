/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hash.h"
#include "base/json_write.h"
#include "exporter/pages/pages_route.h"
#include <errno.h>

#define TRACES_DEFAULT 50

static void put_trace(struct json_writer *json, const struct history_trace_summary *trace)
{
    json_begin_object(json, NULL);
    json_put_hex(json, "trace_id", trace->trace_id, 16);
    json_put_hex(json, "span_id", trace->span_id, 8);
    json_put_text(json, "service", trace->service);
    json_put_text(json, "name", trace->name);
    json_put_ms(json, "start_ms", trace->start_unix_ns);
    json_put_uint(json, "duration_ns", trace->duration_ns);
    json_put_uint(json, "cpu_ns", trace->cpu_ns);
    json_put_uint(json, "samples", trace->samples);
    json_put_uint(json, "spans", trace->n_spans);
    json_put_bool(json, "error", trace->error);
    json_put_text(json, "top_function", trace->top_function);
    json_end_object(json);
}

int pages_traces(struct pages_facts *facts, struct pages_request *request)
{
    struct history_traces traces;
    struct json_writer json = {.out = &request->body};
    size_t limit = request->query.limit ? request->query.limit : TRACES_DEFAULT;
    int error = history_traces(facts->history, &request->query.filter, request->query.order,
                               limit > HISTORY_TRACES_MAX ? HISTORY_TRACES_MAX : limit,
                               &request->arena, &traces);
    if (error)
        return error;
    request->empty = traces.n ? NULL : &request->query.filter;
    json_begin_object(&json, NULL);
    json_begin_array(&json, "traces");
    for (size_t i = 0; i < traces.n; i++)
        put_trace(&json, &traces.traces[i]);
    json_end_array(&json);
    json_put_uint(&json, "searched_spans", traces.searched_spans);
    json_put_bool(&json, "complete", traces.complete);
    json_end_object(&json);
    return json.error;
}

/* ---- one trace ---- */

static const char *kind_name(uint32_t kind)
{
    static const char *const names[] = {"unspecified", "internal", "server",
                                        "client",      "producer", "consumer"};
    return names[kind < sizeof(names) / sizeof(names[0]) ? kind : 0];
}

/* Depth of each span, by span id. Parents come before their children, so one pass is enough. */
struct depths {
    uint32_t *slots; /* index + 1 of a span; 0 = free */
    size_t cap;      /* a power of two */
    uint32_t *depths;
};

static int open_depths(struct depths *depths, size_t n_spans, struct arena *arena)
{
    depths->cap = 16;
    while (depths->cap < 2 * n_spans)
        depths->cap *= 2;
    depths->slots = arena_zalloc(arena, depths->cap * sizeof(*depths->slots));
    depths->depths = arena_zalloc(arena, (n_spans + 1) * sizeof(*depths->depths));
    return depths->slots && depths->depths ? 0 : -ENOMEM;
}

/* The slot of the id, or the free slot for it. Ids that are not random slow down only their own
 * trace. */
static uint32_t *find_slot(const struct depths *depths, const struct history_trace *trace,
                           const uint8_t id[8])
{
    uint64_t hash;
    memcpy(&hash, id, sizeof(hash));
    hash = hash_mix(hash);
    size_t slot = (size_t)(hash ^ hash >> 32) & (depths->cap - 1);
    while (depths->slots[slot] && memcmp(trace->spans[depths->slots[slot] - 1].span_id, id, 8) != 0)
        slot = (slot + 1) & (depths->cap - 1);
    return &depths->slots[slot];
}

static unsigned enter_span(struct depths *depths, const struct history_trace *trace, size_t i)
{
    const struct history_span *span = &trace->spans[i];
    uint32_t parent = *find_slot(depths, trace, span->parent_id);
    if (parent && !bytes_zero(span->parent_id, 8))
        depths->depths[i] = depths->depths[parent - 1] + 1;
    uint32_t *slot = find_slot(depths, trace, span->span_id);
    if (!*slot)
        *slot = (uint32_t)i + 1;
    return depths->depths[i];
}

static void put_attributes(struct json_writer *json, const struct history_span *span)
{
    json_begin_object(json, "attributes");
    for (size_t i = 0; i < span->n_attributes; i++)
        json_put_pair(json, span->attributes[i].key, span->attributes[i].value);
    json_end_object(json);
}

static void put_busy(struct json_writer *json, const struct history_span *span)
{
    json_begin_array(json, "busy");
    for (size_t i = 0; i < span->n_busy; i++) {
        json_begin_array(json, NULL);
        json_put_uint(json, NULL, span->busy[i].offset_ns);
        json_put_uint(json, NULL, span->busy[i].length_ns);
        json_end_array(json);
    }
    json_end_array(json);
}

static void put_span(struct json_writer *json, const struct history_trace *trace,
                     const struct history_span *span, unsigned depth)
{
    uint64_t start_ns =
        span->start_unix_ns > trace->start_unix_ns ? span->start_unix_ns - trace->start_unix_ns : 0;
    json_begin_object(json, NULL);
    json_put_hex(json, "span_id", span->span_id, 8);
    if (bytes_zero(span->parent_id, 8))
        json_put_string(json, "parent_span_id", "");
    else
        json_put_hex(json, "parent_span_id", span->parent_id, 8);
    json_put_uint(json, "depth", depth);
    json_put_bool(json, "known", span->known);
    json_put_text(json, "name", span->name);
    json_put_text(json, "service", span->service);
    json_put_string(json, "kind", kind_name(span->kind));
    json_put_bool(json, "error", span->error);
    json_put_uint(json, "start_ns", start_ns);
    json_put_uint(json, "duration_ns", span->duration_ns);
    json_put_uint(json, "cpu_ns", span->cpu_ns);
    json_put_uint(json, "samples", span->samples);
    json_put_text(json, "top_function", span->top_function);
    put_attributes(json, span);
    put_busy(json, span);
    json_end_object(json);
}

int pages_trace(struct pages_facts *facts, struct pages_request *request)
{
    struct history_trace trace;
    struct depths depths;
    struct json_writer json = {.out = &request->body};
    int error = history_trace(facts->history, &request->query.filter, &request->arena, &trace);
    if (!error)
        error = open_depths(&depths, trace.n_spans, &request->arena);
    if (error)
        return error;
    json_begin_object(&json, NULL);
    json_put_hex(&json, "trace_id", request->query.filter.trace_id, 16);
    json_put_ms(&json, "start_ms", trace.start_unix_ns);
    json_put_uint(&json, "duration_ns", trace.duration_ns);
    json_put_uint(&json, "cpu_ns", trace.cpu_ns);
    json_put_uint(&json, "samples", trace.samples);
    json_begin_array(&json, "spans");
    for (size_t i = 0; i < trace.n_spans && !json.error; i++)
        put_span(&json, &trace, &trace.spans[i], enter_span(&depths, &trace, i));
    json_end_array(&json);
    json_put_bool(&json, "complete", trace.complete);
    json_end_object(&json);
    return json.error;
}
