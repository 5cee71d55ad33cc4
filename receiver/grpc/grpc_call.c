/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call is refused as early as it is known to be wrong: at its headers, at the prefix of its
 * message or at the byte that is one too many. What still comes after that gives window to the
 * connection only, so that the others on it go on. Whoever does not speak gRPC is answered as HTTP
 * has it, behind the request: browsers and other tools take an answer in its midst for an error.
 *
 * A stream begins with a small window. The length of its message is known with the first bytes; the
 * window grows, if it has to, when there is room for all of it.
 */
#include "receiver/grpc/grpc_call.h"
#include "base/clock.h"
#include "base/stats.h"
#include "proto/otlp/otlp_service.h"
#include "receiver/intake/admission.h"
#include "receiver/grpc/health_watch.h"
#include "receiver/otlp_answer.h"
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define THROWN_BYTES_MAX                                                                           \
    (64 << 10) /* of a request that is not gRPC; then the answer comes early                       \
                */

#define STREAM_WINDOW (256 * 1024) /* of a request that was let in */

enum call_outcome {
    OUTCOME_ACCEPTED,
    OUTCOME_BUSY,
    OUTCOME_MALFORMED,
    OUTCOME_TOO_BIG,
    OUTCOME_UNIMPLEMENTED,
    OUTCOME_NOT_GRPC,
    OUTCOME_PEER_GONE,
    OUTCOMES
};

static const char *const outcome_names[] = {
    [OUTCOME_ACCEPTED] = "accepted",           [OUTCOME_BUSY] = "busy",
    [OUTCOME_MALFORMED] = "malformed",         [OUTCOME_TOO_BIG] = "too_big",
    [OUTCOME_UNIMPLEMENTED] = "unimplemented", [OUTCOME_NOT_GRPC] = "not_grpc",
    [OUTCOME_PEER_GONE] = "peer_gone",
};
STAT_COUNTERS(calls, "spanprof_grpc_server_calls_total", "OTLP/gRPC calls, by how they ended.",
              STAT_LABEL("outcome", outcome_names, OUTCOMES));

struct grpc_call {
    struct list link; /* of the scope */
    struct grpc_call_scope *scope;
    struct h2_stream *stream; /* NULL: the peer has gone */
    const struct otlp_route *route;
    struct grpc_reader reader;
    struct intake_request request;
    struct admission_request admission;
    size_t budget_bytes;     /* taken of the scope's */
    size_t thrown_bytes;     /* of a request that is not gRPC */
    const char *http_status; /* that it is answered with; NULL: a call */
    uint64_t timeout_ns;     /* 0 = none */
    enum intake_encoding encoding;
    bool is_health_check; /* which has no route */
    bool is_watch;        /* one that goes on */
    struct health_watch *watch;
    bool encoding_given;
    bool post;
    bool head;    /* the method, whose answers have no body */
    bool is_grpc; /* by its content-type */
    bool bad_timeout;
    bool bad_version; /* of profiles: not the one that is served, or told twice */
    bool version_given;
    bool asked; /* to be let in */
    bool whole; /* all of it has come */
    bool at_intake;
    bool answered;
};

static struct grpc_call *call_of(struct h2_stream *stream)
{
    return stream->owner;
}

static void call_free(struct grpc_call *call)
{
    list_remove(&call->link);
    admission_leave(&call->admission);
    grpc_reader_close(&call->reader);
    free(call);
}

static void give_budget(struct grpc_call *call)
{
    if (call->budget_bytes)
        budget_give(call->scope->budget, call->budget_bytes);
    call->budget_bytes = 0;
}

/* ---- answers ---- */

static enum call_outcome outcome_of(enum grpc_status status)
{
    switch (status) {
    case GRPC_OK:
        return OUTCOME_ACCEPTED;
    case GRPC_UNAVAILABLE:
        return OUTCOME_BUSY;
    case GRPC_RESOURCE_EXHAUSTED:
        return OUTCOME_TOO_BIG;
    case GRPC_UNIMPLEMENTED:
        return OUTCOME_UNIMPLEMENTED;
    default:
        return OUTCOME_MALFORMED;
    }
}

