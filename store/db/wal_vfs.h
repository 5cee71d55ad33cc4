/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A VFS of SQLite that writes the frames of a transaction into the write-ahead log at once. SQLite
 * itself writes each in two calls, its header and its page. What lies in the file when a commit
 * returns, and when a sync does, is the same.
 * Thread: that of the one connection which opens with it. Limit: 64 KiB are gathered, then written.
 * Source of the format: https://sqlite.org/fileformat2.html#walformat
 */
#include <stdint.h>

struct wal_vfs;

/* base: what lies below; NULL = SQLite's default. 0, -ENOENT (there is none such), -ENOMEM. */
int wal_vfs_open(const char *base, struct wal_vfs **vfs);
const char *wal_vfs_name(const struct wal_vfs *vfs); /* for sqlite3_open_v2() */
/* How many pages the database has by the commit that was written last, whether or not it succeeded;
 * 0: none was since this was asked for. */
uint32_t wal_vfs_take_pages(struct wal_vfs *vfs);
void wal_vfs_close(struct wal_vfs *vfs); /* after the connection; NULL is fine */
