/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the publishers that a process has mapped to its entry in the sampler's contexts map: all
 * variables that can be located, in the order of precedence, which is that of the numbers of their
 * sources (OpenTelemetry's thread context, Elastic, Go's labels, custom labels; OBI's map comes
 * last and has no variable), those of one source in the order of the maps.
 *
 * The process may exec between our reading and our writing, after which the entry would describe a
 * program that is gone; the sampler removes entries on exec, but ours would come after that. So the
 * process is looked at once more after the write: a new program does not have its context there
 * with the same time, nor, without a context, the same files in the same places.
 */
#include "agent-bpf/symbolizer/symbolizer_parts.h"
#include "agent-bpf/contexts/unreadable.h"
#include "base/log.h"
#include "base/stats.h"
#include <bpf/bpf.h>
#include <errno.h>
#include <stdio.h>

STAT_GAUGES(context_readers, "spanprof_context_readers",
            "Processes whose contexts are read, by source.",
            STAT_LABEL("source", context_source_names, CONTEXT_SOURCES),
            .absent = STAT_BIT(CONTEXT_NONE) | CONTEXT_MAP_BITS);
STAT_COUNTER(attached, "spanprof_contexts_attached_total",
             "Times that a process's thread context was made readable for the sampler.");

#define FILES_MAX 1024 /* different files of one process looked at */

/* One file of the process. */
struct site {
    struct look *look;
    const struct proc_map *map;
    const struct publishers *publishers;
    struct thread_local_process process;
};

static bool has_musl(struct bytes maps)
{
    static const char loader[] = "/ld-musl-";
    return maps.len && memmem(maps.data, maps.len, loader, sizeof(loader) - 1);
}

static bool is_entered(const struct context_process *entry, const struct context_variable *variable)
{
    for (uint32_t i = 0; i < entry->count; i++)
        if (!memcmp(&entry->variables[i], variable, sizeof(*variable)))
            return true;
    return false;
}

/* Behind those that come before it; if there is no room, what comes last is left out. */
static void add_variable(const struct site *site, const struct context_variable *variable)
{
    struct look *look = site->look;
    struct context_process *entry = &look->entry;
    uint32_t at = entry->count;
    if (is_entered(entry, variable))
        return;
    while (at && entry->variables[at - 1].source > variable->source)
        at--;
    if (at == CONTEXT_MAX_VARIABLES)
        return;
    if (entry->count < CONTEXT_MAX_VARIABLES)
        entry->count++;
    for (uint32_t i = entry->count - 1; i > at; i--) {
        entry->variables[i] = entry->variables[i - 1];
        look->places[i] = look->places[i - 1];
    }
    entry->variables[at] = *variable;
    look->places[at].start = site->map->start;
    look->places[at].inode = site->map->inode;
}

/* outcome: of locating it. */
static void take_variable(const struct site *site, enum context_source source, int outcome,
                          struct context_variable *variable)
{
    if (outcome) {
        context_count_unreadable(CONTEXT_UNREADABLE_VARIABLE);
        return;
    }
    variable->source = (uint8_t)source;
    add_variable(site, variable);
}

static void try_thread_local(const struct site *site, enum context_source source,
                             const struct thread_local_symbol *symbol)
{
    struct context_variable variable;
    struct thread_local_process process = site->process;
    process.is_executable = symbol->in_executable;
    take_variable(site, source, thread_local_locate(symbol, &process, &variable), &variable);
}

static void context_locate_otel_thread(const struct site *site)
{
    const struct look *look = site->look;
    const struct otel_context *context = &look->symbolizer->context;
    if (!look->has_context || context->schema != OTEL_SCHEMA_THREAD_LOCAL)
        return; /* what the records mean is not known */
    try_thread_local(site, CONTEXT_OTEL_THREAD, &site->publishers->otel);
    site->look->flags_unsure |= !site->publishers->sets_trace_flags && !context->schema_final;
}

static void context_locate_elastic(const struct site *site)
{
    struct look *look = site->look;
    look->publishes |= CONTEXT_BIT(CONTEXT_ELASTIC);
    if (!look->elastic_pointer_at)
        look->elastic_pointer_at = site->process.bias + site->publishers->elastic_storage;
    try_thread_local(site, CONTEXT_ELASTIC, &site->publishers->elastic);
}

