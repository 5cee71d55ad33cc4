/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The unary cases of gRPC's interoperability tests, asked by the channel, HTTP/2 and gRPC core of
 * the exporters. interop_client PORT CASE ends with 0 if the server answers as the case says.
 * Source of the format: grpc/testing/{test,messages}.proto; of the cases: gRPC's
 * interop-test-descriptions.md.
 */
#include "base/clock.h"
#include "exporter/otlp/channel.h"
#include "proto/http/grpc.h"
#include "proto/wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SERVICE        "/grpc.testing.TestService/"
#define ECHO_INITIAL   "x-grpc-test-echo-initial"
#define ECHO_TRAILING  "x-grpc-test-echo-trailing-bin"
#define INITIAL        "test_initial_metadata_value"
#define TRAILING       "q6ur" /* 0xababab */
#define LARGE_REQUEST  271828
#define LARGE_RESPONSE 314159
#define MESSAGE_MAX    (4u << 20)
#define PATIENCE_NS    (20 * NS_PER_SEC)
#define CALLS          64
#define SPECIAL                                                                                    \
    "\t\ntest with whitespace\r\nand Unicode BMP \xe2\x98\xba and non-BMP \xf0\x9f\x98\x88\t\n"

struct call {
    struct channel_waiter waiter;
    const char *path, *error;
    bool echo;
    struct buf body;
    struct h2_stream *stream;
    struct grpc_reader reader;
    struct buf message, initial, trailing;
    enum grpc_status status;
    bool has_status, closed;
};

static struct loop *loop;
static struct channel *channel;

static void must(int error)
{
    if (error)
        abort();
}

/* ---- one call ---- */

static void on_header(struct h2_stream *stream, struct bytes name, struct bytes value, bool trailer)
{
    struct call *call = stream->owner;
    if (bytes_is(name, "grpc-status")) {
        call->status = grpc_status_parse(value);
        call->has_status = true;
    } else if (bytes_is(name, "grpc-message")) {
        must(grpc_percent_decode(value, &call->message));
    } else if (bytes_is(name, ECHO_INITIAL) && !trailer) {
        must(buf_append_bytes(&call->initial, value));
    } else if (bytes_is(name, ECHO_TRAILING) && trailer) {
        must(buf_append_bytes(&call->trailing, value));
    }
}

static void on_data(struct h2_stream *stream, struct bytes piece)
{
    struct call *call = stream->owner;
    h2_consumed(stream, piece.len, true);
    if (grpc_reader_feed(&call->reader, piece))
        call->error = "the answer is malformed";
}

static void on_closed(struct h2_stream *stream, uint32_t h2_error, bool unprocessed)
{
    struct call *call = stream->owner;
    (void)h2_error, (void)unprocessed;
    call->stream = NULL;
    call->closed = true;
}

static const struct h2_handler handler = {
    .header = on_header, .data = on_data, .closed = on_closed};

static void on_connection(struct channel_waiter *waiter, struct h2_conn *conn, const char *why)
{
    struct call *call = container_of(waiter, struct call, waiter);
    struct h2_header headers[10] = {
        H2_HEADER(":method", "POST"),   H2_HEADER(":scheme", "http"),
        H2_HEADER(":path", call->path), H2_HEADER(":authority", "127.0.0.1"),
        H2_HEADER("te", "trailers"),    H2_HEADER("content-type", "application/grpc"),
    };
    size_t n = 6;
    if (call->echo) {
        headers[n++] = H2_HEADER(ECHO_INITIAL, INITIAL);
        headers[n++] = H2_HEADER(ECHO_TRAILING, TRAILING);
    }
    if (!conn || h2_request(conn, headers, n, buf_bytes(&call->body), call, &call->stream)) {
        fprintf(stderr, "cannot send: %s\n", why ? why : "no stream");
        exit(1);
    }
}

static void call_begin(struct call *call, const char *path, struct bytes message)
{
    uint8_t prefix[GRPC_PREFIX_SIZE];
    call->path = path;
    call->waiter.ready = on_connection;
    grpc_reader_init(&call->reader, MESSAGE_MAX);
    grpc_prefix_write(prefix, false, (uint32_t)message.len);
    must(buf_append(&call->body, prefix, sizeof(prefix)));
    must(buf_append_bytes(&call->body, message));
    channel_want(channel, &call->waiter);
}

static void call_end(struct call *call)
{
    uint64_t due_ns = clock_monotonic_ns() + PATIENCE_NS;
    while (!call->closed && clock_monotonic_ns() < due_ns)
        must(loop_once(loop, 100) < 0);
    if (!call->closed)
        call->error = "no answer";
    else if (!call->has_status && !call->error)
        call->error = "no grpc-status";
}

static void call_close(struct call *call)
{
    grpc_reader_close(&call->reader);
    buf_close(&call->body);
    buf_close(&call->message);
    buf_close(&call->initial);
    buf_close(&call->trailing);
}

/* NULL if the answer is that. */
static const char *differs(const struct call *call, enum grpc_status status, const char *message)
{
    if (call->error)
        return call->error;
    if (call->status != status)
        return "another status";
    return message && !bytes_is(buf_bytes(&call->message), message) ? "another message" : NULL;
}

/* ---- messages ---- */

/* SimpleRequest: response_size = 2, payload = 3 {body = 2}, response_status = 7 {code, message}. */
static void write_request(struct buf *out, size_t response_size, size_t payload)
{
    struct wire_nest nest;
    uint8_t *zeros = calloc(payload + 1, 1);
    must(!zeros);
    must(wire_put_varint(out, 2, response_size));
    must(wire_begin(out, 3, payload + 16, &nest));
    must(wire_put_bytes(out, 2, BYTES(zeros, payload)));
    wire_end(out, &nest);
    free(zeros);
}

