/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The table of what the program can take at most: memory by process, kernel memory, disk. A module
 * with a store of its own declares a row where its limit is:
 *
 *     LIMIT(waiting, LIMIT_SERVICE, "samples that wait for their span",
 *           .key = "join::max_pending_mib", .percent = 125);
 *     LIMIT(drains, LIMIT_SERVICE, "drains at the writer", .bytes = DRAINS_MAX);
 *
 * A row counts `bytes`, plus `percent` of the value of `key`: a component's type and its key, as in
 * docs/configuration.md. It counts once for each component of that type in use; with `of` and no
 * key as well; with neither once. `count`, which knows the configuration, replaces all of these.
 *
 * The rows gather in a linker section; `spanprof limits` prints them with their sums. Thread: any.
 */
#include <stddef.h>
#include <stdint.h>

struct config;

enum limit_of {
    LIMIT_SERVICE,
    LIMIT_SYMBOLIZER,
    LIMIT_SUPERVISOR,
    LIMIT_KERNEL,
    LIMIT_DISK,
    LIMITS
};

/* What is promised for the default configuration, see docs/reliability.md. */
#define LIMIT_SERVICE_BYTES (UINT64_C(512) << 20)
#define LIMIT_MEMORY_BYTES  (UINT64_C(768) << 20) /* of all but LIMIT_DISK */

struct limit {
    const char *what;
    enum limit_of of_whom;
    const char *key; /* "type::key.of.it"; NULL: none */
    const char *of;  /* type of a component; NULL: any */
    unsigned percent;
    uint64_t bytes;
    uint64_t (*count)(const struct config *config); /* NULL: as above */
};

#define LIMIT(variable, of_whom_, what_, ...)                                                      \
    static const struct limit limit_row_##variable                                                 \
        __attribute__((section("spanprof_limits"), used, aligned(sizeof(void *)))) = {             \
            .of_whom = (of_whom_), .what = (what_), __VA_ARGS__}

/* All rows of the program, in no order. */
const struct limit *limits_all(size_t *n);
