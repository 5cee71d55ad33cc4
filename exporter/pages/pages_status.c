/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/pages/pages_status.h"
#include "base/clock.h"
#include "context/context_source.h"
#include <errno.h>
#include <stdio.h>

#define QUEUES_MAX (CONFIG_COMPONENTS_MAX * SIGNAL_COUNT)
#define QUEUE_STATEMENT                                                                            \
    "SELECT o.signal, total(o.items), total(o.bytes), min(o.enqueued_unix_ns) FROM outbox o"       \
    " WHERE o.seq > 0 AND o.waiting & (1 << (SELECT slot FROM destination WHERE name = ?1)) "      \
    "GROUP BY o.signal"

/* ---- pipelines ---- */

static void put_ids(struct json_writer *json, const char *key, const char *const *ids, size_t n)
{
    json_begin_array(json, key);
    for (size_t i = 0; i < n; i++)
        json_put_string(json, NULL, ids[i]);
    json_end_array(json);
}

static void put_pipelines(const struct config *config, struct json_writer *json)
{
    json_begin_array(json, "pipelines");
    for (size_t i = 0; i < config->n_pipelines; i++) {
        const struct config_pipeline *pipeline = &config->pipelines[i];
        const char *ids[CONFIG_COMPONENTS_MAX];
        json_begin_object(json, NULL);
        json_put_string(json, "name", pipeline->id);
        for (size_t k = 0; k < pipeline->n_receivers; k++)
            ids[k] = config->receivers[pipeline->receivers[k]].id;
        put_ids(json, "receivers", ids, pipeline->n_receivers);
        for (size_t k = 0; k < pipeline->n_processors; k++)
            ids[k] = config->processors[pipeline->processors[k]].id;
        put_ids(json, "processors", ids, pipeline->n_processors);
        for (size_t k = 0; k < pipeline->n_exporters; k++)
            ids[k] = config->exporters[pipeline->exporters[k]].id;
        put_ids(json, "exporters", ids, pipeline->n_exporters);
        json_end_object(json);
    }
    json_end_array(json);
}

/* ---- queues ---- */

static bool config_sends(const struct config *config, size_t exporter, int signal)
{
    const struct config_pipeline *pipeline =
        config_find_pipeline(config, (enum config_signal)signal);
    for (size_t i = 0; pipeline && i < pipeline->n_exporters; i++)
        if (pipeline->exporters[i] == exporter)
            return true;
    return false;
}

/* Adds one queue per signal that the exporter sends; `waiting` has the waiting requests. */
static void add_queues(const struct config *config, size_t exporter,
                       const struct pages_queue waiting[SIGNAL_COUNT], struct pages_queue *queues,
                       size_t *n)
{
    for (int signal = 0; signal < SIGNAL_COUNT; signal++) {
        if (!config_sends(config, exporter, signal) && !waiting[signal].items)
            continue;
        queues[*n] = waiting[signal];
        queues[*n].signal = signal;
        queues[(*n)++].exporter = config->exporters[exporter].id;
    }
}

static int read_queue(struct pages_facts *facts, sqlite3_stmt *statement, size_t exporter,
                      struct pages_queue waiting[SIGNAL_COUNT])
{
    uint64_t now_ns = clock_unix_ns();
    sqlite3_stmt *row _cleanup_reset_ = statement;
    sqlite3_bind_text(row, 1, facts->config->exporters[exporter].id, -1, SQLITE_STATIC);
    int outcome;
    while ((outcome = db_step(facts->db, row)) == 1) {
        int64_t signal = sqlite3_column_int64(row, 0);
        uint64_t oldest_ns = (uint64_t)sqlite3_column_int64(row, 3);
        if (signal < 0 || signal >= SIGNAL_COUNT)
            continue;
        waiting[signal].items = (uint64_t)sqlite3_column_int64(row, 1);
        waiting[signal].bytes = (uint64_t)sqlite3_column_int64(row, 2);
        waiting[signal].oldest_s = oldest_ns < now_ns ? (now_ns - oldest_ns) / NS_PER_SEC : 0;
    }
    return outcome;
}

static int read_queues(struct pages_facts *facts, struct pages_queue *queues, size_t *n)
{
    sqlite3_stmt *statement = NULL;
    *n = 0;
    int error = db_read_begin(facts->db);
    if (!error)
        error = db_prepare(facts->db, QUEUE_STATEMENT, &statement);
    for (size_t i = 0; !error && i < facts->config->n_exporters; i++) {
        struct pages_queue waiting[SIGNAL_COUNT] = {{0}};
        if (!facts->config->exporters[i].used)
            continue;
        error = read_queue(facts, statement, i, waiting);
        if (!error)
            add_queues(facts->config, i, waiting, queues, n);
    }
    db_unprepare(facts->db, &statement);
    db_read_end(facts->db);
    return error;
}

