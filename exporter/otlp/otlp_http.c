/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server may close a connection that was kept just when the next request is on its way. Such a
 * request is sent again at once by a new connection, if nothing of an answer has come; that it may
 * arrive twice is within what OTLP allows.
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
#define JSON_GROWTH      16 /* times the size of the protobuf, at most; far beyond real requests */

/* From here to the URL of one signal; one call at a time. */
struct otlp_http_road {
    struct otlp_http *client;
    enum signal signal;
    const struct config_url *url;
    const char *suffix; /* behind the URL's path */
    struct dialer dialer;
    struct http_client *connection; /* NULL: none */
    bool kept;                      /* it has carried a request before */
    struct otlp_http_call *call;    /* under way; NULL: none */
    struct timer begin, timeout, idle;
};

struct otlp_http {
    struct otlp_http_settings settings;
    char user_agent[64];
    size_t n_roads; /* of each signal */
    struct otlp_http_road *roads[SIGNAL_COUNT];
};

/* ---- the request ---- */

static int put_content(const struct otlp_http_road *road, struct buf *out)
{
    static const char *const codings[] = {[CONFIG_GZIP] = "gzip", [CONFIG_ZSTD] = "zstd"};
    const struct config_exporter_otlp *config = road->client->settings.config;
    int error = buf_printf(out, "Content-Type: %s\r\nContent-Length: %zu\r\n",
                           config->json ? "application/json" : "application/x-protobuf",
                           road->call->body.len);
    if (!error && config->compression != CONFIG_UNCOMPRESSED)
        error = buf_printf(out, "Content-Encoding: %s\r\n", codings[config->compression]);
    if (!error && config->disable_keep_alives)
        error = buf_printf(out, "Connection: close\r\n");
    if (!error && road->signal == SIGNAL_PROFILES)
        error = buf_printf(out, "%s: %s\r\n", OTLP_PROFILES_VERSION_KEY, OTLP_PROFILES_VERSION);
    return error;
}

