/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the process's entry in the sampler's contexts map out of the publishers that it has mapped:
 * all variables that can be located. They are ordered by precedence, which is the numerical order
 * of their sources (OpenTelemetry's thread context, Elastic, Go's labels, custom labels,
 * OpenTelemetry's context of Node.js; OBI's map comes last and has no variable); variables of one
 * source are in the order of the maps.
 *
 * The process may exec after it was read and before its entry is written. The sampler deletes
 * entries on exec, but this entry would come after that and describe a program that is gone. So the
 * process is checked once more after the write: a new program does not have a context at the same
 * address with the same time or, if there is no context, the same files at the same addresses.
 */
#include "agent-bpf/symbolizer/inspection.h"
#include "agent-bpf/files/reader_client.h"
#include "base/log.h"
#include "base/stats.h"
#include <bpf/bpf.h>
#include <assert.h>
#include <errno.h>
#include <stdio.h>

STAT_GAUGES(context_readers, "spanprof_context_readers",
            "Processes whose contexts are read, by source.",
            STAT_LABEL("source", context_source_names, CONTEXT_SOURCES),
            .absent = STAT_BIT(CONTEXT_NONE) | CONTEXT_MAP_BITS);
STAT_COUNTER(attached, "spanprof_contexts_attached_total",
             "Times that the sampler was told where a process keeps its thread contexts.");

#define FILES_MAX      1024 /* of one process that are searched */
#define PUBLISHERS_MAX 64   /* of them */
#define RECORDS_JUDGED 4    /* reads of a process's records that say something */

/* A file with publishers that the process has mapped. */
struct mapped_file {
    struct inspection *inspection;
    const struct proc_map *map;
    const struct publishers *publishers;
    struct thread_local_process view; /* of the process, for this file */
};

static bool entry_has(const struct context_process *entry, const struct context_variable *variable)
{
    for (uint32_t i = 0; i < entry->count; i++)
        if (!memcmp(&entry->variables[i], variable, sizeof(*variable)))
            return true;
    return false;
}

/* Inserts it in the order of precedence. If there is no room, the last one is left out. */
static void entry_add_variable(const struct mapped_file *file,
                               const struct context_variable *variable)
{
    struct inspection *inspection = file->inspection;
    struct context_process *entry = &inspection->entry;
    uint32_t at = entry->count;
    assert(entry->count <= CONTEXT_MAX_VARIABLES);
    if (entry_has(entry, variable))
        return;
    while (at && entry->variables[at - 1].source > variable->source)
        at--;
    if (entry->count == CONTEXT_MAX_VARIABLES)
        inspection_unreadable(inspection, CONTEXT_UNREADABLE_TOO_MANY);
    if (at == CONTEXT_MAX_VARIABLES)
        return;
    if (entry->count < CONTEXT_MAX_VARIABLES)
        entry->count++;
    for (uint32_t i = entry->count - 1; i > at; i--) {
        entry->variables[i] = entry->variables[i - 1];
        inspection->places[i] = inspection->places[i - 1];
    }
    entry->variables[at] = *variable;
    inspection->places[at].start = file->map->start;
    inspection->places[at].inode = file->map->inode;
}

/* outcome: of locating it; anything but 0 is counted. A Go program has the variable whether it sets
 * labels or not, so it is not a process that publishes. */
static void mapped_file_add_variable(const struct mapped_file *file, enum context_source source,
                                     int outcome, struct context_variable *variable)
{
    if (outcome) {
        enum context_unreadable reason = outcome == THREAD_LOCAL_UNKNOWN_LIBC
                                             ? CONTEXT_UNREADABLE_LIBC
                                             : CONTEXT_UNREADABLE_VARIABLE;
        if (source == CONTEXT_GO_LABELS)
            tracked_process_unreadable(file->inspection->symbolizer, file->inspection->process,
                                       reason);
        else
            inspection_unreadable(file->inspection, reason);
        return;
    }
    variable->source = (uint8_t)source;
    entry_add_variable(file, variable);
}

static void mapped_file_try_thread_local(const struct mapped_file *file, enum context_source source,
                                         const struct thread_local_symbol *symbol)
{
    struct context_variable variable;
    struct thread_local_process process = file->view;
    process.is_executable = symbol->in_executable;
    mapped_file_add_variable(file, source, thread_local_locate(symbol, &process, &variable),
                             &variable);
}

static void context_locate_otel_thread(const struct mapped_file *file)
{
    const struct inspection *inspection = file->inspection;
    const struct otel_context *context = &inspection->symbolizer->context;
    if (!inspection->has_context || context->schema != OTEL_SCHEMA_THREAD_LOCAL)
        return; /* the meaning of its records is unknown */
    mapped_file_try_thread_local(file, CONTEXT_OTEL_THREAD, &file->publishers->otel);
    file->inspection->has_variable = true;
    file->inspection->flags_unsure |= !file->publishers->sets_trace_flags && !context->schema_final;
}

