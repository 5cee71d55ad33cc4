/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Routes for programs: OTLP since a cursor, and pprof.
 */
#include "base/clock.h"
#include "exporter/pages/pages_route.h"
#include "proto/codec.h"
#include "proto/otlp/otlp_json.h"
#include "proto/otlp/otlp_schema.h"
#include "proto/pprof.h"
#include <errno.h>
#include <stdio.h>

#define SCRAPE_BYTES_MAX   ((size_t)4 << 20)  /* of a request, as when exported */
#define PPROF_BYTES        ((size_t)16 << 20) /* before compression */
#define SECONDS_DEFAULT    30                 /* as Go's /debug/pprof/profile */
#define SCRAPERS_SECONDS   10 /* from this many seconds on: a scraper, which waits no longer */
#define SAMPLES_COME_AFTER (6 * NS_PER_SEC) /* then samples are in the history */

/* ---- OTLP ---- */

static void add_header(struct pages_request *request, const char *name, uint64_t value)
{
    struct pages_header *header = &request->headers[request->n_headers++];
    header->name = name;
    snprintf(header->value, sizeof(header->value), "%llu", (unsigned long long)value);
}

static int put_otlp(const struct buf *otlp, struct pages_request *request)
{
    struct bytes body = buf_bytes(otlp);
    if (request->wants_json) {
        int error = otlp_json_write(otlp_schema_request(SIGNAL_PROFILES), body, &request->body);
        request->type = "application/json";
        return error == OTLP_JSON_TOO_BIG ? BUF_FULL : error > 0 ? -EIO : error;
    }
    if (!request->takes_gzip)
        return buf_append_bytes(&request->body, body);
    request->is_gzip = true;
    return codec_gzip(body, &request->body);
}

int scrape_profiles(struct pages_facts *facts, struct pages_request *request)
{
    _cleanup_buf_ struct buf otlp = BUF_INIT(PAGES_ANSWER_MAX);
    struct history_scrape scrape = {.since = request->query.since,
                                    .max_bytes = SCRAPE_BYTES_MAX,
                                    .scope_version = facts->version};
    int error = history_scrape(facts->history, &request->query.filter, &scrape, &otlp);
    if (error)
        return error;
    add_header(request, "Spanprof-Cursor", scrape.next);
    add_header(request, "Spanprof-Missed", scrape.missed);
    if (scrape.more)
        pages_say_more(request);
    return put_otlp(&otlp, request);
}

/* ---- pprof ---- */

struct writing {
    struct pprof *pprof;
    const struct pages_query *query;
    struct pprof_frame frames[PPROF_FRAMES_MAX];
    bool any, full;
};

static struct pprof_frame pprof_frame(const struct history_frame *frame)
{
    return (struct pprof_frame){
        .function = frame->unnamed ? BYTES(NULL, 0) : frame->function,
        .file = frame->file,
        .line = frame->line,
        .module = frame->module,
        .build_id = BYTES(frame->build_id, frame->build_id_size),
        .address = frame->address,
        .inlined = frame->inlined,
    };
}

static struct bytes scrape_hex(const uint8_t *id, size_t size, char *out)
{
    bytes_to_hex(BYTES(id, size), out);
    return bytes_zero(id, size) ? BYTES(NULL, 0) : BYTES(out, 2 * size);
}

static int write_sample(void *context, const struct history_labelled *from)
{
    struct writing *writing = context;
    char trace_id[33], span_id[17];
    const struct pprof_label labels[] = {
        {"trace_id", scrape_hex(from->trace_id, 16, trace_id)},
        {"span_id", scrape_hex(from->span_id, 8, span_id)},
        {"span_name", from->span_name},
        {"service", from->service},
        {"thread", from->thread},
        {"container", from->container},
        {"task", from->task},
    };
    const struct pages_query *query = writing->query;
    size_t n = 0;
    for (size_t i = 0; i < from->n_frames && n < PPROF_FRAMES_MAX; i++)
        if (!query->has_frames || from->frames[i]->type == query->frames)
            writing->frames[n++] = pprof_frame(from->frames[i]);
    if (query->has_frames && !n)
        return 0;
    writing->any = true;
    int error = pprof_add(writing->pprof,
                          &(struct pprof_sample){.frames = writing->frames,
                                                 .n_frames = n,
                                                 .labels = labels,
                                                 .n_labels = sizeof(labels) / sizeof(*labels),
                                                 .count = from->samples,
                                                 .cpu_ns = from->cpu_ns});
    writing->full = error == -EMSGSIZE;
    return error;
}

