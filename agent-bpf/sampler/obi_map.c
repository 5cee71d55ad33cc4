/* SPDX-License-Identifier: Apache-2.0 */
/* A map in the slot stays alive by it: when the pin is gone, the slot is emptied. */
#include "agent-bpf/sampler/obi_map.h"
#include "base/log.h"
#include "base/stats.h"
#include <bpf/bpf.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

STAT_GAUGE(attached, "spanprof_obi_map_attached",
           "1 while the map of contexts of OpenTelemetry eBPF Instrumentation is read, else 0.");

static void obi_map_detach(struct obi_map *map)
{
    uint32_t slot = 0;
    if (!map->id || bpf_map_delete_elem(map->slot_fd, &slot) < 0)
        return;
    log_info("sampler", "%s is gone: contexts of OBI are no longer read", map->path);
    map->id = 0;
    stat_set(&attached, 0);
}

static void obi_map_refuse(struct obi_map *map, uint32_t id, const char *why)
{
    obi_map_detach(map);
    if (map->refused_id != id)
        log_warn("sampler", "%s is not read: %s", map->path, why);
    map->refused_id = id;
}

static void obi_map_attach(struct obi_map *map, int fd, const struct bpf_map_info *info)
{
    uint32_t slot = 0;
    if (info->id == map->id)
        return;
    if (info->type != BPF_MAP_TYPE_LRU_HASH || info->key_size != OBI_MAP_KEY_SIZE ||
        info->value_size != OBI_MAP_VALUE_SIZE) {
        obi_map_refuse(map, info->id, "it does not have the form of OBI's map");
        return;
    }
    if (bpf_map_update_elem(map->slot_fd, &slot, &fd, BPF_ANY) < 0) {
        obi_map_refuse(map, info->id, strerror(errno));
        return;
    }
    log_info("sampler", "reading contexts of OBI from %s", map->path);
    map->id = info->id;
    stat_set(&attached, 1);
}

void obi_map_poll(struct obi_map *map)
{
    LIBBPF_OPTS(bpf_obj_get_opts, read_only, .file_flags = BPF_F_RDONLY);
    struct bpf_map_info info = {0};
    uint32_t size = sizeof(info);
    if (!map->path || !map->path[0])
        return;
    int fd = bpf_obj_get_opts(map->path, &read_only);
    if (fd < 0) {
        obi_map_detach(map);
        return;
    }
    if (bpf_obj_get_info_by_fd(fd, &info, &size) == 0)
        obi_map_attach(map, fd, &info);
    close(fd);
}
