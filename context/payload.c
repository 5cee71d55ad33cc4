/* SPDX-License-Identifier: Apache-2.0 */
#include "context/payload.h"
#include <string.h>

/* Field numbers with wire type 2 (length-delimited). */
enum {
    PROCESS_CONTEXT_RESOURCE = 1 << 3 | 2,
    PROCESS_CONTEXT_ATTRIBUTES = 2 << 3 | 2,
    RESOURCE_ATTRIBUTES = 1 << 3 | 2,
    KEY_VALUE_KEY = 1 << 3 | 2,
    KEY_VALUE_VALUE = 2 << 3 | 2,
    ANY_VALUE_STRING = 1 << 3 | 2,
    ANY_VALUE_ARRAY = 5 << 3 | 2,
    ARRAY_VALUE_VALUES = 1 << 3 | 2,
};

static size_t varint_size(size_t value)
{
    size_t size = 1;
    for (; value >= 0x80; value >>= 7)
        size++;
    return size;
}

static size_t field_size(size_t len)
{
    return 1 + varint_size(len) + len;
}

static uint8_t *put_head(uint8_t *at, uint8_t tag, size_t len)
{
    *at++ = tag;
    for (; len >= 0x80; len >>= 7)
        *at++ = (uint8_t)(len | 0x80);
    *at++ = (uint8_t)len;
    return at;
}

static uint8_t *put_field(uint8_t *at, uint8_t tag, const void *data, size_t len)
{
    at = put_head(at, tag, len);
    memcpy(at, data, len);
    return at + len;
}

static size_t string_pair_size(size_t key_len, size_t value_len)
{
    return field_size(key_len) + field_size(field_size(value_len));
}

static uint8_t *put_string_pair(uint8_t *at, const void *key, size_t key_len, const void *value,
                                size_t value_len)
{
    at = put_field(at, KEY_VALUE_KEY, key, key_len);
    at = put_head(at, KEY_VALUE_VALUE, field_size(value_len));
    return put_field(at, ANY_VALUE_STRING, value, value_len);
}

/* Both passes over the table, for its size and to write it (at != NULL). */
static size_t resource_pass(const struct shared_table *resource, uint8_t *at)
{
    size_t size = 0;
    const uint8_t *entry = resource->data;
    for (uint32_t i = 0; i < resource->n_attributes; i++) {
        uint16_t key_len, value_len;
        memcpy(&key_len, entry, 2);
        memcpy(&value_len, entry + 2, 2);
        size_t pair = string_pair_size(key_len, value_len);
        if (at) {
            at = put_head(at, RESOURCE_ATTRIBUTES, pair);
            at = put_string_pair(at, entry + 4, key_len, entry + 4 + key_len, value_len);
        }
        size += field_size(pair);
        entry += 4 + key_len + value_len;
    }
    return size;
}

static size_t keys_pass(const uint8_t *keys, uint32_t n_keys, uint8_t *at)
{
    size_t size = 0;
    for (uint32_t i = 0; i < n_keys; i++, keys += 1 + keys[0]) {
        size_t value = field_size(keys[0]);
        if (at) {
            at = put_head(at, ARRAY_VALUE_VALUES, value);
            at = put_field(at, ANY_VALUE_STRING, keys + 1, keys[0]);
        }
        size += field_size(value);
    }
    return size;
}

static uint8_t *put_key_map(uint8_t *at, const uint8_t *keys, uint32_t n_keys)
{
    static const char name[] = OTEL_THREAD_KEY_MAP_KEY;
    size_t values = keys_pass(keys, n_keys, NULL), array = field_size(values);
    at = put_head(at, PROCESS_CONTEXT_ATTRIBUTES, field_size(sizeof(name) - 1) + field_size(array));
    at = put_field(at, KEY_VALUE_KEY, name, sizeof(name) - 1);
    at = put_head(at, KEY_VALUE_VALUE, array);
    at = put_head(at, ANY_VALUE_ARRAY, values);
    return at + keys_pass(keys, n_keys, at);
}

const char *spanprof_context_schema = OTEL_THREAD_SCHEMA_DEV;

size_t spanprof_context_payload(const struct shared_table *resource, const uint8_t *keys,
                                uint32_t n_keys, uint8_t *out)
{
    static const char schema_key[] = OTEL_THREAD_SCHEMA_KEY;
    const char *schema = spanprof_context_schema;
    size_t schema_len = strlen(schema);
    uint8_t *at = put_head(out, PROCESS_CONTEXT_RESOURCE, resource_pass(resource, NULL));
    at += resource_pass(resource, at);
    at = put_head(at, PROCESS_CONTEXT_ATTRIBUTES,
                  string_pair_size(sizeof(schema_key) - 1, schema_len));
    at = put_string_pair(at, schema_key, sizeof(schema_key) - 1, schema, schema_len);
    at = put_key_map(at, keys, n_keys);
    return (size_t)(at - out);
}

/* Length of the character at the front (RFC 3629), 0 if it is none. */
static size_t payload_character(const uint8_t *at, size_t left)
{
    if (at[0] < 0x80)
        return 1;
    size_t size = at[0] >= 0xf0 ? 4 : at[0] >= 0xe0 ? 3 : 2;
    if (at[0] < 0xc2 || at[0] > 0xf4 || size > left)
        return 0;
    for (size_t i = 1; i < size; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    bool overlong = (at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xf0 && at[1] < 0x90);
    bool surrogate = at[0] == 0xed && at[1] > 0x9f, beyond = at[0] == 0xf4 && at[1] > 0x8f;
    return overlong || surrogate || beyond ? 0 : size;
}

bool spanprof_context_utf8(const char *text, size_t size)
{
    const uint8_t *at = (const uint8_t *)text;
    while (size) {
        size_t n = payload_character(at, size);
        if (!n)
            return false;
        at += n;
        size -= n;
    }
    return true;
}
