/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Other connections read a frame only after its commit has returned, so frames may be buffered
 * until the last frame of the commit. Before any write that is not a frame at the end of the log,
 * and before any other operation, the buffered frames are written, so the file is as SQLite expects
 * it. (If a page was written before the commit and has changed since, SQLite writes it again in
 * place, and then the checksums of all later frames: then the last write of the commit is not its
 * last frame.)
 *
 * A failed write is reported by the call that triggers it, which belongs to the same transaction.
 * SQLite rolls the transaction back, and the frames of the next transaction overwrite its frames.
 */
#include "store/db/wal_vfs.h"
#include <errno.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOG_HEADER_BYTES   32
#define FRAME_HEADER_BYTES 24
#define PAGE_BYTES         4096
#define FRAME_BYTES        (FRAME_HEADER_BYTES + PAGE_BYTES)
#define GATHERED_MAX       ((size_t)16 * FRAME_BYTES)

struct wal_vfs {
    sqlite3_vfs vfs; /* first member: SQLite passes its address */
    sqlite3_vfs *base;
    uint32_t pages;
    char name[40];
};

struct wal_file {
    sqlite3_file file;  /* first member: SQLite passes its address */
    sqlite3_file *real; /* behind this struct */
    struct wal_vfs *vfs;
    sqlite3_int64 at; /* offset of the buffered bytes */
    size_t len;
    sqlite3_int64 end; /* end of the last written or buffered bytes */
    bool commits;      /* the latest frame header ends a transaction */
    uint8_t *gathered;
};

static struct wal_file *vfs_own(sqlite3_file *file)
{
    return (struct wal_file *)(void *)file;
}

static int write_gathered(struct wal_file *file)
{
    size_t len = file->len;
    file->len = 0;
    return len ? file->real->pMethods->xWrite(file->real, file->gathered, (int)len, file->at)
               : SQLITE_OK;
}

/* ---- writing ---- */

static sqlite3_int64 within_frame(sqlite3_int64 at)
{
    return at < LOG_HEADER_BYTES ? -1 : (at - LOG_HEADER_BYTES) % FRAME_BYTES;
}

static bool is_header(int size, sqlite3_int64 at)
{
    return size == FRAME_HEADER_BYTES && within_frame(at) == 0;
}

static bool is_page(int size, sqlite3_int64 at)
{
    return size == PAGE_BYTES && within_frame(at) == FRAME_HEADER_BYTES;
}

/* Bytes 4 to 7: the size of the database, in the last frame of a commit; else 0. */
static uint32_t committed_pages(const uint8_t *header)
{
    return (uint32_t)header[4] << 24 | (uint32_t)header[5] << 16 | (uint32_t)header[6] << 8 |
           header[7];
}

static void note_header(struct wal_file *log, const uint8_t *header)
{
    uint32_t pages = committed_pages(header);
    log->commits = pages != 0;
    if (pages)
        log->vfs->pages = pages;
}

static int wal_file_gather(struct wal_file *file, const void *data, size_t size, sqlite3_int64 at)
{
    int code = size <= GATHERED_MAX - file->len ? SQLITE_OK : write_gathered(file);
    if (code != SQLITE_OK)
        return code;
    if (!file->len)
        file->at = at;
    memcpy(file->gathered + file->len, data, size);
    file->len += size;
    return SQLITE_OK;
}

static int log_write(sqlite3_file *file, const void *data, int size, sqlite3_int64 at)
{
    struct wal_file *log = vfs_own(file);
    bool page = is_page(size, at), header = is_header(size, at), follows = at == log->end;
    log->end = at + size;
    if (header)
        note_header(log, data);
    if (!follows || !(page || header)) {
        int code = write_gathered(log);
        return code == SQLITE_OK ? log->real->pMethods->xWrite(log->real, data, size, at) : code;
    }
    int code = wal_file_gather(log, data, (size_t)size, at);
    return code == SQLITE_OK && page && log->commits ? write_gathered(log) : code;
}

/* ---- the rest finds it written ---- */

static int log_close(sqlite3_file *file)
{
    struct wal_file *log = vfs_own(file);
    free(log->gathered); /* frames without a commit */
    return log->real->pMethods->xClose(log->real);
}

static int log_read(sqlite3_file *file, void *data, int size, sqlite3_int64 at)
{
    struct wal_file *log = vfs_own(file);
    int code = write_gathered(log);
    return code == SQLITE_OK ? log->real->pMethods->xRead(log->real, data, size, at) : code;
}

