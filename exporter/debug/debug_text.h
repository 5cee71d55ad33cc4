/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Lines of the debug exporter. A line is built piece by piece, then ended. Text from requests is
 * sanitized when it is added. Private to exporter/debug/. Thread: any, one at a time.
 * Limits: DEBUG_TEXT_MAX bytes in all; later lines are only counted. A line longer than
 * DEBUG_LINE_MAX, or a string longer than DEBUG_STRING_MAX, ends in "...".
 */
#include "base/buf.h"
#include "profiles_service.pb-c.h"

#define DEBUG_TEXT_MAX   (64u << 10)
#define DEBUG_LINE_MAX   2048
#define DEBUG_STRING_MAX 256
#define DEBUG_BYTES_MAX  64 /* of a bytes field, shown as hex */

typedef Opentelemetry__Proto__Common__V1__AnyValue AnyValue;
typedef Opentelemetry__Proto__Common__V1__KeyValue KeyValue;
typedef Opentelemetry__Proto__Profiles__V1development__KeyValueAndUnit KeyValueAndUnit;
typedef Opentelemetry__Proto__Profiles__V1development__ProfilesDictionary ProfilesDictionary;

struct debug_text {
    const ProfilesDictionary *dictionary; /* what *_strindex and indices refer to; NULL: none */
    struct buf text;
    struct buf line;
    bool cut; /* the current line is cut */
    uint64_t n_more;
};

void debug_text_open(struct debug_text *text, const ProfilesDictionary *dictionary);
void debug_text_close(struct debug_text *text);

void debug_printf(struct debug_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void debug_string(struct debug_text *text, const char *string); /* NULL: "" */
void debug_hex(struct debug_text *text, ProtobufCBinaryData bytes);
void debug_value(struct debug_text *text, const AnyValue *value); /* NULL: nothing is set */
void debug_key_value(struct debug_text *text, const KeyValue *attribute);
void debug_key_values(struct debug_text *text, KeyValue *const *attributes, size_t n);
/* Looked up in the dictionary; an index out of range is shown as such. */
void debug_strindex(struct debug_text *text, int32_t index);
void debug_attribute(struct debug_text *text, int32_t index);
void debug_key_value_and_unit(struct debug_text *text, const KeyValueAndUnit *attribute);
void debug_line_end(struct debug_text *text);
