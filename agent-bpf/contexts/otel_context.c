/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Read as a seqlock: time, payload, time again; if the time has changed, the payload is torn. The
 * last two are one request to the reader, which keeps their order. The
 * publisher chooses sizes and pointers, so each is checked against the maps before it is followed.
 */
#include "agent-bpf/contexts/otel_context.h"
#include "agent-bpf/files/proc_maps.h"
#include "agent-bpf/files/reader_client.h"
#include "context/context_layout.h"
#include "proto/pb.h"
#include "proto/wire.h"
#include <resource.pb-c.h>

#define ATTEMPTS              3
#define OTEL_GO_LABELS_SCHEMA "go_pprof_labels_v1" /* OTEP 4947: no key map, nothing in TLS */

enum { PROCESS_RESOURCE = 1, PROCESS_ATTRIBUTES = 2 };
enum { KEY_VALUE_KEY = 1, KEY_VALUE_VALUE = 2 };
enum { ANY_STRING = 1, ANY_INT = 3, ANY_ARRAY = 5, ARRAY_VALUES = 1 };

static bool starts_with(struct bytes text, const char *start)
{
    size_t n = strlen(start);
    return text.len >= n && !memcmp(text.data, start, n);
}

bool otel_context_named(struct bytes path)
{
    return starts_with(path, OTEL_PROCESS_MAP_NAME_SHMEM) ||
           starts_with(path, OTEL_PROCESS_MAP_NAME_MEMFD) ||
           starts_with(path, OTEL_PROCESS_MAP_NAME_ANON);
}

static int check_header(const struct otel_process_header *header)
{
    if (memcmp(header->signature, OTEL_PROCESS_SIGNATURE, sizeof(header->signature)) ||
        header->version != OTEL_PROCESS_VERSION)
        return OTEL_CONTEXT_MALFORMED;
    return header->published_at_ns ? 0 : OTEL_CONTEXT_BUSY;
}

static int read_header(uint32_t pid, uint64_t address, struct otel_process_header *header)
{
    int error = reader_memory_one(pid, address, header, sizeof(*header));
    return error ? error : check_header(header);
}

int otel_context_poll(uint32_t pid, uint64_t address, uint64_t *published_ns)
{
    struct otel_process_header header;
    int error = read_header(pid, address, &header);
    *published_ns = error ? 0 : header.published_at_ns;
    return error;
}

/* A string AnyValue; false if it is of another type. */
static bool any_string(struct bytes any, struct bytes *text)
{
    struct wire_reader reader = wire_read(any);
    struct wire_field field;
    bool found = false;
    while (wire_next(&reader, &field) == WIRE_FIELD) {
        found = field.number == ANY_STRING && field.type == WIRE_BYTES;
        if (found)
            *text = field.bytes;
    }
    return found;
}

/* An integer AnyValue; false if it is of another type. */
static bool any_int(struct bytes any, int64_t *number)
{
    struct wire_reader reader = wire_read(any);
    struct wire_field field;
    bool found = false;
    while (wire_next(&reader, &field) == WIRE_FIELD) {
        found = field.number == ANY_INT && field.type == WIRE_VARINT;
        if (found)
            *number = (int64_t)field.value;
    }
    return found;
}

/* KeyValue: the last of a repeated field counts, as protobuf has it. */
static int read_key_value(struct bytes message, struct bytes *key, struct bytes *value)
{
    struct wire_reader reader = wire_read(message);
    struct wire_field field;
    int outcome;
    *key = *value = (struct bytes){0};
    while ((outcome = wire_next(&reader, &field)) == WIRE_FIELD) {
        if (field.type != WIRE_BYTES)
            continue;
        if (field.number == KEY_VALUE_KEY)
            *key = field.bytes;
        if (field.number == KEY_VALUE_VALUE)
            *value = field.bytes;
    }
    return outcome;
}

/* The ABI indexes by one byte: what is beyond 256 cannot be meant by any record. */
static int read_keys(struct bytes any, struct otel_context *context)
{
    struct wire_reader reader = wire_read(any);
    struct wire_field field;
    int outcome;
    context->n_keys = 0;
    while ((outcome = wire_next(&reader, &field)) == WIRE_FIELD) {
        if (field.number != ANY_ARRAY || field.type != WIRE_BYTES)
            continue;
        struct wire_reader values = wire_read(field.bytes);
        while ((outcome = wire_next(&values, &field)) == WIRE_FIELD) {
            if (field.number != ARRAY_VALUES || field.type != WIRE_BYTES ||
                context->n_keys == OTEL_CONTEXT_KEYS_MAX)
                continue;
            struct bytes key = {0};
            if (!any_string(field.bytes, &key) || !bytes_utf8_valid(key))
                key = (struct bytes){0}; /* keeps its place: an entry without a name is left out */
            context->keys[context->n_keys++] = key;
        }
        if (outcome == WIRE_MALFORMED)
            return outcome;
    }
    return outcome;
}

