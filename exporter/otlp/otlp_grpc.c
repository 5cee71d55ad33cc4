/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/otlp/otlp_grpc.h"
#include "proto/codec.h"
#include "proto/otlp/otlp_service.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define RESPONSE_BYTES_MAX (64u << 10)
#define SMALL_BYTES        1024 /* not worth compressing */

struct otlp_grpc {
    struct otlp_grpc_settings settings;
    struct channel *channel;
    char authority[300];
    char user_agent[64];
};

/* ---- what an answer means ---- */

/* Even with NO_ERROR, RST_STREAM means that the answer is incomplete. */
static bool is_cut(const struct otlp_grpc_call *call, uint32_t h2_error)
{
    return h2_error || !call->stream->remote_closed;
}

static enum grpc_status status_without_trailer(const struct otlp_grpc_call *call, uint32_t h2_error,
                                               bool unprocessed)
{
    if (call->timed_out)
        return GRPC_DEADLINE_EXCEEDED;
    if (unprocessed)
        return GRPC_UNAVAILABLE;
    if (call->http_status && call->http_status != 200)
        return grpc_status_from_http(call->http_status);
    if (is_cut(call, h2_error))
        return grpc_status_from_h2(h2_error);
    return call->http_status ? GRPC_UNKNOWN : GRPC_UNAVAILABLE;
}

static enum export_verdict verdict_without_trailer(const struct otlp_grpc_call *call,
                                                   uint32_t h2_error, bool unprocessed)
{
    if (call->timed_out || unprocessed || !call->http_status)
        return h2_error ? export_verdict_h2(h2_error, unprocessed || call->timed_out)
                        : EXPORT_RETRY;
    if (call->http_status < 200 || call->http_status > 299)
        return export_verdict_http(call->http_status);
    return is_cut(call, h2_error) ? export_verdict_h2(h2_error, false) : EXPORT_DROP;
}

static void set_status(struct otlp_grpc_call *call, enum grpc_status status)
{
    call->status = status;
    call->result.unimplemented = status == GRPC_UNIMPLEMENTED;
    snprintf(call->result.code, sizeof(call->result.code), "%s", grpc_status_name(status));
}

static const char *coding_name(enum config_compression compression)
{
    return compression == CONFIG_ZSTD ? "zstd" : "gzip";
}

/* UNIMPLEMENTED may also mean that the backend does not support this compression. The operator can
 * fix that, so the request is kept and retried. Some servers do not list the codings they accept,
 * but name the refused one in the message. */
static void conclude_coding(struct otlp_grpc_call *call)
{
    struct export_result *result = &call->result;
    const char *name = coding_name(call->client->settings.config->compression);
    if (call->status != GRPC_UNIMPLEMENTED || !call->compressed ||
        !(call->wants_other_coding || strstr(result->message, name)))
        return;
    result->verdict = EXPORT_RETRY;
    result->unimplemented = false;
    snprintf(result->message, sizeof(result->message),
             "the backend does not take requests with this compression; set another, or none");
}

static void conclude_size(struct otlp_grpc_call *call, bool asked_to_retry)
{
    struct export_result *result = &call->result;
    result->too_big = call->has_status
                          ? !asked_to_retry && export_is_too_big(call->status, result->message)
                          : call->http_status == 413;
    if (result->too_big)
        result->verdict = EXPORT_DROP;
}

static void otlp_grpc_call_conclude(struct otlp_grpc_call *call)
{
    struct export_result *result = &call->result;
    bool asked_to_retry = call->details_delay_ns != GRPC_NO_RETRY_INFO;
    result->retry_delay_ns = asked_to_retry ? call->details_delay_ns : 0;
    if (call->has_status)
        result->verdict = export_verdict_grpc(call->status, asked_to_retry);
    if (result->verdict == EXPORT_OK && grpc_reader_end(&call->reader) == GRPC_READ_OK &&
        !call->reader.compressed)
        export_result_partial(result, buf_bytes(&call->reader.message));
    conclude_coding(call);
    conclude_size(call, asked_to_retry);
    if (result->verdict != EXPORT_OK && !*result->message)
        export_result_say(result, BYTES_LIT("without a reason"));
}

static void otlp_grpc_call_finish(struct otlp_grpc_call *call)
{
    timer_stop(&call->timeout);
    channel_unwant(&call->waiter);
    call->running = false;
    call->stream = NULL;
    otlp_grpc_call_conclude(call);
    grpc_reader_close(&call->reader);
    call->done(call, &call->result);
}

/* ---- the stream ---- */

static unsigned http_status(struct bytes value)
{
    unsigned status = 0;
    for (size_t i = 0; i < value.len && i < 3; i++)
        status = status * 10 + (unsigned)(value.data[i] - '0');
    return status;
}