static int log_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    struct wal_file *log = vfs_own(file);
    int code = write_gathered(log);
    return code == SQLITE_OK ? log->real->pMethods->xTruncate(log->real, size) : code;
}

static int log_sync(sqlite3_file *file, int flags)
{
    struct wal_file *log = vfs_own(file);
    int code = write_gathered(log);
    return code == SQLITE_OK ? log->real->pMethods->xSync(log->real, flags) : code;
}

static int log_size(sqlite3_file *file, sqlite3_int64 *size)
{
    struct wal_file *log = vfs_own(file);
    int code = write_gathered(log);
    return code == SQLITE_OK ? log->real->pMethods->xFileSize(log->real, size) : code;
}

static int log_lock(sqlite3_file *file, int lock)
{
    return vfs_own(file)->real->pMethods->xLock(vfs_own(file)->real, lock);
}

static int log_unlock(sqlite3_file *file, int lock)
{
    return vfs_own(file)->real->pMethods->xUnlock(vfs_own(file)->real, lock);
}

static int log_check_lock(sqlite3_file *file, int *locked)
{
    return vfs_own(file)->real->pMethods->xCheckReservedLock(vfs_own(file)->real, locked);
}

static int log_control(sqlite3_file *file, int operation, void *argument)
{
    return vfs_own(file)->real->pMethods->xFileControl(vfs_own(file)->real, operation, argument);
}

static int log_sector(sqlite3_file *file)
{
    return vfs_own(file)->real->pMethods->xSectorSize(vfs_own(file)->real);
}

static int log_characteristics(sqlite3_file *file)
{
    return vfs_own(file)->real->pMethods->xDeviceCharacteristics(vfs_own(file)->real);
}

static const sqlite3_io_methods methods = {
    .iVersion = 1,
    .xClose = log_close,
    .xRead = log_read,
    .xWrite = log_write,
    .xTruncate = log_truncate,
    .xSync = log_sync,
    .xFileSize = log_size,
    .xLock = log_lock,
    .xUnlock = log_unlock,
    .xCheckReservedLock = log_check_lock,
    .xFileControl = log_control,
    .xSectorSize = log_sector,
    .xDeviceCharacteristics = log_characteristics,
};

/* ---- opening ---- */

static int open_log(struct wal_vfs *vfs, const char *name, struct wal_file *log, int flags,
                    int *out)
{
    *log = (struct wal_file){.real = (sqlite3_file *)(void *)(log + 1), .vfs = vfs};
    log->gathered = malloc(GATHERED_MAX);
    if (!log->gathered)
        return SQLITE_NOMEM;
    int code = vfs->base->xOpen(vfs->base, name, log->real, flags, out);
    if (code == SQLITE_OK)
        log->file.pMethods = &methods;
    else
        free(log->gathered);
    return code;
}

static int open_file(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out)
{
    struct wal_vfs *ours = (struct wal_vfs *)(void *)vfs;
    if (flags & SQLITE_OPEN_WAL)
        return open_log(ours, name, vfs_own(file), flags, out);
    return ours->base->xOpen(ours->base, name, file, flags, out);
}

int wal_vfs_open(const char *base, struct wal_vfs **result)
{
    sqlite3_vfs *found = sqlite3_vfs_find(base);
    struct wal_vfs *vfs = found ? calloc(1, sizeof(*vfs)) : NULL;
    if (!vfs)
        return found ? -ENOMEM : -ENOENT;
    vfs->base = found;
    vfs->vfs = *found; /* its functions use only pAppData of it */
    vfs->vfs.pNext = NULL;
    vfs->vfs.szOsFile += (int)sizeof(struct wal_file);
    vfs->vfs.xOpen = open_file;
    vfs->vfs.zName = vfs->name;
    snprintf(vfs->name, sizeof(vfs->name), "spanprof-%p", (void *)vfs);
    if (sqlite3_vfs_register(&vfs->vfs, 0) != SQLITE_OK) {
        free(vfs);
        return -ENOMEM;
    }
    *result = vfs;
    return 0;
}

uint32_t wal_vfs_take_pages(struct wal_vfs *vfs)
{
    uint32_t pages = vfs->pages;
    vfs->pages = 0;
    return pages;
}

const char *wal_vfs_name(const struct wal_vfs *vfs)
{
    return vfs->name;
}

void wal_vfs_close(struct wal_vfs *vfs)
{
    if (!vfs)
        return;
    sqlite3_vfs_unregister(&vfs->vfs);
    free(vfs);
}
