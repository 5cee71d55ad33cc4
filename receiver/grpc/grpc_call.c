/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call is refused as early as possible: at its headers, at the prefix of its message or at the
 * first byte beyond the limit. Bytes that arrive later return window to the connection only, so
 * other streams continue. A peer that does not speak gRPC gets an HTTP answer after its request is
 * complete: browsers and other tools treat an earlier answer as an error.
 *
 * A stream begins with a small window. The first bytes of a message give its length. A message that
 * fits into this window needs no admission. Once a longer one is admitted, there is room for the
 * whole message, and the window grows if needed.
 *
 * State          Event                                                  Next state
 * HEAD           headers of a gRPC call                                 BEGINNING
 *                another method or content type                         DISCARDING
 *                refused by its headers                                 ANSWERED
 * BEGINNING      the length of the message is known, and not small      WAITING
 *                the end of a small message                             AT_INTAKE
 *                a health check has come whole; refused                 ANSWERED
 * WAITING        admitted                                               ADMITTED
 *                the end of the message                                 COMPLETE
 *                refused                                                ANSWERED
 * ADMITTED       the end of the message                                 AT_INTAKE
 *                refused, or not complete when its time is over         ANSWERED
 * COMPLETE       admitted                                               AT_INTAKE
 * AT_INTAKE      the intake is done                                     ANSWERED
 *                the stream is closed                                   ABANDONED
 * DISCARDING     the end of the request, or too many bytes of it        ANSWERED
 *
 * When its stream is closed, a call in any other state than AT_INTAKE is freed; an ABANDONED one
 * when the intake is done.
 */
#include "receiver/grpc/grpc_call.h"
#include "base/clock.h"
#include "base/stats.h"
#include "proto/otlp/otlp_service.h"
#include "receiver/admission/admission.h"
#include "receiver/grpc/grpc_answer.h"
#include "receiver/grpc/health_watch.h"
#include "receiver/bearer.h"
#include "receiver/otlp_answer.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

/* Bytes discarded of a request that is not gRPC; a longer request is answered before its end. */
#define DISCARDED_BYTES_MAX (64 << 10)

#define STREAM_WINDOW (256 * 1024) /* of an admitted call */

enum call_state {
    CALL_HEAD,      /* headers are missing */
    CALL_BEGINNING, /* receiving, not admitted: the message is short, or its length unknown */
    CALL_WAITING,   /* for admission; the window stays small */
    CALL_ADMITTED,  /* receiving the rest of the message */
    CALL_COMPLETE,  /* the message is complete and waits for admission */
    CALL_AT_INTAKE,
    CALL_DISCARDING, /* not gRPC: the request is read and dropped, then answered as HTTP */
    CALL_ANSWERED,
    CALL_ABANDONED, /* at the intake, its stream is closed */
    CALL_STATES
};

#define STATE(name) (1u << CALL_##name)
/* The table above. */
static const unsigned next_states[CALL_STATES] = {
    [CALL_HEAD] = STATE(BEGINNING) | STATE(DISCARDING) | STATE(ANSWERED),
    [CALL_BEGINNING] = STATE(WAITING) | STATE(AT_INTAKE) | STATE(ANSWERED),
    [CALL_WAITING] = STATE(ADMITTED) | STATE(COMPLETE) | STATE(ANSWERED),
    [CALL_ADMITTED] = STATE(AT_INTAKE) | STATE(ANSWERED),
    [CALL_COMPLETE] = STATE(AT_INTAKE),
    [CALL_AT_INTAKE] = STATE(ANSWERED) | STATE(ABANDONED),
    [CALL_DISCARDING] = STATE(ANSWERED),
};

enum call_kind { CALL_EXPORT, CALL_HEALTH_CHECK, CALL_HEALTH_WATCH };

enum call_outcome {
    OUTCOME_ACCEPTED,
    OUTCOME_BUSY,
    OUTCOME_MALFORMED,
    OUTCOME_TOO_BIG,
    OUTCOME_UNAUTHENTICATED,
    OUTCOME_UNIMPLEMENTED,
    OUTCOME_NOT_GRPC,
    OUTCOME_PEER_GONE,
    OUTCOMES
};

