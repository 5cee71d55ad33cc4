/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A walk over /proc, a few processes per step. Each process is reported with the events that the
 * kernel's stream would give: that it exists, then each mapping of a file with code. A mapping has
 * a build id, or inode and generation, so both sources give an executable the same identity.
 * Details and context follow at once.
 */
#include "agent-bpf/executable_identity.h"
#include "agent-bpf/symbolizer/symbolizer_state.h"
#include "agent-bpf/symbolizer/tracked_process.h"
#include "agent-bpf/heartbeat.h"
#include "agent-bpf/files/proc_pid.h"
#include "agent-bpf/files/reader_client.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define BUSIEST        32 /* processes scanned before the kernel's names are read, which takes long */
#define AHEAD_PATH_MAX 256 /* files of longer paths are opened one by one */

struct candidate {
    uint32_t pid;
    uint64_t cpu_ticks;
};

struct candidates {
    struct candidate *items;
    size_t n;
    size_t cap;
};

static int candidates_add(struct candidates *to, uint32_t pid, uint64_t cpu_ticks)
{
    if (to->n == to->cap) {
        size_t more = to->cap ? to->cap * 2 : 1024;
        struct candidate *items = realloc(to->items, more * sizeof(*items));
        if (!items)
            return -ENOMEM;
        to->items = items;
        to->cap = more;
    }
    to->items[to->n++] = (struct candidate){.pid = pid, .cpu_ticks = cpu_ticks};
    return 0;
}

static int busiest_first(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    return (x->cpu_ticks < y->cpu_ticks) - (x->cpu_ticks > y->cpu_ticks);
}

/* 0 if the process is gone, or the reader does not answer; the scan notices that later. */
static uint64_t process_cpu_ticks(struct symbolizer *symbolizer, uint32_t pid)
{
    uint64_t ticks = 0;
    symbolizer->text.limit_bytes = 8192;
    if (reader_proc_text(pid, READER_STAT, &symbolizer->text) == 0)
        (void)proc_parse_cpu_ticks(buf_bytes(&symbolizer->text), &ticks);
    return ticks;
}

/* The line of a pid; 0: it is none, or the last one has been. */
static uint32_t take_pid(struct bytes *lines)
{
    uint64_t pid = 0;
    for (; lines->len && *lines->data != '\n'; lines->data++, lines->len--)
        pid = pid > UINT32_MAX ? pid : 10 * pid + (uint64_t)(*lines->data - '0');
    if (lines->len)
        lines->data++, lines->len--;
    return pid > UINT32_MAX ? 0 : (uint32_t)pid;
}

/* -EAGAIN: the reader has not answered. */
static int candidates_find(struct symbolizer *symbolizer, struct candidates *found)
{
    symbolizer->maps.limit_bytes = PROC_MAPS_BYTES_MAX;
    int error = reader_proc_text(0, READER_PIDS, &symbolizer->maps);
    struct bytes rest = buf_bytes(&symbolizer->maps);
    while (!error && rest.len && found->n < TRACKED_PROCESSES_MAX) {
        uint32_t pid = take_pid(&rest);
        if (pid && candidates_add(found, pid, process_cpu_ticks(symbolizer, pid)))
            break;
        heartbeat();
    }
    return error == -EAGAIN ? error : 0;
}

/* The busiest first: samples have no context until the scan has reached their process. False: to be
 * tried again. */
static bool scan_list_pids(struct symbolizer *symbolizer)
{
    struct candidates found = {0};
    if (candidates_find(symbolizer, &found))
        return false;
    if (found.n)
        qsort(found.items, found.n, sizeof(*found.items), busiest_first);
    symbolizer->scan_pids = calloc(found.n ? found.n : 1, sizeof(*symbolizer->scan_pids));
    for (size_t i = 0; symbolizer->scan_pids && i < found.n; i++)
        symbolizer->scan_pids[symbolizer->n_scan_pids++] = found.items[i].pid;
    free(found.items);
    return true;
}