static void context_locate_otel_nodejs(const struct mapped_file *file)
{
    struct context_variable variable;
    const struct inspection *inspection = file->inspection;
    const struct otel_context *context = &inspection->symbolizer->context;
    if (!inspection->has_context || context->schema != OTEL_SCHEMA_NODEJS)
        return;
    struct thread_local_process process = file->view;
    file->inspection->flags_unsure |=
        !file->publishers->sets_trace_flags; /* only our writer does */
    process.is_executable = file->publishers->otel_nodejs.in_executable;
    int outcome = thread_local_locate(&file->publishers->otel_nodejs, &process, &variable);
    if (!outcome && nodejs_layout_enter(&context->nodejs, &variable))
        context_count_unreadable(CONTEXT_UNREADABLE_NODEJS);
    else
        mapped_file_add_variable(file, CONTEXT_OTEL_NODEJS, outcome, &variable);
}

static void context_locate_elastic(const struct mapped_file *file)
{
    struct inspection *inspection = file->inspection;
    inspection->publishes |= CONTEXT_BIT(CONTEXT_ELASTIC);
    if (!inspection->elastic_pointer_at)
        inspection->elastic_pointer_at = file->view.bias + file->publishers->elastic_storage;
    mapped_file_try_thread_local(file, CONTEXT_ELASTIC, &file->publishers->elastic);
}

static void context_locate_go_labels(const struct mapped_file *file)
{
    struct context_variable variable;
    int outcome = go_binary_locate(&file->publishers->go, &file->view, &variable);
    mapped_file_add_variable(file, CONTEXT_GO_LABELS, outcome, &variable);
}

static void context_locate_custom_labels(const struct mapped_file *file)
{
    uint32_t version = 0;
    file->inspection->publishes |= CONTEXT_BIT(CONTEXT_CUSTOM_LABELS);
    if (inspection_read_memory(file->inspection,
                               file->view.bias + file->publishers->custom_labels_abi, &version,
                               sizeof(version)))
        return;
    if (version == CUSTOM_LABELS_ABI)
        mapped_file_try_thread_local(file, CONTEXT_CUSTOM_LABELS, &file->publishers->custom_labels);
    else
        inspection_unreadable(file->inspection, CONTEXT_UNREADABLE_LABELS);
}

static int read_process_words(void *context, uint64_t address, void *out, size_t size)
{
    return inspection_read_memory(context, address, out, size);
}

static struct binary *inspection_binary(struct inspection *inspection, const struct proc_map *map)
{
    char path[SYMBOLIZER_PATH_MAX];
    struct process_mapping mapping;
    struct binary *binary;
    symbolizer_resolve_mapping(
        inspection->symbolizer,
        symbolizer_user(inspection->symbolizer, inspection->process->pid, false), map, path,
        &mapping, &binary);
    return binary;
}

