/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Acting on files with the rights of another process: its file system user, group and further
 * groups, and no capability about files. Of this thread only, and for a moment: what opens or
 * connects in between is judged by the kernel as if that process did it.
 * Needs CAP_SETUID and CAP_SETGID, except in the name of a process with exactly our own ids.
 * Thread: any; the others are not changed.
 */
#include "base/bytes.h"
#include <sys/types.h>

#define FS_RIGHTS_GROUPS_MAX 256

struct fs_rights {
    uid_t uid;
    gid_t gid;
    size_t n_groups;
    gid_t groups[FS_RIGHTS_GROUPS_MAX];
};

struct fs_rights_own { /* what to go back to */
    struct fs_rights rights;
    uint64_t effective;
    int death_signal;
    int dumpable;
};

/* From the text of /proc/PID/status. Pure. False: malformed, or in more groups than
 * FS_RIGHTS_GROUPS_MAX. */
bool fs_rights_parse(struct bytes status, struct fs_rights *rights);

/* 0; negative errno (-EPERM: may not), and nothing is changed. */
int fs_rights_take(const struct fs_rights *rights, struct fs_rights_own *own);
/* Aborts if the way back is barred: no one goes on with the wrong rights. */
void fs_rights_return(const struct fs_rights_own *own);
