/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Rules of which tasks are sampled, for the tick to look up (filter.bpf.h). A task is sampled if
 * one include rule applies, of whatever kind, or there is none, and no exclude rule does.
 * Thread: the supervisor's only one.
 *
 * pids: of processes, decimal, in spanprof's PID namespace; later children are not included.
 * comms: names of threads, whole. executables: the file's name without directories; the
 * interpreter's for scripts; kernel threads have none. cgroups: paths in the unified hierarchy,
 * including all below. containers: ids, or their prefixes, as in names of cgroups (container.h): a
 * process that may create cgroups can name one like a container, and it then counts as that
 * container. cgroups and containers come and go: filter_poll() searches them.
 *
 * Limits: FILTER_RULES_MAX values of a kind; FILTER_IDS_MAX cgroups that match rules;
 * FILTER_WALK_MAX cgroups searched for containers, FILTER_WALK_DEPTH deep. Rules do not apply
 * beyond the limits, which is logged.
 */
#include "agent-bpf/filter_key.h"
#include <stdbool.h>
#include <stdint.h>

#define FILTER_RULES_MAX  64
#define FILTER_IDS_MAX    2048
#define FILTER_WALK_MAX   65536
#define FILTER_WALK_DEPTH 16

struct filter_rules {
    const char *const *values[FILTER_KINDS]; /* lists that end with NULL, borrowed; NULL: none */
};

struct filter_settings {
    struct filter_rules include, exclude;
};

struct filter;

unsigned filter_kinds(const struct filter_settings *settings); /* FILTER_BIT of those with rules */
bool filter_includes(const struct filter_settings *settings);  /* there are include rules */
uint32_t filter_entries_max(const struct filter_settings *settings); /* room in the map, >= 1 */

/* Puts the rules into the map. 0; -EINVAL: a value is not of its form; negative errno. */
int filter_open(const struct filter_settings *settings, int map_fd, struct filter **filter);
/* Equal settings, from which it borrows from now on. */
void filter_follow(struct filter *filter, const struct filter_settings *settings);
void filter_close(struct filter *filter); /* NULL is fine; the map stays as it is */
/* Finds the cgroups that match the rules now. Does not block. */
void filter_poll(struct filter *filter);
