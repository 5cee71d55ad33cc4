/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Perf maps of processes: /tmp/perf-PID.map in the process's own root, PID as in its innermost pid
 * namespace. Symbolizer only: opening one may block as long as the process wants.
 *
 * A file is only read if it is a regular file of the process's user or of root, not on FUSE, not
 * reached through a symbolic link, and changed since the process started: pids are reused and old
 * files stay. The names of a process that has ended are kept for PERF_MAPS_LEFT_NS.
 * Appended lines are read at most every PERF_MAPS_AGE_NS, every PERF_MAPS_RETRY_NS for code that
 * has no name yet, in steps of PERF_MAPS_STEP_BYTES. There are no names until the file is read to
 * its end, because the last line about an address counts. A replaced file is read from its start.
 * Limits: below; each is counted, and divided among tenants (base/fair_share.h): who writes maps
 * without end loses his own.
 */
#include "agent-bpf/symbols/perf_map.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/fair_share.h"
#include "base/map.h"

#define PERF_MAPS_AGE_NS    (500 * NS_PER_MS)
#define PERF_MAPS_RETRY_NS  (100 * NS_PER_MS)
#define PERF_MAPS_ABSENT_NS (2 * NS_PER_SEC) /* at most, if no file could be read the last time */

#define PERF_MAPS_LEFT_NS (5 * NS_PER_SEC)

#define PERF_MAPS_FILE_BYTES  (UINT64_C(128) << 20) /* of a longer file only the end is read */
#define PERF_MAPS_LINE_BYTES  ((size_t)64 << 10)    /* longer lines give no name */
#define PERF_MAPS_STEP_BYTES  ((size_t)2 << 20)     /* read at once */
#define PERF_MAPS_RATE_BYTES  ((size_t)32 << 20)    /* read per second, for all processes */
#define PERF_MAPS_BYTES_MAX   ((size_t)16 << 20)    /* memory */
#define PERF_MAPS_PROCESS_MAX ((size_t)16 << 20)    /* memory for one process */
#define PERF_MAPS_MAX         1024                  /* processes */
/* What a small map counts for, so that there are no more. */
#define PERF_MAPS_LEAST (PERF_MAPS_BYTES_MAX / PERF_MAPS_MAX)

struct perf_maps {
    struct map by_pid;        /* struct perf_file */
    struct fair_lru kept;     /* struct perf_file, in bytes: of each PERF_MAPS_LEAST at least */
    struct list left;         /* struct perf_file of ended processes, by left_ns */
    size_t bytes;             /* memory of the names */
    uint64_t second_ns;       /* when the current second of reading began */
    struct fair_share second; /* bytes read in it */
    struct buf text;
    uint8_t line[PERF_MAPS_LINE_BYTES];
};

int perf_maps_init(struct perf_maps *maps); /* negative errno of getrandom() */
void perf_maps_close(struct perf_maps *maps);

struct perf_user {
    uint32_t pid;
    uint64_t tenant; /* whose share it counts for */
};

/* The process's map, read at most PERF_MAPS_AGE_NS ago; borrowed until the next call. NULL: it has
 * none. now_ns: CLOCK_MONOTONIC. */
const struct perf_map *perf_maps_get(struct perf_maps *maps, struct perf_user user,
                                     uint64_t now_ns);
/* As perf_map_find(), also for code made a moment ago. False: there is no map, or no name. */
bool perf_maps_find(struct perf_maps *maps, struct perf_user user, uint64_t now_ns,
                    uint64_t address, struct perf_map_range *range);
/* The process has execed. */
void perf_maps_forget(struct perf_maps *maps, uint32_t pid);
/* It has ended: forgotten after PERF_MAPS_LEFT_NS, for samples of it may still come. */
void perf_maps_left(struct perf_maps *maps, uint32_t pid, uint64_t now_ns);