static void scan_free(struct symbolizer *symbolizer)
{
    free(symbolizer->scan_pids);
    symbolizer->scan_pids = NULL;
    symbolizer->n_scan_pids = symbolizer->scan_at = 0;
    symbolizer->scanning = false;
}

void symbolizer_scan_start(struct symbolizer *symbolizer)
{
    LOOP_THREAD(symbolizer->settings.loop);
    if (symbolizer->scanning) {
        symbolizer->scan_again = true;
        return;
    }
    symbolizer->scan_again = false;
    symbolizer->scanning = true;
    symbolizer->scan_start_ns = clock_monotonic_ns();
}

/* The kernel prints a line break as \012. It is not decoded: such a file is not opened. */
static void copy_path(const struct proc_map *map, char *path)
{
    size_t len = map->path.len < SYMBOLIZER_PATH_MAX - 1 ? map->path.len : SYMBOLIZER_PATH_MAX - 1;
    if (len)
        memcpy(path, map->path.data, len);
    path[len] = 0;
}

/* path: room for the whole of it, or SYMBOLIZER_PATH_MAX. */
static struct process_mapping mapping_of(const struct proc_map *map, char *path)
{
    copy_path(map, path);
    return (struct process_mapping){
        .start = map->start,
        .length = map->end - map->start,
        .file_offset = map->offset,
        .device_major = map->device_major,
        .device_minor = map->device_minor,
        .inode = map->inode,
        .path = path,
    };
}

void symbolizer_open_ahead(struct symbolizer *symbolizer, uint32_t pid)
{
    LOOP_THREAD(symbolizer->settings.loop);
    struct process_mapping mappings[READER_FILES_MAX];
    char paths[READER_FILES_MAX][AHEAD_PATH_MAX];
    const struct binary_user user = symbolizer_user(symbolizer, pid, false);
    struct bytes rest = buf_bytes(&symbolizer->maps);
    struct proc_map map = {0};
    size_t n;
    do {
        n = 0;
        while (n < READER_FILES_MAX && proc_maps_next_code(&rest, &map)) {
            if (map.path.len >= AHEAD_PATH_MAX)
                continue;
            mappings[n] = mapping_of(&map, paths[n]);
            n++;
        }
        binaries_open_ahead(&symbolizer->binaries, user, mappings, n);
    } while (n == READER_FILES_MAX);
}

void symbolizer_resolve_mapping(struct symbolizer *symbolizer, struct binary_user user,
                                const struct proc_map *map, char path[SYMBOLIZER_PATH_MAX],
                                struct process_mapping *mapping, struct binary **binary)
{
    LOOP_THREAD(symbolizer->settings.loop);
    *mapping = mapping_of(map, path);
    uint8_t identity[16];
    *binary = NULL;
    if (!executable_identity(mapping, identity))
        return;
    *binary = binaries_get(&symbolizer->binaries, identity, user, mapping);
    if (!*binary)
        return;
    mapping->inode_generation = (*binary)->generation;
}

static void scan_send_event(struct symbolizer *symbolizer, const struct process_event *event)
{
    symbolizer_send(&symbolizer->out,
                    &(struct symbolizer_message){.kind = SYMBOLIZER_EVENT, .event = *event});
}

static void scan_mappings(struct symbolizer *symbolizer, uint32_t pid, uint64_t time_ns)
{
    struct bytes rest = buf_bytes(&symbolizer->maps);
    struct proc_map map;
    const struct binary_user user = symbolizer_user(symbolizer, pid, false);
    int left = PROCESS_MAPPINGS_MAX;
    symbolizer_open_ahead(symbolizer, pid);
    while (left > 0 && proc_maps_next(&rest, &map)) {
        bool is_file = map.inode && map.path.len && map.path.data[0] == '/';
        if (!map.executable || (!is_file && !bytes_equal(map.path, BYTES_LIT(VDSO_PATH))))
            continue;
        char path[SYMBOLIZER_PATH_MAX];
        struct binary *binary;
        struct process_event event = {.kind = PROCESS_MAPPED, .time_ns = time_ns, .pid = pid};
        symbolizer_resolve_mapping(symbolizer, user, &map, path, &event.mapping, &binary);
        scan_send_event(symbolizer, &event);
        left--;
    }
}

