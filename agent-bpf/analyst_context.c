/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a published process context to an entry in the sampler's contexts map. Order matters: first
 * the keys and the resource are told to the service, then the entry is written, so that no sample
 * carries attributes whose names are unknown.
 *
 * The process may exec between our reading and our writing, after which the entry would describe a
 * program that is gone; the sampler removes entries on exec, but ours would come after that. So the
 * header is read once more after the write: a new program does not have it there with the same
 * time.
 */
#include "agent-bpf/analyst_parts.h"
#include "agent-bpf/analyst_stats.h"
#include "agent-bpf/process.h"
#include "agent-bpf/proc_pid.h"
#include <bpf/bpf.h>
#include <errno.h>

#define FILES_MAX 1024 /* different files of one process looked at for the variable */

struct reading {
    struct analyst *analyst;
    struct subject *subject;
    bool mounts_read;
};

static struct bytes mounts_of(struct reading *reading)
{
    struct analyst *analyst = reading->analyst;
    if (!reading->mounts_read &&
        proc_pid_read(reading->subject->pid, "mountinfo", &analyst->mounts))
        buf_clear(&analyst->mounts);
    reading->mounts_read = true;
    return buf_bytes(&analyst->mounts);
}

static int read_words(void *context, uint64_t address, void *out, size_t size)
{
    struct reading *reading = context;
    if (!proc_maps_harmless(buf_bytes(&reading->analyst->maps), mounts_of(reading), address, size))
        return -EFAULT;
    return proc_pid_memory(reading->subject->pid, address, out, size);
}

/* Also what an analyst before this one may have entered. */
static void delete_entry(struct analyst *analyst, struct subject *subject)
{
    if (analyst->settings.contexts_map_fd >= 0)
        bpf_map_delete_elem(analyst->settings.contexts_map_fd, &subject->pid);
    subject->entered = false;
}

static bool has_musl(struct bytes maps)
{
    static const char loader[] = "/ld-musl-";
    return maps.len && memmem(maps.data, maps.len, loader, sizeof(loader) - 1);
}

static bool same_variable(const struct context_variable *a, const struct context_variable *b)
{
    return a->tls_model == b->tls_model && a->offset == b->offset && a->module == b->module;
}

static void add_variable(struct context_process *entry, const struct context_variable *variable)
{
    for (uint32_t i = 0; i < entry->count; i++)
        if (same_variable(&entry->variables[i], variable))
            return;
    if (entry->count == CONTEXT_MAX_VARIABLES)
        return;
    entry->variables[entry->count] = *variable;
    entry->variables[entry->count++].source = CONTEXT_OTEL_THREAD;
}

static void try_file(struct reading *reading, const struct proc_map *map,
                     struct context_process *entry)
{
    char path[ANALYST_PATH_MAX];
    struct process_mapping mapping;
    struct binary *binary;
    analyst_complete_mapping(reading->analyst, reading->subject->pid, map, path, &mapping, &binary);
    uint64_t vaddr;
    if (!binary || !binary->thread_context || !binary_address(binary, map->offset, &vaddr))
        return;
    struct tls_process process = {
        .read = read_words,
        .context = reading,
        .bias = map->start - vaddr,
        .is_executable = binary->thread_context->in_executable,
        .libc = has_musl(buf_bytes(&reading->analyst->maps)) ? TLS_LIBC_MUSL : TLS_LIBC_GLIBC,
    };
    struct context_variable variable;
    if (tls_locate(binary->thread_context, &process, &variable))
        return;
    reading->subject->sets_trace_flags &= binary->sets_trace_flags;
    add_variable(entry, &variable);
}

/* Every file with code, once: its first executable mapping. */
static void find_variables(struct reading *reading, struct context_process *entry)
{
    struct bytes rest = buf_bytes(&reading->analyst->maps);
    struct proc_map map, last = {0};
    for (int n = 0; n < FILES_MAX && proc_maps_next(&rest, &map);) {
        if (!map.executable || !map.inode || !map.path.len || map.path.data[0] != '/')
            continue;
        if (map.inode == last.inode && bytes_equal(map.path, last.path))
            continue;
        last = map;
        n++;
        try_file(reading, &map, entry);
    }
}

