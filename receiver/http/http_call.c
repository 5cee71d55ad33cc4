/* SPDX-License-Identifier: Apache-2.0 */
#include "receiver/http/http_call.h"
#include "receiver/admission/admission.h"
#include "receiver/bearer.h"
#include "receiver/http/cors.h"
#include "receiver/http/otlp_http.h"
#include "receiver/peer_key.h"
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#define CHUNKED_BYTES (256 * 1024) /* room reserved for a body of unknown length */

struct http_call {
    struct http1_call http;
    struct otlp_http_verdict verdict;
    struct buf body;
    struct sender *sender; /* its own: a connection has one call at a time */
    struct budget_hold budget;
    struct intake_request request;
    bool small;                         /* it needs no admission */
    struct admission_request admission; /* while it waits the connection is suspended */
    bool at_intake;                     /* SLEEPING or GONE */
};

static struct http_call *call_of(struct http1_call *http)
{
    return container_of(http, struct http_call, http);
}

static const struct http_call_scope *call_scope(const struct http_call *call)
{
    return call->http.context;
}

static void call_free(struct http_call *call)
{
    assert(!call->budget.bytes);
    admission_leave(&call->admission);
    sender_release(call->sender);
    buf_close(&call->body);
    http1_call_free(&call->http);
}

static void call_give_budget(struct http_call *call)
{
    if (call->budget.bytes)
        budget_give(call_scope(call)->budget, &call->budget);
}

static void call_refuse(struct http_call *call, struct otlp_answer answer)
{
    http1_call_refuse(&call->http);
    call->verdict.answer = answer;
    otlp_count_refused(call->verdict.route, &answer);
    buf_close(&call->body);
    call_give_budget(call);
    admission_leave(&call->admission);
}

/* ---- answers ---- */

/* The answer to a browser's preflight request. */
static void add_preflight(const struct http_call *call, struct MHD_Response *response)
{
    const struct config_cors *cors = call_scope(call)->cors;
    const char *asked = http1_call_header(&call->http, "Access-Control-Request-Headers");
    char seconds[16];
    if (!cors_allows_headers(cors, asked))
        return;
    MHD_add_response_header(response, "Access-Control-Allow-Methods", "POST");
    if (asked)
        MHD_add_response_header(response, "Access-Control-Allow-Headers", asked);
    if (cors->max_age_s) {
        snprintf(seconds, sizeof(seconds), "%u", (unsigned)cors->max_age_s);
        MHD_add_response_header(response, "Access-Control-Max-Age", seconds);
    }
}

static void add_cors(const struct http_call *call, struct MHD_Response *response)
{
    const struct config_cors *cors = call_scope(call)->cors;
    const char *origin = http1_call_header(&call->http, "Origin");
    if (!cors->allowed_origins.count)
        return;
    MHD_add_response_header(response, "Vary", "Origin");
    if (!cors_allows_origin(cors, origin))
        return;
    if (cors_any_origin(cors)) {
        MHD_add_response_header(response, "Access-Control-Allow-Origin", "*");
    } else {
        MHD_add_response_header(response, "Access-Control-Allow-Origin", origin);
        MHD_add_response_header(response, "Access-Control-Allow-Credentials", "true");
    }
    for (size_t i = 0; i < cors->exposed_headers.count; i++)
        MHD_add_response_header(response, "Access-Control-Expose-Headers",
                                cors->exposed_headers.items[i]);
    if (call->verdict.answer.http == 204)
        add_preflight(call, response);
}

static struct MHD_Response *on_respond(struct http1_call *http, unsigned *status)
{
    const struct http_call *call = call_of(http);
    const struct otlp_http_verdict *verdict = &call->verdict;
    _cleanup_buf_ struct buf body = BUF_INIT(0);
    char seconds[16];
    if (otlp_http_body(&verdict->answer, verdict->json, &body))
        return NULL;
    /* libmicrohttpd needs a pointer even for no bytes */
    struct MHD_Response *response = MHD_create_response_from_buffer(
        body.len, body.len ? body.data : (void *)seconds, MHD_RESPMEM_MUST_COPY);
    if (!response)
        return NULL;
    if (verdict->answer.http != 204)
        MHD_add_response_header(response, "Content-Type", otlp_http_content_type(verdict->json));
    add_cors(call, response);
    if (verdict->wrong_method)
        MHD_add_response_header(response, "Allow", "POST");
    if (verdict->answer.http == 401)
        MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
    if (verdict->wrong_encoding) /* RFC 9110, 15.5.16 */
        MHD_add_response_header(response, "Accept-Encoding", OTLP_HTTP_ENCODINGS);
    if (verdict->answer.retry_delay_ns != GRPC_NO_RETRY_INFO) {
        snprintf(seconds, sizeof(seconds), "%u", otlp_http_retry_after(&verdict->answer));
        MHD_add_response_header(response, "Retry-After", seconds);
    }
    *status = verdict->answer.http;
    return response;
}

