/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * JSON text, read forward token by token, without a tree and without allocation. Pure; thread: any.
 * Source of the format: RFC 8259. Strict: no comments, no trailing commas, no lone surrogates, only
 * UTF-8. Limits: JSON_SKIP_DEPTH_MAX arrays and objects within each other in a skipped value;
 * numbers of JSON_NUMBER_MAX characters.
 * Outcomes: JSON_OK; JSON_MALFORMED, and json->what says what is wrong at json->at.
 */
#include "base/buf.h"

#define JSON_SKIP_DEPTH_MAX 64
#define JSON_NUMBER_MAX     512

enum json_outcome { JSON_OK = 0, JSON_MALFORMED = 2, JSON_END = 3 }; /* BUF_FULL lies between */

struct json {
    const uint8_t *start;
    const uint8_t *at;
    const uint8_t *end;
    const char *what; /* static; NULL: nothing is wrong so far */
};

struct json_string {
    struct bytes raw; /* between the quotes, valid UTF-8; borrowed from the text */
    bool escaped;     /* raw holds escapes: see json_unescape() */
};

struct json json_open(struct bytes text);
int json_fail(struct json *json, const char *what); /* JSON_MALFORMED; keeps the first */

static inline void json_skip_space(struct json *json)
{
    const uint8_t *at = json->at;
    while (at < json->end && *at <= ' ' &&
           (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t'))
        at++;
    json->at = at;
}

/* After white space; nothing else is taken. */
static inline bool json_sees(struct json *json, char c)
{
    json_skip_space(json);
    return json->at < json->end && *json->at == (uint8_t)c;
}

static inline bool json_takes(struct json *json, char c)
{
    bool sees = json_sees(json, c);
    json->at += sees;
    return sees;
}

int json_expect(struct json *json, char c, const char *what);
bool json_takes_null(struct json *json);
/* The next item of an array or object whose opening was taken; *first is true before the first one.
 * JSON_OK: an item follows; JSON_END: closed. */
int json_next(struct json *json, char close, bool *first);
int json_finish(struct json *json); /* nothing but white space is left */

int json_string(struct json *json, struct json_string *string);
/* Appends the text that a raw string stands for: never longer than it. Also BUF_FULL, -ENOMEM. */
int json_unescape(struct json *json, struct bytes raw, struct buf *out);
int json_number(struct json *json, struct bytes *token);
int json_bool(struct json *json, bool *value);
int json_skip(struct json *json); /* any value */

/* Length of a number at the front of text, by JSON's grammar; 0: there is none. */
size_t json_number_length(struct bytes text);
/* A whole number (also 1e3, 5.0) as sign and magnitude; false: no integer, or beyond 64 bits. */
bool json_integer(struct bytes number, bool *negative, uint64_t *magnitude);
/* False: beyond a double. number: as json_number_length() found it. */
bool json_double(struct bytes number, double *value);
