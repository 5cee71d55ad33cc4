/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server may close a persistent connection just when the next request is sent on it. If no byte
 * of an answer has come, the request is sent again at once on a new connection. It may then arrive
 * twice, which OTLP allows.
 */
#include "exporter/otlp/otlp_http.h"
#include "base/clock.h"
#include "exporter/otlp/dialer.h"
#include "exporter/otlp/otlp_http_answer.h"
#include "proto/codec.h"
#include "proto/http/http_client.h"
#include "proto/otlp/otlp_json.h"
#include "proto/otlp/otlp_schema.h"
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define ANSWER_BYTES_MAX (64u << 10)
#define JSON_GROWTH      16 /* limit of JSON size / protobuf size; far above real requests */

/* A connection for one signal's URL; one call at a time. */
struct otlp_http_connection {
    struct otlp_http *client;
    enum signal signal;
    const struct config_url *url;
    const char *suffix; /* appended to the URL's path */
    struct dialer dialer;
    struct http_client *connection; /* NULL: none */
    bool kept;                      /* it has carried a request before */
    struct otlp_http_call *call;    /* under way; NULL: none */
    struct timer begin, timeout, idle;
};

struct otlp_http {
    struct otlp_http_settings settings;
    char user_agent[64];
    size_t n_connections; /* of each signal */
    struct otlp_http_connection *connections[SIGNAL_COUNT];
};

/* ---- the request ---- */

static int put_content(const struct otlp_http_connection *connection, struct buf *out)
{
    static const char *const codings[] = {[CONFIG_GZIP] = "gzip", [CONFIG_ZSTD] = "zstd"};
    const struct config_exporter_otlp *config = connection->client->settings.config;
    int error = buf_printf(out, "Content-Type: %s\r\nContent-Length: %zu\r\n",
                           config->json ? "application/json" : "application/x-protobuf",
                           connection->call->body.len);
    if (!error && config->compression != CONFIG_UNCOMPRESSED)
        error = buf_printf(out, "Content-Encoding: %s\r\n", codings[config->compression]);
    if (!error && config->disable_keep_alives)
        error = buf_printf(out, "Connection: close\r\n");
    if (!error && connection->signal == SIGNAL_PROFILES)
        error = buf_printf(out, "%s: %s\r\n", OTLP_PROFILES_VERSION_KEY, OTLP_PROFILES_VERSION);
    return error;
}

static int put_head(const struct otlp_http_connection *connection, struct buf *out)
{
    const struct config_exporter_otlp *config = connection->client->settings.config;
    const struct config_endpoint *endpoint = &connection->url->endpoint;
    bool is_v6 = strchr(endpoint->host, ':') != NULL;
    size_t path = strlen(connection->url->path);
    if (*connection->suffix && path && connection->url->path[path - 1] == '/')
        path--;
    int error = buf_printf(out, "POST %.*s%s%s HTTP/1.1\r\nHost: %s%s%s", (int)path,
                           connection->url->path, path || *connection->suffix ? "" : "/",
                           connection->suffix, is_v6 ? "[" : "", endpoint->host, is_v6 ? "]" : "");
    if (!error && endpoint->port != (endpoint->scheme == CONFIG_SCHEME_HTTPS ? 443 : 80))
        error = buf_printf(out, ":%u", endpoint->port);
    if (!error)
        error = buf_printf(out, "\r\nUser-Agent: %s\r\n", connection->client->user_agent);
    error = error ? error : put_content(connection, out);
    for (size_t i = 0; i < config->n_headers && !error; i++)
        error = buf_printf(out, "%s: %s\r\n", config->headers[i].name, config->headers[i].value);
    return error ? error : buf_printf(out, "\r\n");
}

static int put_json(enum signal signal, struct bytes body, struct buf *out)
{
    int outcome = otlp_json_write(otlp_schema_request(signal), body, out);
    return outcome == OTLP_JSON_MALFORMED ? -EBADMSG : outcome;
}

int otlp_http_message(const struct config_exporter_otlp *config, enum signal signal,
                      struct bytes body, struct buf *out)
{
    _cleanup_buf_ struct buf json = BUF_INIT(1024 + body.len * JSON_GROWTH);
    if (config->json) {
        int error = put_json(signal, body, &json);
        if (error)
            return error;
        body = buf_bytes(&json);
    }
    switch (config->compression) {
    case CONFIG_GZIP:
        return codec_gzip(body, out);
    case CONFIG_ZSTD:
        return codec_zstd(body, out);
    default:
        return buf_append_bytes(out, body);
    }
}

