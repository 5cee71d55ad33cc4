/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop itself answers what needs only the head (files, refusals, HEAD). Requests that need the
 * database go to the pages' thread while the connection is suspended.
 */
#include "exporter/pages/pages_call.h"
#include "base/clock.h"
#include "base/log.h"
#include "exporter/pages/pages_assets.h"
#include "exporter/pages/pages_attributes.h"
#include "exporter/pages/pages_access.h"
#include "base/json_write.h"
#include "proto/codec.h"
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#define STOPPING "spanprof is stopping: try again"

struct pages_call {
    struct http1_call http;
    bool asked;                      /* at the pages' thread, in its queue, or on the way back */
    const struct pages_asset *asset; /* a file to serve, instead of a query */
    bool asset_is_known;             /* the client has it cached */
    bool is_head;                    /* the store is not queried: no body will be sent */
    size_t answer_bytes;             /* included in the scope's answer_bytes */
    struct timer delay;
    struct job job;
    struct pages_request request;
};

static struct pages_call *call_of(struct http1_call *http)
{
    return container_of(http, struct pages_call, http);
}

static struct pages_scope *call_scope(const struct pages_call *call)
{
    return call->http.context;
}

static void call_free(struct pages_call *call)
{
    assert(!call->asked && !call->answer_bytes);
    timer_stop(&call->delay);
    buf_close(&call->request.body);
    arena_close(&call->request.arena);
    http1_call_free(&call->http);
}

static void call_refuse(struct pages_call *call, unsigned status, const char *problem)
{
    call->request.status = status;
    if (problem != call->request.problem)
        snprintf(call->request.problem, sizeof(call->request.problem), "%s", problem);
}

/* ---- answers ---- */

/* Headers of every answer. */
static void add_common(const struct pages_call *call, struct MHD_Response *response)
{
    static const char *const common[][2] = {
        {"Content-Security-Policy",
         "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
         "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"},
        {"X-Content-Type-Options", "nosniff"},
        {"Referrer-Policy", "no-referrer"},
        {"Cross-Origin-Resource-Policy", "same-origin"},
        {"Cross-Origin-Opener-Policy", "same-origin"},
    };
    for (size_t i = 0; i < sizeof(common) / sizeof(common[0]); i++)
        MHD_add_response_header(response, common[i][0], common[i][1]);
    const char *keep = !call->asset                     ? "no-store"
                       : pages_asset_lasts(call->asset) ? "public, max-age=31536000, immutable"
                                                        : "no-cache";
    MHD_add_response_header(response, "Cache-Control", keep);
}

static struct MHD_Response *response_of_bytes(struct bytes body, enum MHD_ResponseMemoryMode mode)
{
    return MHD_create_response_from_buffer(body.len, body.len ? (void *)body.data : (void *)"",
                                           body.len ? mode : MHD_RESPMEM_PERSISTENT);
}

static struct MHD_Response *asset_response(const struct pages_call *call)
{
    const struct pages_asset *asset = call->asset;
    _cleanup_buf_ struct buf plain = BUF_INIT(0);
    struct bytes body = asset->gzip;
    enum MHD_ResponseMemoryMode mode = MHD_RESPMEM_PERSISTENT;
    if (call->asset_is_known) {
        body = (struct bytes){0};
    } else if (!call->request.takes_gzip) {
        if (codec_inflate_gzip(asset->gzip, asset->size, &plain))
            return NULL;
        body = buf_bytes(&plain);
        mode = MHD_RESPMEM_MUST_COPY;
    }
    struct MHD_Response *response = response_of_bytes(body, mode);
    if (!response)
        return NULL;
    MHD_add_response_header(response, "ETag", asset->etag);
    MHD_add_response_header(response, "Vary", "Accept-Encoding");
    if (!call->asset_is_known)
        MHD_add_response_header(response, "Content-Type", asset->type);
    if (!call->asset_is_known && call->request.takes_gzip)
        MHD_add_response_header(response, "Content-Encoding", "gzip");
    return response;
}

static struct MHD_Response *problem_response(const struct pages_call *call)
{
    _cleanup_buf_ struct buf body = BUF_INIT(4096);
    struct json_writer json = {.out = &body};
    json_begin_object(&json, NULL);
    json_put_string(&json, "error", call->request.problem);
    json_end_object(&json);
    struct MHD_Response *response =
        json.error ? NULL : response_of_bytes(buf_bytes(&body), MHD_RESPMEM_MUST_COPY);
    if (!response)
        return NULL;
    MHD_add_response_header(response, "Content-Type", "application/json");
    if (call->request.status == 401)
        MHD_add_response_header(response, "WWW-Authenticate", "Bearer realm=\"spanprof\"");
    if (call->request.status == 405)
        MHD_add_response_header(response, "Allow", "GET, HEAD");
    if (call->request.status == 503)
        MHD_add_response_header(response, "Retry-After", "1");
    return response;
}

