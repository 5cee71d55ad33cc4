/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Names of code made by a JIT compiler: address ranges and their names, from the text of a perf
 * map. Thread: the owner's.
 *
 * Format (linux/tools/perf/Documentation/jit-interface.txt, and what V8, HotSpot, CPython and .NET
 * write): one line per range, START SIZE NAME, the numbers in hex with or without 0x, the name up
 * to the end of the line. Compilers append: if new code replaces old code at an address, the later
 * line counts. Limit: the map's bytes_max; lines beyond it are left out and counted.
 */
#include "base/bytes.h"

struct perf_map_range {
    uint64_t start;
    uint64_t last;    /* address in it */
    const char *name; /* valid UTF-8 without control characters, shorter than FUNCTION_NAME_MAX,
                       * borrowed until the next change; NULL: it has none */
};

struct perf_map {
    struct perf_map_branch *branches; /* by address; no range overlaps another */
    size_t n_branches;
    size_t cap;
    size_t n;     /* ranges */
    size_t bytes; /* memory */
    size_t bytes_max;
};

void perf_map_init(struct perf_map *map, size_t bytes_max);
void perf_map_close(struct perf_map *map); /* may be called twice; empties it */

/* Adds the whole lines of text. Returns their length; the rest is the start of a line. */
size_t perf_map_add(struct perf_map *map, struct bytes text);
/* The range that contains the address; if there is none, the gap around the address. */
struct perf_map_range perf_map_find(const struct perf_map *map, uint64_t address);

enum perf_map_line_loss {
    PERF_MAP_LINE_MALFORMED,
    PERF_MAP_LINE_NO_MEMORY,
    PERF_MAP_LINE_TOO_LONG, /* for perf_maps.c, which reads the lines */
    PERF_MAP_LINE_LOSSES
};
void perf_map_count_left_out(enum perf_map_line_loss reason);
