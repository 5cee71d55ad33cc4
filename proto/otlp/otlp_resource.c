/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/otlp/otlp_spans.h"
#include "proto/otlp/otlp_spans_walk.h"
#include "proto/wire.h"

#define COUNT_BYTES 11 /* of dropped_attributes_count: tag and varint */

/* Attributes by which somebody finds the Resource, or tells it from another one. */
static const char *const identifying[] = {
    "service.name",
    "service.namespace",
    "service.instance.id",
    "service.version",
    "container.id",
    "process.pid",
    "process.executable.name",
    "host.name",
    "host.id",
    "k8s.namespace.name",
    "k8s.pod.name",
    "k8s.pod.uid",
    "k8s.container.name",
    "k8s.node.name",
    "deployment.environment.name",
    "telemetry.sdk.language",
};

static bool is_identifying(struct bytes key)
{
    for (size_t i = 0; i < sizeof(identifying) / sizeof(*identifying); i++)
        if (bytes_is(key, identifying[i]))
            return true;
    return false;
}

struct keeping {
    struct bytes resource;
    size_t max;
    struct buf *out;
    size_t begin;     /* of the Resource in out */
    uint64_t dropped; /* attributes, with those that were dropped before */
};

/* In the order of the message, as far as they fit. */
static int keep_attributes(struct keeping *keeping, bool those_identifying)
{
    struct wire_reader reader = wire_read(keeping->resource);
    struct wire_field field;
    int error = 0;
    while (!error && wire_next(&reader, &field) == WIRE_FIELD) {
        if (!spans_nested(&field, RESOURCE_ATTRIBUTES) ||
            is_identifying(otlp_key_value_key(field.bytes)) != those_identifying)
            continue;
        size_t used = keeping->out->len - keeping->begin;
        if (used + field.raw.len + COUNT_BYTES > keeping->max)
            keeping->dropped++;
        else
            error = buf_append_bytes(keeping->out, field.raw);
    }
    return error;
}

static uint64_t dropped_before(struct bytes resource)
{
    struct wire_reader reader = wire_read(resource);
    struct wire_field field;
    uint64_t dropped = 0;
    while (wire_next(&reader, &field) == WIRE_FIELD)
        if (field.number == RESOURCE_DROPPED && field.type == WIRE_VARINT)
            dropped = (uint32_t)field.value;
    return dropped;
}

int otlp_resource_keep(struct bytes resource, size_t max, struct buf *out)
{
    if (resource.len <= max)
        return buf_append_bytes(out, resource);
    struct keeping keeping = {.resource = resource,
                              .max = max,
                              .out = out,
                              .begin = out->len,
                              .dropped = dropped_before(resource)};
    int error = keep_attributes(&keeping, true);
    if (!error)
        error = keep_attributes(&keeping, false);
    uint64_t dropped = keeping.dropped > UINT32_MAX ? UINT32_MAX : keeping.dropped;
    return error ? error : wire_put_varint(out, RESOURCE_DROPPED, dropped);
}
