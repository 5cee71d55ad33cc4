/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Most of a request is short plain strings: json_plain_length() reads eight bytes at a time, and
 * only the bytes from a special one on are read one by one.
 */
#include "proto/json.h"
#include "base/json_write.h"
#include <math.h>
#include <stdlib.h>

struct json json_open(struct bytes text)
{
    static const uint8_t nothing;
    const uint8_t *start = text.len ? text.data : &nothing;
    return (struct json){.start = start, .at = start, .end = start + text.len};
}

int json_fail(struct json *json, const char *what)
{
    if (!json->what)
        json->what = what;
    return JSON_MALFORMED;
}

int json_expect(struct json *json, char c, const char *what)
{
    return json_takes(json, c) ? JSON_OK : json_fail(json, what);
}

static bool takes_word(struct json *json, const char *word)
{
    size_t len = strlen(word);
    json_skip_space(json);
    if ((size_t)(json->end - json->at) < len || memcmp(json->at, word, len))
        return false;
    json->at += len;
    return true;
}

bool json_takes_null(struct json *json)
{
    return json_sees(json, 'n') && takes_word(json, "null");
}

int json_next(struct json *json, char close, bool *first)
{
    bool was_first = *first;
    *first = false;
    if (json_takes(json, close))
        return JSON_END;
    if (!was_first && !json_takes(json, ','))
        return json_fail(json, "a comma or a closing bracket is missing");
    return JSON_OK;
}

int json_finish(struct json *json)
{
    json_skip_space(json);
    return json->at == json->end ? JSON_OK : json_fail(json, "more text after the end");
}

/* ---- strings ---- */

int json_string(struct json *json, struct json_string *string)
{
    if (!json_takes(json, '"'))
        return json_fail(json, "a string is missing");
    const uint8_t *begin = json->at;
    bool foreign = false;
    string->escaped = false;
    for (;;) {
        json->at += json_plain_length(BYTES(json->at, (size_t)(json->end - json->at)), &foreign);
        if (json->at == json->end)
            return json_fail(json, "a string does not end");
        if (*json->at == '"')
            break;
        if (*json->at != '\\')
            return json_fail(json, "a control character in a string");
        if (json->end - json->at < 2)
            return json_fail(json, "a string does not end");
        string->escaped = true;
        json->at += 2; /* also over an escaped quote */
    }
    string->raw = BYTES(begin, (size_t)(json->at - begin));
    if (foreign && !bytes_utf8_valid(string->raw)) {
        json->at = begin;
        return json_fail(json, "a string is not UTF-8");
    }
    json->at++;
    return JSON_OK;
}

/* Four hex digits; UINT32_MAX if they are not. */
static uint32_t json_hex4(const uint8_t *at, const uint8_t *end)
{
    uint8_t pair[2];
    if (end - at < 4 || !bytes_from_hex(BYTES(at, 4), pair, sizeof(pair)))
        return UINT32_MAX;
    return (uint32_t)pair[0] << 8 | pair[1];
}

/* The character of a \u escape; *at stands behind the u, then behind the escape. UINT32_MAX: it is
 * none, as half a surrogate pair. */
static uint32_t unicode_escape(const uint8_t **at, const uint8_t *end)
{
    uint32_t code = json_hex4(*at, end);
    if (code == UINT32_MAX || (code >= 0xdc00 && code < 0xe000))
        return UINT32_MAX;
    *at += 4;
    if (code < 0xd800 || code >= 0xe000)
        return code;
    if (end - *at < 2 || (*at)[0] != '\\' || (*at)[1] != 'u')
        return UINT32_MAX;
    uint32_t low = json_hex4(*at + 2, end);
    if (low < 0xdc00 || low >= 0xe000)
        return UINT32_MAX;
    *at += 6;
    return 0x10000 + ((code - 0xd800) << 10 | (low - 0xdc00));
}

static int append_utf8(struct buf *out, uint32_t code)
{
    uint8_t bytes[4];
    size_t len = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const uint8_t leads[] = {0, 0x00, 0xc0, 0xe0, 0xf0};
    for (size_t i = len; i-- > 1; code >>= 6)
        bytes[i] = (uint8_t)(0x80 | (code & 0x3f));
    bytes[0] = (uint8_t)(leads[len] | code);
    return buf_append(out, bytes, len);
}

/* One escape behind its backslash. */
static int unescape_one(struct json *json, const uint8_t **at, const uint8_t *end, struct buf *out)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    const char *name = **at ? strchr(names, (char)**at) : NULL;
    if (name) {
        ++*at;
        return buf_append(out, &values[name - names], 1);
    }
    const uint8_t *begin = *at;
    if (*(*at)++ == 'u') {
        uint32_t code = unicode_escape(at, end);
        if (code != UINT32_MAX)
            return append_utf8(out, code);
    }
    json->at = begin - 1;
    return json_fail(json, "an escape that stands for no character");
}

int json_unescape(struct json *json, struct bytes raw, struct buf *out)
{
    const uint8_t *at = raw.data, *end = raw.data + raw.len;
    int error = 0;
    while (!error && at < end) {
        const uint8_t *backslash = memchr(at, '\\', (size_t)(end - at));
        const uint8_t *stop = backslash ? backslash : end;
        error = buf_append(out, at, (size_t)(stop - at));
        at = stop;
        if (!error && backslash) {
            at++; /* json_string() saw that something follows */
            error = unescape_one(json, &at, end, out);
        }
    }
    return error;
}

