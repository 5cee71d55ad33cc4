/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The rules of OTLP/HTTP: which requests are accepted, and the texts of errors. Pure; thread: any.
 * Source of the rules: OTLP specification 1.11, "OTLP/HTTP"; the Collector's answers.
 */
#include "proto/otlp/otlp_service.h"
#include "receiver/otlp_answer.h"

#define OTLP_HTTP_ENCODINGS "gzip, zstd, deflate"

struct otlp_http_head { /* header values are NULL if absent */
    const char *method;
    const char *path;
    const char *content_type;
    const char *content_encoding;
    const char *content_length;
    const char *transfer_encoding;
    const char *profiles_version; /* "" if given more than once */
    bool is_preflight;            /* a browser's preflight request: cors.h */
    size_t max_body_bytes;
};

struct otlp_http_verdict {
    struct otlp_answer answer; /* http 200: go on; 204: a preflight */
    const struct otlp_route *route;
    enum intake_encoding encoding;
    bool json;           /* the peer sends JSON and gets JSON */
    bool says_version;   /* of profiles */
    bool hopeless;       /* too large: the rest is not read */
    bool wrong_method;   /* the answer has `Allow: POST` */
    bool wrong_encoding; /* the answer has Accept-Encoding */
};

struct otlp_http_verdict otlp_http_check(const struct otlp_http_head *head);

/* The Export response without partial success, or a google.rpc.Status; as protobuf or JSON. */
int otlp_http_body(const struct otlp_answer *answer, bool json, struct buf *out);
const char *otlp_http_content_type(bool json);
/* For Retry-After: whole seconds, at least 1. */
unsigned otlp_http_retry_after(const struct otlp_answer *answer);