static const char *const outcome_names[] = {
    [OUTCOME_ACCEPTED] = "accepted",           [OUTCOME_BUSY] = "busy",
    [OUTCOME_MALFORMED] = "malformed",         [OUTCOME_TOO_BIG] = "too_big",
    [OUTCOME_UNIMPLEMENTED] = "unimplemented", [OUTCOME_NOT_GRPC] = "not_grpc",
    [OUTCOME_PEER_GONE] = "peer_gone",         [OUTCOME_UNAUTHENTICATED] = "unauthenticated",
};
STAT_COUNTERS(calls, "spanprof_grpc_server_calls_total", "OTLP/gRPC calls, by how they ended.",
              STAT_LABEL("outcome", outcome_names, OUTCOMES));

/* The values of the headers. */
struct call_head {
    enum { METHOD_OTHER, METHOD_POST, METHOD_HEAD } method;
    bool is_grpc; /* by its content-type */
    enum { AUTHORIZATION_NONE, AUTHORIZATION_GOOD, AUTHORIZATION_BAD } authorization;
    bool bad_timeout;
    enum { VERSION_NONE, VERSION_SERVED, VERSION_UNKNOWN } version; /* of profiles */
    enum intake_encoding encoding;
    uint64_t timeout_ns; /* 0 = none */
};

struct grpc_call {
    struct list link; /* of the scope */
    struct grpc_call_scope *scope;
    struct h2_stream *stream; /* NULL: closed */
    enum call_state state;
    enum call_kind kind;
    struct call_head head;
    const struct otlp_route *route; /* of CALL_EXPORT; NULL: unknown path */
    struct grpc_reader reader;
    struct intake_request request;
    struct admission_request admission; /* not used by small ones */
    struct sender *sender;
    struct budget_hold budget;  /* of the scope's */
    struct health_watch *watch; /* of CALL_HEALTH_WATCH, once answered */
    size_t discarded_bytes;
};

static struct grpc_connection *owner_of(const struct h2_conn *h2)
{
    return h2_owner(h2);
}

static struct grpc_call *call_of(struct h2_stream *stream)
{
    return stream->owner;
}

/* The message fits into the first window, as far as is known. */
static bool call_is_small(const struct grpc_call *call)
{
    return call->reader.n_prefix < GRPC_PREFIX_SIZE ||
           call->reader.size <= ADMISSION_SMALL - GRPC_PREFIX_SIZE;
}

static void call_enter(struct grpc_call *call, enum call_state state)
{
    assert(next_states[call->state] & 1u << state);
    assert(state != CALL_AT_INTAKE || call_is_small(call) || admission_is_in(&call->admission));
    assert((state == CALL_ABANDONED) == !call->stream);
    call->state = state;
}

static void call_free(struct grpc_call *call)
{
    assert(!call->budget.bytes && call->state != CALL_AT_INTAKE);
    list_remove(&call->link);
    admission_leave(&call->admission);
    grpc_reader_close(&call->reader);
    sender_release(call->sender);
    free(call);
}

static void call_give_budget(struct grpc_call *call)
{
    if (call->budget.bytes)
        budget_give(call->scope->budget, &call->budget);
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
    case GRPC_UNAUTHENTICATED:
        return OUTCOME_UNAUTHENTICATED;
    case GRPC_UNIMPLEMENTED:
        return OUTCOME_UNIMPLEMENTED;
    default:
        return OUTCOME_MALFORMED;
    }
}

static void count_answer(const struct grpc_call *call, enum grpc_status status)
{
    if (call->kind == CALL_EXPORT)
        stat_add_of(&calls, outcome_of(status), 1);
}

/* The call is answered without the intake: releases what it holds. */
static void call_release(struct grpc_call *call)
{
    buf_close(&call->reader.message);
    call_give_budget(call);
    admission_leave(&call->admission);
}

static void answer_http(struct grpc_call *call)
{
    static const char text[] = "This port takes OTLP/gRPC: POST, content-type application/grpc\n";
    const char *status = call->head.method == METHOD_POST ? "415" : "405";
    const struct h2_header headers[] = {H2_HEADER(":status", status),
                                        H2_HEADER("content-type", "text/plain"),
                                        H2_HEADER("allow", "POST")};
    _cleanup_buf_ struct buf body = BUF_INIT(0);
    stat_add_of(&calls, OUTCOME_NOT_GRPC, 1);
    call_enter(call, CALL_ANSWERED);
    call_release(call);
    if (call->head.method != METHOD_HEAD && buf_append(&body, text, sizeof(text) - 1))
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
    call_enter(call, CALL_ANSWERED);
    grpc_prefix_write(prefix, false, (uint32_t)message.len);
    if (buf_append(&body, prefix, sizeof(prefix)) || buf_append_bytes(&body, message))
        return h2_reset(call->stream, H2_INTERNAL_ERROR);
    h2_respond(call->stream, &(struct h2_response){headers, 2, &body, trailers, 1});
}

