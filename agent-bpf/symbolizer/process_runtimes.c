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
static const char *const runtime_ids[] = {RUNTIME_READER_ROWS(RUNTIME_ID_ROW)};

#define REFUSAL_NAME_ROW(symbol, text, sentence) [RUNTIME_REFUSAL_##symbol] = text,
static const char *const refusal_names[] = {RUNTIME_REFUSAL_ROWS(REFUSAL_NAME_ROW)};

static const char *const outcome_names[] = {[RUNTIME_FRAME_NAMED] = "named",
                                            [RUNTIME_FRAME_STALE] = "stale",
                                            [RUNTIME_FRAME_UNREADABLE] = "unreadable",
                                            [RUNTIME_FRAME_UNKNOWN] = "unknown"};

STAT_GAUGES(processes, "spanprof_runtime_processes",
            "Processes whose frames of a runtime are read, by runtime.",
            STAT_LABEL("runtime", runtime_ids, RUNTIMES_WITH_READER),
            .absent = STAT_BIT(RUNTIME_UNKNOWN));

/* The first n series of a family are those of RUNTIME_UNKNOWN. */
#define ABSENT(n) (STAT_BIT(n) - 1)
#define NO_REFUSAL_ROW(symbol, id, exports, line, where, by_hand, variable, mark)                  \
    | STAT_BIT(RUNTIME_##symbol *RUNTIME_REFUSALS + RUNTIME_REFUSAL_NONE)

STAT_COUNTERS(refused, "spanprof_runtime_refused_total",
              "Times that the frames of a process's runtime could not be read, by runtime and "
              "reason.",
              STAT_LABELS("runtime", runtime_ids, RUNTIMES_WITH_READER, "reason", refusal_names,
                          RUNTIME_REFUSALS),
              .absent = ABSENT(RUNTIME_REFUSALS) RUNTIME_READER_ROWS(NO_REFUSAL_ROW));
STAT_COUNTERS(frames_named, "spanprof_runtime_frames_total",
              "Frames of runtimes that were to be named, by runtime and outcome.",
              STAT_LABELS("runtime", runtime_ids, RUNTIMES_WITH_READER, "outcome", outcome_names,
                          RUNTIME_FRAME_OUTCOMES),
              .absent = ABSENT(RUNTIME_FRAME_OUTCOMES));

STAT_LOSS(out_of_time, "spanprof_runtime_requests_refused_total",
          "Requests for names of frames of runtimes that were not looked at, because the cgroup of "
          "the process had used up its share of the symbolizer's time.");

struct process_memory {
    uint32_t pid;
    struct runtime_memory *memory;
    bool exhausted; /* more bytes were wanted than are left */
};

static int process_memory_read(void *context, struct reader_range *ranges, size_t n)
{
    struct process_memory *process = context;
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++)
        bytes += ranges[i].size;
    if (!n)
        return 0;
    process->exhausted |= bytes > process->memory->bytes_left;
    if (n > READER_RANGES_MAX || bytes > READER_BYTES_MAX || bytes > process->memory->bytes_left)
        return -E2BIG;
    if (runtime_memory_is_late(process->memory))
        return -ETIME;
    process->memory->bytes_left -= bytes;
    return reader_memory(process->pid, ranges, n);
}

void process_runtimes_add(struct process_runtimes *found, struct runtime_file *file,
                          const struct proc_map *map, uint64_t bias)
{
    if (found->n == PROCESS_RUNTIMES_MAX)
        return;
    runtime_file_use(file);
    found->of[found->n++] = (struct process_runtime){
        .file = file, .start = map->start, .inode = map->inode, .bias = bias};
}

void process_runtimes_release(struct process_runtimes *found)
{
    for (size_t i = 0; i < found->n; i++)
        runtime_file_release(found->of[i].file);
    found->n = 0;
}