static enum otel_schema schema_of(struct bytes name)
{
    static const struct {
        const char *name;
        enum otel_schema schema;
    } schemas[] = {{OTEL_THREAD_SCHEMA, OTEL_SCHEMA_THREAD_LOCAL},
                   {OTEL_THREAD_SCHEMA_DEV, OTEL_SCHEMA_THREAD_LOCAL},
                   {OTEL_GO_LABELS_SCHEMA, OTEL_SCHEMA_GO_LABELS},
                   {OTEL_NODEJS_SCHEMA, OTEL_SCHEMA_NODEJS},
                   {OTEL_NODEJS_SCHEMA_DEV, OTEL_SCHEMA_NODEJS}};
    for (size_t i = 0; i < sizeof(schemas) / sizeof(*schemas); i++)
        if (bytes_is(name, schemas[i].name))
            return schemas[i].schema;
    return OTEL_SCHEMA_OTHER;
}

static int read_attribute(struct bytes message, struct otel_context *context)
{
    struct bytes key, value, text;
    int64_t number;
    if (read_key_value(message, &key, &value))
        return OTEL_CONTEXT_MALFORMED;
    if (bytes_is(key, OTEL_THREAD_KEY_MAP_KEY))
        return read_keys(value, context);
    if (bytes_is(key, OTEL_THREAD_SCHEMA_KEY) && any_string(value, &text)) {
        context->schema_final = bytes_is(text, OTEL_THREAD_SCHEMA);
        context->schema = schema_of(text);
    }
    nodejs_layout_put(&context->nodejs, key, any_int(value, &number) ? &number : NULL);
    return 0;
}

int otel_context_decode(struct bytes message, struct otel_context *context)
{
    uint64_t published_ns = context->published_ns;
    memset(context, 0, sizeof(*context));
    context->published_ns = published_ns;
    struct wire_reader reader = wire_read(message);
    struct wire_field field;
    int outcome;
    while ((outcome = wire_next(&reader, &field)) == WIRE_FIELD) {
        if (field.type != WIRE_BYTES)
            continue;
        if (field.number == PROCESS_RESOURCE)
            context->resource = field.bytes;
        if (field.number == PROCESS_ATTRIBUTES && read_attribute(field.bytes, context))
            return OTEL_CONTEXT_MALFORMED;
    }
    if (outcome != WIRE_END)
        return OTEL_CONTEXT_MALFORMED;
    int error =
        pb_check(&opentelemetry__proto__resource__v1__resource__descriptor, context->resource);
    return error ? OTEL_CONTEXT_MALFORMED : 0;
}

/* One attempt of the seqlock. */
static int read_once(const struct otel_context_source *source, uint8_t *payload,
                     struct otel_context *context)
{
    struct otel_process_header before, after;
    int error = read_header(source->pid, source->address, &before);
    if (error)
        return error;
    if (!before.payload_size || before.payload_size > OTEL_PROCESS_PAYLOAD_MAX)
        return OTEL_CONTEXT_MALFORMED;
    if (!proc_maps_harmless(source->maps, source->mounts, before.payload, before.payload_size))
        return OTEL_CONTEXT_MALFORMED;
    struct reader_range ranges[] = {
        {.address = before.payload, .out = payload, .size = before.payload_size},
        {.address = source->address, .out = &after, .size = sizeof(after)}};
    error = reader_memory(source->pid, ranges, 2);
    error = error ? error : ranges[0].error;
    error = error ? error : ranges[1].error;
    error = error ? error : check_header(&after);
    if (error)
        return error;
    if (after.published_at_ns != before.published_at_ns)
        return OTEL_CONTEXT_BUSY;
    context->published_ns = before.published_at_ns;
    return otel_context_decode(BYTES(payload, before.payload_size), context);
}

int otel_context_read(const struct otel_context_source *source, uint8_t *payload,
                      struct otel_context *context)
{
    if (!proc_maps_harmless(source->maps, source->mounts, source->address,
                            sizeof(struct otel_process_header)))
        return OTEL_CONTEXT_MALFORMED;
    int error = OTEL_CONTEXT_BUSY;
    for (int i = 0; i < ATTEMPTS && error == OTEL_CONTEXT_BUSY; i++)
        error = read_once(source, payload, context);
    return error;
}
