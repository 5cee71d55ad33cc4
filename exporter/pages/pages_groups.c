/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/pages/pages_route.h"
#include "exporter/pages/pages_status.h"
#include <errno.h>

#define BUCKETS_DEFAULT 60

static const char *const group_names[] = {
    [HISTORY_BY_SERVICE] = "service", [HISTORY_BY_SPAN] = "span",
    [HISTORY_BY_THREAD] = "thread",   [HISTORY_BY_CONTAINER] = "container",
    [HISTORY_BY_PROCESS] = "process", [HISTORY_BY_HOST] = "host"};

/* Marks the group of all others. Without the mark it would look like a group without a name (work
 * outside spans, or in no container). */
static void put_others(struct json_writer *json, const struct history_series *series)
{
    if (series->others)
        json_put_bool(json, "others", true);
}

static void put_series(struct json_writer *json, const struct history_series *series,
                       enum history_group by, size_t n_buckets)
{
    json_begin_object(json, NULL);
    put_others(json, series);
    json_put_text(json, "name", series->name);
    if (by == HISTORY_BY_SPAN)
        json_put_text(json, "service", series->service);
    if (by == HISTORY_BY_PROCESS)
        json_put_uint(json, "pid", series->pid);
    json_put_uint(json, "cpu_ns", series->cpu_ns);
    json_put_uint(json, "samples", series->samples);
    json_begin_array(json, "buckets_ns");
    for (size_t i = 0; i < n_buckets; i++)
        json_put_uint(json, NULL, series->buckets[i]);
    json_end_array(json);
    json_end_object(json);
}

int pages_timeline(struct pages_facts *facts, struct pages_request *request)
{
    struct history_groups groups;
    struct json_writer json = {.out = &request->body};
    enum history_group by = request->query.by;
    int error =
        history_groups(facts->history, &request->query.filter, by,
                       request->query.n_buckets ? request->query.n_buckets : BUCKETS_DEFAULT,
                       &request->arena, &groups);
    if (error)
        return error;
    request->empty = groups.n ? NULL : &request->query.filter;
    json_begin_object(&json, NULL);
    json_put_ms(&json, "from_ms", groups.from_unix_ns);
    json_put_ms(&json, "bucket_ms", groups.bucket_ns);
    json_put_string(&json, "by", group_names[by]);
    pages_status_waiting(&json);
    json_begin_array(&json, "series");
    for (size_t i = 0; i < groups.n && !json.error; i++)
        put_series(&json, &groups.series[i], by, groups.n_buckets);
    json_end_array(&json);
    json_put_bool(&json, "complete", groups.complete);
    json_end_object(&json);
    return json.error;
}

/* ---- who pays ---- */

static void put_payer(struct json_writer *json, const struct history_series *payer,
                      bool of_function)
{
    json_begin_object(json, NULL);
    put_others(json, payer);
    json_put_text(json, "service", payer->service);
    json_put_text(json, "span", payer->name);
    json_put_text(json, "route", payer->route);
    json_put_uint(json, "cpu_ns", payer->cpu_ns);
    if (of_function)
        json_put_uint(json, "self_ns", payer->self_ns);
    json_put_uint(json, "samples", payer->samples);
    if (bytes_zero(payer->example_trace_id, 16))
        json_put_string(json, "example_trace_id", "");
    else
        json_put_hex(json, "example_trace_id", payer->example_trace_id, 16);
    json_end_object(json);
}

int pages_spans(struct pages_facts *facts, struct pages_request *request)
{
    struct history_groups groups;
    struct json_writer json = {.out = &request->body};
    size_t limit = request->query.limit ? request->query.limit : HISTORY_GROUPS_MAX + 1;
    int error = history_groups(facts->history, &request->query.filter, HISTORY_BY_SPAN, 0,
                               &request->arena, &groups);
    if (error)
        return error;
    request->empty = groups.n ? NULL : &request->query.filter;
    json_begin_object(&json, NULL);
    json_put_uint(&json, "cpu_ns", groups.cpu_ns);
    json_put_uint(&json, "samples", groups.samples);
    json_begin_array(&json, "spans");
    for (size_t i = 0; i < groups.n && i < limit; i++)
        put_payer(&json, &groups.series[i], request->query.filter.function.len > 0);
    json_end_array(&json);
    json_put_bool(&json, "complete", groups.complete);
    json_end_object(&json);
    return json.error;
}

int pages_values(struct pages_facts *facts, struct pages_request *request)
{
    struct bytes *texts;
    size_t n;
    struct json_writer json = {.out = &request->body};
    int error = history_texts(facts->history, &request->query.filter, request->query.of,
                              &request->arena, &texts, &n);
    if (error)
        return error;
    request->empty = n ? NULL : &request->query.filter;
    json_begin_object(&json, NULL);
    json_begin_array(&json, "values");
    for (size_t i = 0; i < n; i++)
        json_put_text(&json, NULL, texts[i]);
    json_end_array(&json);
    json_end_object(&json);
    return json.error;
}