static void count_answer(const struct grpc_call *call, enum grpc_status status)
{
    if (call->is_health_check)
        return;
    stat_add_of(&calls, outcome_of(status), 1);
}

static void refused(struct grpc_call *call)
{
    call->answered = true;
    buf_close(&call->reader.message);
    give_budget(call);
    admission_leave(&call->admission);
}

static void answer_http(struct grpc_call *call)
{
    static const char text[] = "This port takes OTLP/gRPC: POST, content-type application/grpc\n";
    const struct h2_header headers[] = {H2_HEADER(":status", call->http_status),
                                        H2_HEADER("content-type", "text/plain"),
                                        H2_HEADER("allow", "POST")};
    _cleanup_buf_ struct buf body = BUF_INIT(0);
    stat_add_of(&calls, OUTCOME_NOT_GRPC, 1);
    refused(call);
    if (!call->head && buf_append(&body, text, sizeof(text) - 1))
        return h2_reset(call->stream, H2_INTERNAL_ERROR);
    h2_respond(call->stream, &(struct h2_response){headers, 3, &body, NULL, 0});
}

static void answer_ok(struct grpc_call *call, struct bytes message)
{
    const struct h2_header headers[] = {H2_HEADER(":status", "200"),
                                        H2_HEADER("content-type", "application/grpc")};
    const struct h2_header trailers[] = {H2_HEADER("grpc-status", "0")};
    uint8_t prefix[GRPC_PREFIX_SIZE];
    _cleanup_buf_ struct buf body = BUF_INIT(0);
    count_answer(call, GRPC_OK);
    call->answered = true;
    grpc_prefix_write(prefix, false, (uint32_t)message.len);
    if (buf_append(&body, prefix, sizeof(prefix)) || buf_append_bytes(&body, message))
        return h2_reset(call->stream, H2_INTERNAL_ERROR);
    h2_respond(call->stream, &(struct h2_response){headers, 2, &body, trailers, 1});
}

static int append_base64(struct buf *out, struct bytes in)
{
    int error = buf_reserve(out, 4 * ((in.len + 2) / 3) + 1);
    if (!error)
        out->len += bytes_to_base64(in, false, (char *)out->data + out->len);
    return error;
}

/* Both places where clients look for the pause: the details, and a trailer of RetryInfo alone. */
static int retry_texts(const struct otlp_answer *answer, struct buf *details, struct buf *info)
{
    _cleanup_buf_ struct buf message = BUF_INIT(0);
    int error = grpc_details_write(answer->grpc, BYTES_STR(answer->message), answer->retry_delay_ns,
                                   &message);
    error = error ? error : append_base64(details, buf_bytes(&message));
    buf_clear(&message);
    error = error ? error : grpc_retry_info_write(answer->retry_delay_ns, &message);
    return error ? error : append_base64(info, buf_bytes(&message));
}

/* Trailers alone: one block of headers that ends the stream. */
static void answer_error(struct grpc_call *call, const struct otlp_answer *answer)
{
    _cleanup_buf_ struct buf text = BUF_INIT(0), details = BUF_INIT(0), info = BUF_INIT(0);
    char code[4];
    size_t n = 4;
    bool retry = answer->retry_delay_ns != GRPC_NO_RETRY_INFO;
    assert(answer->message);
    count_answer(call, answer->grpc);
    refused(call);
    snprintf(code, sizeof(code), "%u", (unsigned)answer->grpc % 100);
    int error = grpc_percent_encode(BYTES_STR(answer->message), &text);
    if (!error && retry)
        error = retry_texts(answer, &details, &info);
    if (error)
        return h2_reset(call->stream, H2_INTERNAL_ERROR);
    struct h2_header headers[8] = {
        H2_HEADER(":status", "200"),
        H2_HEADER("content-type", "application/grpc"),
        H2_HEADER("grpc-status", code),
        {"grpc-message", buf_bytes(&text), false},
    };
    if (answer->grpc == GRPC_UNIMPLEMENTED)
        headers[n++] = H2_HEADER("grpc-accept-encoding", "identity,gzip,zstd");
    if (retry) {
        headers[n++] = (struct h2_header){"grpc-status-details-bin", buf_bytes(&details), false};
        headers[n++] = (struct h2_header){"google.rpc.retryinfo-bin", buf_bytes(&info), false};
    }
    h2_respond(call->stream, &(struct h2_response){.headers = headers, .n_headers = n});
}

