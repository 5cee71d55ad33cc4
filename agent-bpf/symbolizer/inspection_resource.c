/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Merges what a process publishes about itself into one Resource. If several sources have the same
 * key, the first wins: process context, environment, Elastic's storage, container platform. The
 * source of service.name is added as an attribute.
 *
 * The environment is read from the memory where exec() put it, not from /proc/PID/environ: a
 * process may point that to any address (prctl PR_SET_MM), also to one whose page fault blocks for
 * ever. It is read once per program, and only of processes that are sampled.
 */
#include "agent-bpf/symbolizer/inspection.h"
#include "agent-bpf/contexts/unreadable.h"
#include "agent-bpf/files/proc_pid.h"
#include "base/limits.h"
#include "proto/otlp/otlp_spans.h"
#include "proto/wire.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define RESOURCE_ATTRIBUTES 1 /* field of Resource */
#define SERVICE_NAME        "service.name"
#define SERVICE_NAME_SOURCE "spanprof.service.name.source"
#define MERGED_MAX          16384 /* bytes; the limit of the store */

LIMIT(environments, LIMIT_SYMBOLIZER, "environments of processes", .bytes = ENVIRONMENTS_MAX);

void resource_forget(struct symbolizer *symbolizer, struct tracked_process *process)
{
    if (process->environment)
        fair_share_give(&symbolizer->shares.environments, process->tenant,
                        process->environment->size);
    free(process->environment);
    process->environment = NULL;
    process->environment_read = false;
}

static int inspection_read_block(struct inspection *inspection, struct bytes *block)
{
    struct symbolizer *symbolizer = inspection->symbolizer;
    struct bytes stat;
    uint64_t start, end;
    int error = process_text(&symbolizer->texts, inspection->process->pid, READER_STAT, &stat);
    if (error)
        return error;
    if (!proc_parse_environment(stat, &start, &end) || start >= end)
        return -ENOENT;
    size_t size = end - start < ENVIRONMENT_MAX ? end - start : ENVIRONMENT_MAX;
    _Static_assert(sizeof(symbolizer->payload) >= ENVIRONMENT_MAX, "it is read to there");
    *block = BYTES(symbolizer->payload, size);
    return inspection_read_memory(inspection, start, symbolizer->payload, size);
}

void inspection_read_environment(struct inspection *inspection)
{
    struct symbolizer *symbolizer = inspection->symbolizer;
    struct tracked_process *process = inspection->process;
    struct environment *environment = NULL;
    struct bytes block;
    if (process->environment_read || !process->sampled)
        return;
    int error = inspection_read_block(inspection, &block);
    process->environment_read = error != -EAGAIN;
    if (error)
        return;
    int outcome = environment_parse(block, &environment);
    explicit_bzero(symbolizer->payload, block.len); /* other variables may be secrets */
    struct fair_share *share = &symbolizer->shares.environments;
    if (environment && !fair_share_has_room(share, process->tenant, environment->size)) {
        free(environment);
        environment = NULL;
        outcome = -ENOMEM;
    }
    if (outcome)
        inspection_unreadable(inspection, CONTEXT_UNREADABLE_ENVIRONMENT);
    process->environment = environment;
    if (environment)
        fair_share_take(share, process->tenant, environment->size);
}

/* Copied as it is, except for the attribute that only we may set. */
static int resource_add_published(struct buf *out, struct bytes resource)
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

static bool resource_has(const struct buf *resource, const char *key)
{
    return otlp_resource_has(buf_bytes(resource), BYTES_STR(key));
}

/* Attributes beyond the limit are left out; later sources are the first to lose some. */
static bool resource_fits(const struct buf *out, size_t size)
{
    return out->len + size <= MERGED_MAX;
}

static int resource_add_text(struct buf *out, const char *key, struct bytes text)
{
    if (!text.len || resource_has(out, key) || !resource_fits(out, text.len + strlen(key) + 32))
        return 0;
    return otlp_attribute_string(out, RESOURCE_ATTRIBUTES, key, text);
}

static int resource_add_attributes(struct buf *out, struct bytes attributes)
{
    struct wire_reader reader = wire_read(attributes);
    struct wire_field field;
    int error = 0;
    while (!error && wire_next(&reader, &field) == WIRE_FIELD) {
        struct bytes key = otlp_key_value_key(field.bytes);
        if (!bytes_is(key, SERVICE_NAME_SOURCE) && resource_fits(out, field.raw.len) &&
            !otlp_resource_has(buf_bytes(out), key))
            error = buf_append_bytes(out, field.raw);
    }
    return error;
}

/* candidate is the source of the name if it has just appeared. */
static void resource_note_name_source(const struct buf *out, const char **source,
                                      const char *candidate)
{
    if (!*source && resource_has(out, SERVICE_NAME))
        *source = candidate;
}

int inspection_make_resource(struct inspection *inspection, struct buf *out)
{
    static const struct environment nothing;
    const struct environment *environment =
        inspection->process->environment ? inspection->process->environment : &nothing;
    const char *source = NULL;
    int error = inspection->has_context
                    ? resource_add_published(out, inspection->symbolizer->context.resource)
                    : 0;
    resource_note_name_source(out, &source, "process_context");
    error = error ? error : resource_add_text(out, SERVICE_NAME, environment->service_name);
    error = error ? error : resource_add_attributes(out, environment->attributes);
    resource_note_name_source(out, &source, "environment");
    error = error ? error : resource_add_text(out, SERVICE_NAME, inspection->elastic.service_name);
    error = error ? error
                  : resource_add_text(out, "deployment.environment.name",
                                      inspection->elastic.service_environment);
    resource_note_name_source(out, &source, "elastic");
    error = error ? error : resource_add_text(out, SERVICE_NAME, environment->platform_name);
    resource_note_name_source(out, &source, "container");
    if (!error && source)
        error = resource_add_text(out, SERVICE_NAME_SOURCE, BYTES_STR(source));
    return error;
}