/* ---- the connection ---- */

static void hang_up(struct otlp_http_connection *connection)
{
    timer_stop(&connection->idle);
    http_client_close(connection->connection);
    connection->connection = NULL;
}

static void otlp_http_connection_release(struct otlp_http_connection *connection)
{
    struct otlp_http_call *call = connection->call;
    timer_stop(&connection->begin);
    timer_stop(&connection->timeout);
    connection->call = NULL;
    call->connection = NULL;
    buf_close(&call->head);
}

static void otlp_http_connection_finish(struct otlp_http_connection *connection,
                                        const struct export_result *result)
{
    struct otlp_http_call *call = connection->call;
    otlp_http_connection_release(connection);
    call->done(call, result);
}

static void otlp_http_connection_fail(struct otlp_http_connection *connection, const char *code,
                                      const char *why)
{
    struct export_result result = {.verdict = EXPORT_RETRY};
    snprintf(result.code, sizeof(result.code), "%s", code);
    export_result_say(&result, BYTES_STR(why));
    otlp_http_connection_finish(connection, &result);
}

static void send_request(struct otlp_http_connection *connection)
{
    struct otlp_http_call *call = connection->call;
    timer_stop(&connection->idle);
    int error = http_client_send(connection->connection, buf_bytes(&call->head), call->body,
                                 ANSWER_BYTES_MAX);
    if (error) {
        hang_up(connection);
        return otlp_http_connection_fail(connection, "UNAVAILABLE", strerror(-error));
    }
    uint64_t timeout_ns = connection->client->settings.config->timeout_ns;
    if (timeout_ns)
        timer_start(connection->client->settings.loop, &connection->timeout, timeout_ns);
}

static void on_answered(void *owner, const struct http_answer *answer)
{
    struct otlp_http_connection *connection = owner;
    uint64_t idle_ns = connection->client->settings.config->idle_conn_timeout_ns;
    struct export_result result;
    otlp_http_answer(connection->signal, answer, clock_unix_ns(), &result);
    connection->kept = true;
    if (!answer->keeps_connection || connection->client->settings.config->disable_keep_alives)
        hang_up(connection);
    else if (idle_ns)
        timer_start(connection->client->settings.loop, &connection->idle, idle_ns);
    otlp_http_connection_finish(connection, &result);
}

static void on_ended(void *owner, int error, bool touched)
{
    struct otlp_http_connection *connection = owner;
    struct otlp_http_call *call = connection->call;
    hang_up(connection);
    if (!call)
        return;
    if (connection->kept && !touched && !call->again) {
        call->again = true;
        timer_stop(&connection->timeout);
        timer_start(connection->client->settings.loop, &connection->begin, 0);
    } else if (error == -EPROTO) {
        otlp_http_connection_fail(connection, "UNAVAILABLE",
                                  "the answer is not HTTP/1.1 as it should be");
    } else {
        otlp_http_connection_fail(connection, "UNAVAILABLE",
                                  "the connection ended before the answer");
    }
}

static const struct http_client_handler handler = {.answered = on_answered, .ended = on_ended};

static void on_dialed(struct dialer *dialer, int fd, struct tls *tls, const char *why)
{
    struct otlp_http_connection *connection =
        container_of(dialer, struct otlp_http_connection, dialer);
    if (fd < 0)
        return otlp_http_connection_fail(connection, "UNAVAILABLE", why);
    int error = http_client_open(connection->client->settings.loop, fd, tls, &handler, connection,
                                 &connection->connection);
    if (error)
        return otlp_http_connection_fail(connection, "UNAVAILABLE", strerror(-error));
    connection->kept = false;
    send_request(connection);
}

static void on_begin(struct timer *timer)
{
    struct otlp_http_connection *connection =
        container_of(timer, struct otlp_http_connection, begin);
    buf_clear(&connection->call->head);
    int error = put_head(connection, &connection->call->head);
    if (error)
        return otlp_http_connection_fail(connection, "UNAVAILABLE", strerror(ENOMEM));
    if (connection->connection)
        send_request(connection);
    else
        dialer_start(&connection->dialer);
}