static void context_locate_go_labels(const struct site *site)
{
    struct context_variable variable;
    int outcome = go_binary_locate(&site->publishers->go, &site->process, &variable);
    take_variable(site, CONTEXT_GO_LABELS, outcome, &variable);
}

static void context_locate_custom_labels(const struct site *site)
{
    uint32_t version = 0;
    site->look->publishes |= CONTEXT_BIT(CONTEXT_CUSTOM_LABELS);
    if (look_memory(site->look, site->process.bias + site->publishers->custom_labels_abi, &version,
                    sizeof(version)))
        return;
    if (version == CUSTOM_LABELS_ABI)
        try_thread_local(site, CONTEXT_CUSTOM_LABELS, &site->publishers->custom_labels);
    else
        context_count_unreadable(CONTEXT_UNREADABLE_LABELS);
}

static int read_words(void *context, uint64_t address, void *out, size_t size)
{
    return look_memory(context, address, out, size);
}

static void try_file(struct look *look, const struct proc_map *map)
{
#define LOCATE_ROW(symbol, id, number, key, form, flags, help)                                     \
    [CONTEXT_##symbol] = context_locate_##id,
    static void (*const locate[CONTEXT_SOURCES])(const struct site *) = {
        CONTEXT_VARIABLE_SOURCES(LOCATE_ROW)};
    char path[SYMBOLIZER_PATH_MAX];
    struct process_mapping mapping;
    struct binary *binary;
    uint64_t vaddr;
    symbolizer_complete_mapping(look->symbolizer, look->subject->pid, map, path, &mapping, &binary);
    if (!binary || !binary->publishers || !binary_address(binary, map->offset, &vaddr))
        return;
    struct bytes maps = buf_bytes(&look->symbolizer->maps);
    const struct site site = {
        .look = look,
        .map = map,
        .publishers = binary->publishers,
        .process = {.read = read_words,
                    .context = look,
                    .bias = map->start - vaddr,
                    .is_executable = true,
                    .libc = has_musl(maps) ? THREAD_LOCAL_LIBC_MUSL : THREAD_LOCAL_LIBC_GLIBC}};
    unsigned wanted = binary->publishers->sources & look->symbolizer->settings.sources;
    for (unsigned source = 0; source < CONTEXT_SOURCES; source++)
        if (locate[source] && (wanted & CONTEXT_BIT(source)))
            locate[source](&site);
}

static bool is_code_of_file(const struct proc_map *map)
{
    return map->executable && map->inode && map->path.len && map->path.data[0] == '/';
}

/* Every file with code, once: its first executable mapping. */
void look_find_variables(struct look *look)
{
    struct bytes rest = buf_bytes(&look->symbolizer->maps);
    struct proc_map map, last = {0};
    look->entry.process_start_ns = look->subject->start_ns;
    for (int n = 0; n < FILES_MAX && proc_maps_next(&rest, &map);) {
        if (!is_code_of_file(&map) || (map.inode == last.inode && bytes_equal(map.path, last.path)))
            continue;
        last = map;
        n++;
        try_file(look, &map);
    }
}

unsigned look_sources(const struct look *look)
{
    unsigned sources = 0;
    for (uint32_t i = 0; i < look->entry.count; i++)
        sources |= CONTEXT_BIT(look->entry.variables[i].source);
    return look->symbolizer->settings.contexts_map_fd < 0 ? 0 : sources;
}

void attach_begin(void)
{
    for (unsigned source = 0; source < CONTEXT_SOURCES; source++)
        if (CONTEXT_VARIABLE_BITS & CONTEXT_BIT(source))
            stat_set_of(&context_readers, source, 0);
}

static void set_sources(struct subject *subject, unsigned sources)
{
    for (unsigned source = 0; source < CONTEXT_SOURCES; source++) {
        int before = !!(subject->sources & CONTEXT_BIT(source));
        int after = !!(sources & CONTEXT_BIT(source));
        if (before != after)
            stat_add_of(&context_readers, source, after - before);
    }
    subject->sources = (uint8_t)sources;
}

void attach_forget(struct subject *subject)
{
    set_sources(subject, 0);
}

void attach_delete(struct symbolizer *symbolizer, struct subject *subject)
{
    if (symbolizer->settings.contexts_map_fd >= 0)
        bpf_map_delete_elem(symbolizer->settings.contexts_map_fd, &subject->pid);
    set_sources(subject, 0);
}

int attach_entry(const struct symbolizer *symbolizer, const struct subject *subject,
                 struct context_process *entry)
{
    int fd = symbolizer->settings.contexts_map_fd;
    return bpf_map_lookup_elem(fd, &subject->pid, entry) ? -errno : 0;
}

/* But for what the sampler counts. */
static bool same_entry(const struct context_process *a, const struct context_process *b)
{
    return a->process_start_ns == b->process_start_ns &&
           a->published_address == b->published_address && a->published_ns == b->published_ns &&
           a->count == b->count &&
           !memcmp(a->variables, b->variables, a->count * sizeof(*a->variables));
}

static bool is_mapped(struct bytes maps, uint64_t start, uint64_t inode)
{
    struct proc_map map;
    while (proc_maps_next(&maps, &map))
        if (map.start == start && map.inode == inode && map.executable)
            return true;
    return false;
}

static bool files_are_there(const struct look *look)
{
    struct buf *maps = &look->symbolizer->maps_again;
    if (proc_maps_read(look->subject->pid, maps))
        return false;
    for (uint32_t i = 0; i < look->entry.count; i++)
        if (!is_mapped(buf_bytes(maps), look->places[i].start, look->places[i].inode))
            return false;
    return true;
}

static bool is_same_program(const struct look *look)
{
    uint64_t published_ns;
    if (!look->has_context)
        return files_are_there(look);
    int error = otel_context_poll(look->subject->pid, look->subject->address, &published_ns);
    return !error || error == OTEL_CONTEXT_BUSY;
}

static void tell_sources(const struct subject *subject)
{
    char text[64];
    size_t size = 0;
    for (unsigned source = 0; source < CONTEXT_SOURCES; source++)
        if (subject->sources & CONTEXT_BIT(source))
            size += (size_t)snprintf(text + size, sizeof(text) - size, " %s",
                                     context_source_names[source]);
    struct log_site own = {0}; /* who asks for debug looks for one process among many */
    if (log_level() <= LOG_LEVEL_DEBUG)
        log_write(&own, LOG_LEVEL_DEBUG, "symbolizer", "process %u: its contexts are read:%s",
                  subject->pid, text);
}

static int write_entry(struct look *look)
{
    struct symbolizer *symbolizer = look->symbolizer;
    struct subject *subject = look->subject;
    if (bpf_map_update_elem(symbolizer->settings.contexts_map_fd, &subject->pid, &look->entry,
                            BPF_ANY)) {
        int error = -errno;
        context_count_unreadable(CONTEXT_UNREADABLE_NO_ROOM);
        attach_delete(symbolizer, subject);
        return error;
    }
    stat_add(&attached, !subject->sources);
    set_sources(subject, look_sources(look));
    if (is_same_program(look)) {
        tell_sources(subject);
        return 0;
    }
    context_count_unreadable(CONTEXT_UNREADABLE_PROCESS_CHANGED);
    attach_delete(symbolizer, subject);
    return -ESRCH;
}

int look_enter(struct look *look)
{
    struct context_process there;
    if (!look_sources(look)) {
        attach_delete(look->symbolizer, look->subject);
        return -ENOENT;
    }
    look->subject->n_torn = 0;
    if (!look->subject->sources || attach_entry(look->symbolizer, look->subject, &there) ||
        !same_entry(&there, &look->entry))
        return write_entry(look);
    look->subject->n_torn = there.n_torn;
    return 0;
}

/* Reads that fail only may be because the variable was not where it was thought to be: the dynamic
 * linker had not come that far. Go's labels are published by whoever sets some. */
bool attach_holds(const struct symbolizer *symbolizer, const struct subject *subject)
{
    const unsigned go = CONTEXT_BIT(CONTEXT_GO_LABELS);
    struct context_process entry;
    if (!subject->sources || attach_entry(symbolizer, subject, &entry))
        return false;
    if (entry.n_found)
        return subject->sources != go || (subject->publishes & go);
    return entry.n_torn == subject->n_torn;
}
