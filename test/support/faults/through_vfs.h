/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Files of SQLite that pass everything on to the real ones behind them; whoever includes this puts
 * functions of its own over some. Its file begins with a struct through_file, and the real one lies
 * behind its end: szOsFile is the sum of both. Thread: as SQLite's.
 */
#include <sqlite3.h>
#include <stddef.h>

struct through_file {
    sqlite3_file base;
    sqlite3_file *real;
};

static inline sqlite3_file *through_real(sqlite3_file *file)
{
    return ((struct through_file *)(void *)file)->real;
}

static inline int through_close(sqlite3_file *file)
{
    return through_real(file)->pMethods->xClose(through_real(file));
}

static inline int through_read(sqlite3_file *file, void *data, int size, sqlite3_int64 at)
{
    return through_real(file)->pMethods->xRead(through_real(file), data, size, at);
}

static inline int through_write(sqlite3_file *file, const void *data, int size, sqlite3_int64 at)
{
    return through_real(file)->pMethods->xWrite(through_real(file), data, size, at);
}

static inline int through_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    return through_real(file)->pMethods->xTruncate(through_real(file), size);
}

static inline int through_sync(sqlite3_file *file, int flags)
{
    return through_real(file)->pMethods->xSync(through_real(file), flags);
}

static inline int through_size(sqlite3_file *file, sqlite3_int64 *size)
{
    return through_real(file)->pMethods->xFileSize(through_real(file), size);
}

static inline int through_lock(sqlite3_file *file, int lock)
{
    return through_real(file)->pMethods->xLock(through_real(file), lock);
}

static inline int through_unlock(sqlite3_file *file, int lock)
{
    return through_real(file)->pMethods->xUnlock(through_real(file), lock);
}

static inline int through_check_lock(sqlite3_file *file, int *locked)
{
    return through_real(file)->pMethods->xCheckReservedLock(through_real(file), locked);
}

static inline int through_control(sqlite3_file *file, int operation, void *argument)
{
    return through_real(file)->pMethods->xFileControl(through_real(file), operation, argument);
}

static inline int through_sector(sqlite3_file *file)
{
    return through_real(file)->pMethods->xSectorSize(through_real(file));
}

static inline int through_characteristics(sqlite3_file *file)
{
    return through_real(file)->pMethods->xDeviceCharacteristics(through_real(file));
}

static inline int through_shm_map(sqlite3_file *file, int page, int size, int extend,
                                  void volatile **at)
{
    return through_real(file)->pMethods->xShmMap(through_real(file), page, size, extend, at);
}

static inline int through_shm_lock(sqlite3_file *file, int offset, int n, int flags)
{
    return through_real(file)->pMethods->xShmLock(through_real(file), offset, n, flags);
}

static inline void through_shm_barrier(sqlite3_file *file)
{
    through_real(file)->pMethods->xShmBarrier(through_real(file));
}

static inline int through_shm_unmap(sqlite3_file *file, int delete)
{
    return through_real(file)->pMethods->xShmUnmap(through_real(file), delete);
}

static inline sqlite3_io_methods through_methods(void)
{
    return (sqlite3_io_methods){
        .iVersion = 2,
        .xClose = through_close,
        .xRead = through_read,
        .xWrite = through_write,
        .xTruncate = through_truncate,
        .xSync = through_sync,
        .xFileSize = through_size,
        .xLock = through_lock,
        .xUnlock = through_unlock,
        .xCheckReservedLock = through_check_lock,
        .xFileControl = through_control,
        .xSectorSize = through_sector,
        .xDeviceCharacteristics = through_characteristics,
        .xShmMap = through_shm_map,
        .xShmLock = through_shm_lock,
        .xShmBarrier = through_shm_barrier,
        .xShmUnmap = through_shm_unmap,
    };
}

/* file_size: of the including file's own struct. */
static inline int through_open(sqlite3_vfs *real_vfs, const char *name, sqlite3_file *file,
                               size_t file_size, int flags, int *out,
                               const sqlite3_io_methods *methods)
{
    struct through_file *own = (struct through_file *)(void *)file;
    own->real = (sqlite3_file *)(void *)((char *)file + file_size);
    int outcome = real_vfs->xOpen(real_vfs, name, own->real, flags, out);
    own->base.pMethods = outcome == SQLITE_OK ? methods : NULL;
    return outcome;
}
