/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * JSON text, written forward. Whatever a text holds, it stays within its quotes, and within a
 * <script> too: markup is escaped, invalid UTF-8 becomes U+FFFD. Pure; thread: any.
 * Errors stay: after the first (BUF_FULL, -ENOMEM) nothing is written; look at `error` at the end.
 */
#include "base/buf.h"

struct json_writer {
    struct buf *out;
    int error;
    bool follows; /* a value stands before the next one */
};

/* key: within an object; NULL within an array, or for the whole. Keys are our own words. */
void json_begin_object(struct json_writer *json, const char *key);
void json_end_object(struct json_writer *json);
void json_begin_array(struct json_writer *json, const char *key);
void json_end_array(struct json_writer *json);

void json_put_text(struct json_writer *json, const char *key, struct bytes text);
void json_put_string(struct json_writer *json, const char *key, const char *text);
void json_put_hex(struct json_writer *json, const char *key, const void *data, size_t size);
void json_put_uint(struct json_writer *json, const char *key, uint64_t value);
void json_put_int(struct json_writer *json, const char *key, int64_t value);
/* How many samples wait, for their span or their window, and are in no answer yet. */
void json_put_waiting(struct json_writer *json);
void json_put_bool(struct json_writer *json, const char *key, bool value);
/* Six significant digits; what is no number is 0. */
void json_put_double(struct json_writer *json, const char *key, double value);
/* Nanoseconds as milliseconds with a fraction, none of which is lost. */
void json_put_ms(struct json_writer *json, const char *key, uint64_t ns);
/* A member whose key is foreign too. */
void json_put_pair(struct json_writer *json, struct bytes key, struct bytes text);