/* 0 when samples carry ids from now on. */
static int enter(struct reading *reading, const struct context_process *entry)
{
    struct analyst *analyst = reading->analyst;
    struct subject *subject = reading->subject;
    if (analyst->settings.contexts_map_fd < 0 || !entry->count)
        return -ENOENT;
    if (bpf_map_update_elem(analyst->settings.contexts_map_fd, &subject->pid, entry, BPF_ANY))
        return -errno;
    subject->entered = true;
    uint64_t published_ns;
    int error = otel_context_poll(subject->pid, subject->address, &published_ns);
    if (!error || error == OTEL_CONTEXT_BUSY)
        return 0;
    analyst_count(COUNT_CONTEXTS_RACED, 1);
    delete_entry(analyst, subject);
    return -ESRCH;
}

static void tell(struct reading *reading, uint64_t time_ns, bool attached)
{
    struct otel_context *context = &reading->analyst->context;
    struct subject *subject = reading->subject;
    analyst_say(reading->analyst,
                &(struct analyst_message){.kind = ANALYST_CONTEXT,
                                          .context = {.pid = subject->pid,
                                                      .time_ns = time_ns,
                                                      .attached = attached,
                                                      .sets_trace_flags = subject->sets_trace_flags,
                                                      .published_ns = context->published_ns,
                                                      .resource = context->resource,
                                                      .n_keys = context->n_keys,
                                                      .keys = context->keys}});
    subject->reported = true;
}

/* news: the publication has not been told yet; else only the variable may have come (a library that
 * was loaded after it). */
static void attach(struct reading *reading, uint64_t time_ns, bool news)
{
    const struct otel_context *context = &reading->analyst->context;
    struct subject *subject = reading->subject;
    struct context_process entry = {.process_start_ns = subject->start_ns};
    subject->sets_trace_flags = true;
    if (context->schema == OTEL_SCHEMA_TLS)
        find_variables(reading, &entry);
    subject->sets_trace_flags = entry.count && (subject->sets_trace_flags || context->schema_final);
    bool attachable = entry.count && reading->analyst->settings.contexts_map_fd >= 0;
    bool was_entered = subject->entered;
    if (!news && !attachable)
        return;
    tell(reading, time_ns, attachable);
    if (!attachable) {
        delete_entry(reading->analyst, subject);
    } else if (enter(reading, &entry)) {
        subject->published_ns = 0; /* looked at again */
        tell(reading, time_ns, false);
    } else if (!was_entered) {
        analyst_count(COUNT_CONTEXTS_ATTACHED, 1);
    }
}

/* The first mapping that holds a readable header. */
static int find_context(struct reading *reading)
{
    struct analyst *analyst = reading->analyst;
    struct bytes rest = buf_bytes(&analyst->maps);
    struct proc_map map;
    int outcome = -ENOENT;
    while (proc_maps_next(&rest, &map)) {
        if (map.executable || !otel_context_named(map.path))
            continue;
        struct otel_context_source source = {.pid = reading->subject->pid,
                                             .address = map.start,
                                             .maps = buf_bytes(&analyst->maps),
                                             .mounts = mounts_of(reading)};
        outcome = otel_context_read(&source, analyst->payload, &analyst->context);
        if (!outcome) {
            reading->subject->address = map.start;
            return 0;
        }
        analyst_count(outcome == OTEL_CONTEXT_BUSY ? COUNT_CONTEXTS_BUSY : COUNT_CONTEXTS_MALFORMED,
                      1);
    }
    return outcome;
}

void subject_withdraw(struct analyst *analyst, struct subject *subject)
{
    delete_entry(analyst, subject);
    subject->address = subject->published_ns = 0;
    if (!subject->reported)
        return;
    subject->reported = false;
    analyst_say(analyst, &(struct analyst_message){
                             .kind = ANALYST_CONTEXT,
                             .context = {.pid = subject->pid, .time_ns = clock_monotonic_ns()}});
}

void subject_look(struct analyst *analyst, struct subject *subject)
{
    struct reading reading = {.analyst = analyst, .subject = subject};
    uint64_t time_ns = clock_monotonic_ns();
    int outcome = find_context(&reading);
    if (outcome == OTEL_CONTEXT_BUSY)
        return; /* what was told still holds, as far as one can know */
    if (outcome) {
        subject_withdraw(analyst, subject);
        return;
    }
    bool news = !subject->reported || subject->published_ns != analyst->context.published_ns;
    if (!news && subject->entered)
        return;
    subject->published_ns = analyst->context.published_ns;
    attach(&reading, time_ns, news);
}

bool subject_unchanged(struct analyst *analyst, struct subject *subject)
{
    (void)analyst;
    uint64_t published_ns;
    if (!subject->address || !subject->published_ns || !subject->entered)
        return false;
    int error = otel_context_poll(subject->pid, subject->address, &published_ns);
    return !error && published_ns == subject->published_ns;
}
