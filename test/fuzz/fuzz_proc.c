/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of /proc, which hold paths and names that strangers chose. */
#include "agent-bpf/files/container.h"
#include "agent-bpf/files/proc_maps.h"
#include "agent-bpf/files/proc_pid.h"
#include "agent-bpf/supervisor/hang_detector.h"
#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes text = BYTES(data, size), rest = text;
    struct proc_map map;
    uint64_t ticks;
    uint32_t pid;
    while (proc_maps_next(&rest, &map)) {
        assert(map.start < map.end);
        assert(!map.path.len ||
               (map.path.data >= data && map.path.data + map.path.len <= data + size));
        proc_maps_harmless(text, text, map.start, map.end - map.start);
    }
    proc_mounts_fuse(text, 8, 1, BYTES_LIT("/usr/bin/a b"));
    proc_mounts_fuse(text, 0, 0, BYTES_LIT("/usr/bin/a b"));
    proc_parse_start_ticks(text, &ticks);
    proc_parse_cpu_ticks(text, &ticks);
    proc_parse_own_pid(text, &pid);
    struct cpu_need need;
    cpu_need_parse(text, text, &need);
    struct container container;
    container_from_cgroup(text, &container);
    assert(container.id.len <= CONTAINER_ID_MAX);
    assert(strlen(container.pod_uid) <= CONTAINER_POD_UID_MAX);
    return 0;
}
