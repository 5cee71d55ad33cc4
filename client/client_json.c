/* SPDX-License-Identifier: Apache-2.0 */
#include "client/client_json.h"
#include "proto/json.h"
#include <errno.h>

static int read_value(struct json *json, struct arena *arena, unsigned depth, struct value *value);

static int client_json_outcome(int outcome_of_json)
{
    if (outcome_of_json < 0)
        return outcome_of_json;
    return outcome_of_json == JSON_OK ? 0 : -EPROTO;
}

static int read_text(struct json *json, struct arena *arena, struct bytes *text)
{
    _cleanup_buf_ struct buf plain = BUF_INIT(0);
    struct json_string string;
    int error = client_json_outcome(json_string(json, &string));
    if (!error && string.escaped)
        error = client_json_outcome(json_unescape(json, string.raw, &plain));
    if (error)
        return error;
    struct bytes from = string.escaped ? buf_bytes(&plain) : string.raw;
    void *copy = arena_dup(arena, from.data, from.len);
    *text = BYTES(copy, from.len);
    return copy || !from.len ? 0 : -ENOMEM;
}

static int read_item(struct json *json, struct arena *arena, unsigned depth, struct value *parent,
                     struct value **last)
{
    struct value *item = arena_zalloc(arena, sizeof(*item));
    int error = item ? 0 : -ENOMEM;
    if (!error && parent->kind == VALUE_OBJECT) {
        error = read_text(json, arena, &item->key);
        error =
            error ? error : client_json_outcome(json_expect(json, ':', "no colon behind a key"));
    }
    error = error ? error : read_value(json, arena, depth, item);
    if (error)
        return error;
    *(*last ? &(*last)->next : &parent->first) = item;
    *last = item;
    parent->n++;
    return 0;
}

static int read_items(struct json *json, struct arena *arena, unsigned depth, struct value *parent)
{
    struct value *last = NULL;
    bool first = true;
    char close = parent->kind == VALUE_OBJECT ? '}' : ']';
    int next;
    if (depth == CLIENT_JSON_DEPTH_MAX)
        return -EPROTO;
    while ((next = json_next(json, close, &first)) == JSON_OK) {
        int error = read_item(json, arena, depth + 1, parent, &last);
        if (error)
            return error;
    }
    return next == JSON_END ? 0 : -EPROTO;
}

static int read_scalar(struct json *json, struct value *value)
{
    struct bytes number;
    bool is_true;
    if (json_takes_null(json))
        return 0;
    if (json_sees(json, 't') || json_sees(json, 'f')) {
        value->kind = VALUE_BOOL;
        int error = client_json_outcome(json_bool(json, &is_true));
        value->number = error ? 0 : is_true;
        return error;
    }
    value->kind = VALUE_NUMBER;
    int error = client_json_outcome(json_number(json, &number));
    return error ? error : json_double(number, &value->number) ? 0 : -EPROTO;
}

static int read_value(struct json *json, struct arena *arena, unsigned depth, struct value *value)
{
    if (json_sees(json, '"')) {
        value->kind = VALUE_STRING;
        return read_text(json, arena, &value->text);
    }
    if (json_takes(json, '{'))
        value->kind = VALUE_OBJECT;
    else if (json_takes(json, '['))
        value->kind = VALUE_ARRAY;
    else
        return read_scalar(json, value);
    return read_items(json, arena, depth, value);
}

int client_json_read(struct bytes text, struct arena *arena, struct value *value)
{
    struct json json = json_open(text);
    *value = (struct value){.kind = VALUE_NULL};
    int error = read_value(&json, arena, 0, value);
    return error ? error : client_json_outcome(json_finish(&json));
}

const struct value *value_get(const struct value *value, const char *key)
{
    for (const struct value *item = value && value->kind == VALUE_OBJECT ? value->first : NULL;
         item; item = item->next)
        if (bytes_is(item->key, key))
            return item;
    return NULL;
}

struct bytes value_text(const struct value *value, const char *key)
{
    const struct value *item = value_get(value, key);
    return item ? item->text : BYTES(NULL, 0);
}

double value_number(const struct value *value, const char *key)
{
    const struct value *item = value_get(value, key);
    return item ? item->number : 0;
}

const struct value *value_items(const struct value *value, const char *key)
{
    const struct value *item = value_get(value, key);
    return item && item->kind == VALUE_ARRAY ? item->first : NULL;
}