/* Two forms of the retry hint are in use; the first one found counts. */
static void on_details(struct otlp_grpc_call *call, struct bytes value,
                       uint64_t (*delay_of)(struct bytes message))
{
    uint8_t decoded[4096];
    if (value.len > sizeof(decoded) || call->details_delay_ns != GRPC_NO_RETRY_INFO)
        return;
    ptrdiff_t len = bytes_from_base64(value, decoded);
    if (len >= 0)
        call->details_delay_ns = delay_of(BYTES(decoded, (size_t)len));
}

static void on_accept_encoding(struct otlp_grpc_call *call, struct bytes value)
{
    const char *name = coding_name(call->client->settings.config->compression);
    call->wants_other_coding =
        call->compressed && !memmem(value.data, value.len, name, strlen(name));
}

static void on_message(struct otlp_grpc_call *call, struct bytes value)
{
    _cleanup_buf_ struct buf text = BUF_INIT(sizeof(call->result.message) * 3);
    if (grpc_percent_decode(value, &text) == 0)
        export_result_say(&call->result, buf_bytes(&text));
}

static void on_header(struct h2_stream *stream, struct bytes name, struct bytes value, bool trailer)
{
    struct otlp_grpc_call *call = stream->owner;
    (void)trailer;
    if (!call)
        return;
    if (bytes_is(name, ":status")) {
        call->http_status = http_status(value);
    } else if (bytes_is(name, "grpc-status")) {
        set_status(call, grpc_status_parse(value));
        call->has_status = true;
    } else if (bytes_is(name, "grpc-message")) {
        on_message(call, value);
    } else if (bytes_is(name, "grpc-status-details-bin")) {
        on_details(call, value, grpc_details_retry_delay);
    } else if (bytes_is(name, "google.rpc.retryinfo-bin")) {
        on_details(call, value, grpc_retry_info_delay);
    } else if (bytes_is(name, "grpc-accept-encoding")) {
        on_accept_encoding(call, value);
    }
}

static void on_data(struct h2_stream *stream, struct bytes piece)
{
    struct otlp_grpc_call *call = stream->owner;
    h2_consumed(stream, piece.len, true);
    if (call && !call->is_malformed)
        call->is_malformed = grpc_reader_feed(&call->reader, piece) != GRPC_READ_OK;
}

/* Describes the failure when the backend sent no message. */
static void say_what_came(struct otlp_grpc_call *call, uint32_t h2_error)
{
    char *out = call->result.message;
    size_t size = sizeof(call->result.message);
    if (call->timed_out)
        snprintf(out, size, "no answer in time");
    else if (h2_error == H2_CONNECTION_LOST)
        snprintf(out, size, "the connection ended before the answer");
    else if (is_cut(call, h2_error))
        snprintf(out, size, "the call was reset, HTTP/2 error %u", h2_error);
    else
        snprintf(out, size, "an answer without grpc-status, HTTP status %u", call->http_status);
}

static void on_closed(struct h2_stream *stream, uint32_t h2_error, bool unprocessed)
{
    struct otlp_grpc_call *call = stream->owner;
    if (!call)
        return;
    if (!call->has_status) {
        set_status(call, status_without_trailer(call, h2_error, unprocessed));
        call->result.verdict = verdict_without_trailer(call, h2_error, unprocessed);
        if (!call->result.message[0])
            say_what_came(call, h2_error);
    }
    otlp_grpc_call_finish(call);
}

static const struct h2_handler handler = {
    .header = on_header, .data = on_data, .closed = on_closed};

/* ---- the call ---- */

static size_t request_headers(struct otlp_grpc_call *call, const char *timeout,
                              struct h2_header *headers)
{
    const struct otlp_grpc *client = call->client;
    const struct config_exporter_otlp *config = client->settings.config;
    size_t n = 0;
    headers[n++] = H2_HEADER(":method", "POST");
    headers[n++] = H2_HEADER(":scheme", client->settings.tls ? "https" : "http");
    headers[n++] = H2_HEADER(":path", otlp_routes[call->signal].grpc_path);
    headers[n++] = H2_HEADER(":authority", client->authority);
    if (*timeout)
        headers[n++] = H2_HEADER("grpc-timeout", timeout);
    headers[n++] = H2_HEADER("te", "trailers");
    headers[n++] = H2_HEADER("content-type", "application/grpc");
    headers[n++] = H2_HEADER("user-agent", client->user_agent);
    if (call->compressed)
        headers[n++] = H2_HEADER("grpc-encoding", coding_name(config->compression));
    if (call->signal == SIGNAL_PROFILES)
        headers[n++] = H2_HEADER(OTLP_PROFILES_VERSION_KEY, OTLP_PROFILES_VERSION);
    for (size_t i = 0; i < config->n_headers; i++)
        headers[n++] =
            (struct h2_header){config->headers[i].name, BYTES_STR(config->headers[i].value), true};
    return n;
}