static void answer_error(struct grpc_call *call, const struct otlp_answer *answer)
{
    count_answer(call, answer->grpc);
    call_enter(call, CALL_ANSWERED);
    call_release(call);
    grpc_answer_error(call->stream, answer);
}

/* Refuses a call that has not reached the intake. */
static void call_refuse(struct grpc_call *call, const struct otlp_answer *answer)
{
    otlp_count_refused(call->route, answer);
    answer_error(call, answer);
}

static void call_fail(struct grpc_call *call, enum grpc_status status, const char *message)
{
    call_refuse(call, &(struct otlp_answer){status, 200, GRPC_NO_RETRY_INFO, message});
}

/* ---- headers ---- */

static void on_admitted(struct admission_request *request);
static void on_expired(struct admission_request *request);

static void connection_count(struct grpc_connection *connection, int more)
{
    bool was_busy = connection->n_calls > 0;
    connection->n_calls += (size_t)more;
    if (connection->busy && was_busy != (connection->n_calls > 0))
        connection->busy(connection, !was_busy);
}

static int on_begin(struct h2_stream *stream)
{
    struct grpc_connection *connection = owner_of(stream->conn);
    struct grpc_call_scope *scope = connection->scope;
    struct grpc_call *call = calloc(1, sizeof(*call));
    if (!call)
        return -ENOMEM;
    call->scope = scope;
    call->sender = call->budget.sender = sender_hold(connection->sender);
    call->stream = stream;
    call->admission.let_in = on_admitted;
    call->admission.expired = on_expired;
    grpc_reader_init(&call->reader, scope->max_message_bytes);
    list_append(&scope->calls, &call->link);
    connection_count(connection, 1);
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
    call->kind = call->scope->watches && bytes_is(path, HEALTH_WATCH_METHOD) ? CALL_HEALTH_WATCH
                 : bytes_is(path, HEALTH_CHECK_METHOD)                       ? CALL_HEALTH_CHECK
                                                                             : CALL_EXPORT;
}

static void on_header(struct h2_stream *stream, struct bytes name, struct bytes value, bool trailer)
{
    struct grpc_call *call = call_of(stream);
    struct call_head *head = &call->head;
    if (trailer)
        return;
    if (bytes_is(name, ":method"))
        head->method = bytes_is(value, "POST")   ? METHOD_POST
                       : bytes_is(value, "HEAD") ? METHOD_HEAD
                                                 : METHOD_OTHER;
    else if (bytes_is(name, ":path"))
        set_path(call, value);
    else if (bytes_is(name, "content-type"))
        head->is_grpc = is_grpc_type(value);
    else if (bytes_is(name, "grpc-timeout"))
        head->bad_timeout = grpc_timeout_parse(value, &head->timeout_ns) != 0;
    else if (bytes_is(name, OTLP_PROFILES_VERSION_KEY)) /* given twice: unknown */
        head->version = head->version == VERSION_NONE && bytes_is(value, OTLP_PROFILES_VERSION)
                            ? VERSION_SERVED
                            : VERSION_UNKNOWN;
    else if (bytes_is(name, "authorization") && call->scope->bearer) /* given twice: bad */
        head->authorization =
            head->authorization == AUTHORIZATION_NONE && bearer_allows(call->scope->bearer, value)
                ? AUTHORIZATION_GOOD
                : AUTHORIZATION_BAD;
    else if (bytes_is(name, "grpc-encoding"))
        head->encoding = encoding_of(value);
}

/* false: the call was answered. */
static bool check_route(struct grpc_call *call)
{
    if (call->scope->bearer && call->head.authorization != AUTHORIZATION_GOOD)
        call_fail(call, GRPC_UNAUTHENTICATED, OTLP_NO_TOKEN);
    else if (!call->route)
        call_fail(call, GRPC_UNIMPLEMENTED, "unknown service or method");
    else if (!otlp_serves(call->scope->intake, call->scope->signals, call->route->signal))
        call_fail(call, GRPC_UNIMPLEMENTED, "no pipeline takes this signal");
    else if (call->route->signal == SIGNAL_PROFILES && call->head.version == VERSION_UNKNOWN)
        call_fail(call, GRPC_INVALID_ARGUMENT,
                  "unknown " OTLP_PROFILES_VERSION_KEY ": version 1 is served");
    else
        return true;
    return false;
}