/* ---- numbers ---- */

static size_t json_digits(struct bytes text, size_t from)
{
    size_t i = from;
    while (i < text.len && text.data[i] >= '0' && text.data[i] <= '9')
        i++;
    return i - from;
}

size_t json_number_length(struct bytes text)
{
    size_t at = text.len && text.data[0] == '-';
    size_t n = json_digits(text, at);
    if (n == 0 || (n > 1 && text.data[at] == '0'))
        return 0;
    at += n;
    if (at < text.len && text.data[at] == '.') {
        n = json_digits(text, at + 1);
        if (n == 0)
            return 0;
        at += 1 + n;
    }
    if (at < text.len && (text.data[at] | 0x20) == 'e') {
        size_t sign = at + 1 < text.len && (text.data[at + 1] == '+' || text.data[at + 1] == '-');
        n = json_digits(text, at + 1 + sign);
        if (n == 0)
            return 0;
        at += 1 + sign + n;
    }
    return at;
}

int json_number(struct json *json, struct bytes *token)
{
    json_skip_space(json);
    size_t len = json_number_length(BYTES(json->at, (size_t)(json->end - json->at)));
    if (len == 0)
        return json_fail(json, "a number is missing");
    if (len > JSON_NUMBER_MAX)
        return json_fail(json, "a number of too many digits");
    *token = BYTES(json->at, len);
    json->at += len;
    return JSON_OK;
}

/* Digits alone; false if there is something else, or more than 64 bits. */
static bool plain_magnitude(struct bytes text, uint64_t *magnitude)
{
    uint64_t value = 0;
    for (size_t i = 0; i < text.len; i++) {
        unsigned digit = (unsigned)text.data[i] - '0';
        if (digit > 9 || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, digit, &value))
            return false;
    }
    *magnitude = value;
    return text.len > 0;
}

bool json_integer(struct bytes number, bool *negative, uint64_t *magnitude)
{
    *negative = number.len && number.data[0] == '-';
    struct bytes digits_only = BYTES(number.data + *negative, number.len - *negative);
    if (plain_magnitude(digits_only, magnitude))
        return true;
    if (!memchr(number.data, '.', number.len) && !memchr(number.data, 'e', number.len) &&
        !memchr(number.data, 'E', number.len))
        return false;
    double value;
    if (!json_double(number, &value) || fabs(value) >= 0x1p64)
        return false;
    *magnitude = (uint64_t)fabs(value);
    return (double)*magnitude == fabs(value);
}

bool json_double(struct bytes number, double *value)
{
    char text[JSON_NUMBER_MAX + 1];
    uint64_t magnitude;
    bool negative = number.data[0] == '-';
    /* strtod() is slow, and most are whole; up to 2^53 they are exact */
    if (plain_magnitude(BYTES(number.data + negative, number.len - negative), &magnitude) &&
        magnitude < UINT64_C(1) << 53) {
        *value = negative ? -(double)magnitude : (double)magnitude;
        return true;
    }
    if (number.len > JSON_NUMBER_MAX)
        return false;
    memcpy(text, number.data, number.len);
    text[number.len] = '\0';
    *value = strtod(text, NULL);
    return isfinite(*value);
}

/* ---- the rest ---- */

int json_bool(struct json *json, bool *value)
{
    *value = takes_word(json, "true");
    return *value || takes_word(json, "false") ? JSON_OK
                                               : json_fail(json, "true or false is missing");
}

static int skip_scalar(struct json *json)
{
    struct json_string string;
    struct bytes number;
    if (json_sees(json, '"'))
        return json_string(json, &string);
    if (json_sees(json, '-') || (json->at < json->end && *json->at >= '0' && *json->at <= '9'))
        return json_number(json, &number);
    if (takes_word(json, "true") || takes_word(json, "false") || takes_word(json, "null"))
        return JSON_OK;
    return json_fail(json, "a value is missing");
}

static int skip_key(struct json *json)
{
    struct json_string key;
    int error = json_string(json, &key);
    return error ? error : json_expect(json, ':', "a colon is missing");
}

/* What was opened and not closed yet is one bit each: 1 is an object. */
int json_skip(struct json *json)
{
    uint64_t objects = 0;
    unsigned depth = 0;
    bool first = false; /* of the current container, when it was just opened */
    int error;
    for (;;) {
        bool object = json_takes(json, '{');
        if (object || json_takes(json, '[')) {
            if (depth++ == JSON_SKIP_DEPTH_MAX)
                return json_fail(json, "nested too deep");
            objects = objects << 1 | object;
            first = true;
        } else if ((error = skip_scalar(json))) {
            return error;
        }
        int next = JSON_END;
        while (depth && (next = json_next(json, objects & 1 ? '}' : ']', &first)) == JSON_END) {
            objects >>= 1;
            depth--;
        }
        if (depth == 0 || next != JSON_OK)
            return next == JSON_END ? JSON_OK : next;
        if ((objects & 1) && (error = skip_key(json)))
            return error;
    }
}
