/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/executable_identity.h"
#include "test/support/rigs/unwind_rig.h"
#include "agent-bpf/files/proc_maps.h"
#include "base/clock.h"
#include <string.h>

#define PATH_BYTES 256

void unwind_rig_open(struct unwind_rig *rig, const struct sampler *sampler)
{
    *rig = (struct unwind_rig){.maps = sampler_unwind_maps(sampler)};
    rig_open(&rig->symbolizer);
    rig->symbolizer.unwind = &rig->maps;
    rig->symbolizer.runtimes_map_fd = sampler_runtimes_fd(sampler);
    rig_start(&rig->symbolizer);
}

void unwind_rig_close(struct unwind_rig *rig)
{
    rig_close(&rig->symbolizer);
}

static bool take_map(const struct proc_map *map, uint32_t pid, char path[PATH_BYTES],
                     struct symbolizer_executable_ref *ref)
{
    if (!map->executable || !map->inode || map->path.len >= PATH_BYTES)
        return false;
    memcpy(path, map->path.data, map->path.len);
    path[map->path.len] = 0;
    *ref = (struct symbolizer_executable_ref){
        .pid = pid,
        .mapping = {.start = map->start,
                    .length = map->end - map->start,
                    .file_offset = map->offset,
                    .device_major = map->device_major,
                    .device_minor = map->device_minor,
                    .inode = map->inode,
                    .path = path},
    };
    return executable_identity(&ref->mapping, ref->identity);
}

bool unwind_rig_take(struct unwind_rig *rig, const struct record_header *record)
{
    struct symbolizer_executable_ref refs[SYMBOLIZER_MAPPINGS_MAX];
    char paths[SYMBOLIZER_MAPPINGS_MAX][PATH_BYTES];
    struct buf text = BUF_INIT(PROC_MAPS_BYTES_MAX);
    if (record->end != UNWIND_END_WANTED || !(record->flags & RECORD_FLAG_STACK))
        return false;
    const struct record_stack *stack = record_stack(record);
    struct symbolizer_unwind_wanted wanted = {
        .ticket = ++rig->tickets,
        .pid = record->pid,
        .stack = BYTES((const uint8_t *)stack, sizeof(*stack) + stack->size),
        .mappings = refs};
    if (!proc_maps_read(record->pid, &text)) {
        struct bytes rest = buf_bytes(&text);
        struct proc_map map;
        while (wanted.n < SYMBOLIZER_MAPPINGS_MAX && proc_maps_next(&rest, &map))
            wanted.n += take_map(&map, record->pid, paths[wanted.n], &refs[wanted.n]);
        rig->wanted++;
        if (wanted.n) /* else it is gone, or between two programs */
            rig_send(&rig->symbolizer,
                     &(struct symbolizer_message){.kind = SYMBOLIZER_UNWIND_WANTED,
                                                  .unwind_wanted = wanted});
    }
    buf_close(&text);
    return true;
}

struct settling {
    struct unwind_rig *rig;
    uint32_t pid;
    uint64_t seen_ns; /* an incomplete one */
    bool any;
};

static void settle_record(void *context, const struct record_header *record)
{
    struct settling *settling = context;
    if (record->pid != settling->pid)
        return;
    settling->any = true;
    if (unwind_rig_take(settling->rig, record))
        settling->seen_ns = clock_monotonic_ns();
}

bool unwind_rig_settle(struct unwind_rig *rig, struct ring *ring, uint32_t pid, unsigned quiet_ms,
                       unsigned timeout_ms)
{
    uint64_t now_ns = clock_monotonic_ns(), end_ns = now_ns + timeout_ms * NS_PER_MS;
    struct settling settling = {.rig = rig, .pid = pid, .seen_ns = now_ns};
    bool settled = false;
    while (now_ns < end_ns && !settled) {
        ring_drain(ring, ring_position(ring), settle_record, &settling, NULL);
        rig_round(&rig->symbolizer);
        now_ns = clock_monotonic_ns();
        settled = settling.any && now_ns - settling.seen_ns > quiet_ms * NS_PER_MS;
    }
    return settled;
}
