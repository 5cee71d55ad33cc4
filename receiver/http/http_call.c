/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libmicrohttpd takes an answer before the body or after it, but not in between. So a request that
 * is found wrong in between is read to its end, up to a bound, and answered there: an answer to a
 * peer that still writes would be lost with its connection.
 */
#include "receiver/http/http_call.h"
#include "base/stats.h"
#include "receiver/intake/admission.h"
#include "receiver/http/cors.h"
#include "receiver/http/otlp_http.h"
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#define THROWN_BODIES_MAX                                                                          \
    4 /* of a refused body, in units of max_body_bytes; then the connection ends */

#define CHUNKED_BYTES (256 * 1024) /* set aside for a body of unknown length */

static const unsigned codes[] = {200, 204, 400, 404, 405, 413, 415, 503};
static const char *const code_names[] = {"200", "204", "400", "404", "405", "413", "415", "503"};
#define CODES (sizeof(codes) / sizeof(codes[0]))
STAT_COUNTERS(requests, "spanprof_http_server_requests_total",
              "OTLP/HTTP requests answered, by status.", STAT_LABEL("code", code_names, CODES));
STAT_LOSS(requests_cut, "spanprof_http_server_requests_cut_total",
          "OTLP/HTTP requests whose connection ended before an answer.");

enum call_state {
    CALL_RECEIVING,
    CALL_REFUSED,  /* the answer is known; the rest of the body is thrown away */
    CALL_SLEEPING, /* whole, the connection is suspended: it waits to be let in or is at the intake
                    */
    CALL_READY,    /* the answer is known and due */
    CALL_ANSWERED,
};

struct http_call {
    struct list link;
    struct http_call_scope *scope;
    struct MHD_Connection *connection; /* NULL: it has gone */
    enum call_state state;
    struct otlp_http_verdict verdict;
    struct buf body;
    size_t budget_bytes;
    size_t thrown_bytes; /* of a refused body */
    struct intake_request request;
    struct admission_request admission; /* while it waits the connection is suspended */
    bool suspended;                     /* until it is let in */
    bool at_intake;
};

static void call_free(struct http_call *call)
{
    list_remove(&call->link);
    admission_leave(&call->admission);
    buf_close(&call->body);
    free(call);
}

static void give_budget(struct http_call *call)
{
    if (call->budget_bytes)
        budget_give(call->scope->budget, call->budget_bytes);
    call->budget_bytes = 0;
}

static void refuse(struct http_call *call, struct otlp_answer answer)
{
    call->state = CALL_REFUSED;
    call->verdict.answer = answer;
    otlp_count_refused(call->verdict.route, &answer);
    buf_close(&call->body);
    give_budget(call);
    admission_leave(&call->admission);
}

/* ---- answers ---- */

static void count_answer(unsigned code)
{
    for (unsigned i = 0; i < CODES; i++)
        if (codes[i] == code)
            stat_add_of(&requests, i, 1);
}

