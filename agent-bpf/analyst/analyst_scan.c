/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A walk over /proc, a few processes a step. Each is told as the kernel's stream would have told
 * it: that it was there, then each mapping of a file with code, with build id or inode and
 * generation, so that both sources give the same executable the same identity. Details and context
 * follow at once.
 */
#include "agent-bpf/executable_identity.h"
#include "agent-bpf/analyst/analyst_parts.h"
#include "agent-bpf/heartbeat.h"
#include "agent-bpf/files/vdso.h"
#include "agent-bpf/files/proc_pid.h"
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>

#define BUSIEST 32 /* are looked at before the kernel's names are read, which takes long */

struct candidate {
    uint32_t pid;
    uint64_t cpu_ticks;
};

struct candidates {
    struct candidate *items;
    size_t n;
    size_t cap;
};

static int add_candidate(struct candidates *to, uint32_t pid, uint64_t cpu_ticks)
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

/* 0 for one that has gone: it is found out when its turn comes. */
static uint64_t cpu_ticks(struct analyst *analyst, uint32_t pid)
{
    uint64_t ticks = 0;
    analyst->text.limit_bytes = 8192;
    if (proc_pid_read(pid, "stat", &analyst->text) == 0)
        (void)proc_parse_cpu_ticks(buf_bytes(&analyst->text), &ticks);
    return ticks;
}

static void find_candidates(struct analyst *analyst, struct candidates *found)
{
    DIR *proc = opendir("/proc");
    struct dirent *entry;
    while (proc && (entry = readdir(proc))) {
        char *end;
        unsigned long pid = strtoul(entry->d_name, &end, 10);
        if (!pid || *end || pid > UINT32_MAX || found->n >= ANALYST_SUBJECTS_MAX)
            continue;
        if (add_candidate(found, (uint32_t)pid, cpu_ticks(analyst, (uint32_t)pid)))
            break;
        heartbeat();
    }
    if (proc)
        closedir(proc);
}

/* The busiest first: until their contexts are known, their samples have none. */
static void list_pids(struct analyst *analyst)
{
    struct candidates found = {0};
    find_candidates(analyst, &found);
    if (found.n)
        qsort(found.items, found.n, sizeof(*found.items), busiest_first);
    analyst->scan_pids = calloc(found.n ? found.n : 1, sizeof(*analyst->scan_pids));
    for (size_t i = 0; analyst->scan_pids && i < found.n; i++)
        analyst->scan_pids[analyst->n_scan_pids++] = found.items[i].pid;
    free(found.items);
}

static void scan_free(struct analyst *analyst)
{
    free(analyst->scan_pids);
    analyst->scan_pids = NULL;
    analyst->n_scan_pids = analyst->scan_at = 0;
    analyst->scanning = false;
}

void analyst_scan_start(struct analyst *analyst)
{
    if (analyst->scanning) {
        analyst->scan_again = true;
        return;
    }
    analyst->scan_again = false;
    analyst->scanning = true;
    analyst->scan_start_ns = clock_monotonic_ns();
    list_pids(analyst);
}

/* Line breaks in a path are printed as \012; such a path is not opened, and so not undone here. */
static void copy_path(const struct proc_map *map, char path[ANALYST_PATH_MAX])
{
    size_t len = map->path.len < ANALYST_PATH_MAX - 1 ? map->path.len : ANALYST_PATH_MAX - 1;
    if (len)
        memcpy(path, map->path.data, len);
    path[len] = 0;
}