static void inspection_try_file(struct inspection *inspection, const struct proc_map *map,
                                enum thread_local_libc libc)
{
#define LOCATE_ROW(symbol, id, number, key, form, flags, help)                                     \
    [CONTEXT_##symbol] = context_locate_##id,
    static void (*const locate[CONTEXT_SOURCES])(const struct mapped_file *) = {
        CONTEXT_VARIABLE_SOURCES(LOCATE_ROW)};
    const struct binary *binary = inspection_binary(inspection, map);
    uint64_t vaddr;
    if (!binary || !binary->publishers || !binary_address(binary, map->offset, &vaddr))
        return;
    const struct mapped_file file = {.inspection = inspection,
                                     .map = map,
                                     .publishers = binary->publishers,
                                     .view = {.read = read_process_words,
                                              .context = inspection,
                                              .bias = map->start - vaddr,
                                              .is_executable = true,
                                              .libc = libc}};
    unsigned wanted = binary->publishers->sources & inspection->symbolizer->settings.sources;
    inspection->has_library |=
        !!(wanted & (CONTEXT_BIT(CONTEXT_OTEL_THREAD) | CONTEXT_BIT(CONTEXT_OTEL_NODEJS)));
    for (unsigned source = 0; source < CONTEXT_SOURCES; source++)
        if (locate[source] && (wanted & CONTEXT_BIT(source)))
            locate[source](&file);
}

/* It publishes that its threads have contexts, but not a file that it maps says where: the symbol
 * is neither exported nor in a symbol table. A library may be loaded a moment later, so this counts
 * from the second look on. */
static void inspection_check_variable(struct inspection *inspection)
{
    bool lacks = inspection->has_context && !inspection->has_variable &&
                 inspection->symbolizer->context.schema == OTEL_SCHEMA_THREAD_LOCAL;
    if (lacks && inspection->process->lacks_variable)
        inspection_unreadable(inspection, CONTEXT_UNREADABLE_NO_VARIABLE);
    inspection->process->lacks_variable = lacks;
}

/* Each file with code once, at its first executable mapping; those with publishers when the dynamic
 * linker is known too. */
void inspection_find_variables(struct inspection *inspection)
{
    struct bytes rest = buf_bytes(&inspection->symbolizer->maps);
    struct proc_map map = {0}, publishers[PUBLISHERS_MAX];
    enum thread_local_libc libc = THREAD_LOCAL_LIBC_NONE;
    struct inspection_runtimes runtimes = {0};
    size_t n_publishers = 0, n_found = 0, n = 0;
    inspection->entry.process_start_ns = inspection->process->start_ns;
    symbolizer_open_ahead(inspection->symbolizer, inspection->process->pid);
    for (; n < FILES_MAX && proc_maps_next_code(&rest, &map); n++) {
        const struct binary *binary = inspection_binary(inspection, &map);
        n_found += binary && binary->publishers;
        if (binary && binary->publishers && n_publishers < PUBLISHERS_MAX)
            publishers[n_publishers++] = map;
        if (binary && libc == THREAD_LOCAL_LIBC_NONE)
            libc = binary->libc;
        uint64_t vaddr;
        if (binary && binary->is_elf)
            inspection_add_runtime(&runtimes, binary->runtime, map.path);
        if (binary && binary->runtime_file && binary_address(binary, map.offset, &vaddr))
            process_runtimes_add(&inspection->runtimes, binary->runtime_file, &map,
                                 map.start - vaddr);
    }
    if (n == FILES_MAX || n_found > n_publishers)
        tracked_process_unreadable(inspection->symbolizer, inspection->process,
                                   CONTEXT_UNREADABLE_TOO_MANY);
    inspection_choose_runtime(inspection, &runtimes);
    for (size_t i = 0; i < n_publishers; i++)
        inspection_try_file(inspection, &publishers[i], libc);
    inspection_check_variable(inspection);
}

unsigned inspection_sources(const struct inspection *inspection)
{
    unsigned sources = 0;
    for (uint32_t i = 0; i < inspection->entry.count; i++)
        sources |= CONTEXT_BIT(inspection->entry.variables[i].source);
    return inspection->symbolizer->settings.contexts_map_fd < 0 ? 0 : sources;
}

void attach_init(void)
{
    for (unsigned source = 0; source < CONTEXT_SOURCES; source++)
        if (CONTEXT_VARIABLE_BITS & CONTEXT_BIT(source))
            stat_set_of(&context_readers, source, 0);
}

/* 0: it has no entry any more. */
static void set_sources(struct symbolizer *symbolizer, struct tracked_process *process,
                        unsigned sources)
{
    struct fair_share *entries = &symbolizer->shares.contexts;
    if (!process->sources && sources)
        fair_share_take(entries, process->tenant, 1);
    if (process->sources && !sources)
        fair_share_give(entries, process->tenant, 1);
    for (unsigned source = 0; source < CONTEXT_SOURCES; source++) {
        int before = !!(process->sources & CONTEXT_BIT(source));
        int after = !!(sources & CONTEXT_BIT(source));
        if (before != after)
            stat_add_of(&context_readers, source, after - before);
    }
    process->sources = (uint8_t)sources;
}

void attach_forget(struct symbolizer *symbolizer, struct tracked_process *process)
{
    set_sources(symbolizer, process, 0);
}

void attach_delete(struct symbolizer *symbolizer, struct tracked_process *process)
{
    if (symbolizer->settings.contexts_map_fd >= 0)
        bpf_map_delete_elem(symbolizer->settings.contexts_map_fd, &process->pid);
    set_sources(symbolizer, process, 0);
}

int attach_entry(const struct symbolizer *symbolizer, const struct tracked_process *process,
                 struct context_process *entry)
{
    int fd = symbolizer->settings.contexts_map_fd;
    return bpf_map_lookup_elem(fd, &process->pid, entry) ? -errno : 0;
}

/* Most of what samples read since the last judgement was no record: the variable is elsewhere, or
 * another thread writes to it. A few may be chance: a thread was stopped while it wrote its own. */
static void attach_judge_records(struct symbolizer *symbolizer, struct tracked_process *process,
                                 const struct context_process *entry)
{
    if (entry->n_torn < process->seen_torn || entry->n_found < process->seen_found)
        process->seen_torn = process->seen_found = 0; /* the entry was written since */
    uint64_t n_torn = entry->n_torn - process->seen_torn;
    uint64_t n_found = entry->n_found - process->seen_found;
    if (n_torn + n_found < RECORDS_JUDGED)
        return;
    if (n_torn > n_found)
        tracked_process_unreadable(symbolizer, process, CONTEXT_UNREADABLE_RECORDS);
    process->seen_torn = entry->n_torn;
    process->seen_found = entry->n_found;
}

/* Apart from the counters that the sampler writes. */
static bool entry_equals(const struct context_process *a, const struct context_process *b)
{
    return a->process_start_ns == b->process_start_ns &&
           a->published_address == b->published_address && a->published_ns == b->published_ns &&
           a->count == b->count &&
           !memcmp(a->variables, b->variables, a->count * sizeof(*a->variables));
}

static bool files_are_there(const struct inspection *inspection)
{
    struct buf *maps = &inspection->symbolizer->maps_again;
    if (reader_maps(inspection->process->pid, maps))
        return false;
    for (uint32_t i = 0; i < inspection->entry.count; i++)
        if (!proc_maps_have_code(buf_bytes(maps), inspection->places[i].start,
                                 inspection->places[i].inode))
            return false;
    return true;
}

static bool is_same_program(const struct inspection *inspection)
{
    uint64_t published_ns;
    if (!inspection->has_context)
        return files_are_there(inspection);
    int error =
        otel_context_poll(inspection->process->pid, inspection->process->address, &published_ns);
    return !error || error == OTEL_CONTEXT_BUSY;
}

static void log_sources(const struct tracked_process *process)
{
    char text[64];
    size_t size = 0;
    for (unsigned source = 0; source < CONTEXT_SOURCES; source++)
        if (process->sources & CONTEXT_BIT(source))
            size += (size_t)snprintf(text + size, sizeof(text) - size, " %s",
                                     context_source_names[source]);
    struct log_site own = {0}; /* not rate-limited: debug is for finding one process among many */
    if (log_level() <= LOG_LEVEL_DEBUG)
        log_write(&own, LOG_LEVEL_DEBUG, "symbolizer", "process %u: its contexts are read:%s",
                  process->pid, text);
}

/* Of a tenant that has too many entries no further one is written. */
static int put_entry(const struct inspection *inspection)
{
    struct symbolizer *symbolizer = inspection->symbolizer;
    const struct tracked_process *process = inspection->process;
    if (!process->sources && !fair_share_has_room(&symbolizer->shares.contexts, process->tenant, 1))
        return -ENOSPC;
    return bpf_map_update_elem(symbolizer->settings.contexts_map_fd, &process->pid,
                               &inspection->entry, BPF_ANY)
               ? -errno
               : 0;
}

static int inspection_write_entry(struct inspection *inspection)
{
    struct symbolizer *symbolizer = inspection->symbolizer;
    struct tracked_process *process = inspection->process;
    int error = put_entry(inspection);
    if (error) {
        inspection_unreadable(inspection, CONTEXT_UNREADABLE_NO_ROOM);
        attach_delete(symbolizer, process);
        return error;
    }
    stat_add(&attached, !process->sources);
    set_sources(symbolizer, process, inspection_sources(inspection));
    if (is_same_program(inspection)) {
        log_sources(process);
        return 0;
    }
    inspection_unreadable(inspection, CONTEXT_UNREADABLE_PROCESS_CHANGED);
    attach_delete(symbolizer, process);
    return -ESRCH;
}

int inspection_attach(struct inspection *inspection)
{
    struct context_process there;
    if (!inspection_sources(inspection)) {
        attach_delete(inspection->symbolizer, inspection->process);
        return -ENOENT;
    }
    inspection->process->n_torn = 0;
    bool is_there = inspection->process->sources &&
                    !attach_entry(inspection->symbolizer, inspection->process, &there);
    if (is_there)
        attach_judge_records(inspection->symbolizer, inspection->process, &there);
    if (!is_there || !entry_equals(&there, &inspection->entry))
        return inspection_write_entry(inspection);
    inspection->process->n_torn = there.n_torn;
    return 0;
}

/* If all reads fail, the variable may be elsewhere: it was located before the dynamic linker had
 * finished. Every Go program has the variable of Go's labels; one that never sets labels has no
 * context. */
bool attach_holds(struct symbolizer *symbolizer, struct tracked_process *process)
{
    const unsigned go = CONTEXT_BIT(CONTEXT_GO_LABELS);
    struct context_process entry;
    if (!process->sources || attach_entry(symbolizer, process, &entry))
        return false;
    attach_judge_records(symbolizer, process, &entry);
    if (entry.n_found)
        return process->sources != go || (process->publishes & go);
    return entry.n_torn == process->n_torn;
}
