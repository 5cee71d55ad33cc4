/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process may exec between the look and the write of its entry, as inspection_attach.c says. So
 * the mappings that the runtimes were found by are looked for once more after the write.
 */
#include "agent-bpf/symbolizer/process_runtimes.h"
#include "agent-bpf/files/reader_client.h"
#include "base/stats.h"
#include <bpf/bpf.h>
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define RUNTIME_ID_ROW(symbol, id, exports, line, where, by_hand, variable, mark)                  \
    [RUNTIME_##symbol] = #id,
static const char *const runtime_ids[RUNTIMES] = {RUNTIME_ROWS(RUNTIME_ID_ROW)};

#define REFUSAL_TEXT_ROW(symbol, text) [RUNTIME_REFUSAL_##symbol] = text,
static const char *const refusal_texts[] = {RUNTIME_REFUSAL_ROWS(REFUSAL_TEXT_ROW)};

static const char *const outcome_names[] = {[RUNTIME_FRAME_NAMED] = "named",
                                            [RUNTIME_FRAME_STALE] = "stale",
                                            [RUNTIME_FRAME_UNREADABLE] = "unreadable",
                                            [RUNTIME_FRAME_UNKNOWN] = "unknown"};

/* Runtimes that have frames of their own: all that are not compiled to native code. */
#define WITHOUT_FRAMES                                                                             \
    (RUNTIME_BIT(RUNTIME_UNKNOWN) | RUNTIME_BIT(RUNTIME_GO) | RUNTIME_BIT(RUNTIME_RUST) |          \
     RUNTIME_BIT(RUNTIME_NATIVE))

STAT_GAUGES(processes, "spanprof_runtime_processes",
            "Processes whose frames of a runtime are read, by runtime.",
            STAT_LABEL("runtime", runtime_ids, RUNTIMES), .absent = WITHOUT_FRAMES);
STAT_COUNTERS(refused, "spanprof_runtime_refused_total",
              "Times that the frames of a process's runtime could not be read, by reason.",
              STAT_LABEL("reason", refusal_texts, RUNTIME_REFUSALS),
              .absent = STAT_BIT(RUNTIME_REFUSAL_NONE));
STAT_COUNTERS(frames_named, "spanprof_runtime_frames_total",
              "Frames of runtimes that were to be named, by outcome.",
              STAT_LABEL("outcome", outcome_names, RUNTIME_FRAME_OUTCOMES));

struct process_memory {
    uint32_t pid;
    uint64_t until_ns;
    struct runtime_memory *memory;
};

static int process_memory_read(void *context, struct reader_range *ranges, size_t n)
{
    const struct process_memory *process = context;
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++)
        bytes += ranges[i].size;
    if (bytes > process->memory->bytes_left)
        return -E2BIG;
    if (clock_monotonic_ns() > process->until_ns)
        return -ETIME;
    process->memory->bytes_left -= bytes;
    return reader_memory(process->pid, ranges, n);
}

void process_runtimes_add(struct process_runtimes *found, struct runtime_file *file,
                          const struct proc_map *map, uint64_t bias)
{
    if (found->n < PROCESS_RUNTIMES_MAX)
        found->of[found->n++] = (struct process_runtime){
            .file = file, .start = map->start, .inode = map->inode, .bias = bias};
}

static void attach_one(struct process_runtimes *runtimes, struct process_runtime *one,
                       struct runtime_memory *memory)
{
    const struct runtime_reader *reader = one->file->reader;
    enum runtime_refusal why = one->file->why;
    if (runtimes->entry.sections & reader->section)
        return; /* of the first such file */
    int error = one->file->constants ? reader->attach(one->file->constants, one->bias, memory,
                                                      &runtimes->entry, &why)
                                     : -ENOTSUP;
    one->is_attached = !error;
    runtimes->waits |= error == -EAGAIN;
    if (!error)
        runtimes->entry.sections |= reader->section;
    if (error == -ENOTSUP)
        stat_add_of(&refused, why, 1);
}

static bool is_same_program(struct symbolizer *symbolizer, uint32_t pid,
                            const struct process_runtimes *runtimes)
{
    if (reader_maps(pid, &symbolizer->maps_again))
        return false;
    for (size_t i = 0; i < runtimes->n; i++)
        if (!proc_maps_have_code(buf_bytes(&symbolizer->maps_again), runtimes->of[i].start,
                                 runtimes->of[i].inode))
            return false;
    return true;
}

static void count_processes(const struct process_runtimes *runtimes, int by)
{
    for (size_t i = 0; i < runtimes->n; i++)
        if (runtimes->of[i].is_attached)
            stat_add_of(&processes, runtimes->of[i].file->reader->runtime, by);
}

static void runtimes_enter(struct symbolizer *symbolizer, uint32_t pid,
                           struct process_runtimes *runtimes)
{
    int fd = symbolizer->settings.runtimes_map_fd;
    if (!runtimes->entry.sections)
        return;
    if (bpf_map_update_elem(fd, &pid, &runtimes->entry, BPF_ANY)) {
        stat_add_of(&refused, RUNTIME_REFUSAL_NO_ROOM, 1);
        return;
    }
    runtimes->is_entered = true;
    count_processes(runtimes, 1);
    if (is_same_program(symbolizer, pid, runtimes))
        return;
    bpf_map_delete_elem(fd, &pid);
    count_processes(runtimes, -1);
    runtimes->is_entered = false;
    runtimes->waits = true;
}

