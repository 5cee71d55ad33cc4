/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * JSON text, written forward. Pure; thread: any. Source of the format: RFC 8259.
 *
 * json_write_*() append one piece and return 0, BUF_FULL or -ENOMEM. struct json_writer adds keys
 * and commas, and its error is sticky: after the first failure nothing is written, and the caller
 * checks `error` once, at the end.
 */
#include "base/buf.h"

enum json_escapes {
    /* Quotes, backslashes and control characters. */
    JSON_ESCAPES_NEEDED,
    /* Also markup and line separators, so that the text stays within its quotes in a <script>;
     * invalid UTF-8 becomes U+FFFD. */
    JSON_ESCAPES_MARKUP,
};

#define JSON_NOT_UTF8 2 /* beside BUF_FULL */

/* A string in its quotes. JSON_NOT_UTF8 (with JSON_ESCAPES_NEEDED only): part of it was appended.
 */
int json_write_text(struct buf *out, struct bytes text, enum json_escapes escapes);
/* quoted: as a string, the form of 64-bit integers in the JSON of protobuf. */
int json_write_integer(struct buf *out, bool negative, uint64_t magnitude, bool quoted);

/* Length of the front of text that stands for itself in a JSON string: without quotes, backslashes
 * and control characters. Sets *foreign if a byte in it is not ASCII, else leaves it. */
size_t json_plain_length(struct bytes text, bool *foreign);

/* Texts are written with JSON_ESCAPES_MARKUP. */
struct json_writer {
    struct buf *out;
    int error;
    bool follows; /* a comma stands before the next value */
};

/* key: of a member of an object, one of our own words, not escaped; NULL in an array, or for the
 * whole. */
void json_begin_object(struct json_writer *json, const char *key);
void json_end_object(struct json_writer *json);
void json_begin_array(struct json_writer *json, const char *key);
void json_end_array(struct json_writer *json);

void json_put_text(struct json_writer *json, const char *key, struct bytes text);
void json_put_string(struct json_writer *json, const char *key, const char *text);
/* Of the first 32 bytes. */
void json_put_hex(struct json_writer *json, const char *key, const void *data, size_t size);
void json_put_uint(struct json_writer *json, const char *key, uint64_t value);
void json_put_int(struct json_writer *json, const char *key, int64_t value);
void json_put_bool(struct json_writer *json, const char *key, bool value);
/* Six significant digits; 0 for NaN and infinity. */
void json_put_double(struct json_writer *json, const char *key, double value);
/* Nanoseconds as milliseconds, with all digits of the fraction. */
void json_put_ms(struct json_writer *json, const char *key, uint64_t ns);
/* A member whose key is not one of our own words and is escaped. */
void json_put_pair(struct json_writer *json, struct bytes key, struct bytes text);
