/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A cgroup (v2) for one command, to tell it and the processes that it starts from all others.
 * Thread: the only one. Needs root.
 */
#include <stddef.h>

struct client_cgroup {
    char directory[512]; /* where it is mounted; "" = none was made */
    char name[64];       /* from the root of the hierarchy: /spanprof-record-PID */
};

/* 0; -ENOTSUP: no cgroup2 is mounted; else as mkdir() has it. */
int client_cgroup_make(struct client_cgroup *cgroup);
int client_cgroup_enter(const struct client_cgroup *cgroup); /* the calling process */
/* What still runs in it goes to the root of the hierarchy. Also when none was made. */
void client_cgroup_remove(struct client_cgroup *cgroup);