/* ---- the intake ---- */

static void on_done(struct intake_request *request)
{
    struct http_call *call = container_of(request, struct http_call, request);
    call->at_intake = false;
    call_give_budget(call);
    admission_leave(&call->admission);
    if (call->http.state == HTTP1_GONE)
        return call_free(call);
    if (call->http.state != HTTP1_SLEEPING) /* already answered 503: the server is closing */
        return;
    call->verdict.answer = otlp_answer_of(request->outcome, request->message);
    http1_call_wake(&call->http);
}

static struct otlp_answer closing_answer(void)
{
    return otlp_answer_of(INTAKE_BUSY, "the node is shutting down: try again");
}

static void call_submit(struct http_call *call)
{
    assert(call->http.state == HTTP1_SLEEPING && !call->at_intake);
    call->request = (struct intake_request){
        .signal = call->verdict.route->signal,
        .encoding = call->verdict.encoding,
        .json = call->verdict.json,
        .says_version = call->verdict.says_version,
        .body = call->body,
        .max_inflated_bytes = call_scope(call)->max_body_bytes,
        .peer = *http1_call_peer(&call->http),
        .sender = call->sender,
        .done = on_done,
    };
    call->body = (struct buf){0};
    call->at_intake = true;
    if (!call->small) {
        admission_received(&call->admission);
        call_give_budget(call);
    }
    intake_submit(call_scope(call)->intake, &call->request);
}

/* ---- admission ---- */

static void on_admitted(struct admission_request *request)
{
    struct http_call *call = container_of(request, struct http_call, admission);
    budget_admitted(&call->budget);
    if (call->http.state == HTTP1_SLEEPING)
        call_submit(call);
    else
        http1_call_resume(&call->http);
}

/* The answer is sent when the peer has sent the rest of the body. */
static void on_expired(struct admission_request *request)
{
    call_refuse(container_of(request, struct http_call, admission), otlp_answer_no_budget());
}

static void call_ask_admission(struct http_call *call)
{
    const char *length = http1_call_header(&call->http, "Content-Length");
    size_t bytes = length ? strtoul(length, NULL, 10) : CHUNKED_BYTES;
    struct admission *admission = intake_admission(call_scope(call)->intake);
    call->sender = call->budget.sender = sender_open(&admission->senders, call->http.peer_key);
    if (!call->sender)
        return call_refuse(call, otlp_answer_of(INTAKE_BUSY, NULL));
    call->small = bytes <= ADMISSION_SMALL;
    if (!call->small)
        admission_ask(admission, call->sender, &call->admission, bytes);
}

/* ---- the request ---- */

struct version_header {
    const char *value;
    unsigned n;
};

static enum MHD_Result find_version(void *context, enum MHD_ValueKind kind, const char *name,
                                    const char *value)
{
    struct version_header *version = context;
    (void)kind;
    if (strcasecmp(name, OTLP_PROFILES_VERSION_KEY) == 0) {
        version->value = value;
        version->n++;
    }
    return MHD_YES;
}

static const char *profiles_version(struct MHD_Connection *connection)
{
    struct version_header version = {NULL, 0};
    MHD_get_connection_values(connection, MHD_HEADER_KIND, find_version, &version);
    return version.n > 1 ? "" : version.value;
}