static void on_connection(struct channel_waiter *waiter, struct h2_conn *conn, const char *why)
{
    struct otlp_grpc_call *call = container_of(waiter, struct otlp_grpc_call, waiter);
    struct h2_header headers[10 + CONFIG_LIST_MAX];
    char timeout[GRPC_TIMEOUT_TEXT] = "";
    uint64_t timeout_ns = call->client->settings.config->timeout_ns;
    int error = -ENOTCONN;
    if (conn) {
        if (timeout_ns)
            grpc_timeout_format(timeout_ns, timeout);
        size_t n = request_headers(call, timeout, headers);
        error = h2_request(conn, headers, n, call->message, call, &call->stream);
        why = strerror(-error);
    }
    if (error) {
        set_status(call, GRPC_UNAVAILABLE);
        call->result.verdict = EXPORT_RETRY;
        export_result_say(&call->result, BYTES_STR(why));
        return otlp_grpc_call_finish(call);
    }
    if (timeout_ns)
        timer_start(call->client->settings.loop, &call->timeout, timeout_ns);
}

static void on_timeout(struct timer *timer)
{
    struct otlp_grpc_call *call = container_of(timer, struct otlp_grpc_call, timeout);
    call->timed_out = true;
    h2_reset(call->stream, H2_CANCEL); /* closed() follows */
}

void otlp_grpc_send(struct otlp_grpc *client, struct otlp_grpc_call *call, enum signal signal,
                    struct bytes message)
{
    LOOP_THREAD(client->settings.loop);
    void (*done)(struct otlp_grpc_call *, const struct export_result *) = call->done;
    *call = (struct otlp_grpc_call){.done = done,
                                    .client = client,
                                    .signal = signal,
                                    .message = message,
                                    .waiter = {.ready = on_connection},
                                    .timeout = {.fire = on_timeout},
                                    .running = true,
                                    .compressed = message.len && message.data[0] == 1,
                                    .details_delay_ns = GRPC_NO_RETRY_INFO};
    grpc_reader_init(&call->reader, RESPONSE_BYTES_MAX);
    channel_want(client->channel, &call->waiter);
}

void otlp_grpc_cancel(struct otlp_grpc_call *call)
{
    if (!call->running)
        return;
    LOOP_THREAD(call->client->settings.loop);
    call->running = false;
    timer_stop(&call->timeout);
    channel_unwant(&call->waiter);
    if (call->stream) {
        call->stream->owner = NULL;
        h2_reset(call->stream, H2_CANCEL);
    }
    grpc_reader_close(&call->reader);
}

int otlp_grpc_message(struct bytes body, enum config_compression compression, struct buf *out)
{
    static const uint8_t room[GRPC_PREFIX_SIZE];
    size_t at = out->len;
    bool compressed = compression != CONFIG_UNCOMPRESSED && body.len >= SMALL_BYTES;
    int error = buf_append(out, room, sizeof(room));
    if (!error && !compressed)
        error = buf_append_bytes(out, body);
    else if (!error)
        error = compression == CONFIG_ZSTD ? codec_zstd(body, out) : codec_gzip(body, out);
    if (error) {
        out->len = at;
        return error;
    }
    grpc_prefix_write(out->data + at, compressed, (uint32_t)(out->len - at - sizeof(room)));
    return 0;
}

/* ---- life ---- */

/* The expected certificate name is also the :authority of the calls, as in the Collector. */
static void set_authority(struct otlp_grpc *client)
{
    const struct config_exporter_otlp *config = client->settings.config;
    const struct config_endpoint *endpoint = &config->endpoint;
    const char *name = config->authority && *config->authority ? config->authority
                       : client->settings.tls                  ? config->tls.server_name_override
                                                               : "";
    bool is_v6 = strchr(endpoint->host, ':') != NULL;
    if (endpoint->transport == CONFIG_UNIX && !(name && *name))
        name = "localhost"; /* as gRPC's libraries do */
    if (name && *name)
        snprintf(client->authority, sizeof(client->authority), "%s", name);
    else
        snprintf(client->authority, sizeof(client->authority), is_v6 ? "[%s]:%u" : "%s:%u",
                 endpoint->host, endpoint->port);
}

int otlp_grpc_open(const struct otlp_grpc_settings *settings, struct otlp_grpc **clientp)
{
    LOOP_THREAD(settings->loop);
    struct otlp_grpc *client = calloc(1, sizeof(*client));
    if (!client)
        return -ENOMEM;
    client->settings = *settings;
    set_authority(client);
    snprintf(client->user_agent, sizeof(client->user_agent), "spanprof/%s", settings->version);
    int error =
        channel_open(&(struct channel_settings){.loop = settings->loop,
                                                .endpoint = &settings->config->endpoint,
                                                .socket_users = &settings->config->socket_users,
                                                .connect_timeout_ns = settings->config->timeout_ns,
                                                .tls = settings->tls,
                                                .keepalive = &settings->config->keepalive,
                                                .handler = &handler},
                     &client->channel);
    if (error) {
        free(client);
        return error;
    }
    *clientp = client;
    return 0;
}

void otlp_grpc_close(struct otlp_grpc *client)
{
    if (!client)
        return;
    LOOP_THREAD(client->settings.loop);
    channel_close(client->channel);
    free(client);
}