/* A zombie counts as ended: its exit event has passed, so it would never be forgotten. */
static bool stat_is_of_living(const struct symbolizer *symbolizer)
{
    const uint8_t *end = memrchr(symbolizer->text.data, ')', symbolizer->text.len);
    size_t left = end ? symbolizer->text.len - (size_t)(end - symbolizer->text.data) : 0;
    return left > 2 && end[2] != 'Z' && end[2] != 'X';
}

/* False: the reader has not answered. */
static bool scan_read_maps(struct symbolizer *symbolizer, uint32_t pid)
{
    buf_clear(&symbolizer->maps);
    return symbolizer_skips(symbolizer, pid) || reader_maps(pid, &symbolizer->maps) != -EAGAIN;
}

/* False: to be tried again. */
static bool scan_process(struct symbolizer *symbolizer, uint32_t pid)
{
    uint64_t time_ns = clock_monotonic_ns();
    symbolizer->text.limit_bytes = 8192;
    int error = reader_proc_text(pid, READER_STAT, &symbolizer->text);
    if (error || !stat_is_of_living(symbolizer))
        return error != -EAGAIN;
    if (!scan_read_maps(symbolizer, pid))
        return false;
    scan_send_event(symbolizer, &(struct process_event){
                                    .kind = PROCESS_FORKED, .time_ns = time_ns, .pid = pid});
    symbolizer_enter(symbolizer, pid);
    scan_mappings(symbolizer, pid, time_ns);
    symbolizer_leave(symbolizer);
    tracked_process_request(symbolizer, pid, true, tracked_process_is_sampled(symbolizer, pid));
    return true;
}

/* If the reader does not answer, the service asks again while the process is sampled. */
void symbolizer_scan_process(struct symbolizer *symbolizer, uint32_t pid)
{
    LOOP_THREAD(symbolizer->settings.loop);
    (void)scan_process(symbolizer, pid);
}

static void scan_end(struct symbolizer *symbolizer)
{
    symbolizer_send(&symbolizer->out, &(struct symbolizer_message){
                                          .kind = SYMBOLIZER_SCAN_DONE,
                                          .scan_done = {.start_ns = symbolizer->scan_start_ns,
                                                        .end_ns = clock_monotonic_ns()}});
    scan_free(symbolizer);
    if (symbolizer->scan_again)
        symbolizer_scan_start(symbolizer);
}

static bool scan_is_at_kernel(const struct symbolizer *symbolizer)
{
    size_t n = symbolizer->n_scan_pids;
    return symbolizer->scan_at == (n < BUSIEST ? n : BUSIEST);
}

void symbolizer_scan_step(struct symbolizer *symbolizer, uint64_t until_ns)
{
    LOOP_THREAD(symbolizer->settings.loop);
    while (symbolizer->scanning && !symbolizer_congested(&symbolizer->out) &&
           reader_client_is_ready()) {
        if (!symbolizer->scan_pids && !scan_list_pids(symbolizer))
            return; /* goes on when the reader answers, or another one is there */
        if (scan_is_at_kernel(symbolizer))
            symbolizer_send_kernel(symbolizer);
        if (symbolizer->scan_at == symbolizer->n_scan_pids) {
            scan_end(symbolizer);
            return;
        }
        assert(symbolizer->scan_at < symbolizer->n_scan_pids);
        if (!scan_process(symbolizer, symbolizer->scan_pids[symbolizer->scan_at]))
            return;
        symbolizer->scan_at++;
        heartbeat();
        if (clock_monotonic_ns() >= until_ns)
            return;
    }
}
