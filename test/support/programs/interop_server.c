/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grpc.testing.TestService on the HTTP/2 and gRPC core of the receivers, for the interoperability
 * clients of gRPC: its unary methods, and of FullDuplexCall what one message asks for. Beside that
 * spans are taken, counted and thrown away, for benchmarks. Prints its port, then how many have
 * come, until it is killed. Source of the format: grpc/testing/{test,messages}.proto.
 */
#include "base/clock.h"
#include "proto/codec.h"
#include "proto/http/grpc.h"
#include "proto/http/h2.h"
#include "proto/otlp/otlp_spans.h"
#include "proto/wire.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define SERVICE        "/grpc.testing.TestService/"
#define ECHO_INITIAL   "x-grpc-test-echo-initial"
#define ECHO_TRAILING  "x-grpc-test-echo-trailing-bin"
#define MESSAGE_MAX    (4u << 20)
#define STREAM_WINDOW  (256u << 10)
#define REQUEST_MAX_NS (60 * NS_PER_SEC)
#define REPORT_NS      (100 * NS_PER_MS)

enum method {
    EMPTY_CALL,
    UNARY_CALL,
    FULL_DUPLEX_CALL,
    STREAMING_INPUT_CALL,
    OTLP_EXPORT,
    METHODS
};
static const char *const paths[METHODS] = {
    SERVICE "EmptyCall", SERVICE "UnaryCall", SERVICE "FullDuplexCall",
    SERVICE "StreamingInputCall", "/opentelemetry.proto.collector.trace.v1.TraceService/Export"};

struct call {
    enum method method; /* METHODS: none of ours */
    struct grpc_reader reader;
    struct buf initial, trailing; /* to be sent back */
    bool answered;
};

/* What a SimpleRequest or StreamingOutputCallRequest asks for. */
struct wish {
    size_t response_size;
    uint64_t status;
    struct bytes message;
};

static struct loop *loop;
static uint64_t n_spans;

static void on_report(struct timer *timer)
{
    (void)timer;
    printf("%" PRIu64 "\n", n_spans);
    fflush(stdout);
}

static struct timer report = {.fire = on_report};

static void must(int error)
{
    if (error)
        abort();
}

/* ---- what is asked for ---- */

static void read_status(struct bytes message, struct wish *wish)
{
    struct wire_reader reader = wire_read(message);
    struct wire_field field;
    while (wire_next(&reader, &field) == WIRE_FIELD) {
        if (field.number == 1 && field.type == WIRE_VARINT)
            wish->status = field.value;
        else if (field.number == 2 && field.type == WIRE_BYTES)
            wish->message = field.bytes;
    }
}

static void read_parameters(struct bytes message, struct wish *wish)
{
    struct wire_reader reader = wire_read(message);
    struct wire_field field;
    while (wire_next(&reader, &field) == WIRE_FIELD)
        if (field.number == 1 && field.type == WIRE_VARINT)
            wish->response_size = field.value;
}

static struct wish read_wish(const struct call *call)
{
    struct wire_reader reader = wire_read(buf_bytes(&call->reader.message));
    struct wire_field field;
    struct wish wish = {0};
    while (wire_next(&reader, &field) == WIRE_FIELD) {
        if (field.number == 2 && field.type == WIRE_VARINT)
            wish.response_size = field.value;
        else if (field.number == 2 && field.type == WIRE_BYTES)
            read_parameters(field.bytes, &wish);
        else if (field.number == 7 && field.type == WIRE_BYTES)
            read_status(field.bytes, &wish);
    }
    return wish;
}

/* ---- answers ---- */

/* SimpleResponse and StreamingOutputCallResponse begin alike: payload = 1 {body = 2}. */
static void write_response(struct buf *out, size_t size)
{
    struct wire_nest nest;
    uint8_t *zeros = calloc(size ? size : 1, 1);
    must(!zeros || size > MESSAGE_MAX);
    must(wire_begin(out, 1, MESSAGE_MAX + 16, &nest));
    must(wire_put_bytes(out, 2, BYTES(zeros, size)));
    wire_end(out, &nest);
    free(zeros);
}

static void write_message(struct buf *out, struct bytes message)
{
    uint8_t prefix[GRPC_PREFIX_SIZE];
    grpc_prefix_write(prefix, false, (uint32_t)message.len);
    must(buf_append(out, prefix, sizeof(prefix)));
    must(buf_append_bytes(out, message));
}

static void answer(struct h2_stream *stream, uint64_t status, struct bytes text, struct buf *body)
{
    struct call *call = stream->owner;
    _cleanup_buf_ struct buf encoded = BUF_INIT(0);
    struct h2_header headers[3] = {H2_HEADER(":status", "200"),
                                   H2_HEADER("content-type", "application/grpc")};
    struct h2_header trailers[3];
    char code[24];
    size_t n_headers = 2, n_trailers = 0;
    snprintf(code, sizeof(code), "%llu", (unsigned long long)status);
    must(grpc_percent_encode(text, &encoded));
    if (call->initial.len)
        headers[n_headers++] = (struct h2_header){ECHO_INITIAL, buf_bytes(&call->initial), false};
    trailers[n_trailers++] = H2_HEADER("grpc-status", code);
    if (text.len)
        trailers[n_trailers++] = (struct h2_header){"grpc-message", buf_bytes(&encoded), false};
    if (call->trailing.len)
        trailers[n_trailers++] =
            (struct h2_header){ECHO_TRAILING, buf_bytes(&call->trailing), false};
    call->answered = true;
    h2_respond(stream, &(struct h2_response){headers, n_headers, body, trailers, n_trailers});
}