static void refuse(struct process_runtime *one, enum runtime_refusal why)
{
    one->state = RUNTIME_FRAMES_REFUSED;
    one->why = why;
    stat_add_of2(&refused, one->file->reader->runtime, why, 1);
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
    if (!error) {
        one->state = RUNTIME_FRAMES_READ;
        runtimes->entry.sections |= reader->section;
    } else if (error == -EAGAIN || error == -ETIME) {
        one->state = RUNTIME_FRAMES_NOT_READY;
        runtimes->waits = true;
    } else if (error != -ESRCH) { /* it has not ended meanwhile */
        refuse(one, error == -ENOTSUP && why ? why : RUNTIME_REFUSAL_UNREADABLE);
    }
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

static bool has_frames(const struct process_runtime *one)
{
    return one->file->reader->kinds && one->state == RUNTIME_FRAMES_READ;
}

static void count_processes(const struct process_runtimes *runtimes, int by)
{
    for (size_t i = 0; i < runtimes->n; i++)
        if (has_frames(&runtimes->of[i]))
            stat_add_of(&processes, runtimes->of[i].file->reader->runtime, by);
}

static void runtimes_leave(struct symbolizer *symbolizer, uint32_t pid,
                           struct process_runtimes *runtimes)
{
    if (!runtimes->is_entered)
        return;
    bpf_map_delete_elem(symbolizer->settings.runtimes_map_fd, &pid);
    runtime_shares_give_entry(&symbolizer->runtime_shares, runtimes->tenant);
    count_processes(runtimes, -1);
    runtimes->is_entered = false;
}

static void runtimes_enter(struct symbolizer *symbolizer, uint32_t pid,
                           struct process_runtimes *runtimes)
{
    struct runtime_shares *shares = &symbolizer->runtime_shares;
    int fd = symbolizer->settings.runtimes_map_fd;
    if (runtimes->is_entered || !runtimes->entry.sections)
        return;
    bool has_room = runtime_shares_take_entry(shares, runtimes->tenant);
    if (!has_room || bpf_map_update_elem(fd, &pid, &runtimes->entry, BPF_ANY)) {
        for (size_t i = 0; i < runtimes->n; i++)
            if (has_frames(&runtimes->of[i]))
                stat_add_of2(&refused, runtimes->of[i].file->reader->runtime,
                             RUNTIME_REFUSAL_NO_ROOM, 1);
        if (has_room)
            runtime_shares_give_entry(shares, runtimes->tenant);
        return;
    }
    runtimes->is_entered = true;
    count_processes(runtimes, 1);
    if (is_same_program(symbolizer, pid, runtimes))
        return;
    runtimes_leave(symbolizer, pid, runtimes);
    runtimes->waits = true;
}

static uint32_t count_mappings(struct bytes maps, const struct process_runtime *one)
{
    struct proc_map map;
    uint32_t n = 0;
    while (proc_maps_next(&maps, &map))
        n += map.executable && map.inode == one->inode;
    return n;
}

/* The same files at the same places, and none was not ready: nothing can be new. Or there is no
 * time to look at them again. */
static bool is_known(struct symbolizer *symbolizer, const struct process_runtimes *found,
                     const struct process_runtimes *kept)
{
    if (!kept || kept->n != found->n)
        return false;
    for (size_t i = 0; i < kept->n; i++)
        if (kept->of[i].file != found->of[i].file || kept->of[i].start != found->of[i].start ||
            kept->of[i].n_mappings != count_mappings(buf_bytes(&symbolizer->maps), &found->of[i]))
            return false;
    return !kept->waits || !runtime_shares_have_time(&symbolizer->runtime_shares, kept->tenant,
                                                     clock_monotonic_ns());
}

/* Without time left it waits for the next look. */
static void attach_all(struct symbolizer *symbolizer, uint32_t pid,
                       struct process_runtimes *runtimes)
{
    struct runtime_shares *shares = &symbolizer->runtime_shares;
    uint64_t from_ns = clock_monotonic_ns();
    bool has_time = runtime_shares_have_time(shares, runtimes->tenant, from_ns);
    struct runtime_memory memory = {.read = process_memory_read,
                                    .program = runtimes->program,
                                    .tenant = runtimes->tenant,
                                    .bytes_left = RUNTIME_ATTACH_BYTES,
                                    .until_ns = from_ns + RUNTIME_ATTACH_NS,
                                    .maps = buf_bytes(&symbolizer->maps)};
    struct process_memory process = {.pid = pid, .memory = &memory};
    memory.context = &process;
    runtimes->waits = !has_time;
    for (size_t i = 0; has_time && i < runtimes->n; i++)
        attach_one(runtimes, &runtimes->of[i], &memory);
    runtime_shares_spend(shares, runtimes->tenant, from_ns, clock_monotonic_ns());
}

void process_runtimes_attach(struct symbolizer *symbolizer, uint32_t pid, uint64_t start_ns,
                             const struct process_runtimes *found, struct process_runtimes **kept)
{
    if (is_known(symbolizer, found, *kept)) {
        runtimes_enter(symbolizer, pid, *kept); /* there may be room by now */
        return;
    }
    process_runtimes_forget(symbolizer, pid, kept);
    bool wanted = found->n && symbolizer->settings.runtimes_map_fd >= 0;
    struct process_runtimes *runtimes = wanted ? calloc(1, sizeof(*runtimes)) : NULL;
    if (!runtimes)
        return;
    *runtimes = *found;
    runtimes->program = ++symbolizer->last_program;
    runtimes->tenant = symbolizer_tenant(symbolizer, pid);
    runtimes->entry.process_start_ns = start_ns;
    for (size_t i = 0; i < runtimes->n; i++) {
        runtime_file_use(runtimes->of[i].file);
        runtimes->of[i].n_mappings = count_mappings(buf_bytes(&symbolizer->maps), &runtimes->of[i]);
    }
    attach_all(symbolizer, pid, runtimes);
    runtimes_enter(symbolizer, pid, runtimes);
    *kept = runtimes;
}

bool process_runtimes_hold(const struct process_runtimes *runtimes)
{
    return !runtimes || (!runtimes->waits && (runtimes->is_entered || !runtimes->entry.sections));
}

void process_runtimes_forget(struct symbolizer *symbolizer, uint32_t pid,
                             struct process_runtimes **kept)
{
    struct process_runtimes *runtimes = *kept;
    *kept = NULL;
    if (!runtimes)
        return;
    runtimes_leave(symbolizer, pid, runtimes);
    process_runtimes_release(runtimes);
    free(runtimes);
}

/* Those that are read count before those that are not. NULL: there are only parts of one. */
static const struct process_runtime *runtimes_first(const struct process_runtimes *runtimes)
{
    const struct process_runtime *first = NULL;
    for (size_t i = 0; i < runtimes->n; i++) {
        if (has_frames(&runtimes->of[i]))
            return &runtimes->of[i];
        if (!first && runtimes->of[i].file->reader->kinds)
            first = &runtimes->of[i];
    }
    return first;
}

struct runtime_frames process_runtimes_frames(const struct process_runtimes *runtimes,
                                              enum runtime runtime)
{
    const uint32_t native = RUNTIME_BIT(RUNTIME_UNKNOWN) | RUNTIME_BIT(RUNTIME_GO) |
                            RUNTIME_BIT(RUNTIME_RUST) | RUNTIME_BIT(RUNTIME_NATIVE);
    const struct process_runtime *one = runtimes ? runtimes_first(runtimes) : NULL;
    if (!one)
        return native & RUNTIME_BIT(runtime)
                   ? (struct runtime_frames){.state = RUNTIME_FRAMES_NATIVE}
                   : (struct runtime_frames){RUNTIME_FRAMES_NO_READER, (uint8_t)runtime, 0, {0}};
    struct runtime_frames frames = {
        (uint8_t)one->state, (uint8_t)one->file->reader->runtime, (uint8_t)one->why, {0}};
    if (one->state != RUNTIME_FRAMES_READ)
        return frames;
    frames.version = one->file->reader->version(one->file->constants, &runtimes->entry);
    if (!runtimes->is_entered) {
        frames.state = RUNTIME_FRAMES_REFUSED;
        frames.refusal = RUNTIME_REFUSAL_NO_ROOM;
    }
    return frames;
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

/* exec and exit delete the entry: what was read since may be the memory of a program that this user
 * must not read. */
static bool is_entered_still(const struct symbolizer *symbolizer, uint32_t pid,
                             const struct process_runtimes *runtimes)
{
    struct runtime_process entry;
    return runtimes->is_entered &&
           !bpf_map_lookup_elem(symbolizer->settings.runtimes_map_fd, &pid, &entry) &&
           entry.process_start_ns == runtimes->entry.process_start_ns;
}

/* True: a limit was reached. */
static bool name_all(struct symbolizer *symbolizer, uint32_t pid, struct naming *naming)
{
    struct runtime_shares *shares = &symbolizer->runtime_shares;
    const struct process_runtimes *runtimes = naming->runtimes;
    uint64_t from_ns = clock_monotonic_ns();
    struct runtime_memory memory = {.read = process_memory_read,
                                    .program = runtimes->program,
                                    .tenant = runtimes->tenant,
                                    .bytes_left = RUNTIME_REQUEST_BYTES,
                                    .until_ns = from_ns + RUNTIME_REQUEST_NS};
    struct process_memory process = {.pid = pid, .memory = &memory};
    memory.context = &process;
    naming->memory = &memory;
    if (!runtime_shares_have_time(shares, runtimes->tenant, from_ns)) {
        stat_add(&out_of_time, 1);
        return false; /* nor would there be time in a moment */
    }
    for (size_t i = 0; i < runtimes->n; i++)
        if (has_frames(&runtimes->of[i]))
            naming_ask(naming, &runtimes->of[i]);
    bool cut = process.exhausted || runtime_memory_is_late(&memory);
    runtime_shares_spend(shares, runtimes->tenant, from_ns, clock_monotonic_ns());
    bool changed = !is_entered_still(symbolizer, pid, runtimes);
    for (size_t i = 0; changed && i < naming->n; i++)
        naming->names[i] = (struct runtime_name){.outcome = RUNTIME_FRAME_STALE};
    return cut;
}

/* One that no reader knows counts for the first of them: the service asks for none such. */
static enum runtime runtime_of(const struct record_frame *frame)
{
    const struct runtime_reader *reader = runtime_readers;
    while (reader[1].open && !(reader->kinds >> record_frame_kind(frame->words[0]) & 1))
        reader++;
    return reader->runtime;
}

bool process_runtimes_name(struct symbolizer *symbolizer, uint32_t pid,
                           const struct process_runtimes *runtimes,
                           const struct record_frame *frames, size_t n, struct arena *arena,
                           struct runtime_name *names)
{
    assert(n <= RECORD_MAX_USER_FRAMES);
    for (size_t i = 0; i < n; i++)
        names[i] = (struct runtime_name){.outcome = RUNTIME_FRAME_UNKNOWN};
    struct naming naming = {.runtimes = runtimes,
                            .cache = symbolizer->runtime_cache,
                            .arena = arena,
                            .frames = frames,
                            .n = n,
                            .names = names};
    bool cut = runtimes && n && name_all(symbolizer, pid, &naming);
    for (size_t i = 0; i < n; i++)
        stat_add_of2(&frames_named, runtime_of(&frames[i]), names[i].outcome, 1);
    return cut;
}