static int put_head(const struct otlp_http_road *road, struct buf *out)
{
    const struct config_exporter_otlp *config = road->client->settings.config;
    const struct config_endpoint *endpoint = &road->url->endpoint;
    bool is_v6 = strchr(endpoint->host, ':') != NULL;
    size_t path = strlen(road->url->path);
    if (*road->suffix && path && road->url->path[path - 1] == '/')
        path--;
    int error = buf_printf(out, "POST %.*s%s%s HTTP/1.1\r\nHost: %s%s%s", (int)path,
                           road->url->path, path || *road->suffix ? "" : "/", road->suffix,
                           is_v6 ? "[" : "", endpoint->host, is_v6 ? "]" : "");
    if (!error && endpoint->port != (endpoint->scheme == CONFIG_SCHEME_HTTPS ? 443 : 80))
        error = buf_printf(out, ":%u", endpoint->port);
    if (!error)
        error = buf_printf(out, "\r\nUser-Agent: %s\r\n", road->client->user_agent);
    error = error ? error : put_content(road, out);
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

/* ---- the road ---- */

static void hang_up(struct otlp_http_road *road)
{
    timer_stop(&road->idle);
    http_client_close(road->connection);
    road->connection = NULL;
}

static void release(struct otlp_http_road *road)
{
    struct otlp_http_call *call = road->call;
    timer_stop(&road->begin);
    timer_stop(&road->timeout);
    road->call = NULL;
    call->road = NULL;
    buf_close(&call->head);
}

static void finish(struct otlp_http_road *road, const struct export_result *result)
{
    struct otlp_http_call *call = road->call;
    release(road);
    call->done(call, result);
}

static void fail(struct otlp_http_road *road, const char *code, const char *why)
{
    struct export_result result = {.verdict = EXPORT_RETRY};
    snprintf(result.code, sizeof(result.code), "%s", code);
    export_result_say(&result, BYTES_STR(why));
    finish(road, &result);
}

static void send_request(struct otlp_http_road *road)
{
    struct otlp_http_call *call = road->call;
    timer_stop(&road->idle);
    int error =
        http_client_send(road->connection, buf_bytes(&call->head), call->body, ANSWER_BYTES_MAX);
    if (error) {
        hang_up(road);
        return fail(road, "UNAVAILABLE", strerror(-error));
    }
    uint64_t timeout_ns = road->client->settings.config->timeout_ns;
    if (timeout_ns)
        timer_start(road->client->settings.loop, &road->timeout, timeout_ns);
}

static void on_answered(void *owner, const struct http_answer *answer)
{
    struct otlp_http_road *road = owner;
    uint64_t idle_ns = road->client->settings.config->idle_conn_timeout_ns;
    struct export_result result;
    otlp_http_answer(road->signal, answer, clock_unix_ns(), &result);
    road->kept = true;
    if (!answer->keeps_connection || road->client->settings.config->disable_keep_alives)
        hang_up(road);
    else if (idle_ns)
        timer_start(road->client->settings.loop, &road->idle, idle_ns);
    finish(road, &result);
}

static void on_ended(void *owner, int error, bool touched)
{
    struct otlp_http_road *road = owner;
    struct otlp_http_call *call = road->call;
    hang_up(road);
    if (!call)
        return;
    if (road->kept && !touched && !call->again) {
        call->again = true;
        timer_stop(&road->timeout);
        timer_start(road->client->settings.loop, &road->begin, 0);
    } else if (error == -EPROTO) {
        fail(road, "UNAVAILABLE", "the answer is not HTTP/1.1 as it should be");
    } else {
        fail(road, "UNAVAILABLE", "the connection ended before the answer");
    }
}

static const struct http_client_handler handler = {.answered = on_answered, .ended = on_ended};

static void on_dialed(struct dialer *dialer, int fd, struct tls *tls, const char *why)
{
    struct otlp_http_road *road = container_of(dialer, struct otlp_http_road, dialer);
    if (fd < 0)
        return fail(road, "UNAVAILABLE", why);
    int error =
        http_client_open(road->client->settings.loop, fd, tls, &handler, road, &road->connection);
    if (error)
        return fail(road, "UNAVAILABLE", strerror(-error));
    road->kept = false;
    send_request(road);
}

static void on_begin(struct timer *timer)
{
    struct otlp_http_road *road = container_of(timer, struct otlp_http_road, begin);
    buf_clear(&road->call->head);
    int error = put_head(road, &road->call->head);
    if (error)
        return fail(road, "UNAVAILABLE", strerror(ENOMEM));
    if (road->connection)
        send_request(road);
    else
        dialer_start(&road->dialer);
}

static void on_timeout(struct timer *timer)
{
    struct otlp_http_road *road = container_of(timer, struct otlp_http_road, timeout);
    hang_up(road);
    fail(road, "DEADLINE_EXCEEDED", "no answer in time");
}

/* A thread that resolved its name goes too. */
static void on_idle(struct timer *timer)
{
    struct otlp_http_road *road = container_of(timer, struct otlp_http_road, idle);
    hang_up(road);
    dialer_close(&road->dialer);
}

/* ---- verbs ---- */

/* One whose connection was kept, if there is any. */
static struct otlp_http_road *free_road(struct otlp_http *client, enum signal signal)
{
    struct otlp_http_road *found = NULL;
    for (size_t i = 0; i < client->n_roads; i++) {
        struct otlp_http_road *road = &client->roads[signal][i];
        if (!road->call && (!found || (road->connection && !found->connection)))
            found = road;
    }
    return found;
}

void otlp_http_send(struct otlp_http *client, struct otlp_http_call *call, enum signal signal,
                    struct bytes message)
{
    struct otlp_http_road *road = free_road(client, signal);
    assert(road);
    call->road = road;
    call->body = message;
    call->head = BUF_INIT(0);
    call->again = false;
    road->call = call;
    timer_start(client->settings.loop, &road->begin, 0);
}

void otlp_http_cancel(struct otlp_http_call *call)
{
    struct otlp_http_road *road = call->road;
    if (!road)
        return;
    dialer_stop(&road->dialer);
    hang_up(road);
    release(road);
}

static void open_road(struct otlp_http *client, enum signal signal, struct otlp_http_road *road)
{
    const struct otlp_http_settings *settings = &client->settings;
    const struct config_exporter_otlp *config = settings->config;
    bool own = config->urls[signal].endpoint.set;
    const char *override = config->tls.server_name_override;
    *road = (struct otlp_http_road){.client = client,
                                    .signal = signal,
                                    .url = own ? &config->urls[signal] : &config->url,
                                    .suffix = own ? "" : otlp_routes[signal].http_path,
                                    .begin.fire = on_begin,
                                    .timeout.fire = on_timeout,
                                    .idle.fire = on_idle};
    const struct config_endpoint *endpoint = &road->url->endpoint;
    dialer_init(&road->dialer,
                &(struct dialer_settings){
                    .loop = settings->loop,
                    .endpoint = endpoint,
                    .connect_timeout_ns = config->timeout_ns,
                    .tls = endpoint->scheme == CONFIG_SCHEME_HTTPS ? settings->tls : NULL,
                    .server_name = override && *override ? NULL : endpoint->host},
                on_dialed);
}

static void close_road(struct otlp_http_road *road)
{
    if (road->call)
        otlp_http_cancel(road->call);
    hang_up(road);
    dialer_close(&road->dialer);
}

int otlp_http_open(const struct otlp_http_settings *settings, struct otlp_http **clientp)
{
    struct otlp_http *client = calloc(1, sizeof(*client));
    if (!client)
        return -ENOMEM;
    client->settings = *settings;
    client->n_roads = settings->config->num_consumers ? settings->config->num_consumers : 1;
    snprintf(client->user_agent, sizeof(client->user_agent), "spanprof/%s", settings->version);
    for (enum signal signal = 0; signal < SIGNAL_COUNT; signal++) {
        client->roads[signal] = calloc(client->n_roads, sizeof(struct otlp_http_road));
        if (!client->roads[signal]) {
            otlp_http_close(client);
            return -ENOMEM;
        }
        for (size_t i = 0; i < client->n_roads; i++)
            open_road(client, signal, &client->roads[signal][i]);
    }
    *clientp = client;
    return 0;
}

void otlp_http_close(struct otlp_http *client)
{
    if (!client)
        return;
    for (size_t signal = 0; signal < SIGNAL_COUNT; signal++) {
        for (size_t i = 0; client->roads[signal] && i < client->n_roads; i++)
            close_road(&client->roads[signal][i]);
        free(client->roads[signal]);
    }
    free(client);
}