/* The same files at the same places, and none was not ready: nothing can be new. */
static bool is_known(const struct process_runtimes *found, const struct process_runtimes *kept)
{
    if (!kept || kept->waits || kept->n != found->n)
        return false;
    for (size_t i = 0; i < kept->n; i++)
        if (kept->of[i].file != found->of[i].file || kept->of[i].start != found->of[i].start)
            return false;
    return true;
}

void process_runtimes_attach(struct symbolizer *symbolizer, uint32_t pid, uint64_t start_ns,
                             const struct process_runtimes *found, struct process_runtimes **kept)
{
    if (is_known(found, *kept))
        return;
    process_runtimes_forget(symbolizer, pid, kept);
    bool wanted = found->n && symbolizer->settings.runtimes_map_fd >= 0;
    struct process_runtimes *runtimes = wanted ? calloc(1, sizeof(*runtimes)) : NULL;
    if (!runtimes)
        return;
    *runtimes = *found;
    runtimes->program = ++symbolizer->last_program;
    struct runtime_memory memory = {.read = process_memory_read,
                                    .program = runtimes->program,
                                    .bytes_left = RUNTIME_ATTACH_BYTES,
                                    .maps = buf_bytes(&symbolizer->maps)};
    struct process_memory process = {pid, clock_monotonic_ns() + RUNTIME_ATTACH_NS, &memory};
    memory.context = &process;
    runtimes->entry.process_start_ns = start_ns;
    for (size_t i = 0; i < runtimes->n; i++) {
        runtime_file_use(runtimes->of[i].file);
        attach_one(runtimes, &runtimes->of[i], &memory);
    }
    runtimes_enter(symbolizer, pid, runtimes);
    *kept = runtimes;
}

bool process_runtimes_hold(const struct process_runtimes *runtimes)
{
    return !runtimes || !runtimes->waits;
}

void process_runtimes_forget(struct symbolizer *symbolizer, uint32_t pid,
                             struct process_runtimes **kept)
{
    struct process_runtimes *runtimes = *kept;
    *kept = NULL;
    if (!runtimes)
        return;
    if (runtimes->is_entered) {
        bpf_map_delete_elem(symbolizer->settings.runtimes_map_fd, &pid);
        count_processes(runtimes, -1);
    }
    for (size_t i = 0; i < runtimes->n; i++)
        runtime_file_release(runtimes->of[i].file);
    free(runtimes);
}

/* ---- names ---- */

struct naming {
    const struct process_runtimes *runtimes;
    struct runtime_cache *cache;
    struct runtime_memory *memory;
    struct arena *arena;
    const struct record_frame *frames;
    size_t n;
    struct runtime_name *names;
};

/* The frames of one runtime go to its reader together. */
static void naming_ask(const struct naming *naming, const struct process_runtime *one)
{
    struct record_frame frames[RECORD_MAX_USER_FRAMES];
    struct runtime_name names[RECORD_MAX_USER_FRAMES] = {0};
    size_t of[RECORD_MAX_USER_FRAMES], n = 0;
    const struct runtime_reader *reader = one->file->reader;
    struct runtime_names out = {.arena = naming->arena, .names = names};
    for (size_t i = 0; i < naming->n; i++)
        if (reader->kinds >> record_frame_kind(naming->frames[i].words[0]) & 1) {
            frames[n] = naming->frames[i];
            of[n++] = i;
        }
    if (!n || reader->names(one->file->constants, &naming->runtimes->entry, naming->cache,
                            naming->memory, frames, n, &out))
        return;
    for (size_t i = 0; i < n; i++)
        naming->names[of[i]] = names[i];
}

void process_runtimes_name(struct symbolizer *symbolizer, uint32_t pid,
                           const struct process_runtimes *runtimes,
                           const struct record_frame *frames, size_t n, struct arena *arena,
                           struct runtime_name *names)
{
    struct runtime_memory memory = {.read = process_memory_read,
                                    .program = runtimes ? runtimes->program : 0,
                                    .bytes_left = RUNTIME_REQUEST_BYTES};
    struct process_memory process = {pid, clock_monotonic_ns() + RUNTIME_REQUEST_NS, &memory};
    const struct naming naming = {runtimes, symbolizer->runtime_cache, &memory, arena, frames, n,
                                  names};
    memory.context = &process;
    assert(n <= RECORD_MAX_USER_FRAMES);
    for (size_t i = 0; i < n; i++)
        names[i] = (struct runtime_name){.outcome = RUNTIME_FRAME_UNKNOWN};
    for (size_t i = 0; runtimes && i < runtimes->n; i++)
        if (runtimes->of[i].is_attached)
            naming_ask(&naming, &runtimes->of[i]);
    for (size_t i = 0; i < n; i++)
        stat_add_of(&frames_named, names[i].outcome, 1);
}