static void put_queues(const struct pages_queue *queues, size_t n, struct json_writer *json)
{
    json_begin_array(json, "queues");
    for (size_t i = 0; i < n; i++) {
        json_begin_object(json, NULL);
        json_put_string(json, "exporter", queues[i].exporter);
        json_put_string(json, "signal", config_signal_name((enum config_signal)queues[i].signal));
        json_put_uint(json, "items", queues[i].items);
        json_put_uint(json, "bytes", queues[i].bytes);
        json_put_uint(json, "oldest_s", queues[i].oldest_s);
        json_end_object(json);
    }
    json_end_array(json);
}

/* ---- counters ---- */

static void put_loss(void *context, const struct stat_series *series)
{
    struct json_writer *json = context;
    if (!series->is_loss || series->value <= 0)
        return;
    json_begin_object(json, NULL);
    json_put_string(json, "metric", series->metric->name);
    json_put_string(json, "labels", series->labels);
    json_put_int(json, "count", series->value);
    json_put_string(json, "help", series->metric->help);
    json_end_object(json);
}

static void put_reader(struct json_writer *json, const char *source, int64_t count)
{
    json_begin_object(json, NULL);
    json_put_string(json, "source", source);
    json_put_int(json, "count", count > 0 ? count : 0);
    json_end_object(json);
}

/* A map source is read for all processes at once, so its count says whether a map exists. */
static void put_readers(struct json_writer *json)
{
    json_begin_array(json, "readers");
    for (unsigned source = CONTEXT_NONE + 1; source < CONTEXT_SOURCES; source++) {
        const char *name = context_source_name(source);
        char metric[64] = "spanprof_context_readers", labels[64];
        snprintf(labels, sizeof(labels), "source=\"%s\"", name);
        if (CONTEXT_MAP_BITS & CONTEXT_BIT(source)) {
            snprintf(metric, sizeof(metric), "spanprof_%s_map_attached", name);
            labels[0] = '\0';
        }
        put_reader(json, name, stats_find(metric, labels));
    }
    json_end_array(json);
}

/* Normal expiry is not a loss, but it is reported. */
void pages_status_waiting(struct json_writer *json)
{
    json_put_int(json, "waiting_samples", stats_find("spanprof_join_pending_samples", ""));
}

static void put_history(struct json_writer *json)
{
    json_begin_object(json, "history");
    json_put_int(json, "bytes", pages_status_total("spanprof_history_bytes"));
    json_put_int(json, "expired_blocks",
                 pages_status_total("spanprof_history_blocks_expired_total"));
    json_end_object(json);
}

int pages_status(struct pages_facts *facts, struct pages_request *request)
{
    struct pages_queue queues[QUEUES_MAX];
    struct pages_programs programs;
    struct json_writer json = {.out = &request->body};
    size_t n;
    int error = read_queues(facts, queues, &n);
    error = error ? error : pages_programs_find(facts, request, &programs);
    if (error)
        return error;
    json_begin_object(&json, NULL);
    json_put_string(&json, "version", facts->version);
    json_put_string(&json, "host", facts->host);
    json_put_uint(&json, "uptime_s", (clock_monotonic_ns() - facts->started_ns) / NS_PER_SEC);
    pages_status_problems(facts, &programs, queues, n, &json);
    put_pipelines(facts->config, &json);
    put_queues(queues, n, &json);
    json_begin_array(&json, "losses");
    error = stats_each(put_loss, &json);
    json_end_array(&json);
    put_readers(&json);
    put_history(&json);
    pages_programs_put(&programs, &json);
    json_end_object(&json);
    return error ? error : json.error;
}

/* ---- the address ---- */

static bool is_wildcard(const char *host)
{
    return strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0;
}

/* A URL's fragment stays in the browser, so the token in it is in no log and no Referer. */
int pages_address(struct pages_facts *facts, struct pages_request *request)
{
    const struct config_endpoint *endpoint = &facts->pages->endpoint;
    const char *host = is_wildcard(endpoint->host) ? facts->host : endpoint->host;
    const char *brackets[2] = {strchr(host, ':') ? "[" : "", strchr(host, ':') ? "]" : ""};
    struct json_writer json = {.out = &request->body};
    char url[sizeof(endpoint->host) + PAGES_TOKEN_MAX + 32];
    if (!request->token)
        return -ENOMEM;
    snprintf(url, sizeof(url), "%s://%s%s%s:%u/%s%s", facts->pages->tls.enabled ? "https" : "http",
             brackets[0], host, brackets[1], endpoint->port, *request->token ? "#token=" : "",
             request->token);
    json_begin_object(&json, NULL);
    json_put_string(&json, "url", url);
    json_end_object(&json);
    return json.error;
}
