/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Cgroups of the unified hierarchy (cgroup v2) and their ids, by which the kernel names them. The
 * id of a cgroup is the inode number of its directory. Thread: any.
 */
#include "base/bytes.h"

#define CGROUP_PATH_MAX 4096

/* The top of the hierarchy: where processes are that nobody has put into a cgroup, so it keeps
 * nothing apart. */
#define CGROUP_TOP_ID 1

/* Where the hierarchy is mounted, written to mount; false: nowhere that we can see. */
bool cgroup_mount_find(char *mount, size_t size);
/* The id of the cgroup with this path below the mount ("/system.slice/..."); 0: there is none. */
uint64_t cgroup_id_of_path(const char *mount, struct bytes path);
/* From the text of /proc/PID/cgroup: the path in the unified hierarchy; empty: none. Borrowed. */
struct bytes cgroup_path_of_text(struct bytes text);