static struct MHD_Response *response_of_body(struct buf *made)
{
    size_t len;
    uint8_t *body = buf_release(made, &len);
    struct MHD_Response *response =
        body ? response_of_bytes(BYTES(body, len), MHD_RESPMEM_MUST_FREE)
             : response_of_bytes((struct bytes){0}, MHD_RESPMEM_PERSISTENT);
    if (!response || !len)
        free(body);
    return response;
}

static ssize_t no_bytes(void *context, uint64_t at, char *out, size_t size)
{
    (void)context, (void)at, (void)out, (void)size;
    return MHD_CONTENT_READER_END_OF_STREAM;
}

/* The length of the body is unknown, so the connection closes after the answer. A chunked answer is
 * no alternative: libmicrohttpd would send the last chunk. */
static struct MHD_Response *response_of_head(void)
{
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 1, no_bytes, NULL, NULL);
    if (response)
        MHD_set_response_options(response, MHD_RF_HTTP_1_0_COMPATIBLE_STRICT, MHD_RO_END);
    return response;
}

static struct MHD_Response *answer_response(struct pages_call *call)
{
    struct pages_request *request = &call->request;
    char disposition[128];
    struct MHD_Response *response =
        call->is_head ? response_of_head() : response_of_body(&request->body);
    if (!response)
        return NULL;
    MHD_add_response_header(response, "Content-Type", request->type);
    if (request->is_gzip)
        MHD_add_response_header(response, "Content-Encoding", "gzip");
    for (size_t i = 0; i < request->n_headers; i++)
        MHD_add_response_header(response, request->headers[i].name, request->headers[i].value);
    if (request->route->download) {
        snprintf(disposition, sizeof(disposition), "attachment; filename=\"%s\"",
                 request->route->download);
        MHD_add_response_header(response, "Content-Disposition", disposition);
    }
    return response;
}

static struct MHD_Response *on_respond(struct http1_call *http, unsigned *status)
{
    struct pages_call *call = call_of(http);
    *status = call->asset_is_known ? 304 : call->request.status;
    struct MHD_Response *response = *status != 200 && *status != 304 ? problem_response(call)
                                    : call->asset                    ? asset_response(call)
                                                                     : answer_response(call);
    if (response)
        add_common(call, response);
    return response;
}

/* ---- questions ---- */

/* Runs on the pages' thread. */
static int question_run(struct job *job)
{
    struct pages_call *call = container_of(job, struct pages_call, job);
    struct pages_request *request = &call->request;
    if (atomic_load(&call_scope(call)->stopping))
        return -ECANCELED;
    int error = request->route->answer(call_scope(call)->facts, request);
    return error == BUF_FULL ? -EMSGSIZE : error;
}

static void question_judge(struct pages_call *call, int error)
{
    if (!error && call->request.empty)
        pages_attributes_explain(call_scope(call)->facts->config, &call->request);
    if (!error)
        return;
    if (error == -ENOENT)
        call_refuse(call, 404, "this trace is not kept here");
    else if (error == -EMSGSIZE)
        call_refuse(call, 400, "the answer would be too large: ask for less time, or for less");
    else if (error == -ENOMEM)
        call_refuse(call, 503, "not enough memory for this: ask for less time");
    else if (error == -ECANCELED)
        call_refuse(call, 503, STOPPING);
    else if (error == -EAGAIN)
        call_refuse(call, 503, "the store has more to write than it can answer: try again");
    else
        call_refuse(call, 503, "the store does not answer: see spanprof's log");
    if (error != -ENOENT && error != -EMSGSIZE && error != -ECANCELED && error != -EAGAIN)
        log_warn("pages", "%s is not answered: %s", call->request.route->path, strerror(-error));
}

static void question_done(struct job *job, int error)
{
    struct pages_call *call = container_of(job, struct pages_call, job);
    struct pages_scope *scope = call_scope(call);
    call->asked = false;
    if (call->http.state == HTTP1_GONE)
        return call_free(call);
    if (call->http.state != HTTP1_SLEEPING) /* already answered 503: the pages are closing */
        return;
    question_judge(call, error);
    if (scope->answer_bytes + call->request.body.cap > PAGES_ANSWERS_MAX) {
        call_refuse(call, 503, "too many answers are being sent: try again");
    } else {
        call->answer_bytes = call->request.body.cap;
        scope->answer_bytes += call->answer_bytes;
    }
    if (call->request.status != 200)
        buf_close(&call->request.body);
    arena_close(&call->request.arena);
    http1_call_wake(&call->http);
}

/* false: the queue is full. */
static bool question_ask(struct pages_call *call)
{
    call->request.now_unix_ns = clock_unix_ns();
    call->job = (struct job){.run = question_run, .done = question_done};
    call->asked = worker_submit(call_scope(call)->worker, &call->job) == 0;
    if (!call->asked)
        call_refuse(call, 503, "too many questions are waiting: try again");
    return call->asked;
}

