/* SPDX-License-Identifier: Apache-2.0 */
#include "receiver/http/otlp_http.h"
#include "base/clock.h"
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <strings.h>

static struct otlp_answer http_refuse(unsigned http, enum grpc_status grpc, const char *message)
{
    return (struct otlp_answer){grpc, http, GRPC_NO_RETRY_INFO, message};
}

/* Compares a header value up to ';' with a token, ignoring case and surrounding blanks. */
static bool token_is(const char *value, const char *token)
{
    size_t n = strlen(token);
    value += strspn(value, " \t");
    if (strncasecmp(value, token, n))
        return false;
    value += n;
    value += strspn(value, " \t");
    return *value == '\0' || *value == ';';
}

static bool encoding_of(const char *value, enum intake_encoding *encoding)
{
    static const struct {
        const char *name;
        enum intake_encoding encoding;
    } names[] = {
        {"", ENCODING_IDENTITY},    {"identity", ENCODING_IDENTITY}, {"gzip", ENCODING_GZIP},
        {"x-gzip", ENCODING_GZIP},  {"zstd", ENCODING_ZSTD},         {"deflate", ENCODING_DEFLATE},
        {"zlib", ENCODING_DEFLATE}, /* the Collector's name for the same */
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (!token_is(value, names[i].name))
            continue;
        *encoding = names[i].encoding;
        return true;
    }
    return false;
}

/* 0 and the length, or -EINVAL. */
static int length_of(const char *text, uint64_t *length)
{
    char *end;
    if (!isdigit((unsigned char)*text))
        return -EINVAL;
    errno = 0;
    *length = strtoull(text, &end, 10);
    return errno || *end ? -EINVAL : 0;
}

static void check_length(const struct otlp_http_head *head, struct otlp_http_verdict *verdict)
{
    uint64_t length;
    if (!head->content_length)
        return;
    if (head->transfer_encoding) { /* ambiguous for proxies on the way: RFC 9112, 6.1 */
        verdict->answer =
            http_refuse(400, GRPC_INVALID_ARGUMENT, "Content-Length beside Transfer-Encoding");
        verdict->hopeless = true;
    } else if (length_of(head->content_length, &length)) {
        verdict->answer = http_refuse(400, GRPC_INVALID_ARGUMENT, "malformed Content-Length");
        verdict->hopeless = true;
    } else if (length > head->max_body_bytes) {
        verdict->answer = otlp_answer_of(INTAKE_TOO_BIG, NULL);
        verdict->hopeless = length / 2 > head->max_body_bytes;
    }
}

struct otlp_http_verdict otlp_http_check(const struct otlp_http_head *head)
{
    struct otlp_http_verdict verdict = {.answer = otlp_answer_of(INTAKE_ACCEPTED, NULL)};
    const char *type = head->content_type ? head->content_type : "";
    verdict.json = token_is(type, "application/json");
    verdict.says_version =
        head->profiles_version && !strcmp(head->profiles_version, OTLP_PROFILES_VERSION);
    verdict.route = otlp_route_of_http(BYTES_STR(head->path));
    check_length(head, &verdict);
    if (verdict.answer.http != 200)
        return verdict;
    if (!verdict.route) {
        verdict.answer =
            http_refuse(404, GRPC_UNIMPLEMENTED,
                        "unknown path: OTLP goes to /v1/traces, /v1/metrics, /v1/logs and "
                        "/v1development/profiles");
    } else if (head->is_preflight) {
        verdict.answer = http_refuse(204, GRPC_OK, "");
    } else if (strcmp(head->method, "POST")) {
        verdict.wrong_method = true;
        verdict.answer = http_refuse(405, GRPC_UNIMPLEMENTED, "only POST is served here");
    } else if (!verdict.json && !token_is(type, "application/x-protobuf")) {
        verdict.answer =
            http_refuse(415, GRPC_INVALID_ARGUMENT,
                        "Content-Type must be application/x-protobuf or application/json");
    } else if (head->content_encoding && !encoding_of(head->content_encoding, &verdict.encoding)) {
        verdict.wrong_encoding = true;
        verdict.answer =
            http_refuse(415, GRPC_INVALID_ARGUMENT,
                        "Content-Encoding must be one of identity, " OTLP_HTTP_ENCODINGS);
    } else if (verdict.route->signal == SIGNAL_PROFILES && head->profiles_version &&
               !verdict.says_version) {
        verdict.answer = http_refuse(400, GRPC_INVALID_ARGUMENT,
                                     "unknown " OTLP_PROFILES_VERSION_KEY ": version 1 is served");
    }
    return verdict;
}

int otlp_http_body(const struct otlp_answer *answer, bool json, struct buf *out)
{
    if (answer->http == 204)
        return 0;
    if (answer->http == 200) /* success: no field is set */
        return json ? buf_append(out, "{}", 2) : 0;
    /* Messages are constants of this program: no character needs an escape. */
    if (json)
        return buf_printf(out, "{\"code\":%u,\"message\":\"%s\"}", (unsigned)answer->grpc,
                          answer->message);
    return grpc_details_write(answer->grpc, BYTES_STR(answer->message), answer->retry_delay_ns,
                              out);
}

const char *otlp_http_content_type(bool json)
{
    return json ? "application/json" : "application/x-protobuf";
}

unsigned otlp_http_retry_after(const struct otlp_answer *answer)
{
    uint64_t seconds = (answer->retry_delay_ns + NS_PER_SEC - 1) / NS_PER_SEC;
    return seconds ? (unsigned)seconds : 1;
}
