/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * An SQLite VFS named "failing" on top of the default one, whose n-th write fails. Writes are
 * write, truncate and sync of any file. Off until set. Thread: one.
 */
#include <stdbool.h>

enum fail_vfs_kind {
    FAIL_VFS_IO,    /* EIO, nothing written */
    FAIL_VFS_SHORT, /* half of it was written */
    FAIL_VFS_FULL,  /* ENOSPC */
};

#define FAIL_VFS_NAME "failing"

void fail_vfs_register(void);
void fail_vfs_at(unsigned n, enum fail_vfs_kind kind);   /* the n-th from now, once; 0 = off */
void fail_vfs_from(unsigned n, enum fail_vfs_kind kind); /* and all after it */
bool fail_vfs_hit(void);                                 /* whether one has failed; turns it off */
