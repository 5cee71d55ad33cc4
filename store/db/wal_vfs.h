/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * An SQLite VFS that writes all WAL frames of a transaction in one call. SQLite itself makes two
 * calls per frame: header and page. The file has the same contents when a commit returns, and when
 * a sync returns. Thread: that of the one connection opened with it. Limit: 64 KiB are buffered,
 * then written. Source of the format: https://sqlite.org/fileformat2.html#walformat
 */
#include <stdint.h>

struct wal_vfs;

/* base: name of the underlying VFS; NULL = SQLite's default. 0, -ENOENT (no such VFS), -ENOMEM. */
int wal_vfs_open(const char *base, struct wal_vfs **vfs);
const char *wal_vfs_name(const struct wal_vfs *vfs); /* for sqlite3_open_v2() */
/* The page count of the database in the last commit frame written, whether or not that commit
 * succeeded. 0: no commit frame since the previous call. */
uint32_t wal_vfs_take_pages(struct wal_vfs *vfs);
void wal_vfs_close(struct wal_vfs *vfs); /* after the connection; NULL is fine */