void analyst_complete_mapping(struct analyst *analyst, uint32_t pid, const struct proc_map *map,
                              char path[ANALYST_PATH_MAX], struct process_mapping *mapping,
                              struct binary **binary)
{
    copy_path(map, path);
    *mapping = (struct process_mapping){
        .start = map->start,
        .length = map->end - map->start,
        .file_offset = map->offset,
        .device_major = map->device_major,
        .device_minor = map->device_minor,
        .inode = map->inode,
        .path = path,
    };
    uint8_t identity[16];
    *binary = NULL;
    if (!executable_identity(mapping, identity))
        return;
    *binary = binaries_get(&analyst->binaries, identity, pid, mapping);
    if (!*binary)
        return;
    mapping->inode_generation = (*binary)->generation;
    mapping->build_id_len = (uint8_t)(*binary)->ids.gnu_len;
    memcpy(mapping->build_id, (*binary)->ids.gnu, (*binary)->ids.gnu_len);
}

static void say_event(struct analyst *analyst, const struct process_event *event)
{
    analyst_say(analyst, &(struct analyst_message){.kind = ANALYST_EVENT, .event = *event});
}

static void scan_mappings(struct analyst *analyst, uint32_t pid, uint64_t time_ns)
{
    struct bytes rest = buf_bytes(&analyst->maps);
    struct proc_map map;
    int left = PROCESS_MAPPINGS_MAX;
    while (left > 0 && proc_maps_next(&rest, &map)) {
        bool is_file = map.inode && map.path.len && map.path.data[0] == '/';
        if (!map.executable || (!is_file && !bytes_equal(map.path, BYTES_LIT(VDSO_PATH))))
            continue;
        char path[ANALYST_PATH_MAX];
        struct binary *binary;
        struct process_event event = {.kind = PROCESS_MAPPED, .time_ns = time_ns, .pid = pid};
        analyst_complete_mapping(analyst, pid, &map, path, &event.mapping, &binary);
        say_event(analyst, &event);
        left--;
    }
}

/* A process that has ended but is not reaped yet has nothing more to tell, not even its end. */
static bool is_alive(struct analyst *analyst, uint32_t pid)
{
    analyst->text.limit_bytes = 8192;
    if (proc_pid_read(pid, "stat", &analyst->text))
        return false;
    const uint8_t *end = memrchr(analyst->text.data, ')', analyst->text.len);
    size_t left = end ? analyst->text.len - (size_t)(end - analyst->text.data) : 0;
    return left > 2 && end[2] != 'Z' && end[2] != 'X';
}

static void scan_process(struct analyst *analyst, uint32_t pid)
{
    uint64_t time_ns = clock_monotonic_ns();
    if (!is_alive(analyst, pid))
        return;
    say_event(analyst,
              &(struct process_event){.kind = PROCESS_FORKED, .time_ns = time_ns, .pid = pid});
    if (!analyst_skips(analyst, pid)) {
        analyst_ledger_enter(analyst->settings.ledger, pid);
        if (!proc_maps_read(pid, &analyst->maps))
            scan_mappings(analyst, pid, time_ns);
        analyst_ledger_leave(analyst->settings.ledger);
    }
    subject_asked(analyst, pid, true, subject_is_sampled(analyst, pid));
}

static void scan_end(struct analyst *analyst)
{
    analyst_say(analyst, &(struct analyst_message){.kind = ANALYST_SCAN_DONE,
                                                   .scan_done = {.start_ns = analyst->scan_start_ns,
                                                                 .end_ns = clock_monotonic_ns()}});
    scan_free(analyst);
    if (analyst->scan_again)
        analyst_scan_start(analyst);
}

static bool is_kernels_turn(const struct analyst *analyst)
{
    size_t n = analyst->n_scan_pids;
    return analyst->scan_at == (n < BUSIEST ? n : BUSIEST);
}

void analyst_scan_step(struct analyst *analyst, uint64_t until_ns)
{
    while (analyst->scanning && !analyst_congested(analyst)) {
        if (is_kernels_turn(analyst))
            analyst_tell_kernel(analyst);
        if (analyst->scan_at == analyst->n_scan_pids) {
            scan_end(analyst);
            return;
        }
        scan_process(analyst, analyst->scan_pids[analyst->scan_at++]);
        heartbeat();
        if (clock_monotonic_ns() >= until_ns)
            return;
    }
}