static uint64_t count_spans(const struct grpc_reader *reader)
{
    _cleanup_buf_ struct buf plain = BUF_INIT(0);
    if (!reader->compressed)
        return otlp_spans_count(buf_bytes(&reader->message));
    must(codec_inflate_gzip(buf_bytes(&reader->message), 8 * MESSAGE_MAX, &plain));
    return otlp_spans_count(buf_bytes(&plain));
}

static void answer_call(struct h2_stream *stream, bool has_message)
{
    struct call *call = stream->owner;
    _cleanup_buf_ struct buf response = BUF_INIT(0), body = BUF_INIT(0);
    if (call->method == METHODS)
        return answer(stream, GRPC_UNIMPLEMENTED, BYTES_LIT("not here"), NULL);
    bool is_empty = call->method == EMPTY_CALL || call->method == OTLP_EXPORT;
    struct wish wish = is_empty ? (struct wish){0} : read_wish(call);
    if (call->method == OTLP_EXPORT) {
        n_spans += count_spans(&call->reader);
        if (!report.due_ns)
            timer_start(loop, &report, REPORT_NS);
    }
    if (!is_empty && has_message)
        write_response(&response, wish.response_size);
    if (!wish.status && has_message)
        write_message(&body, buf_bytes(&response));
    answer(stream, wish.status, wish.message, &body);
}

/* ---- calls ---- */

static int on_begin(struct h2_stream *stream)
{
    struct call *call = calloc(1, sizeof(*call));
    must(!call);
    call->method = METHODS;
    grpc_reader_init(&call->reader, MESSAGE_MAX);
    stream->owner = call;
    return 0;
}

static void on_header(struct h2_stream *stream, struct bytes name, struct bytes value, bool trailer)
{
    struct call *call = stream->owner;
    uint64_t timeout_ns;
    (void)trailer;
    if (bytes_is(name, ":path"))
        for (enum method method = 0; method < METHODS; method++)
            call->method = bytes_is(value, paths[method]) ? method : call->method;
    else if (bytes_is(name, ECHO_INITIAL))
        must(buf_append_bytes(&call->initial, value));
    else if (bytes_is(name, ECHO_TRAILING))
        must(buf_append_bytes(&call->trailing, value));
    else if (bytes_is(name, "grpc-timeout") && grpc_timeout_parse(value, &timeout_ns) == 0)
        h2_deadline(stream, stream->begun_ns + timeout_ns);
}

/* A stream of messages goes on until it is told: an answer to the first one ends it. */
static bool is_answered_early(const struct call *call)
{
    return call->method == FULL_DUPLEX_CALL && call->reader.n_prefix == GRPC_PREFIX_SIZE &&
           call->reader.message.len == call->reader.size;
}

static void on_data(struct h2_stream *stream, struct bytes piece)
{
    struct call *call = stream->owner;
    h2_consumed(stream, piece.len, true);
    if (call->answered)
        return;
    int outcome = grpc_reader_feed(&call->reader, piece);
    if (outcome)
        answer(stream, GRPC_INTERNAL, BYTES_LIT("malformed"), NULL);
    else if (is_answered_early(call))
        answer_call(stream, true);
}

static void on_end(struct h2_stream *stream)
{
    struct call *call = stream->owner;
    if (call->answered)
        return;
    bool has_message = grpc_reader_end(&call->reader) == GRPC_READ_OK;
    if (!has_message && call->method != FULL_DUPLEX_CALL && call->method != METHODS)
        answer(stream, GRPC_INTERNAL, BYTES_LIT("no message"), NULL);
    else
        answer_call(stream, has_message);
}

static void on_closed(struct h2_stream *stream, uint32_t h2_error, bool unprocessed)
{
    struct call *call = stream->owner;
    (void)h2_error, (void)unprocessed;
    grpc_reader_close(&call->reader);
    buf_close(&call->initial);
    buf_close(&call->trailing);
    free(call);
}

static void on_ended(struct h2_conn *conn, int error)
{
    (void)error;
    h2_close(conn);
}

static const struct h2_handler handler = {.begin = on_begin,
                                          .header = on_header,
                                          .data = on_data,
                                          .end = on_end,
                                          .closed = on_closed,
                                          .ended = on_ended};

/* ---- the program ---- */

static void on_acceptable(struct watch *watch, uint32_t events)
{
    static const struct h2_settings settings = {.server = true,
                                                .max_streams = 100,
                                                .stream_window = STREAM_WINDOW,
                                                .connection_window = 4 * STREAM_WINDOW,
                                                .handshake_timeout_ns = REQUEST_MAX_NS,
                                                .header_timeout_ns = REQUEST_MAX_NS,
                                                .request_timeout_ns = REQUEST_MAX_NS,
                                                .write_timeout_ns = REQUEST_MAX_NS};
    struct h2_conn *conn;
    int fd = accept4(watch->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    (void)events;
    if (fd >= 0)
        must(h2_open(loop, fd, &settings, &handler, NULL, &conn));
}

int main(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct watch watch = {.fd = fd, .events = EPOLLIN, .ready = on_acceptable};
    must(bind(fd, (struct sockaddr *)&address, size) || listen(fd, 64) ||
         getsockname(fd, (struct sockaddr *)&address, &size));
    must(loop_open(&loop) || watch_start(loop, &watch));
    printf("%u\n", ntohs(address.sin_port));
    fflush(stdout);
    return loop_run(loop) != 0;
}