static void on_headers(struct h2_stream *stream)
{
    struct grpc_call *call = call_of(stream);
    const struct call_head *head = &call->head;
    if (head->method != METHOD_POST || !head->is_grpc)
        return call_enter(call, CALL_DISCARDING);
    if (call->kind == CALL_EXPORT && !check_route(call))
        return;
    if (head->bad_timeout)
        return call_fail(call, GRPC_INVALID_ARGUMENT, "malformed grpc-timeout");
    call_enter(call, CALL_BEGINNING);
    if (head->timeout_ns && head->timeout_ns < UINT64_MAX - stream->begun_ns)
        h2_deadline(stream, stream->begun_ns + head->timeout_ns);
}

/* ---- the message ---- */

static void call_fail_reading(struct grpc_call *call, int outcome)
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
    call_refuse(call, outcome < 0 ? &busy : &answers[outcome]); /* negative: no memory */
}

static void call_discard(struct grpc_call *call, struct bytes piece)
{
    call->discarded_bytes += piece.len;
    if (call->discarded_bytes > DISCARDED_BYTES_MAX)
        answer_http(call);
}

static void call_receive(struct grpc_call *call, struct bytes piece)
{
    bool admitted = call->state == CALL_ADMITTED;
    if (!budget_take(call->scope->budget, &call->budget, piece.len, admitted)) {
        struct otlp_answer busy = otlp_answer_no_budget();
        return call_refuse(call, &busy);
    }
    if (admitted)
        admission_progress(&call->admission, piece.len);
    int outcome = grpc_reader_feed(&call->reader, piece);
    if (outcome)
        return call_fail_reading(call, outcome);
    if (call->state != CALL_BEGINNING || call->kind != CALL_EXPORT || call_is_small(call))
        return;
    call_enter(call, CALL_WAITING);
    admission_ask(intake_admission(call->scope->intake), call->sender, &call->admission,
                  call->reader.size);
}

/* Whether more of the message is wanted; if not, the stream gets no more window. */
static bool is_wanted(const struct grpc_call *call)
{
    return call->state == CALL_ADMITTED || call->state == CALL_DISCARDING ||
           (call->state == CALL_BEGINNING && call->kind != CALL_EXPORT);
}

static void on_data(struct h2_stream *stream, struct bytes piece)
{
    struct grpc_call *call = call_of(stream);
    if (call->state == CALL_DISCARDING)
        call_discard(call, piece);
    else if (call->state != CALL_ANSWERED)
        call_receive(call, piece);
    h2_consumed(stream, piece.len, is_wanted(call));
}

static void on_done(struct intake_request *request)
{
    struct grpc_call *call = container_of(request, struct grpc_call, request);
    call_give_budget(call);
    admission_leave(&call->admission);
    if (call->state == CALL_ABANDONED)
        return call_free(call);
    if (request->outcome == INTAKE_ACCEPTED)
        return answer_ok(call, (struct bytes){0}); /* an empty response */
    struct otlp_answer answer = otlp_answer_of(request->outcome, request->message);
    answer_error(call, &answer);
}

static void call_submit(struct grpc_call *call)
{
    struct intake_request *request = &call->request;
    *request = (struct intake_request){
        .signal = call->route->signal,
        .encoding = call->reader.compressed ? call->head.encoding : ENCODING_IDENTITY,
        .says_version = call->head.version == VERSION_SERVED,
        .body = call->reader.message,
        .max_inflated_bytes = call->scope->max_message_bytes,
        .peer = owner_of(call->stream->conn)->peer,
        .sender = call->sender,
        .done = on_done,
    };
    call->reader.message = (struct buf){0};
    call_enter(call, CALL_AT_INTAKE);
    if (admission_is_in(&call->admission)) {
        admission_received(&call->admission);
        call_give_budget(call); /* from here on its room bounds the bytes */
    }
    intake_submit(call->scope->intake, request);
}