static struct otlp_http_verdict check_head(const struct http_call *call, const char *path,
                                           const char *method)
{
    const struct http_call_scope *scope = call_scope(call);
    const struct http1_call *http = &call->http;
    return otlp_http_check(&(struct otlp_http_head){
        .method = method,
        .path = path,
        .content_type = http1_call_header(http, "Content-Type"),
        .content_encoding = http1_call_header(http, "Content-Encoding"),
        .content_length = http1_call_header(http, "Content-Length"),
        .transfer_encoding = http1_call_header(http, "Transfer-Encoding"),
        .profiles_version = profiles_version(http->mhd),
        .is_preflight = scope->cors->allowed_origins.count && !strcmp(method, "OPTIONS") &&
                        http1_call_header(http, "Origin") &&
                        http1_call_header(http, "Access-Control-Request-Method"),
        .max_body_bytes = scope->max_body_bytes,
    });
}

static uint64_t on_connected(void *context, int fd, struct peer *peer)
{
    const struct http_call_scope *scope = context;
    peers_identify(scope->peers, fd, scope->endpoint, peer);
    return peer_key(peer, fd);
}

/* A preflight request has no token. Given twice, libmicrohttpd tells the first: it is refused. */
static enum MHD_Result count_header(void *context, enum MHD_ValueKind kind, const char *name,
                                    const char *value)
{
    (void)kind, (void)value;
    *(unsigned *)context += strcasecmp(name, "Authorization") == 0;
    return MHD_YES;
}

static bool call_is_allowed(const struct http_call *call)
{
    const struct bearer *bearer = call_scope(call)->bearer;
    const char *authorization = http1_call_header(&call->http, "Authorization");
    unsigned n = 0;
    if (!bearer)
        return true;
    MHD_get_connection_values(call->http.mhd, MHD_HEADER_KIND, count_header, &n);
    return n == 1 && authorization && bearer_allows(bearer, BYTES_STR(authorization));
}

static void on_begin(struct http1_call *http, const char *path, const char *method)
{
    struct http_call *call = call_of(http);
    const struct http_call_scope *scope = call_scope(call);
    call->admission.let_in = on_admitted;
    call->admission.expired = on_expired;
    call->body = BUF_INIT(scope->max_body_bytes);
    call->verdict = check_head(call, path, method);
    if (call->verdict.answer.http != 204 && !call_is_allowed(call))
        call->verdict.answer =
            (struct otlp_answer){GRPC_UNAUTHENTICATED, 401, GRPC_NO_RETRY_INFO, OTLP_NO_TOKEN};
    if (call->verdict.answer.http == 200 &&
        !otlp_serves(scope->intake, scope->signals, call->verdict.route->signal))
        call->verdict.answer = otlp_answer_of(INTAKE_NO_PIPELINE, NULL);
    if (call->verdict.answer.http == 200)
        return call_ask_admission(call);
    call_refuse(call, call->verdict.answer);
    /* A peer that sends Expect gets the answer instead of 100 Continue. */
    if (call->verdict.hopeless || http1_call_header(http, "Expect"))
        http1_call_ready(http);
}

static void on_body(struct http1_call *http, struct bytes piece)
{
    struct http_call *call = call_of(http);
    bool admitted = admission_is_in(&call->admission);
    if (!budget_take(call_scope(call)->budget, &call->budget, piece.len, admitted))
        return call_refuse(call, otlp_answer_no_budget());
    admission_progress(&call->admission, piece.len);
    int error = buf_append_bytes(&call->body, piece);
    if (error)
        call_refuse(call, otlp_answer_of(error == BUF_FULL ? INTAKE_TOO_BIG : INTAKE_BUSY, NULL));
    else if (!call->small && !admitted)
        http1_call_pause(http);
}

static void on_received(struct http1_call *http)
{
    struct http_call *call = call_of(http);
    if (http1_server_is_closing(http->server)) {
        call_refuse(call, closing_answer());
        return http1_call_ready(http);
    }
    http1_call_sleep(http);
    if (call->small || admission_is_in(&call->admission))
        call_submit(call);
}

static void on_stop(struct http1_call *http)
{
    call_of(http)->verdict.answer = closing_answer();
}

static void on_gone(struct http1_call *http)
{
    struct http_call *call = call_of(http);
    call_give_budget(call);
    if (!call->at_intake)
        call_free(call);
}

const struct http1_handler http_call_handler = {
    .call_size = sizeof(struct http_call),
    .connected = on_connected,
    .begin = on_begin,
    .body = on_body,
    .received = on_received,
    .respond = on_respond,
    .stop = on_stop,
    .gone = on_gone,
};