static void write_status_request(struct buf *out, const char *message)
{
    struct wire_nest nest;
    must(wire_begin(out, 7, 256, &nest));
    must(wire_put_varint(out, 1, GRPC_UNKNOWN));
    must(wire_put_bytes(out, 2, BYTES_STR(message)));
    wire_end(out, &nest);
}

/* SimpleResponse: payload = 1 {body = 2}. */
static size_t response_size(const struct call *call)
{
    struct wire_reader outer = wire_read(buf_bytes(&call->reader.message));
    struct wire_field field, inner;
    while (wire_next(&outer, &field) == WIRE_FIELD) {
        struct wire_reader payload = wire_read(field.bytes);
        while (field.number == 1 && wire_next(&payload, &inner) == WIRE_FIELD)
            if (inner.number == 2)
                return inner.bytes.len;
    }
    return 0;
}

/* ---- cases: NULL, or what is wrong ---- */

static const char *no_message(const char *path, enum grpc_status status)
{
    struct call call = {0};
    call_begin(&call, path, (struct bytes){0});
    call_end(&call);
    const char *wrong = differs(&call, status, NULL);
    if (!wrong && status == GRPC_OK && (grpc_reader_end(&call.reader) || call.reader.size))
        wrong = "not one empty message";
    call_close(&call);
    return wrong;
}

static const char *empty_unary(void)
{
    return no_message(SERVICE "EmptyCall", GRPC_OK);
}

static const char *unimplemented_method(void)
{
    return no_message(SERVICE "UnimplementedCall", GRPC_UNIMPLEMENTED);
}

static const char *unimplemented_service(void)
{
    return no_message("/grpc.testing.UnimplementedService/UnimplementedCall", GRPC_UNIMPLEMENTED);
}

static const char *large(size_t n)
{
    static struct call calls[CALLS];
    _cleanup_buf_ struct buf request = BUF_INIT(0);
    const char *wrong = NULL;
    write_request(&request, LARGE_RESPONSE, LARGE_REQUEST);
    for (size_t i = 0; i < n; i++)
        call_begin(&calls[i], SERVICE "UnaryCall", buf_bytes(&request));
    for (size_t i = 0; i < n; i++) {
        call_end(&calls[i]);
        wrong = wrong ? wrong : differs(&calls[i], GRPC_OK, NULL);
        if (!wrong &&
            (grpc_reader_end(&calls[i].reader) || response_size(&calls[i]) != LARGE_RESPONSE))
            wrong = "another response";
        call_close(&calls[i]);
    }
    return wrong;
}

static const char *large_unary(void)
{
    return large(1);
}

static const char *concurrent_large_unary(void)
{
    return large(CALLS);
}

static const char *echo_status(const char *message)
{
    _cleanup_buf_ struct buf request = BUF_INIT(0);
    struct call call = {0};
    write_status_request(&request, message);
    call_begin(&call, SERVICE "UnaryCall", buf_bytes(&request));
    call_end(&call);
    const char *wrong = differs(&call, GRPC_UNKNOWN, message);
    call_close(&call);
    return wrong;
}

static const char *status_code_and_message(void)
{
    return echo_status("test status message");
}

static const char *special_status_message(void)
{
    return echo_status(SPECIAL);
}

static const char *custom_metadata(void)
{
    _cleanup_buf_ struct buf request = BUF_INIT(0);
    struct call call = {.echo = true};
    write_request(&request, 1, 1);
    call_begin(&call, SERVICE "UnaryCall", buf_bytes(&request));
    call_end(&call);
    const char *wrong = differs(&call, GRPC_OK, NULL);
    if (!wrong && !bytes_is(buf_bytes(&call.initial), INITIAL))
        wrong = "other headers";
    if (!wrong && !bytes_is(buf_bytes(&call.trailing), TRAILING))
        wrong = "other trailers";
    call_close(&call);
    return wrong;
}

static const struct {
    const char *name;
    const char *(*run)(void);
} cases[] = {
    {"empty_unary", empty_unary},
    {"large_unary", large_unary},
    {"concurrent_large_unary", concurrent_large_unary},
    {"status_code_and_message", status_code_and_message},
    {"special_status_message", special_status_message},
    {"custom_metadata", custom_metadata},
    {"unimplemented_method", unimplemented_method},
    {"unimplemented_service", unimplemented_service},
};

static void open_channel(unsigned port)
{
    static struct config_endpoint endpoint = {.host = "127.0.0.1", .set = true};
    static const struct config_keepalive keepalive;
    endpoint.port = (uint16_t)port;
    must(loop_open(&loop));
    must(channel_open(&(struct channel_settings){.loop = loop,
                                                 .endpoint = &endpoint,
                                                 .connect_timeout_ns = PATIENCE_NS,
                                                 .keepalive = &keepalive,
                                                 .handler = &handler},
                      &channel));
}

int main(int argc, char **argv)
{
    const char *wrong = "no such case";
    if (argc != 3)
        return 2;
    open_channel((unsigned)strtoul(argv[1], NULL, 10));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (strcmp(cases[i].name, argv[2]) == 0)
            wrong = cases[i].run();
    if (wrong)
        fprintf(stderr, "%s: %s\n", argv[2], wrong);
    channel_close(channel);
    loop_close(loop);
    return wrong != NULL;
}