static int writing_finish(const struct writing *writing, const struct history_whole *whole,
                          struct pages_request *request)
{
    _cleanup_buf_ struct buf profile = BUF_INIT(2 * PPROF_BYTES);
    const struct pprof_time time = {.start_unix_ns = whole->from_unix_ns,
                                    .duration_ns = whole->to_unix_ns - whole->from_unix_ns,
                                    .period_ns = whole->period_ns};
    int error = pprof_finish(writing->pprof, &time, &profile);
    return error ? error : codec_gzip(buf_bytes(&profile), &request->body);
}

/* Samples beyond the limits are left out, and the answer is marked as incomplete. live: the whole
 * range was watched, including times without samples. */
static int answer_pprof(struct pages_facts *facts, struct pages_request *request, bool live)
{
    struct history_whole whole = {.complete = true};
    struct writing *writing = arena_zalloc(&request->arena, sizeof(*writing));
    int error = writing ? pprof_open(PPROF_BYTES, &writing->pprof) : -ENOMEM;
    if (error)
        return error;
    writing->query = &request->query;
    error = history_each(facts->history, &request->query.filter, write_sample, writing, &whole);
    if (writing->full)
        error = 0;
    if (live) {
        whole.from_unix_ns = request->query.filter.from_unix_ns;
        whole.to_unix_ns = request->query.filter.to_unix_ns;
    } else if (!writing->any) { /* a later live profile may have samples */
        request->empty = &request->query.filter;
    }
    if (!error)
        error = writing_finish(writing, &whole, request);
    if (writing->full || !whole.complete)
        pages_say_more(request);
    pprof_close(writing->pprof);
    return error;
}

int scrape_pprof(struct pages_facts *facts, struct pages_request *request)
{
    return answer_pprof(facts, request, false);
}

/* Whether the answer waits for samples to come. A trace is in the past: no wait. */
static bool pages_query_waits(const struct pages_query *query)
{
    if (!query->has_seconds)
        return !query->has_range && !query->filter.by_trace;
    return !query->has_range && query->seconds > 0;
}

static uint64_t seconds_ns(const struct pages_query *query)
{
    return (query->has_seconds ? query->seconds : SECONDS_DEFAULT) * NS_PER_SEC;
}

/*
 * With N < SCRAPERS_SECONDS seconds a person is asking, for the N seconds from now on: the answer
 * waits N s, and SAMPLES_COME_AFTER for their samples. Otherwise a scraper is asking, every N
 * seconds; it times out soon after N (Parca: 3 s) and asks again when it has the answer. The answer
 * waits N s and covers the N seconds that ended SAMPLES_COME_AFTER ago, so consecutive answers
 * leave no gap.
 */
uint64_t scrape_pprof_delay_ns(const struct pages_request *request)
{
    if (!pages_query_waits(&request->query))
        return 0;
    uint64_t seconds = seconds_ns(&request->query);
    return seconds < SCRAPERS_SECONDS * NS_PER_SEC ? seconds + SAMPLES_COME_AFTER : seconds;
}

/* Called when the delay is over. */
int scrape_pprof_live(struct pages_facts *facts, struct pages_request *request)
{
    struct pages_query *query = &request->query;
    bool live = pages_query_waits(query);
    if (live) {
        query->filter.to_unix_ns = request->now_unix_ns - SAMPLES_COME_AFTER;
        query->filter.from_unix_ns = query->filter.to_unix_ns - seconds_ns(query);
    }
    return answer_pprof(facts, request, live);
}
