/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Acts on files with the rights of another process: its file system user, group and supplementary
 * groups, without capabilities for files. Between take and return the kernel checks this thread's
 * open() and connect() as if that process made them. Needs CAP_SETUID and CAP_SETGID, unless the
 * process has exactly our own ids. Thread: any; other threads are not changed.
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

struct fs_rights_own { /* to be restored */
    struct fs_rights rights;
    uint64_t effective;
    int death_signal;
    int dumpable;
};

/* From the text of /proc/PID/status. Pure. False: malformed, or more groups than
 * FS_RIGHTS_GROUPS_MAX. */
bool fs_rights_parse(struct bytes status, struct fs_rights *rights);

/* 0; negative errno (-EPERM: not allowed): nothing is changed. */
int fs_rights_take(const struct fs_rights *rights, struct fs_rights_own *own);
/* Aborts if the own rights cannot be restored, rather than continue with the wrong ones. */
void fs_rights_return(const struct fs_rights_own *own);

/*
 * Takes the groups, effective ids and file system ids of the process and drops every capability, so
 * this cannot be undone. The real and saved user stay, unless that is root: the process's user can
 * neither stop nor trace us. Negative errno: the caller ends.
 */
int fs_rights_become(const struct fs_rights *rights);
