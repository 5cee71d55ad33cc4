/* SPDX-License-Identifier: Apache-2.0 */
#include "store/stacks/process_resource.h"
#include "base/stats.h"
#include "proto/otlp/otlp_spans.h"
#include "proto/pb.h"
#include "proto/wire.h"
#include <errno.h>
#include <resource.pb-c.h>

#define TEXT_MAX            4096
#define PUBLISHED_MAX       128 /* limit of a process's attributes added to those of a span */
#define RESOURCE_ATTRIBUTES 1   /* field of Resource */

STAT_LOSS(bad_resources, "spanprof_window_resources_left_out_total",
          "Resources that processes published, and that were malformed.");

static int add_text(struct buf *out, const char *key, struct bytes text)
{
    char clean[TEXT_MAX + 1];
    if (!text.len || otlp_resource_has(buf_bytes(out), BYTES_STR(key)))
        return 0;
    size_t len = bytes_sanitize(text, clean, sizeof(clean));
    return otlp_attribute_string(out, RESOURCE_ATTRIBUTES, key, BYTES(clean, len));
}

static int add_service_name(struct buf *out, struct bytes executable)
{
    char name[256] = "unknown_service";
    char clean[200];
    size_t len = strlen(name);
    if (executable.len) {
        size_t clean_len = bytes_sanitize(executable, clean, sizeof(clean));
        name[len++] = ':';
        memcpy(name + len, clean, clean_len);
        len += clean_len;
    }
    bool is_ours = executable.len && !otlp_resource_has(buf_bytes(out), BYTES_LIT("service.name"));
    int error = add_text(out, "service.name", BYTES(name, len));
    if (!error && is_ours)
        error = add_text(out, "spanprof.service.name.source", BYTES_LIT("executable"));
    return error;
}

static struct bytes service_of(struct bytes resource)
{
    struct bytes key_value, name;
    bool named = otlp_resource_attribute(resource, "service.name", &key_value) &&
                 otlp_key_value_string(key_value, &name);
    return named ? name : BYTES(NULL, 0);
}

static bool begins_with(struct bytes text, struct bytes prefix)
{
    return text.len >= prefix.len && !memcmp(text.data, prefix.data, prefix.len);
}

/* A process may send spans of several services: service.* attributes apply only to the same
 * service. */
static bool resource_applies(struct bytes key, struct bytes span_service, struct bytes service)
{
    if (begins_with(key, BYTES_LIT("spanprof.service.")))
        return !span_service.len;
    return !span_service.len || bytes_equal(span_service, service) ||
           !begins_with(key, BYTES_LIT("service."));
}

/* Adds published attributes of the process that the span's Resource lacks. */
static int add_published(struct buf *out, struct bytes span_resource, struct bytes published)
{
    struct bytes span_service = service_of(span_resource), service = service_of(published);
    struct wire_reader reader = wire_read(published);
    struct wire_field field;
    int error = 0;
    for (size_t n = 0; !error && n < PUBLISHED_MAX && wire_next(&reader, &field) == WIRE_FIELD;
         n++) {
        if (field.number != RESOURCE_ATTRIBUTES || field.type != WIRE_BYTES)
            continue;
        struct bytes key = otlp_key_value_key(field.bytes);
        if (resource_applies(key, span_service, service) && !otlp_resource_has(span_resource, key))
            error = buf_append_bytes(out, field.raw);
    }
    return error;
}

static int resource_build(struct buf *out, const struct bytes *span_resource,
                          struct bytes published, const struct process_facts *facts)
{
    int error = buf_append_bytes(out, span_resource ? *span_resource : published);
    if (!error && span_resource)
        error = add_published(out, *span_resource, published);
    if (!error && facts->pid && !otlp_resource_has(buf_bytes(out), BYTES_LIT("process.pid")))
        error = otlp_attribute_int(out, RESOURCE_ATTRIBUTES, "process.pid", facts->pid);
    if (!error)
        error = add_text(out, "process.executable.name", facts->executable_name);
    if (!error)
        error = add_text(out, "process.executable.path", facts->executable_path);
    if (!error)
        error = add_text(out, "container.id", facts->container_id);
    if (!error)
        error = add_text(out, "k8s.pod.uid", facts->pod_uid);
    if (!error)
        error = add_service_name(out, facts->executable_name);
    return error;
}

/* Published bytes are untrusted. */
int profile_resource(struct buf *out, const struct bytes *span_resource,
                     const struct process_facts *facts)
{
    int error = resource_build(out, span_resource, facts->resource, facts);
    if (error ||
        !pb_check(&opentelemetry__proto__resource__v1__resource__descriptor, buf_bytes(out)))
        return error;
    stat_add(&bad_resources, 1);
    buf_clear(out);
    return resource_build(out, span_resource, BYTES(NULL, 0), facts);
}
