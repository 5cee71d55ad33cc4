/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Rules of which tasks are sampled, for the tick to look up (filter.bpf.h). A task is sampled if
 * one include rule applies, of whatever kind, or there is none, and no exclude rule does.
 * Thread: the supervisor's only one.
 *
 * pids: of processes, decimal, in spanprof's PID namespace; later children are not meant.
 * comms: names of threads, whole. executables: the file's name without directories; the
 * interpreter's for scripts; kernel threads have none. cgroups: paths in the unified hierarchy, all
 * that is below is meant. containers: ids, or their beginnings, as in names of cgroups
 * (container.h): whoever may make cgroups may also name one so, which then counts as that
 * container. cgroups and containers come and go: they are looked for by filter_poll().
 *
 * Limits: FILTER_RULES_MAX values of a kind; FILTER_IDS_MAX cgroups that rules are about, and
 * FILTER_WALK_MAX that are searched for containers, FILTER_WALK_DEPTH deep: what lies beyond is as
 * if no rule were about it, and said in the log.
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
bool filter_includes(const struct filter_settings *settings);  /* has it include rules? */
uint32_t filter_entries_max(const struct filter_settings *settings); /* room in the map, >= 1 */

/* Puts the rules into the map. 0; -EINVAL: a value is not of its form; negative errno. */
int filter_open(const struct filter_settings *settings, int map_fd, struct filter **filter);
/* Settings that say the same, from which it borrows from now on. */
void filter_follow(struct filter *filter, const struct filter_settings *settings);
void filter_close(struct filter *filter); /* NULL is fine; the map stays as it is */
/* Looks which cgroups the rules are about now. Does not wait. */
void filter_poll(struct filter *filter);
