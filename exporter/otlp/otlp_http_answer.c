/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/otlp/otlp_http_answer.h"
#include "proto/json.h"
#include "proto/otlp/otlp_json.h"
#include "proto/otlp/otlp_schema.h"
#include <stdio.h>

#define RESPONSE_BYTES_MAX (256u << 10)

static bool is_json(const struct http_answer *answer)
{
    return strcmp(answer->content_type, "application/json") == 0;
}

static bool is_protobuf(const struct http_answer *answer)
{
    return strcmp(answer->content_type, "application/x-protobuf") == 0;
}

/* A malformed response body is ignored: the request was accepted. */
static void read_success(enum signal signal, const struct http_answer *answer,
                         struct export_result *result)
{
    _cleanup_buf_ struct buf response = BUF_INIT(RESPONSE_BYTES_MAX);
    struct otlp_json_error error;
    if (is_protobuf(answer))
        export_result_partial(result, buf_bytes(&answer->body));
    else if (is_json(answer) && otlp_json_read(otlp_schema_response(signal),
                                               buf_bytes(&answer->body), &response, &error) == 0)
        export_result_partial(result, buf_bytes(&response));
}

/* Reads the member `message` of an object, if it is a string. */
static void read_json_message(struct bytes text, struct export_result *result)
{
    struct json json = json_open(text);
    bool first = true;
    if (!json_takes(&json, '{'))
        return;
    while (json_next(&json, '}', &first) == JSON_OK) {
        struct json_string key, value;
        if (json_string(&json, &key) || json_expect(&json, ':', "a colon is missing"))
            return;
        if (!bytes_is(key.raw, "message") || !json_sees(&json, '"')) {
            if (json_skip(&json))
                return;
            continue;
        }
        _cleanup_buf_ struct buf message = BUF_INIT(0);
        if (json_string(&json, &value) || json_unescape(&json, value.raw, &message))
            return;
        return export_result_say(result, buf_bytes(&message));
    }
}

static void read_failure(const struct http_answer *answer, struct export_result *result)
{
    enum grpc_status status;
    struct bytes body = buf_bytes(&answer->body), message = {0};
    if (is_protobuf(answer) && grpc_details_read(body, &status, &message))
        export_result_say(result, message);
    else if (is_json(answer))
        read_json_message(body, result);
    else if (strcmp(answer->content_type, "text/plain") == 0)
        export_result_say(result, body);
}

static void say_instead(const struct http_answer *answer, struct export_result *result)
{
    char *out = result->message;
    size_t size = sizeof(result->message);
    if (answer->status >= 300 && answer->status < 400)
        snprintf(out, size,
                 "redirected%s%.150s, which is not followed; write the URL that is meant",
                 *answer->location ? " to " : "", answer->location);
    else if (answer->status == 404)
        snprintf(out, size, "nothing is served at this URL");
    else
        snprintf(out, size, "without a reason");
}

void otlp_http_answer(enum signal signal, const struct http_answer *answer, uint64_t now_unix_ns,
                      struct export_result *result)
{
    *result = (struct export_result){.verdict = export_verdict_http(answer->status),
                                     .unimplemented = answer->status == 404};
    bool readable = !answer->encoded && !answer->cut && answer->body.len;
    snprintf(result->code, sizeof(result->code), "HTTP %u", answer->status);
    if (result->verdict == EXPORT_OK) {
        if (readable)
            read_success(signal, answer, result);
        return;
    }
    if (readable)
        read_failure(answer, result);
    if (!*result->message)
        say_instead(answer, result);
    result->too_big = answer->status == 413 || /* or as Collectors say it: */
                      (answer->status == 400 && strstr(result->message, "body too large"));
    uint64_t delay_ns = *answer->retry_after ? http_retry_after_ns(answer->retry_after, now_unix_ns)
                                             : HTTP_NO_RETRY_AFTER;
    if (result->verdict == EXPORT_RETRY && delay_ns != HTTP_NO_RETRY_AFTER)
        result->retry_delay_ns = delay_ns;
}