static void on_delay_over(struct timer *timer)
{
    struct pages_call *call = container_of(timer, struct pages_call, delay);
    if (!question_ask(call))
        http1_call_wake(&call->http);
}

static void on_received(struct http1_call *http)
{
    struct pages_call *call = call_of(http);
    const struct pages_route *route = call->request.route;
    if (call->request.status != 200 || call->asset || call->is_head)
        return http1_call_ready(http);
    if (http1_server_is_closing(http->server)) {
        call_refuse(call, 503, STOPPING);
        return http1_call_ready(http);
    }
    uint64_t delay_ns = route->delay_ns ? route->delay_ns(&call->request) : 0;
    if (!delay_ns && !question_ask(call))
        return http1_call_ready(http);
    http1_call_sleep(http);
    if (delay_ns)
        timer_start(call_scope(call)->loop, &call->delay, delay_ns);
}

/* ---- heads ---- */

static bool list_has(const char *list, const char *word)
{
    size_t len = strlen(word);
    for (const char *at = list; at && (at = strcasestr(at, word)); at += len) {
        const char *after = at + len;
        if (strncasecmp(after, ";q=0", 4) == 0 &&
            (after[4] == '\0' || after[4] == ',' ||
             strspn(after + 4, ".0") == strcspn(after + 4, ",")))
            continue;
        return true;
    }
    return false;
}

struct parameters {
    struct pages_parameter list[PAGES_PARAMETERS_MAX + 1];
    size_t n;
};

static enum MHD_Result add_parameter(void *context, enum MHD_ValueKind kind, const char *name,
                                     size_t name_size, const char *value, size_t value_size)
{
    struct parameters *all = context;
    (void)kind;
    if (all->n <= PAGES_PARAMETERS_MAX)
        all->list[all->n++] = (struct pages_parameter){
            BYTES(name, name_size), BYTES(value ? value : "", value ? value_size : 0)};
    return MHD_YES;
}

static void read_query(struct pages_call *call)
{
    struct parameters parameters = {.n = 0};
    struct pages_request *request = &call->request;
    MHD_get_connection_values_n(call->http.mhd, MHD_GET_ARGUMENT_KIND, add_parameter, &parameters);
    int error =
        pages_query_read(parameters.list, parameters.n, request->route->takes, clock_unix_ns(),
                         &request->arena, &request->query, request->problem);
    if (error)
        call_refuse(call, error == -EINVAL ? 400 : 503,
                    error == -EINVAL ? request->problem : "not enough memory");
}

static void on_begin(struct http1_call *http, const char *path, const char *method)
{
    struct pages_call *call = call_of(http);
    struct pages_scope *scope = call_scope(call);
    const char *known = http1_call_header(http, "If-None-Match");
    bool of_node = http->trusted;
    call->delay.fire = on_delay_over;
    call->request.status = 200;
    call->request.body = BUF_INIT(PAGES_ANSWER_MAX);
    arena_init(&call->request.arena, PAGES_REQUEST_BYTES);
    if (!of_node && !pages_access_knows_host(scope->config, http1_call_header(http, "Host")))
        return call_refuse(call, 421,
                           "this node does not know itself by that name: ask for localhost or its "
                           "address, or add the name to extensions::pages::allowed_hosts");
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
        return call_refuse(call, 405, "everything here is a GET");
    call->is_head = strcmp(method, "HEAD") == 0;
    call->request.takes_gzip = list_has(http1_call_header(http, "Accept-Encoding"), "gzip");
    call->request.wants_json = list_has(http1_call_header(http, "Accept"), "application/json");
    call->asset = pages_asset_find(path);
    call->request.route = call->asset ? NULL : pages_route_find(path);
    if (call->asset) {
        call->asset_is_known = known && strstr(known, call->asset->etag);
        return;
    }
    if (!of_node && *scope->token &&
        !pages_access_has_token(scope->token, http1_call_header(http, "Authorization")))
        return call_refuse(call, 401, "a token is needed: Authorization: Bearer ...");
    if (!call->request.route || (call->request.route->of_node && !of_node))
        return call_refuse(call, 404, "there is nothing here: see docs/api.md");
    if (call->request.route->of_node)
        call->request.token =
            arena_dup(&call->request.arena, scope->token, strlen(scope->token) + 1);
    call->request.type = call->request.route->type;
    read_query(call);
}

/* ---- the end ---- */

static void on_stop(struct http1_call *http)
{
    struct pages_call *call = call_of(http);
    timer_stop(&call->delay);
    call_refuse(call, 503, STOPPING);
}

static void on_gone(struct http1_call *http)
{
    struct pages_call *call = call_of(http);
    call_scope(call)->answer_bytes -= call->answer_bytes;
    call->answer_bytes = 0;
    timer_stop(&call->delay);
    if (!call->asked)
        call_free(call);
}

const struct http1_handler pages_call_handler = {
    .call_size = sizeof(struct pages_call),
    .begin = on_begin,
    .received = on_received,
    .respond = on_respond,
    .stop = on_stop,
    .gone = on_gone,
};
