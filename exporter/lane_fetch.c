/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of a signal other than profiles may be joined by putting their bytes one behind the
 * other: all of an Export request is one repeated field. So a backlog of small requests leaves in
 * few large ones. (Profiles have a dictionary, and are large already.)
 */
#include "exporter/lane_fetch.h"
#include "base/log.h"
#include "exporter/debug_exporter.h"
#include "exporter/file_exporter.h"
#include "exporter/otlp_grpc.h"
#include "exporter/otlp_http.h"
#include <errno.h>
#include <unistd.h>

#define JSON_GROWTH 3 /* times the size of protobuf, usually */

static uint64_t max_request_bytes(const struct config_exporter *config)
{
    if (config->type == CONFIG_EXPORTER_OTLP_GRPC || config->type == CONFIG_EXPORTER_OTLP_HTTP)
        return config->otlp.max_request_size_bytes / (config->otlp.json ? JSON_GROWTH : 1);
    /* The Collector's reader of such files takes lines of up to 1 MiB, JSON is some 2.3 times as
     * large as protobuf: what is joined stays below that. */
    return config->type == CONFIG_EXPORTER_FILE ? UINT64_C(256) << 10 : UINT64_C(1) << 20;
}

static int take_row(void *context, const struct outbox_row *row)
{
    struct lane_fetch *fetch = context;
    if (fetch->only_seq && row->seq != fetch->only_seq) /* given up meanwhile */
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

static int fetch_items(struct lane_fetch *fetch)
{
    bool joins = !fetch->only_seq && fetch->signal != SIGNAL_PROFILES;
    const struct outbox_query query = {
        .destination = fetch->config->id,
        .signal = fetch->signal,
        .after_seq = fetch->only_seq ? fetch->only_seq - 1 : fetch->after_seq,
        .limit = joins ? LANE_JOINED_MAX : 1,
    };
    int outcome = outbox_each(fetch->reader, &query, take_row, fetch);
    fetch->more = outcome > 0 || fetch->n == (size_t)query.limit;
    return outcome < 0 && fetch->n == 0 ? outcome : 0;
}

/* By the reader: a stderr that nobody reads must not hold up the loop. */
static void show(const struct lane_fetch *fetch)
{
    _cleanup_buf_ struct buf text = BUF_INIT(0);
    log_info("debug", "%s: %zu requests, %llu items, %zu bytes", signal_names[fetch->signal],
             fetch->n, (unsigned long long)fetch->items, fetch->body.len);
    if (debug_exporter_text(fetch->config->debug.verbosity, fetch->signal, buf_bytes(&fetch->body),
                            &text))
        log_warn("debug", "no memory to show a request");
    size_t shown = 0;
    while (shown < text.len) {
        ssize_t n = write(STDERR_FILENO, text.data + shown, text.len - shown);
        if (n <= 0 && errno != EINTR)
            return; /* nowhere left to tell of it */
        shown += n > 0 ? (size_t)n : 0;
    }
}

/* What goes over the wire or into the file. A body that is no request gives none: it is refused
 * later, where it can be told apart from what it was joined with. */
static int make_message(struct lane_fetch *fetch)
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

static int fetch_run(struct job *job)
{
    struct lane_fetch *fetch = container_of(job, struct lane_fetch, job);
    int error = fetch_items(fetch);
    error = error ? error : make_message(fetch);
    if (!error && fetch->n && fetch->config->type == CONFIG_EXPORTER_DEBUG)
        show(fetch);
    buf_close(&fetch->body);
    return error > 0 ? -EMSGSIZE : error;
}

static void fetch_done(struct job *job, int error)
{
    struct lane_fetch *fetch = container_of(job, struct lane_fetch, job);
    fetch->done(fetch, error);
}

int lane_fetch_start(struct lane_fetch *fetch, struct worker *reader)
{
    fetch->job = (struct job){.run = fetch_run, .done = fetch_done};
    return worker_submit(reader, &fetch->job);
}

void lane_fetch_close(struct lane_fetch *fetch)
{
    buf_close(&fetch->body);
    buf_close(&fetch->message);
}