/* The intake did not have it. */
static void refuse(struct grpc_call *call, const struct otlp_answer *answer)
{
    otlp_count_refused(call->route, answer);
    answer_error(call, answer);
}

static void fail(struct grpc_call *call, enum grpc_status status, const char *message)
{
    refuse(call, &(struct otlp_answer){status, 200, GRPC_NO_RETRY_INFO, message});
}

/* ---- headers ---- */

static void on_let_in(struct admission_request *request);
static void on_expired(struct admission_request *request);

int grpc_call_begin(struct h2_stream *stream, struct grpc_call_scope *scope)
{
    struct grpc_call *call = calloc(1, sizeof(*call));
    if (!call)
        return -ENOMEM;
    call->scope = scope;
    call->stream = stream;
    call->admission.let_in = on_let_in;
    call->admission.expired = on_expired;
    grpc_reader_init(&call->reader, scope->max_message_bytes);
    list_append(&scope->calls, &call->link);
    stream->owner = call;
    return 0;
}

/* application/grpc, application/grpc+proto, application/grpc;charset=... but not
 * application/grpc-web */
static bool is_grpc_type(struct bytes value)
{
    static const char type[] = "application/grpc";
    size_t n = sizeof(type) - 1;
    if (value.len < n || memcmp(value.data, type, n))
        return false;
    return value.len == n || value.data[n] == '+' || value.data[n] == ';';
}

static enum intake_encoding encoding_of(struct bytes value)
{
    if (bytes_is(value, "identity"))
        return ENCODING_IDENTITY;
    if (bytes_is(value, "gzip"))
        return ENCODING_GZIP;
    return bytes_is(value, "zstd") ? ENCODING_ZSTD : ENCODING_UNKNOWN;
}

static void set_path(struct grpc_call *call, struct bytes path)
{
    call->route = otlp_route_of_grpc(path);
    call->is_watch = call->scope->watches && bytes_is(path, HEALTH_WATCH_METHOD);
    call->is_health_check = call->is_watch || bytes_is(path, HEALTH_CHECK_METHOD);
}

void grpc_call_header(struct h2_stream *stream, struct bytes name, struct bytes value, bool trailer)
{
    struct grpc_call *call = call_of(stream);
    if (trailer)
        return;
    if (bytes_is(name, ":method")) {
        call->post = bytes_is(value, "POST");
        call->head = bytes_is(value, "HEAD");
    } else if (bytes_is(name, ":path"))
        set_path(call, value);
    else if (bytes_is(name, "content-type"))
        call->is_grpc = is_grpc_type(value);
    else if (bytes_is(name, "grpc-timeout"))
        call->bad_timeout = grpc_timeout_parse(value, &call->timeout_ns) != 0;
    else if (bytes_is(name, OTLP_PROFILES_VERSION_KEY)) {
        call->bad_version = call->version_given || !bytes_is(value, OTLP_PROFILES_VERSION);
        call->version_given = true;
    } else if (bytes_is(name, "grpc-encoding")) {
        call->encoding = encoding_of(value);
        call->encoding_given = true;
    }
}

/* False when answered. */
static bool check_route(struct grpc_call *call)
{
    if (!call->route)
        fail(call, GRPC_UNIMPLEMENTED, "unknown service or method");
    else if (!otlp_serves(call->scope->intake, call->scope->signals, call->route->signal))
        fail(call, GRPC_UNIMPLEMENTED, "no pipeline takes this signal");
    else if (call->route->signal == SIGNAL_PROFILES && call->bad_version)
        fail(call, GRPC_INVALID_ARGUMENT,
             "unknown " OTLP_PROFILES_VERSION_KEY ": version 1 is served");
    else
        return true;
    return false;
}