static const char *header(struct MHD_Connection *connection, const char *name)
{
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

static void add_list(struct MHD_Response *response, const char *name,
                     const struct config_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        MHD_add_response_header(response, name, list->items[i]);
}

/* The answer to a browser that asks before it sends. */
static void add_preflight(const struct http_call *call, struct MHD_Response *response)
{
    const struct config_cors *cors = call->scope->cors;
    const char *asked = header(call->connection, "Access-Control-Request-Headers");
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
    const struct config_cors *cors = call->scope->cors;
    const char *origin = header(call->connection, "Origin");
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
    add_list(response, "Access-Control-Expose-Headers", &cors->exposed_headers);
    if (call->verdict.answer.http == 204)
        add_preflight(call, response);
}

static struct MHD_Response *response_of(const struct http_call *call)
{
    const struct otlp_http_verdict *verdict = &call->verdict;
    _cleanup_buf_ struct buf body = BUF_INIT(0);
    char seconds[16];
    if (otlp_http_body(&verdict->answer, verdict->json, &body))
        return NULL;
    /* libmicrohttpd wants a pointer also for nothing */
    struct MHD_Response *response = MHD_create_response_from_buffer(
        body.len, body.len ? body.data : (void *)seconds, MHD_RESPMEM_MUST_COPY);
    if (!response)
        return NULL;
    if (verdict->answer.http != 204)
        MHD_add_response_header(response, "Content-Type", otlp_http_content_type(verdict->json));
    add_cors(call, response);
    if (verdict->wrong_method)
        MHD_add_response_header(response, "Allow", "POST");
    if (verdict->wrong_encoding) /* RFC 9110, 15.5.16 */
        MHD_add_response_header(response, "Accept-Encoding", OTLP_HTTP_ENCODINGS);
    if (verdict->answer.retry_delay_ns != GRPC_NO_RETRY_INFO) {
        snprintf(seconds, sizeof(seconds), "%u", otlp_http_retry_after(&verdict->answer));
        MHD_add_response_header(response, "Retry-After", seconds);
    }
    if (call->scope->draining)
        MHD_add_response_header(response, "Connection", "close");
    return response;
}

static enum MHD_Result answer(struct http_call *call)
{
    struct MHD_Response *response = response_of(call);
    if (!response)
        return MHD_NO;
    enum MHD_Result result =
        MHD_queue_response(call->connection, call->verdict.answer.http, response);
    MHD_destroy_response(response);
    if (result == MHD_YES)
        count_answer(call->verdict.answer.http);
    call->state = CALL_ANSWERED;
    return result;
}

/* ---- the intake ---- */

static void on_done(struct intake_request *request)
{
    struct http_call *call = container_of(request, struct http_call, request);
    call->at_intake = false;
    admission_leave(&call->admission);
    if (!call->connection) {
        call_free(call);
        return;
    }
    if (call->state != CALL_SLEEPING) /* answered 503 meanwhile: the server closes */
        return;
    call->verdict.answer = otlp_answer_of(request->outcome, request->message);
    call->state = CALL_READY;
    MHD_resume_connection(call->connection);
    call->scope->woken(call->scope);
}

static struct otlp_answer closing_answer(void)
{
    return otlp_answer_of(INTAKE_BUSY, "the node is shutting down: try again");
}

static void submit(struct http_call *call)
{
    call->request = (struct intake_request){
        .signal = call->verdict.route->signal,
        .encoding = call->verdict.encoding,
        .json = call->verdict.json,
        .body = call->body,
        .max_inflated_bytes = call->scope->max_body_bytes,
        .done = on_done,
    };
    call->body = (struct buf){0};
    call->at_intake = true;
    admission_received(&call->admission);
    give_budget(call);
    intake_submit(call->scope->intake, &call->request);
}

/* ---- being let in ---- */

static void on_let_in(struct admission_request *request)
{
    struct http_call *call = container_of(request, struct http_call, admission);
    if (call->state == CALL_SLEEPING)
        return submit(call);
    if (!call->suspended)
        return;
    call->suspended = false;
    MHD_resume_connection(call->connection);
    call->scope->woken(call->scope);
}

/* The answer goes out when the peer has sent the rest, or has hung up. */
static void on_expired(struct admission_request *request)
{
    refuse(container_of(request, struct http_call, admission), otlp_answer_no_budget());
}

static void ask(struct http_call *call)
{
    const char *length = header(call->connection, "Content-Length");
    size_t bytes = length ? strtoul(length, NULL, 10) : CHUNKED_BYTES;
    admission_ask(intake_admission(call->scope->intake), &call->admission, bytes);
}

/* What libmicrohttpd has read so far is taken all the same. */
static void wait_to_be_let_in(struct http_call *call)
{
    if (call->state != CALL_RECEIVING || call->suspended || call->scope->closing ||
        admission_is_in(&call->admission))
        return;
    call->suspended = true;
    MHD_suspend_connection(call->connection);
}

static void sleep_until_done(struct http_call *call)
{
    call->state = CALL_SLEEPING;
    MHD_suspend_connection(call->connection);
    if (admission_is_in(&call->admission))
        submit(call);
}

/* ---- steps ---- */

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

static enum MHD_Result begin(struct http_call_scope *scope, struct MHD_Connection *connection,
                             const char *path, const char *method, struct http_call **result)
{
    struct http_call *call = calloc(1, sizeof(*call));
    if (!call)
        return MHD_NO;
    call->scope = scope;
    call->connection = connection;
    call->admission.let_in = on_let_in;
    call->admission.expired = on_expired;
    call->body = BUF_INIT(scope->max_body_bytes);
    call->verdict = otlp_http_check(&(struct otlp_http_head){
        .method = method,
        .path = path,
        .content_type = header(connection, "Content-Type"),
        .content_encoding = header(connection, "Content-Encoding"),
        .content_length = header(connection, "Content-Length"),
        .transfer_encoding = header(connection, "Transfer-Encoding"),
        .profiles_version = profiles_version(connection),
        .is_preflight = scope->cors->allowed_origins.count && !strcmp(method, "OPTIONS") &&
                        header(connection, "Origin") &&
                        header(connection, "Access-Control-Request-Method"),
        .max_body_bytes = scope->max_body_bytes,
    });
    list_append(&scope->calls, &call->link);
    scope->n_active++;
    *result = call;
    if (call->verdict.answer.http == 200 &&
        !otlp_serves(scope->intake, scope->signals, call->verdict.route->signal))
        call->verdict.answer = otlp_answer_of(INTAKE_NO_PIPELINE, NULL);
    if (call->verdict.answer.http == 200) {
        ask(call);
        return MHD_YES;
    }
    refuse(call, call->verdict.answer);
    /* A peer that asks first (Expect) gets its answer now, instead of the word to go on. */
    return call->verdict.hopeless || header(connection, "Expect") ? answer(call) : MHD_YES;
}

static enum MHD_Result take(struct http_call *call, const char *data, size_t size)
{
    if (call->state == CALL_RECEIVING) {
        if (!budget_take(call->scope->budget, size)) {
            refuse(call, otlp_answer_no_budget());
        } else {
            call->budget_bytes += size;
            int error = buf_append(&call->body, data, size);
            if (error)
                refuse(call,
                       otlp_answer_of(error == BUF_FULL ? INTAKE_TOO_BIG : INTAKE_BUSY, NULL));
        }
    }
    if (call->state == CALL_REFUSED)
        call->thrown_bytes += size;
    return call->thrown_bytes > THROWN_BODIES_MAX * call->scope->max_body_bytes ? MHD_NO : MHD_YES;
}

enum MHD_Result http_call_step(struct http_call_scope *scope, struct MHD_Connection *connection,
                               const char *path, const char *method, const char *data, size_t *size,
                               struct http_call **result)
{
    struct http_call *call = *result;
    if (!call)
        return begin(scope, connection, path, method, result);
    if (*size > 0) {
        enum MHD_Result go_on = take(call, data, *size);
        *size = 0;
        wait_to_be_let_in(call);
        return go_on;
    }
    switch (call->state) {
    case CALL_RECEIVING:
        if (!scope->closing) {
            sleep_until_done(call);
            return MHD_YES;
        }
        refuse(call, closing_answer());
        return answer(call);
    case CALL_REFUSED:
    case CALL_READY:
        return answer(call);
    case CALL_SLEEPING:
    case CALL_ANSWERED:
        return MHD_YES;
    }
    return MHD_NO;
}

void http_call_completed(struct http_call *call)
{
    if (call->state != CALL_ANSWERED)
        stat_add(&requests_cut, 1);
    give_budget(call);
    call->scope->n_active--;
    call->connection = NULL;
    if (!call->at_intake)
        call_free(call);
}

void http_call_wake_all(struct http_call_scope *scope)
{
    struct list *link, *tmp;
    scope->closing = true;
    list_each(link, tmp, &scope->calls)
    {
        struct http_call *call = container_of(link, struct http_call, link);
        if (call->suspended)
            MHD_resume_connection(call->connection);
        call->suspended = false;
        if (call->state != CALL_SLEEPING || !call->connection)
            continue;
        call->verdict.answer = closing_answer();
        call->state = CALL_READY;
        MHD_resume_connection(call->connection);
    }
}

void http_call_forget(struct http_call_scope *scope)
{
    struct list *link;
    while ((link = list_pop(&scope->calls))) {
        struct http_call *call = container_of(link, struct http_call, link);
        assert(!call->connection && call->at_intake);
        call->scope = NULL;
    }
}
