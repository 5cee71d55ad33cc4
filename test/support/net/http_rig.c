/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/net/http_rig.h"
#include "base/clock.h"
#include "test/support/net/h2_end.h"
#include "test/support/net/otlp_client.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

/* ---- rig ---- */

int http_rig_start(struct http_rig *rig, uint64_t idle_timeout_ns)
{
    struct listen_sockets sockets;
    rig->config = (struct config_otlp_http_server){
        .endpoint = {.host = "localhost"},
        .max_request_body_size_bytes = BODY_MAX,
        .max_connections = CONNECTIONS_MAX,
        .idle_timeout_ns = idle_timeout_ns,
    };
    int error = listen_open(&rig->config.endpoint, "http::endpoint", &sockets, NULL);
    if (error)
        return error;
    rig->port = sockets.port;
    const struct http_server_settings settings = {
        .loop = rig->loop, .intake = &rig->intake, .budget = &rig->budget, .config = &rig->config};
    return http_server_open(&settings, &sockets, &rig->server);
}

int http_rig_setup(void **state)
{
    struct http_rig *rig = calloc(1, sizeof(*rig));
    if (!rig || loop_open(&rig->loop))
        return -1;
    *state = rig;
    fake_intake_open(&rig->intake, rig->loop);
    rig->budget.limit_bytes = 1 << 20;
    return http_rig_start(rig, 60 * NS_PER_SEC);
}

int http_rig_teardown(void **state)
{
    struct http_rig *rig = *state;
    http_server_close(rig->server);
    fake_intake_close(&rig->intake);
    int error = rig->budget.used_bytes ? -1 : 0;
    loop_close(rig->loop);
    free(rig);
    return error;
}

/* ---- talking ---- */

void talk_open(struct talk *talk, struct http_rig *rig)
{
    *talk = (struct talk){.rig = rig, .fd = otlp_client_connect(rig->port, false)};
    assert_true(talk->fd >= 0);
}

void talk_close(struct talk *talk)
{
    close(talk->fd);
    buf_close(&talk->out);
    buf_close(&talk->in);
}

static void talk_pump(struct talk *talk)
{
    uint8_t piece[16384];
    ssize_t n;
    while (talk->out.len && (n = send(talk->fd, talk->out.data, talk->out.len, MSG_NOSIGNAL)) > 0)
        buf_consume(&talk->out, (size_t)n);
    while ((n = recv(talk->fd, piece, sizeof(piece), 0)) > 0)
        assert_int_equal(buf_append(&talk->in, piece, (size_t)n), 0);
    talk->closed |= n == 0 || errno == ECONNRESET;
}

/* The length of the first answer in what came, 0 if it is not whole yet. */
static size_t talk_answer_length(const struct talk *talk)
{
    const char *text = (const char *)talk->in.data;
    const char *end = talk->in.len ? memmem(text, talk->in.len, "\r\n\r\n", 4) : NULL;
    if (!end)
        return 0;
    size_t head = (size_t)(end - text) + 4, body = 0;
    if (!strncmp(text, "HTTP/1.1 100", 12))
        return head;
    const char *length = memmem(text, head, "Content-Length: ", 16);
    if (length)
        body = strtoul(length + 16, NULL, 10);
    return talk->in.len >= head + body ? head + body : 0;
}

static bool answered_or_closed(void *context)
{
    struct talk *talk = context;
    talk_pump(talk);
    return talk_answer_length(talk) || talk->closed;
}

bool talk_closed(void *context)
{
    struct talk *talk = context;
    talk_pump(talk);
    return talk->closed;
}

static bool never(void *context)
{
    if (context)
        talk_pump(context);
    return false;
}

void http_rig_pause(struct http_rig *rig, struct talk *talk, int ms)
{
    h2_run_loop(rig->loop, never, talk, ms);
}

/* The status of the next answer; 0: the connection was closed without one. */
unsigned talk_hear(struct talk *talk)
{
    assert_true(h2_run_loop(talk->rig->loop, answered_or_closed, talk, 10000));
    return talk_answer_length(talk) ? (unsigned)strtoul((char *)talk->in.data + 9, NULL, 10) : 0;
}

void talk_forget(struct talk *talk)
{
    buf_consume(&talk->in, talk_answer_length(talk));
}

struct bytes talk_body(const struct talk *talk)
{
    const uint8_t *end = memmem(talk->in.data, talk->in.len, "\r\n\r\n", 4);
    return BYTES(end + 4, talk_answer_length(talk) - (size_t)(end + 4 - talk->in.data));
}

bool talk_has(const struct talk *talk, const char *line)
{
    char text[256];
    snprintf(text, sizeof(text), "\r\n%s\r\n", line);
    return memmem(talk->in.data, talk_answer_length(talk), text, strlen(text)) != NULL;
}

/* A request with these header lines (each with its end), and body as it is. */
void talk_say(struct talk *talk, const char *method, const char *path, const char *lines,
              struct bytes body)
{
    assert_int_equal(
        buf_printf(&talk->out, "%s %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n", method, path, lines),
        0);
    assert_int_equal(buf_append_bytes(&talk->out, body), 0);
}

void talk_send(struct talk *talk)
{
    talk_pump(talk);
    assert_int_equal(talk->out.len, 0);
}

void talk_say_traces(struct talk *talk, const char *lines, struct bytes body)
{
    char all[512];
    snprintf(all, sizeof(all), PROTOBUF "Content-Length: %zu\r\n%s", body.len, lines);
    talk_say(talk, "POST", "/v1/traces", all, body);
}
