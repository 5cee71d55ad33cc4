/* SPDX-License-Identifier: Apache-2.0 */
/* pb_check() has limited the depth of nested values. */
#include "exporter/debug/debug_text.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

void debug_text_open(struct debug_text *text, const ProfilesDictionary *dictionary)
{
    *text = (struct debug_text){.dictionary = dictionary,
                                .text = BUF_INIT(DEBUG_TEXT_MAX),
                                .line = BUF_INIT(DEBUG_LINE_MAX)};
}

void debug_text_close(struct debug_text *text)
{
    buf_close(&text->text);
    buf_close(&text->line);
}

static void debug_text_add(struct debug_text *text, const char *piece, size_t len)
{
    if (!text->cut && buf_append(&text->line, piece, len))
        text->cut = true;
}

void debug_printf(struct debug_text *text, const char *format, ...)
{
    char piece[DEBUG_STRING_MAX];
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(piece, sizeof(piece), format, arguments);
    va_end(arguments);
    if (n > 0)
        debug_text_add(text, piece, strlen(piece));
}

void debug_string(struct debug_text *text, const char *string)
{
    char clean[DEBUG_STRING_MAX + 1];
    size_t len = string ? strnlen(string, DEBUG_STRING_MAX + 1) : 0;
    debug_text_add(text, clean, bytes_sanitize(BYTES(string, len), clean, sizeof(clean)));
    if (len > DEBUG_STRING_MAX)
        debug_text_add(text, "...", 3);
}

void debug_hex(struct debug_text *text, ProtobufCBinaryData bytes)
{
    char hex[2 * DEBUG_BYTES_MAX + 1];
    size_t len = bytes.len < DEBUG_BYTES_MAX ? bytes.len : DEBUG_BYTES_MAX;
    bytes_to_hex(BYTES(bytes.data, len), hex);
    debug_text_add(text, hex, 2 * len);
    if (len < bytes.len)
        debug_printf(text, "... (%zu bytes)", bytes.len);
}

static void debug_text_values(struct debug_text *text, AnyValue *const *items, size_t n)
{
    debug_text_add(text, "[", 1);
    for (size_t i = 0; i < n && !text->cut; i++) {
        debug_printf(text, "%s", i ? ", " : "");
        debug_value(text, items[i]);
    }
    debug_text_add(text, "]", 1);
}

static void key_values(struct debug_text *text, KeyValue *const *items, size_t n)
{
    debug_text_add(text, "{", 1);
    for (size_t i = 0; i < n && !text->cut; i++) {
        debug_printf(text, "%s", i ? ", " : "");
        debug_key_value(text, items[i]);
    }
    debug_text_add(text, "}", 1);
}

void debug_value(struct debug_text *text, const AnyValue *value)
{
    if (!value)
        return;
    switch (value->value_case) {
    case OPENTELEMETRY__PROTO__COMMON__V1__ANY_VALUE__VALUE_STRING_VALUE:
        return debug_string(text, value->string_value);
    case OPENTELEMETRY__PROTO__COMMON__V1__ANY_VALUE__VALUE_BOOL_VALUE:
        return debug_printf(text, "%s", value->bool_value ? "true" : "false");
    case OPENTELEMETRY__PROTO__COMMON__V1__ANY_VALUE__VALUE_INT_VALUE:
        return debug_printf(text, "%" PRId64, value->int_value);
    case OPENTELEMETRY__PROTO__COMMON__V1__ANY_VALUE__VALUE_DOUBLE_VALUE:
        return debug_printf(text, "%.17g", value->double_value);
    case OPENTELEMETRY__PROTO__COMMON__V1__ANY_VALUE__VALUE_ARRAY_VALUE:
        return debug_text_values(text, value->array_value->values, value->array_value->n_values);
    case OPENTELEMETRY__PROTO__COMMON__V1__ANY_VALUE__VALUE_KVLIST_VALUE:
        return key_values(text, value->kvlist_value->values, value->kvlist_value->n_values);
    case OPENTELEMETRY__PROTO__COMMON__V1__ANY_VALUE__VALUE_BYTES_VALUE:
        return debug_hex(text, value->bytes_value);
    case OPENTELEMETRY__PROTO__COMMON__V1__ANY_VALUE__VALUE_STRING_VALUE_STRINDEX:
        return debug_strindex(text, value->string_value_strindex);
    default:
        return;
    }
}

void debug_key_value(struct debug_text *text, const KeyValue *attribute)
{
    if (attribute->key_strindex)
        debug_strindex(text, attribute->key_strindex);
    else
        debug_string(text, attribute->key);
    debug_text_add(text, "=", 1);
    debug_value(text, attribute->value);
}

void debug_key_values(struct debug_text *text, KeyValue *const *attributes, size_t n)
{
    for (size_t i = 0; i < n && !text->cut; i++) {
        debug_text_add(text, " ", 1);
        debug_key_value(text, attributes[i]);
    }
}

void debug_strindex(struct debug_text *text, int32_t index)
{
    const ProfilesDictionary *dictionary = text->dictionary;
    if (dictionary && index >= 0 && (size_t)index < dictionary->n_string_table)
        debug_string(text, dictionary->string_table[index]);
    else
        debug_printf(text, "<no string %d>", index);
}

void debug_key_value_and_unit(struct debug_text *text, const KeyValueAndUnit *attribute)
{
    debug_strindex(text, attribute->key_strindex);
    debug_text_add(text, "=", 1);
    debug_value(text, attribute->value);
    if (!attribute->unit_strindex)
        return;
    debug_text_add(text, " ", 1);
    debug_strindex(text, attribute->unit_strindex);
}

void debug_attribute(struct debug_text *text, int32_t index)
{
    const ProfilesDictionary *dictionary = text->dictionary;
    if (dictionary && index >= 0 && (size_t)index < dictionary->n_attribute_table)
        debug_key_value_and_unit(text, dictionary->attribute_table[index]);
    else
        debug_printf(text, "<no attribute %d>", index);
}

void debug_line_end(struct debug_text *text)
{
    static const char cut_end[] = "...\n";
    const char *end = text->cut ? cut_end : cut_end + 3;
    size_t len = text->line.len + strlen(end);
    if (text->n_more || buf_reserve(&text->text, len)) {
        text->n_more++; /* after the first omitted line, all lines are omitted */
    } else {
        (void)buf_append_bytes(&text->text, buf_bytes(&text->line));
        (void)buf_append(&text->text, end, strlen(end));
    }
    buf_clear(&text->line);
    text->cut = false;
}