void grpc_call_headers(struct h2_stream *stream)
{
    struct grpc_call *call = call_of(stream);
    if (!call->post || !call->is_grpc) {
        call->http_status = call->post ? "415" : "405";
        return;
    }
    if (!call->is_health_check && !check_route(call))
        return;
    if (call->bad_timeout)
        return fail(call, GRPC_INVALID_ARGUMENT, "malformed grpc-timeout");
    if (call->timeout_ns && call->timeout_ns < UINT64_MAX - stream->begun_ns)
        h2_deadline(stream, stream->begun_ns + call->timeout_ns);
}

/* ---- the message ---- */

static void fail_reading(struct grpc_call *call, int outcome)
{
    static const struct otlp_answer answers[] = {
        [GRPC_READ_TOO_BIG] = {GRPC_RESOURCE_EXHAUSTED, 413, GRPC_NO_RETRY_INFO,
                               "the message is larger than allowed"},
        [GRPC_READ_TWICE] = {GRPC_INTERNAL, 400, GRPC_NO_RETRY_INFO,
                             "more than one message in a unary call"},
        [GRPC_READ_BAD_FLAG] = {GRPC_INTERNAL, 400, GRPC_NO_RETRY_INFO,
                                "malformed compressed flag"},
        [GRPC_READ_MISSING] = {GRPC_INTERNAL, 400, GRPC_NO_RETRY_INFO,
                               "no message in a unary call"},
        [GRPC_READ_TRUNCATED] = {GRPC_INTERNAL, 400, GRPC_NO_RETRY_INFO, "the message is cut off"},
    };
    struct otlp_answer busy = otlp_answer_of(INTAKE_BUSY, NULL);
    refuse(call, outcome < 0 ? &busy : &answers[outcome]); /* negative: no memory */
}

static void take_piece(struct grpc_call *call, struct bytes piece)
{
    if (call->http_status) {
        call->thrown_bytes += piece.len;
        if (call->thrown_bytes > THROWN_BYTES_MAX)
            answer_http(call);
        return;
    }
    if (!budget_take(call->scope->budget, piece.len)) {
        struct otlp_answer busy = otlp_answer_no_budget();
        return refuse(call, &busy);
    }
    call->budget_bytes += piece.len;
    int outcome = grpc_reader_feed(&call->reader, piece);
    if (outcome)
        return fail_reading(call, outcome);
    bool asks = !call->asked && !call->is_health_check && call->reader.n_prefix == GRPC_PREFIX_SIZE;
    if (!asks)
        return;
    call->asked = true;
    admission_ask(intake_admission(call->scope->intake), &call->admission, call->reader.size);
}

/* Whether more of it is; else its window stays as it is. */
static bool is_wanted(const struct grpc_call *call)
{
    if (call->http_status || call->is_health_check)
        return !call->answered;
    return admission_is_in(&call->admission);
}

void grpc_call_data(struct h2_stream *stream, struct bytes piece)
{
    struct grpc_call *call = call_of(stream);
    if (!call->answered)
        take_piece(call, piece);
    h2_consumed(stream, piece.len, is_wanted(call));
}

static void on_done(struct intake_request *request)
{
    struct grpc_call *call = container_of(request, struct grpc_call, request);
    call->at_intake = false;
    admission_leave(&call->admission);
    if (!call->stream) { /* nobody is left to be told */
        call_free(call);
        return;
    }
    if (request->outcome == INTAKE_ACCEPTED)
        return answer_ok(call, (struct bytes){0}); /* an empty response */
    struct otlp_answer answer = otlp_answer_of(request->outcome, request->message);
    answer_error(call, &answer);
}

