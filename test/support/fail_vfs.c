/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/fail_vfs.h"
#include <assert.h>
#include <sqlite3.h>
#include <string.h>

struct fail_file {
    sqlite3_file base;
    sqlite3_file *real; /* behind this struct */
};

static unsigned countdown; /* 0 = off, 1 = the next fails */
static bool all_after, hit;
static enum fail_vfs_kind how;
static sqlite3_vfs failing;
static sqlite3_vfs *real_vfs;

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

static sqlite3_file *real(sqlite3_file *file)
{
    return ((struct fail_file *)(void *)file)->real;
}

static int file_close(sqlite3_file *file)
{
    return real(file)->pMethods->xClose(real(file));
}

static int file_read(sqlite3_file *file, void *data, int size, sqlite3_int64 at)
{
    return real(file)->pMethods->xRead(real(file), data, size, at);
}

static int file_write(sqlite3_file *file, const void *data, int size, sqlite3_int64 at)
{
    if (!fails())
        return real(file)->pMethods->xWrite(real(file), data, size, at);
    if (how == FAIL_VFS_SHORT && size > 1)
        real(file)->pMethods->xWrite(real(file), data, size / 2, at);
    return code(SQLITE_IOERR_WRITE);
}

static int file_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    return fails() ? code(SQLITE_IOERR_TRUNCATE)
                   : real(file)->pMethods->xTruncate(real(file), size);
}

static int file_sync(sqlite3_file *file, int flags)
{
    return fails() ? code(SQLITE_IOERR_FSYNC) : real(file)->pMethods->xSync(real(file), flags);
}

static int file_size(sqlite3_file *file, sqlite3_int64 *size)
{
    return real(file)->pMethods->xFileSize(real(file), size);
}

static int file_lock(sqlite3_file *file, int lock)
{
    return real(file)->pMethods->xLock(real(file), lock);
}

static int file_unlock(sqlite3_file *file, int lock)
{
    return real(file)->pMethods->xUnlock(real(file), lock);
}

static int file_check_lock(sqlite3_file *file, int *locked)
{
    return real(file)->pMethods->xCheckReservedLock(real(file), locked);
}

static int file_control(sqlite3_file *file, int operation, void *argument)
{
    return real(file)->pMethods->xFileControl(real(file), operation, argument);
}

static int file_sector(sqlite3_file *file)
{
    return real(file)->pMethods->xSectorSize(real(file));
}

static int file_characteristics(sqlite3_file *file)
{
    return real(file)->pMethods->xDeviceCharacteristics(real(file));
}

static int file_shm_map(sqlite3_file *file, int page, int size, int extend, void volatile **at)
{
    return real(file)->pMethods->xShmMap(real(file), page, size, extend, at);
}

static int file_shm_lock(sqlite3_file *file, int offset, int n, int flags)
{
    return real(file)->pMethods->xShmLock(real(file), offset, n, flags);
}

static void file_shm_barrier(sqlite3_file *file)
{
    real(file)->pMethods->xShmBarrier(real(file));
}

static int file_shm_unmap(sqlite3_file *file, int delete)
{
    return real(file)->pMethods->xShmUnmap(real(file), delete);
}

static const sqlite3_io_methods methods = {
    .iVersion = 2,
    .xClose = file_close,
    .xRead = file_read,
    .xWrite = file_write,
    .xTruncate = file_truncate,
    .xSync = file_sync,
    .xFileSize = file_size,
    .xLock = file_lock,
    .xUnlock = file_unlock,
    .xCheckReservedLock = file_check_lock,
    .xFileControl = file_control,
    .xSectorSize = file_sector,
    .xDeviceCharacteristics = file_characteristics,
    .xShmMap = file_shm_map,
    .xShmLock = file_shm_lock,
    .xShmBarrier = file_shm_barrier,
    .xShmUnmap = file_shm_unmap,
};

static int open_file(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out)
{
    struct fail_file *own = (struct fail_file *)(void *)file;
    (void)vfs;
    own->real = (sqlite3_file *)(void *)(own + 1);
    int outcome = real_vfs->xOpen(real_vfs, name, own->real, flags, out);
    own->base.pMethods = outcome == SQLITE_OK ? &methods : NULL;
    return outcome;
}

void fail_vfs_register(void)
{
    real_vfs = sqlite3_vfs_find(NULL);
    assert(real_vfs && !strcmp(real_vfs->zName, "unix"));
    failing = *real_vfs; /* the rest only needs what the real one put into pAppData */
    failing.zName = FAIL_VFS_NAME;
    failing.szOsFile = (int)sizeof(struct fail_file) + real_vfs->szOsFile;
    failing.xOpen = open_file;
    failing.pNext = NULL;
    sqlite3_vfs_register(&failing, 0);
}
