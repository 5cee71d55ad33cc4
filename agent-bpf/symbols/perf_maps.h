/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Perf maps of processes: /tmp/perf-PID.map in the process's own root, PID as in its innermost pid
 * namespace. Symbolizer only: opening one may block as long as the process wants.
 *
 * Whose names they are: a regular file of the process's user or of root, not on FUSE, reached
 * through no symbolic link, and changed since the process was started, for pids come again and the
 * files stay. A process that has ended keeps its names for a while.
 * When it is read: what was appended at most every PERF_MAPS_AGE_NS; every PERF_MAPS_RETRY_NS for
 * code that has no name yet; in steps of PERF_MAPS_STEP_BYTES. There are no names as long as it is
 * not read to its end, for the last line about an address counts. A file that was written anew is
 * read anew.
 * Limits: below; each is counted.
 */
#include "agent-bpf/symbols/perf_map.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/map.h"

#define PERF_MAPS_AGE_NS   (500 * NS_PER_MS)
#define PERF_MAPS_RETRY_NS (100 * NS_PER_MS)
#define PERF_MAPS_ABSENT_NS                                                                        \
    (2 * NS_PER_SEC) /* at most, where none could be read when last looked */

#define PERF_MAPS_LEFT_NS (5 * NS_PER_SEC)

#define PERF_MAPS_FILE_BYTES  (UINT64_C(128) << 20) /* of a longer one the end */
#define PERF_MAPS_LINE_BYTES  ((size_t)64 << 10)    /* longer lines give no name */
#define PERF_MAPS_STEP_BYTES  ((size_t)2 << 20)     /* read at once */
#define PERF_MAPS_RATE_BYTES  ((size_t)32 << 20)    /* read in a second, of all processes */
#define PERF_MAPS_BYTES_MAX   ((size_t)64 << 20)    /* memory; then the longest unused goes */
#define PERF_MAPS_PROCESS_MAX ((size_t)16 << 20)    /* memory for one process */
#define PERF_MAPS_MAX         1024                  /* processes; likewise */

struct perf_maps {
    struct map by_pid;  /* struct perf_file */
    struct list recent; /* likewise, longest unused first */
    struct list left;   /* those that have ended, likewise; longest ago first */
    size_t bytes;       /* memory of the names */
    size_t bytes_max;   /* PERF_MAPS_BYTES_MAX; smaller in tests */
    uint64_t second_ns; /* when the current second of reading began */
    size_t second_bytes;
    struct buf text;
    uint8_t line[PERF_MAPS_LINE_BYTES];
};

void perf_maps_init(struct perf_maps *maps);
void perf_maps_close(struct perf_maps *maps);

/* The process's map, read at most PERF_MAPS_AGE_NS ago; borrowed until the next call. NULL: it has
 * none. now_ns: CLOCK_MONOTONIC. */
const struct perf_map *perf_maps_get(struct perf_maps *maps, uint32_t pid, uint64_t now_ns);
/* As perf_map_find(); also of code that is only a moment old. False: there is no map, or it has no
 * name for it. */
bool perf_maps_find(struct perf_maps *maps, uint32_t pid, uint64_t now_ns, uint64_t address,
                    struct perf_map_range *range);
/* It is another program by now. */
void perf_maps_forget(struct perf_maps *maps, uint32_t pid);
/* It has ended: forgotten after PERF_MAPS_LEFT_NS, for samples of it may still come. */
void perf_maps_left(struct perf_maps *maps, uint32_t pid, uint64_t now_ns);
