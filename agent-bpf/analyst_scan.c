/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A walk over /proc, a few processes a step. Each is told as the kernel's stream would have told
 * it: that it was there, then each mapping of a file with code, with build id or inode and
 * generation, so that both sources give the same executable the same identity. Details and context
 * follow at once.
 */
#include "agent-bpf/analyst_parts.h"
#include "agent-bpf/analyst_stats.h"
#include "agent-bpf/proc_pid.h"
#include "agent-bpf/process.h"
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>

static int add_pid(struct analyst *analyst, size_t *cap, uint32_t pid)
{
    if (analyst->n_scan_pids == *cap) {
        size_t more = *cap ? *cap * 2 : 1024;
        uint32_t *pids = realloc(analyst->scan_pids, more * sizeof(*pids));
        if (!pids)
            return -ENOMEM;
        analyst->scan_pids = pids;
        *cap = more;
    }
    analyst->scan_pids[analyst->n_scan_pids++] = pid;
    return 0;
}

static void list_pids(struct analyst *analyst)
{
    DIR *proc = opendir("/proc");
    struct dirent *entry;
    size_t cap = 0;
    while (proc && (entry = readdir(proc))) {
        char *end;
        unsigned long pid = strtoul(entry->d_name, &end, 10);
        if (!pid || *end || pid > UINT32_MAX || analyst->n_scan_pids >= ANALYST_SUBJECTS_MAX)
            continue;
        if (add_pid(analyst, &cap, (uint32_t)pid))
            break;
    }
    if (proc)
        closedir(proc);
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
    analyst_tell_kernel(analyst);
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
    if (!process_mapping_identity(mapping, identity))
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
        if (!map.executable || !map.inode || !map.path.len || map.path.data[0] != '/')
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
    if (analyst_is_banned(analyst, pid)) {
        analyst_count(COUNT_BANNED, 1);
    } else {
        analyst_ledger_enter(analyst->settings.ledger, pid);
        if (!proc_maps_read(pid, &analyst->maps))
            scan_mappings(analyst, pid, time_ns);
        analyst_ledger_leave(analyst->settings.ledger);
    }
    subject_asked(analyst, pid, true);
}

void analyst_scan_step(struct analyst *analyst, uint64_t until_ns)
{
    while (analyst->scanning && !analyst_congested(analyst)) {
        if (analyst->scan_at == analyst->n_scan_pids) {
            analyst_say(analyst,
                        &(struct analyst_message){.kind = ANALYST_SCAN_DONE,
                                                  .scan_done = {.start_ns = analyst->scan_start_ns,
                                                                .end_ns = clock_monotonic_ns()}});
            scan_free(analyst);
            if (analyst->scan_again)
                analyst_scan_start(analyst);
            return;
        }
        scan_process(analyst, analyst->scan_pids[analyst->scan_at++]);
        if (clock_monotonic_ns() >= until_ns)
            return;
    }
}
