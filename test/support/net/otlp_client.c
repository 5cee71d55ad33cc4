/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/net/otlp_client.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

int otlp_client_connect(uint16_t port, bool v6)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 in6 = {
        .sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    if (connect(fd, v6 ? (struct sockaddr *)&in6 : (struct sockaddr *)&in,
                v6 ? sizeof(in6) : sizeof(in))) {
        int error = -errno;
        close(fd);
        return error;
    }
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

void otlp_client_open(struct h2_end *end, struct loop *loop, uint16_t port)
{
    const struct h2_settings settings = h2_pair_settings(&(struct h2_settings){0}, false);
    int fd = otlp_client_connect(port, false);
    if (fd < 0 || h2_open(loop, fd, &settings, &h2_end_handler, end, &end->conn))
        abort();
}

static void append(struct buf *out, struct bytes bytes)
{
    if (buf_append_bytes(out, bytes))
        abort();
}

struct h2_end_stream *otlp_client_send(struct h2_end *end, const struct otlp_client_call *call)
{
    uint8_t prefix[GRPC_PREFIX_SIZE];
    struct buf body = BUF_INIT(0);
    struct h2_header headers[8] = {
        H2_HEADER(":method", call->method ? call->method : "POST"),
        H2_HEADER(":scheme", "http"),
        H2_HEADER(":path", call->path ? call->path : OTLP_TRACES_PATH),
        H2_HEADER(":authority", "localhost"),
        H2_HEADER("te", "trailers"),
        H2_HEADER("content-type", call->content_type ? call->content_type : "application/grpc"),
    };
    size_t n = 6;
    if (call->encoding)
        headers[n++] = H2_HEADER("grpc-encoding", call->encoding);
    if (call->timeout)
        headers[n++] = H2_HEADER("grpc-timeout", call->timeout);
    if (!call->no_message) {
        size_t announced = call->announced ? call->announced : call->message.len;
        grpc_prefix_write(prefix, call->compressed, (uint32_t)announced);
        append(&body, BYTES(prefix, sizeof(prefix)));
        append(&body, call->message);
    }
    append(&body, call->behind);
    return h2_end_request(end, headers, n, &body);
}

static const char *find(const char *text, const char *name)
{
    size_t n = strlen(name);
    for (const char *line = text; *line; line = strchr(line, '\n') + 1)
        if (!strncmp(line, name, n) && !strncmp(line + n, ": ", 2))
            return line + n + 2;
    return NULL;
}

bool otlp_client_value(struct h2_end_stream *stream, const char *name, char *out, size_t size)
{
    const char *value = find(h2_end_headers(stream), name);
    if (!value)
        value = find(h2_end_trailers(stream), name);
    if (value)
        snprintf(out, size, "%.*s", (int)strcspn(value, "\n"), value);
    return value != NULL;
}

int otlp_client_number(struct h2_end_stream *stream, const char *name)
{
    char text[32], *end;
    if (!otlp_client_value(stream, name, text, sizeof(text)) || !*text)
        return -1;
    long number = strtol(text, &end, 10);
    return *end ? -1 : (int)number;
}