static void submit(struct grpc_call *call)
{
    struct intake_request *request = &call->request;
    *request = (struct intake_request){
        .signal = call->route->signal,
        .encoding = call->reader.compressed ? call->encoding : ENCODING_IDENTITY,
        .body = call->reader.message,
        .max_inflated_bytes = call->scope->max_message_bytes,
        .done = on_done,
    };
    call->reader.message = (struct buf){0};
    call->at_intake = true;
    admission_received(&call->admission);
    give_budget(call); /* from here on the intake bounds it */
    intake_submit(call->scope->intake, request);
}

static uint32_t signals_served(const struct grpc_call_scope *scope)
{
    uint32_t mask = 0;
    for (enum signal signal = 0; signal < SIGNAL_COUNT; signal++)
        mask |= (uint32_t)otlp_serves(scope->intake, scope->signals, signal) << signal;
    return mask;
}

static int look_at_health(struct grpc_call *call, struct buf *response)
{
    const struct grpc_call_scope *scope = call->scope;
    struct bytes request = buf_bytes(&call->reader.message);
    uint32_t signals = signals_served(scope);
    if (call->reader.compressed)
        return GRPC_UNIMPLEMENTED;
    if (!call->is_watch)
        return health_check(scope->health, signals, request, response);
    return health_watch_begin(scope->watches, call->stream, signals, request, &call->watch);
}

static void answer_health(struct grpc_call *call)
{
    _cleanup_buf_ struct buf response = BUF_INIT(0);
    int outcome = look_at_health(call, &response);
    if (outcome < 0)
        return h2_reset(call->stream, H2_INTERNAL_ERROR);
    if (outcome)
        return fail(call, (enum grpc_status)outcome,
                    outcome == GRPC_NOT_FOUND            ? "unknown service"
                    : outcome == GRPC_RESOURCE_EXHAUSTED ? "too many watch already"
                                                         : "no plain HealthCheckRequest");
    give_budget(call);
    call->answered = true;
    if (!call->is_watch)
        answer_ok(call, buf_bytes(&response));
}

void grpc_call_end(struct h2_stream *stream)
{
    struct grpc_call *call = call_of(stream);
    if (call->answered)
        return;
    if (call->http_status)
        return answer_http(call);
    int outcome = grpc_reader_end(&call->reader);
    if (outcome)
        return fail_reading(call, outcome);
    if (call->is_health_check)
        return answer_health(call);
    bool compressed = call->reader.compressed;
    if (compressed && (!call->encoding_given || call->encoding == ENCODING_IDENTITY))
        return fail(call, GRPC_INTERNAL, "compressed flag without grpc-encoding");
    if (compressed && call->encoding == ENCODING_UNKNOWN)
        return fail(call, GRPC_UNIMPLEMENTED, "unknown grpc-encoding");
    call->whole = true;
    if (admission_is_in(&call->admission))
        submit(call);
}

static void on_let_in(struct admission_request *request)
{
    struct grpc_call *call = container_of(request, struct grpc_call, admission);
    if (call->whole)
        submit(call);
    else
        h2_expect(call->stream, call->reader.size - call->reader.message.len, STREAM_WINDOW);
}

static void on_expired(struct admission_request *request)
{
    struct otlp_answer busy = otlp_answer_no_budget();
    refuse(container_of(request, struct grpc_call, admission), &busy);
}

void grpc_call_closed(struct h2_stream *stream, uint32_t h2_error, bool unprocessed)
{
    struct grpc_call *call = call_of(stream);
    (void)h2_error, (void)unprocessed;
    if (!call->answered)
        stat_add_of(&calls, OUTCOME_PEER_GONE, 1);
    give_budget(call);
    health_watch_end(call->watch);
    call->stream = NULL;
    if (!call->at_intake)
        call_free(call);
}

void grpc_call_forget(struct grpc_call_scope *scope)
{
    struct list *link;
    while ((link = list_pop(&scope->calls))) {
        struct grpc_call *call = container_of(link, struct grpc_call, link);
        assert(!call->stream && call->at_intake);
        call->scope = NULL;
    }
}
