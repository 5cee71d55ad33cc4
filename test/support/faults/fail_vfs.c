/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/faults/fail_vfs.h"
#include "test/support/faults/through_vfs.h"
#include <assert.h>
#include <string.h>

#define PIECE_BYTES 4096

static unsigned countdown; /* 0 = off, 1 = the next fails */
static bool all_after, hit;
static enum fail_vfs_kind how;
static sqlite3_vfs failing;
static sqlite3_vfs *real_vfs;
static sqlite3_io_methods methods;

static void set(unsigned n, enum fail_vfs_kind kind, bool after)
{
    countdown = n;
    how = kind;
    all_after = after;
    hit = false;
}

void fail_vfs_at(unsigned n, enum fail_vfs_kind kind)
{
    set(n, kind, false);
}

void fail_vfs_from(unsigned n, enum fail_vfs_kind kind)
{
    set(n, kind, true);
}

bool fail_vfs_hit(void)
{
    bool was_hit = hit;
    set(0, FAIL_VFS_IO, false);
    return was_hit;
}

static bool fails(void)
{
    if (!countdown || (countdown > 1 && --countdown))
        return false;
    countdown = all_after;
    hit = true;
    return true;
}

static int code(int io_code)
{
    return how == FAIL_VFS_FULL ? SQLITE_FULL : io_code;
}

static int write_piece(sqlite3_file *file, const void *data, int size, sqlite3_int64 at)
{
    if (!fails())
        return through_write(file, data, size, at);
    if (how == FAIL_VFS_SHORT && size > 1)
        through_write(file, data, size / 2, at);
    return code(SQLITE_IOERR_WRITE);
}

/* A large write may fail, or be torn, within any of its pages. */
static int file_write(sqlite3_file *file, const void *data, int size, sqlite3_int64 at)
{
    int outcome = SQLITE_OK;
    for (int done = 0; outcome == SQLITE_OK && done < size; done += PIECE_BYTES) {
        int left = size - done;
        outcome = write_piece(file, (const char *)data + done,
                              left < PIECE_BYTES ? left : PIECE_BYTES, at + done);
    }
    return outcome;
}

static int file_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    return fails() ? code(SQLITE_IOERR_TRUNCATE) : through_truncate(file, size);
}

static int file_sync(sqlite3_file *file, int flags)
{
    return fails() ? code(SQLITE_IOERR_FSYNC) : through_sync(file, flags);
}

static int open_file(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out)
{
    (void)vfs;
    return through_open(real_vfs, name, file, sizeof(struct through_file), flags, out, &methods);
}

void fail_vfs_register(void)
{
    methods = through_methods();
    methods.xWrite = file_write;
    methods.xTruncate = file_truncate;
    methods.xSync = file_sync;
    real_vfs = sqlite3_vfs_find(NULL);
    assert(real_vfs && !strcmp(real_vfs->zName, "unix"));
    failing = *real_vfs; /* the rest only needs what the real one put into pAppData */
    failing.zName = FAIL_VFS_NAME;
    failing.szOsFile = (int)sizeof(struct through_file) + real_vfs->szOsFile;
    failing.xOpen = open_file;
    failing.pNext = NULL;
    sqlite3_vfs_register(&failing, 0);
}