static void on_timeout(struct timer *timer)
{
    struct otlp_http_connection *connection =
        container_of(timer, struct otlp_http_connection, timeout);
    hang_up(connection);
    otlp_http_connection_fail(connection, "DEADLINE_EXCEEDED", "no answer in time");
}

/* Also ends the dialer's resolver thread. */
static void on_idle(struct timer *timer)
{
    struct otlp_http_connection *connection =
        container_of(timer, struct otlp_http_connection, idle);
    hang_up(connection);
    dialer_close(&connection->dialer);
}

/* ---- verbs ---- */

/* A free connection, preferably one that is open. */
static struct otlp_http_connection *free_connection(struct otlp_http *client, enum signal signal)
{
    struct otlp_http_connection *found = NULL;
    for (size_t i = 0; i < client->n_connections; i++) {
        struct otlp_http_connection *connection = &client->connections[signal][i];
        if (!connection->call && (!found || (connection->connection && !found->connection)))
            found = connection;
    }
    return found;
}

void otlp_http_send(struct otlp_http *client, struct otlp_http_call *call, enum signal signal,
                    struct bytes message)
{
    LOOP_THREAD(client->settings.loop);
    struct otlp_http_connection *connection = free_connection(client, signal);
    assert(connection);
    call->connection = connection;
    call->body = message;
    call->head = BUF_INIT(0);
    call->again = false;
    connection->call = call;
    timer_start(client->settings.loop, &connection->begin, 0);
}

void otlp_http_cancel(struct otlp_http_call *call)
{
    struct otlp_http_connection *connection = call->connection;
    if (!connection)
        return;
    LOOP_THREAD(connection->client->settings.loop);
    dialer_stop(&connection->dialer);
    hang_up(connection);
    otlp_http_connection_release(connection);
}

static void open_connection(struct otlp_http *client, enum signal signal,
                            struct otlp_http_connection *connection)
{
    const struct otlp_http_settings *settings = &client->settings;
    const struct config_exporter_otlp *config = settings->config;
    bool own = config->urls[signal].endpoint.set;
    const char *override = config->tls.server_name_override;
    *connection = (struct otlp_http_connection){.client = client,
                                                .signal = signal,
                                                .url = own ? &config->urls[signal] : &config->url,
                                                .suffix = own ? "" : otlp_routes[signal].http_path,
                                                .begin.fire = on_begin,
                                                .timeout.fire = on_timeout,
                                                .idle.fire = on_idle};
    const struct config_endpoint *endpoint = &connection->url->endpoint;
    dialer_init(&connection->dialer,
                &(struct dialer_settings){
                    .loop = settings->loop,
                    .endpoint = endpoint,
                    .socket_users = &config->socket_users,
                    .connect_timeout_ns = config->timeout_ns,
                    .tls = endpoint->scheme == CONFIG_SCHEME_HTTPS ? settings->tls : NULL,
                    .server_name = override && *override ? NULL : endpoint->host},
                on_dialed);
}

static void close_connection(struct otlp_http_connection *connection)
{
    if (connection->call)
        otlp_http_cancel(connection->call);
    hang_up(connection);
    dialer_close(&connection->dialer);
}

int otlp_http_open(const struct otlp_http_settings *settings, struct otlp_http **clientp)
{
    LOOP_THREAD(settings->loop);
    struct otlp_http *client = calloc(1, sizeof(*client));
    if (!client)
        return -ENOMEM;
    client->settings = *settings;
    client->n_connections = settings->config->num_consumers ? settings->config->num_consumers : 1;
    snprintf(client->user_agent, sizeof(client->user_agent), "spanprof/%s", settings->version);
    for (enum signal signal = 0; signal < SIGNAL_COUNT; signal++) {
        client->connections[signal] =
            calloc(client->n_connections, sizeof(struct otlp_http_connection));
        if (!client->connections[signal]) {
            otlp_http_close(client);
            return -ENOMEM;
        }
        for (size_t i = 0; i < client->n_connections; i++)
            open_connection(client, signal, &client->connections[signal][i]);
    }
    *clientp = client;
    return 0;
}

void otlp_http_close(struct otlp_http *client)
{
    if (!client)
        return;
    LOOP_THREAD(client->settings.loop);
    for (size_t signal = 0; signal < SIGNAL_COUNT; signal++) {
        for (size_t i = 0; client->connections[signal] && i < client->n_connections; i++)
            close_connection(&client->connections[signal][i]);
        free(client->connections[signal]);
    }
    free(client);
}
