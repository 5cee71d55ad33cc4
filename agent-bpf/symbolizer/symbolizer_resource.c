/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One Resource of all that a process says of itself: of several sources with the same key the
 * earlier counts: process context, environment, Elastic's storage, container platform. Where its
 * name comes from is said with it.
 *
 * The environment is read from the memory where the process got it when it was started, not from
 * /proc/PID/environ: the process may have moved that to any address (prctl PR_SET_MM), also to one
 * whose page never comes. Once a program, and only of those that are sampled.
 */
#include "agent-bpf/symbolizer/symbolizer_parts.h"
#include "agent-bpf/contexts/unreadable.h"
#include "agent-bpf/files/proc_pid.h"
#include "proto/otlp/otlp_spans.h"
#include "proto/wire.h"
#include <errno.h>
#include <stdlib.h>

#define RESOURCE_ATTRIBUTES 1 /* field of Resource */
#define SERVICE_NAME        "service.name"
#define SERVICE_NAME_SOURCE "spanprof.service.name.source"
#define MERGED_MAX          16384       /* bytes; the store keeps no longer one */
#define ENVIRONMENTS_MAX    (32u << 20) /* bytes, of all subjects */

void resource_forget(struct symbolizer *symbolizer, struct subject *subject)
{
    if (subject->environment)
        symbolizer->environment_bytes -= subject->environment->size;
    free(subject->environment);
    subject->environment = NULL;
    subject->environment_read = false;
}

static int read_block(struct look *look, struct bytes *block)
{
    struct symbolizer *symbolizer = look->symbolizer;
    uint64_t start, end;
    symbolizer->text.limit_bytes = 8192;
    int error = proc_pid_read(look->subject->pid, "stat", &symbolizer->text);
    if (error)
        return error;
    if (!proc_parse_environment(buf_bytes(&symbolizer->text), &start, &end) || start >= end)
        return -ENOENT;
    size_t size = end - start < ENVIRONMENT_MAX ? end - start : ENVIRONMENT_MAX;
    _Static_assert(sizeof(symbolizer->payload) >= ENVIRONMENT_MAX, "it is read to there");
    *block = BYTES(symbolizer->payload, size);
    return look_memory(look, start, symbolizer->payload, size);
}

void look_environment(struct look *look)
{
    struct symbolizer *symbolizer = look->symbolizer;
    struct subject *subject = look->subject;
    struct environment *environment = NULL;
    struct bytes block;
    if (subject->environment_read || !subject->sampled)
        return;
    subject->environment_read = true;
    if (read_block(look, &block))
        return;
    int outcome = environment_parse(block, &environment);
    if (environment && symbolizer->environment_bytes + environment->size > ENVIRONMENTS_MAX) {
        free(environment);
        environment = NULL;
        outcome = -ENOMEM;
    }
    if (outcome)
        context_count_unreadable(CONTEXT_UNREADABLE_ENVIRONMENT);
    subject->environment = environment;
    if (environment)
        symbolizer->environment_bytes += environment->size;
}

/* As it is, but for a claim that is ours to make. */
static int add_published(struct buf *out, struct bytes resource)
{
    struct wire_reader reader = wire_read(resource);
    struct wire_field field;
    int error = 0;
    while (!error && wire_next(&reader, &field) == WIRE_FIELD) {
        bool attribute = field.number == RESOURCE_ATTRIBUTES && field.type == WIRE_BYTES;
        if (!attribute || !bytes_is(otlp_key_value_key(field.bytes), SERVICE_NAME_SOURCE))
            error = buf_append_bytes(out, field.raw);
    }
    return error;
}

static bool has(const struct buf *resource, const char *key)
{
    return otlp_resource_has(buf_bytes(resource), BYTES_STR(key));
}

/* What does not fit (any more) is left out: it is all that a later source loses. */
static bool fits(const struct buf *out, size_t size)
{
    return out->len + size <= MERGED_MAX;
}

static int add_text(struct buf *out, const char *key, struct bytes text)
{
    if (!text.len || has(out, key) || !fits(out, text.len + strlen(key) + 32))
        return 0;
    return otlp_attribute_string(out, RESOURCE_ATTRIBUTES, key, text);
}

static int add_attributes(struct buf *out, struct bytes attributes)
{
    struct wire_reader reader = wire_read(attributes);
    struct wire_field field;
    int error = 0;
    while (!error && wire_next(&reader, &field) == WIRE_FIELD) {
        struct bytes key = otlp_key_value_key(field.bytes);
        if (!bytes_is(key, SERVICE_NAME_SOURCE) && fits(out, field.raw.len) &&
            !otlp_resource_has(buf_bytes(out), key))
            error = buf_append_bytes(out, field.raw);
    }
    return error;
}

/* Who gave it, if it was not there before. */
static void name_source(const struct buf *out, const char **source, const char *candidate)
{
    if (!*source && has(out, SERVICE_NAME))
        *source = candidate;
}

int look_resource(struct look *look, struct buf *out)
{
    static const struct environment nothing;
    const struct environment *environment =
        look->subject->environment ? look->subject->environment : &nothing;
    const char *source = NULL;
    int error = look->has_context ? add_published(out, look->symbolizer->context.resource) : 0;
    name_source(out, &source, "process_context");
    error = error ? error : add_text(out, SERVICE_NAME, environment->service_name);
    error = error ? error : add_attributes(out, environment->attributes);
    name_source(out, &source, "environment");
    error = error ? error : add_text(out, SERVICE_NAME, look->elastic.service_name);
    error = error ? error
                  : add_text(out, "deployment.environment.name", look->elastic.service_environment);
    name_source(out, &source, "elastic");
    error = error ? error : add_text(out, SERVICE_NAME, environment->platform_name);
    name_source(out, &source, "container");
    if (!error && source)
        error = add_text(out, SERVICE_NAME_SOURCE, BYTES_STR(source));
    return error;
}
