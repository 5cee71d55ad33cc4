/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of a process besides its mappings. The symbolizer's word is checked here where it
 * will leave the node: the Resource must be a well-formed message, for it is sent on as it is.
 */
#include "agent-bpf/process/process_table.h"
#include "proto/pb.h"
#include <errno.h>
#include <resource.pb-c.h>

static bool replace_text(struct process_table *table, char **text, size_t *len, struct bytes value)
{
    if (*text && *len == value.len && !memcmp(*text, value.data, value.len))
        return false;
    char *copy = value.len ? process_alloc(table, value.len) : NULL;
    if (value.len && !copy)
        return false;
    if (value.len)
        memcpy(copy, value.data, value.len);
    bool changed = *text || copy;
    process_free(table, *text, *len);
    *text = copy;
    *len = value.len;
    return changed;
}

void process_details_inherit(struct process_table *table, struct process *child,
                             const struct process *parent, bool exec)
{
    child->n_asked = parent->n_asked;
    if (parent->container)
        replace_text(table, &child->container, &child->container_len,
                     BYTES(parent->container, parent->container_len));
    if (parent->pod)
        replace_text(table, &child->pod, &child->pod_len, BYTES(parent->pod, parent->pod_len));
    if (parent->exe && !exec)
        replace_text(table, &child->exe, &child->exe_len, BYTES(parent->exe, parent->exe_len));
    if (exec) { /* the same process */
        child->own_pid = parent->own_pid;
        child->start_ns = parent->start_ns;
    }
}

/* Until the symbolizer tells, the first file that a process maps is its executable. */
void process_details_guess_exe(struct process_table *table, struct process *process,
                               const char *path)
{
    replace_text(table, &process->exe, &process->exe_len, BYTES_STR(path));
    process->tag = (struct process_tag){0};
}

static void free_published(struct process_table *table, struct process *process)
{
    if (process->published)
        process_free(table, process->published, process->published->bytes);
    process->published = NULL;
}

void process_details_free(struct process_table *table, struct process *process)
{
    process_free(table, process->exe, process->exe_len);
    process_free(table, process->container, process->container_len);
    process_free(table, process->pod, process->pod_len);
    free_published(table, process);
}

static struct bytes without_deleted(struct bytes path)
{
    static const char suffix[] = " (deleted)";
    size_t n = sizeof(suffix) - 1;
    if (path.len > n && !memcmp(path.data + path.len - n, suffix, n))
        path.len -= n;
    return path;
}

int process_details_answer(struct process_table *table, const struct symbolizer_details *details)
{
    struct process *process = process_newest(table, details->pid);
    if (!process || process->from_ns > details->time_ns)
        return 0;
    bool changed = process->own_pid != details->own_pid || process->start_ns != details->start_ns;
    process->own_pid = details->own_pid;
    process->start_ns = details->start_ns;
    if (details->exe.len)
        changed |=
            replace_text(table, &process->exe, &process->exe_len, without_deleted(details->exe));
    changed |=
        replace_text(table, &process->container, &process->container_len, details->container_id);
    changed |= replace_text(table, &process->pod, &process->pod_len, details->pod_uid);
    if (changed)
        process->tag = (struct process_tag){0};
    return 0;
}

static uint8_t *details_place(uint8_t *at, struct bytes value, struct bytes *out)
{
    *out = BYTES(at, value.len);
    if (value.len)
        memcpy(at, value.data, value.len);
    return at + value.len;
}

static struct process_published *copy_published(struct process_table *table,
                                                const struct symbolizer_context *context)
{
    size_t bytes = sizeof(struct process_published) + context->n_keys * sizeof(struct bytes);
    bytes += context->resource.len;
    for (uint32_t i = 0; i < context->n_keys; i++)
        bytes += context->keys[i].len;
    struct process_published *published = process_alloc(table, bytes);
    if (!published)
        return NULL;
    published->bytes = bytes;
    published->sources = context->sources;
    published->publishes = context->publishes;
    published->sets_trace_flags = context->sets_trace_flags != 0;
    published->n_keys = context->n_keys;
    uint8_t *at = (uint8_t *)&published->keys[context->n_keys];
    at = details_place(at, context->resource, &published->resource);
    for (uint32_t i = 0; i < context->n_keys; i++)
        at = details_place(at, context->keys[i], &published->keys[i]);
    return published;
}

int process_context_answer(struct process_table *table, const struct symbolizer_context *context)
{
    struct process *process = process_newest(table, context->pid);
    if (!process || process->from_ns > context->time_ns)
        return 0;
    if (pb_check(&opentelemetry__proto__resource__v1__resource__descriptor, context->resource))
        return -EBADMSG;
    struct process_published *published = NULL;
    if (context->publishes || context->sources || context->resource.len || context->n_keys) {
        published = copy_published(table, context);
        if (!published)
            return -ENOMEM;
    }
    if (published || process->published)
        process->tag = (struct process_tag){0};
    free_published(table, process);
    process->published = published;
    process->runtime = context->runtime;
    process->publisher = context->publisher;
    process->unreadable = context->unreadable;
    process->frames = context->frames;
    return 0;
}

static struct bytes base_name(struct bytes path)
{
    const uint8_t *slash = path.len ? memrchr(path.data, '/', path.len) : NULL;
    size_t skip = slash ? (size_t)(slash + 1 - path.data) : 0;
    return BYTES(path.data + skip, path.len - skip);
}

int process_table_details(struct process_table *table, uint32_t pid, uint64_t time_ns,
                          struct process_details *details)
{
    CLAIM_THREAD(&table->owner);
    struct process *process = process_at(table, pid, time_ns);
    if (!process)
        return PROCESS_UNKNOWN;
    const struct process_published *published = process->published;
    struct bytes path = BYTES(process->exe, process->exe_len);
    *details = (struct process_details){
        .pid = process->pid,
        .own_pid = process->own_pid,
        .start_ns = process->start_ns,
        .executable_path = path,
        .executable_name = path.len ? base_name(path) : path,
        .container_id = BYTES(process->container, process->container_len),
        .pod_uid = BYTES(process->pod, process->pod_len),
        .runtime = process->runtime,
        .publisher = process->publisher,
        .unreadable = process->unreadable,
        .frames = process->frames,
        .tag = &process->tag,
    };
    if (published) {
        details->sources = published->sources;
        details->publishes = published->publishes;
        details->resource = published->resource;
        details->sets_trace_flags = published->sets_trace_flags;
        details->n_keys = published->n_keys;
        details->keys = published->keys;
    }
    return 0;
}
