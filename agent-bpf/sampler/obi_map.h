/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The map in which OpenTelemetry eBPF Instrumentation (OBI) publishes each thread's span. It is
 * found by its pin and put where the tick program looks it up. Either side may start first, and the
 * map may be replaced. It is never created or pinned here. Thread: the supervisor's, with CAP_BPF.
 * Takes no lock and opens no file: the kernel looks the path up and refuses what is not pinned.
 */
#include <stdint.h>

struct obi_map {
    const char *path;    /* borrowed; NULL or "": never polled */
    int slot_fd;         /* BPF_MAP_TYPE_ARRAY_OF_MAPS of one; borrowed */
    uint32_t id;         /* of the map in the slot; 0 = none */
    uint32_t refused_id; /* logged already */
};

#define OBI_MAP_KEY_SIZE   8
#define OBI_MAP_VALUE_SIZE 24

/* Checks the pin once. Changes are logged. */
void obi_map_poll(struct obi_map *map);
