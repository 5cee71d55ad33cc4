/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of traces, metrics and logs are joined by concatenating their bytes: an Export request
 * is a single repeated field. So a backlog of small requests leaves in a few large ones. Requests
 * of profiles are not joined: they have a dictionary, and are large already.
 */
#include "exporter/sender_fetch.h"
#include "base/log.h"
#include "base/stats.h"
#include "exporter/debug/debug_exporter.h"
#include "exporter/exporter.h"
#include "exporter/file/file_exporter.h"
#include "exporter/otlp/otlp_grpc.h"
#include "exporter/otlp/otlp_http.h"
#include <errno.h>
#include <stdlib.h>

STAT_COUNTER(
    handed_over, "spanprof_exporter_handoff_requests_total",
    "Requests that an exporter got from memory after their commit, without reading the database.");

static uint64_t max_request_bytes(const struct config_exporter *config)
{
    uint64_t limit = exporter_max_body_bytes(config);
    if (limit != UINT64_MAX)
        return limit;
    /* The Collector's reader of these files accepts lines of up to 1 MiB, and JSON is about 2.3
     * times as large as protobuf: joined requests stay below 1 MiB. */
    return config->type == CONFIG_EXPORTER_FILE ? UINT64_C(256) << 10 : UINT64_C(1) << 20;
}

static int take_row(void *context, const struct outbox_row *row)
{
    struct sender_fetch *fetch = context;
    if (fetch->only_seq && row->seq != fetch->only_seq) /* it was given up meanwhile */
        return 1;
    if (fetch->n && fetch->body.len + row->body.len > max_request_bytes(fetch->config))
        return 1;
    int error = buf_append_bytes(&fetch->body, row->body);
    if (error)
        return error;
    fetch->seqs[fetch->n++] = row->seq;
    fetch->items += row->items;
    return 0;
}

static bool sender_fetch_joins(const struct sender_fetch *fetch)
{
    return !fetch->only_seq && fetch->signal != SIGNAL_PROFILES;
}

static int read_items(struct sender_fetch *fetch)
{
    const struct outbox_query query = {
        .destination = fetch->config->id,
        .signal = fetch->signal,
        .after_seq = fetch->only_seq ? fetch->only_seq - 1 : fetch->after_seq,
        .limit = sender_fetch_joins(fetch) ? SENDER_JOINED_MAX : 1,
    };
    int outcome = outbox_each(fetch->reader, &query, take_row, fetch);
    fetch->more = outcome > 0 || fetch->n == (size_t)query.limit;
    return outcome < 0 && fetch->n == 0 ? outcome : 0;
}

static struct outbox_handoff_request *handoff_request_of(struct list *link)
{
    return container_of(link, struct outbox_handoff_request, link);
}

static int join_handed(struct sender_fetch *fetch)
{
    struct list *link, *next;
    size_t size = 0;
    list_each(link, next, &fetch->handed) size += handoff_request_of(link)->len;
    int error = buf_reserve(&fetch->body, size);
    while (!error && (link = list_pop(&fetch->handed))) {
        error =
            buf_append(&fetch->body, handoff_request_of(link)->body, handoff_request_of(link)->len);
        free(handoff_request_of(link));
    }
    return error;
}

/* Runs on the reader: decoding a request takes time. */
static void sender_fetch_show(const struct sender_fetch *fetch)
{
    _cleanup_buf_ struct buf text = BUF_INIT(0);
    log_info("debug", "%s: %zu requests, %llu items, %zu bytes", signal_names[fetch->signal],
             fetch->n, (unsigned long long)fetch->items, fetch->body.len);
    if (debug_exporter_text(fetch->config->debug.verbosity, fetch->signal, buf_bytes(&fetch->body),
                            &text))
        log_warn("debug", "no memory to show a request");
    log_text(buf_bytes(&text));
}

/* Makes the message for the wire or the file. A malformed body gives an empty message, which is
 * refused later: there a joined request is split, so only the bad part is lost. */
static int make_message(struct sender_fetch *fetch)
{
    struct bytes body = buf_bytes(&fetch->body);
    const struct config_exporter *config = fetch->config;
    int error = 0;
    if (fetch->n == 0)
        return 0;
    if (config->type == CONFIG_EXPORTER_OTLP_GRPC)
        error = otlp_grpc_message(body, config->otlp.compression, &fetch->message);
    else if (config->type == CONFIG_EXPORTER_OTLP_HTTP)
        error = otlp_http_message(&config->otlp, fetch->signal, body, &fetch->message);
    else if (config->type == CONFIG_EXPORTER_FILE)
        error = file_exporter_record(&config->file, fetch->signal, body, &fetch->message);
    return error == -EBADMSG ? 0 : error;
}

int sender_fetch_run(struct sender_fetch *fetch)
{
    int error = fetch->taken ? join_handed(fetch) : read_items(fetch);
    if (!error && fetch->n && fetch->slice.n)
        error = sender_split_cut(&fetch->slice, fetch->signal, &fetch->body, &fetch->items);
    error = error ? error : make_message(fetch);
    if (!error && fetch->n && fetch->config->type == CONFIG_EXPORTER_DEBUG)
        sender_fetch_show(fetch);
    buf_close(&fetch->body);
    return error > 0 ? -EMSGSIZE : error;
}

static int fetch_run(struct job *job)
{
    return sender_fetch_run(container_of(job, struct sender_fetch, job));
}

static void fetch_done(struct job *job, int error)
{
    struct sender_fetch *fetch = container_of(job, struct sender_fetch, job);
    fetch->done(fetch, error);
}

void sender_fetch_init(struct sender_fetch *fetch)
{
    list_init(&fetch->handed);
}

int sender_fetch_take(struct sender_fetch *fetch, struct outbox_handoff *handoff)
{
    const struct outbox_handoff_want want = {sender_fetch_joins(fetch) ? SENDER_JOINED_MAX : 1,
                                             max_request_bytes(fetch->config)};
    struct list *link, *next;
    if (outbox_handoff_take(handoff, &want, &fetch->handed, &fetch->more))
        return OUTBOX_HANDOFF_GAP;
    fetch->taken = true;
    list_each(link, next, &fetch->handed)
    {
        fetch->seqs[fetch->n++] = handoff_request_of(link)->seq;
        fetch->items += handoff_request_of(link)->items;
    }
    stat_add(&handed_over, (int64_t)fetch->n);
    return 0;
}

bool sender_fetch_is_quick(const struct sender_fetch *fetch)
{
    const struct config_exporter *config = fetch->config;
    if (!fetch->taken || !fetch->n)
        return fetch->taken;
    return (config->type == CONFIG_EXPORTER_OTLP_GRPC ||
            (config->type == CONFIG_EXPORTER_OTLP_HTTP && !config->otlp.json)) &&
           config->otlp.compression == CONFIG_UNCOMPRESSED;
}

int sender_fetch_start(struct sender_fetch *fetch, struct worker *reader)
{
    fetch->job = (struct job){.run = fetch_run, .done = fetch_done};
    return worker_submit(reader, &fetch->job);
}

void sender_fetch_close(struct sender_fetch *fetch)
{
    buf_close(&fetch->body);
    buf_close(&fetch->message);
    outbox_handoff_free(&fetch->handed);
}