static uint32_t signals_served(const struct grpc_call_scope *scope)
{
    uint32_t mask = 0;
    for (enum signal signal = 0; signal < SIGNAL_COUNT; signal++)
        mask |= (uint32_t)otlp_serves(scope->intake, scope->signals, signal) << signal;
    return mask;
}

static int check_health(struct grpc_call *call, struct buf *response)
{
    const struct grpc_call_scope *scope = call->scope;
    struct bytes request = buf_bytes(&call->reader.message);
    uint32_t signals = signals_served(scope);
    if (call->reader.compressed)
        return GRPC_UNIMPLEMENTED;
    if (call->kind == CALL_HEALTH_CHECK)
        return health_check(scope->health, signals, request, response);
    return health_watch_begin(scope->watches, call->stream, signals, request, &call->watch);
}

static void answer_health(struct grpc_call *call)
{
    _cleanup_buf_ struct buf response = BUF_INIT(0);
    int outcome = check_health(call, &response);
    if (outcome < 0)
        return h2_reset(call->stream, H2_INTERNAL_ERROR);
    if (outcome)
        return call_fail(call, (enum grpc_status)outcome,
                         outcome == GRPC_NOT_FOUND            ? "unknown service"
                         : outcome == GRPC_RESOURCE_EXHAUSTED ? "too many watch already"
                                                              : "no plain HealthCheckRequest");
    call_give_budget(call);
    if (call->kind == CALL_HEALTH_CHECK)
        answer_ok(call, buf_bytes(&response));
    else
        call_enter(call, CALL_ANSWERED);
}

static void on_end(struct h2_stream *stream)
{
    struct grpc_call *call = call_of(stream);
    if (call->state == CALL_ANSWERED)
        return;
    if (call->state == CALL_DISCARDING)
        return answer_http(call);
    int outcome = grpc_reader_end(&call->reader);
    if (outcome)
        return call_fail_reading(call, outcome);
    if (call->kind != CALL_EXPORT)
        return answer_health(call);
    bool compressed = call->reader.compressed;
    if (compressed && call->head.encoding == ENCODING_IDENTITY)
        return call_fail(call, GRPC_INTERNAL, "compressed flag without grpc-encoding");
    if (compressed && call->head.encoding == ENCODING_UNKNOWN)
        return call_fail(call, GRPC_UNIMPLEMENTED, "unknown grpc-encoding");
    if (call->state == CALL_ADMITTED || call->state == CALL_BEGINNING)
        call_submit(call);
    else
        call_enter(call, CALL_COMPLETE);
}

static void on_admitted(struct admission_request *request)
{
    struct grpc_call *call = container_of(request, struct grpc_call, admission);
    budget_admitted(&call->budget);
    if (call->state == CALL_COMPLETE)
        return call_submit(call);
    call_enter(call, CALL_ADMITTED);
    h2_expect(call->stream, call->reader.size - call->reader.message.len, STREAM_WINDOW);
}

static void on_expired(struct admission_request *request)
{
    struct otlp_answer busy = otlp_answer_no_budget();
    call_refuse(container_of(request, struct grpc_call, admission), &busy);
}

static void on_closed(struct h2_stream *stream, uint32_t h2_error, bool unprocessed)
{
    struct grpc_call *call = call_of(stream);
    (void)h2_error, (void)unprocessed;
    if (call->state != CALL_ANSWERED)
        stat_add_of(&calls, OUTCOME_PEER_GONE, 1);
    call_give_budget(call);
    health_watch_end(call->watch);
    connection_count(owner_of(stream->conn), -1);
    call->stream = NULL;
    if (call->state == CALL_AT_INTAKE)
        call_enter(call, CALL_ABANDONED);
    else
        call_free(call);
}

static void on_ended(struct h2_conn *h2, int error)
{
    struct grpc_connection *connection = owner_of(h2);
    connection->ended(connection, error);
}

const struct h2_handler grpc_call_handler = {
    .begin = on_begin,
    .header = on_header,
    .headers = on_headers,
    .data = on_data,
    .end = on_end,
    .closed = on_closed,
    .ended = on_ended,
};

void grpc_call_forget(struct grpc_call_scope *scope)
{
    struct list *link;
    while ((link = list_pop(&scope->calls))) {
        struct grpc_call *call = container_of(link, struct grpc_call, link);
        assert(call->state == CALL_ABANDONED);
        call->scope = NULL;
    }
}
