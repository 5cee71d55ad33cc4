/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/pages/pages.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/stats.h"
#include "exporter/pages/pages_call.h"
#include "proto/http/http1_server.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define HEAD_BYTES          (32 * 1024)
#define HEAD_TIMEOUT_NS     (30 * NS_PER_SEC)
#define QUESTION_TIMEOUT_NS (720 * NS_PER_SEC) /* the longest delay is 600 s */
#define ANSWER_TIMEOUT_NS   (120 * NS_PER_SEC)
#define IDLE_TIMEOUT_S      60
#define BODY_MAX            (64u << 10) /* bytes of a request body that are read and dropped */

LIMIT(answers, LIMIT_SERVICE, "pages: answers being made and sent", .of = "pages",
      .bytes = PAGES_ANSWERS_MAX + PAGES_ANSWER_MAX + PAGES_REQUEST_BYTES);

STAT_GAUGE(connections, "spanprof_pages_connections", "Open connections to the pages.");
STAT_LOSS(over_limit, "spanprof_pages_connections_refused_total",
          "Connections to the pages closed at once: there were too many.");
STAT_LOSS(crowded_out, "spanprof_pages_connections_crowded_out_total",
          "Connections to the pages ended at their limit to make room for a new one: of the peer "
          "with most connections, the one idle longest.");

STAT_COUNTER(out_of_files, "spanprof_pages_accept_pauses_total",
             "Pauses in accepting connections to the pages because no file descriptor was free.");

enum phase { PHASE_HEAD, PHASE_QUESTION, PHASE_ANSWER, PHASES };

static const char *const phase_names[] = {
    [PHASE_HEAD] = "head", [PHASE_QUESTION] = "question", [PHASE_ANSWER] = "answer"};
STAT_LOSSES(timed_out, "spanprof_pages_timeouts_total",
            "Connections to the pages ended by a time limit, by phase.",
            STAT_LABEL("phase", phase_names, PHASES));

static const unsigned codes[] = {200, 304, 400, 401, 404, 405, 421, 500, 503};
static const char *const code_names[] = {"200", "304", "400", "401", "404",
                                         "405", "421", "500", "503"};
#define CODES (sizeof(codes) / sizeof(codes[0]))
STAT_COUNTERS(requests, "spanprof_pages_requests_total",
              "Requests to the pages answered, by status.", STAT_LABEL("code", code_names, CODES));
STAT_LOSS(requests_cut, "spanprof_pages_requests_cut_total",
          "Requests to the pages whose connection ended before an answer.");

struct pages {
    struct pages_settings settings;
    struct pages_scope scope;
    struct pages_facts facts;
    struct worker *worker;
    struct http1_server *http;
};

static struct http1_server_settings http1_settings(struct pages *pages)
{
    return (struct http1_server_settings){
        .loop = pages->settings.loop,
        .area = "pages",
        .handler = &pages_call_handler,
        .context = &pages->scope,
        .limits = {.max_connections = PAGES_CONNECTIONS_MAX,
                   .strict = true,
                   .head_bytes = HEAD_BYTES,
                   .silence_s = IDLE_TIMEOUT_S,
                   .phases = {[HTTP1_HEAD] = {HEAD_TIMEOUT_NS, {&timed_out, PHASE_HEAD}},
                              [HTTP1_HANDLING] = {QUESTION_TIMEOUT_NS,
                                                  {&timed_out, PHASE_QUESTION}},
                              [HTTP1_SENDING] = {ANSWER_TIMEOUT_NS, {&timed_out, PHASE_ANSWER}}},
                   .discard_max = BODY_MAX},
        .counts = {.connections = &connections,
                   .over_limit = {&over_limit, 0},
                   .crowded_out = {&crowded_out, 0},
                   .out_of_files = {&out_of_files, 0},
                   .requests = &requests,
                   .codes = codes,
                   .n_codes = CODES,
                   .requests_cut = &requests_cut}};
}

int pages_listen(struct pages *pages, int *fds, size_t n, struct tls_context *tls, bool of_node)
{
    return http1_server_listen(pages->http, fds, n, tls, of_node);
}

void pages_set_token(struct pages *pages, const char *token)
{
    LOOP_THREAD(pages->settings.loop);
    snprintf(pages->scope.token, sizeof(pages->scope.token), "%s", token);
}

int pages_open(const struct pages_settings *settings, struct pages **result)
{
    LOOP_THREAD(settings->loop);
    struct pages *pages = calloc(1, sizeof(*pages));
    if (!pages)
        return -ENOMEM;
    pages->settings = *settings;
    pages->facts = (struct pages_facts){.db = settings->reader_db,
                                        .config = settings->config,
                                        .pages = settings->pages,
                                        .version = settings->version,
                                        .coverage = settings->coverage,
                                        .started_ns = clock_monotonic_ns(),
                                        .sampling = settings->sampling};
    pages->scope = (struct pages_scope){
        .loop = settings->loop, .facts = &pages->facts, .config = settings->pages};
    if (gethostname(pages->facts.host, sizeof(pages->facts.host) - 1)) /* success: ends with 0 */
        *pages->facts.host = '\0';
    int error = history_reader_open(settings->reader_db, &pages->facts.history);
    if (!error)
        history_reader_set_host(pages->facts.history, BYTES_STR(pages->facts.host));
    if (!error)
        error = worker_open(&pages->worker, settings->loop,
                            &(struct worker_ops){.name = "pages",
                                                 .queue_limit = PAGES_QUEUE_MAX,
                                                 .batch_limit = 1,
                                                 .in_background = true});
    pages->scope.worker = pages->worker;
    struct http1_server_settings http1 = http1_settings(pages);
    if (!error)
        error = http1_server_open(&http1, &pages->http);
    if (error)
        pages_close(pages);
    else
        *result = pages;
    return error;
}

void pages_close(struct pages *pages)
{
    if (!pages)
        return;
    LOOP_THREAD(pages->settings.loop);
    atomic_store(&pages->scope.stopping, true);
    http1_server_close(pages->http);
    if (pages->worker)
        sqlite3_interrupt(db_handle(pages->settings.reader_db));
    worker_close(pages->worker); /* frees calls whose connections have ended */
    history_reader_close(pages->facts.history);
    free(pages);
}
