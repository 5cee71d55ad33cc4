/* SPDX-License-Identifier: Apache-2.0 */
#include "receiver/http/http_server.h"
#include "base/clock.h"
#include "base/stats.h"
#include "proto/http/acceptor.h"
#include "receiver/http/http_call.h"
#include <errno.h>
#include <stdlib.h>

#define HEAD_BYTES          (32 * 1024)
#define REQUEST_TIMEOUT_NS  (60 * NS_PER_SEC)
#define IDLE_TIMEOUT_MAX_NS (3600 * NS_PER_SEC) /* for idle_timeout 0 */
#define DISCARDED_BODIES    4 /* bytes read of a refused body, in units of max_body_bytes */

STAT_GAUGE(connections, "spanprof_http_server_connections", "Open OTLP/HTTP connections.");
STAT_LOSSES(refused, "spanprof_http_server_connections_refused_total",
            "OTLP/HTTP connections closed at once, by reason.",
            STAT_LABEL("reason", accept_refusal_names, ACCEPT_REFUSALS));

STAT_LOSS(
    crowded_out, "spanprof_http_server_connections_crowded_out_total",
    "OTLP/HTTP connections ended at max_connections to make room for a new one: of the peer with "
    "most connections, the one idle longest.");

enum phase { PHASE_HEAD, PHASE_BODY, PHASES };

static const char *const phase_names[] = {[PHASE_HEAD] = "head", [PHASE_BODY] = "body"};
STAT_LOSSES(timed_out, "spanprof_http_server_timeouts_total",
            "OTLP/HTTP connections ended by a time limit, by phase.",
            STAT_LABEL("phase", phase_names, PHASES));

static const unsigned codes[] = {200, 204, 400, 401, 404, 405, 413, 415, 503};
static const char *const code_names[] = {"200", "204", "400", "401", "404",
                                         "405", "413", "415", "503"};
#define CODES (sizeof(codes) / sizeof(codes[0]))
STAT_COUNTERS(requests, "spanprof_http_server_requests_total",
              "OTLP/HTTP requests answered, by status.", STAT_LABEL("code", code_names, CODES));
STAT_LOSS(requests_cut, "spanprof_http_server_requests_cut_total",
          "OTLP/HTTP requests whose connection ended before an answer.");

struct http_server {
    struct http_call_scope scope;
    struct http1_server *http;
};

static struct http1_server_settings http1_settings(const struct http_server_settings *settings,
                                                   struct http_server *server)
{
    const struct config_otlp_http_server *config = settings->config;
    uint64_t idle_ns = config->idle_timeout_ns;
    return (struct http1_server_settings){
        .loop = settings->loop,
        .area = "http_server",
        .handler = &http_call_handler,
        .context = &server->scope,
        .limits = {.max_connections = config->max_connections,
                   .keeps_file_reserve = true,
                   .strict = true,
                   .head_bytes = HEAD_BYTES,
                   .silence_s = (unsigned)((idle_ns + NS_PER_SEC - 1) / NS_PER_SEC),
                   .phases = {[HTTP1_HEAD] = {idle_ns ? idle_ns : IDLE_TIMEOUT_MAX_NS,
                                              {&timed_out, PHASE_HEAD}},
                              [HTTP1_BODY] = {REQUEST_TIMEOUT_NS, {&timed_out, PHASE_BODY}},
                              [HTTP1_HANDLING] = {.timeout_ns = HTTP1_UNLIMITED}},
                   .discard_max = (uint64_t)DISCARDED_BODIES * config->max_request_body_size_bytes},
        .counts = {.connections = &connections,
                   .over_limit = {&refused, ACCEPT_OVER_LIMIT},
                   .out_of_files = {&refused, ACCEPT_OUT_OF_FILES},
                   .crowded_out = {&crowded_out, 0},
                   .requests = &requests,
                   .codes = codes,
                   .n_codes = CODES,
                   .requests_cut = &requests_cut}};
}

int http_server_open(const struct http_server_settings *settings, struct listen_sockets *sockets,
                     struct http_server **result)
{
    struct http_server *server = calloc(1, sizeof(*server));
    if (!server)
        return -ENOMEM;
    server->scope =
        (struct http_call_scope){.intake = settings->intake,
                                 .budget = settings->budget,
                                 .signals = settings->signals,
                                 .max_body_bytes = settings->config->max_request_body_size_bytes,
                                 .cors = &settings->config->cors,
                                 .endpoint = &settings->config->endpoint,
                                 .peers = settings->peers,
                                 .bearer = settings->bearer};
    struct http1_server_settings http1 = http1_settings(settings, server);
    int error = http1_server_open(&http1, &server->http);
    if (!error)
        error = http1_server_listen(server->http, sockets->fds, sockets->n, settings->tls, false);
    if (error) {
        http_server_close(server);
        return error;
    }
    listen_close(sockets); /* taken over */
    *result = server;
    return 0;
}

void http_server_set_http2(struct http_server *server,
                           void (*take)(void *context, const struct http_arrival *arrival),
                           void *context)
{
    http1_server_set_http2(server->http, take, context);
}

void http_server_take(void *context, const struct http_arrival *arrival)
{
    struct http_server *server = context;
    http1_server_take(server->http, arrival);
}

void http_server_drain(struct http_server *server, void (*stopped)(void *context), void *context)
{
    http1_server_drain(server->http, stopped, context);
}

void http_server_close(struct http_server *server)
{
    if (server)
        http1_server_close(server->http);
    free(server);
}
