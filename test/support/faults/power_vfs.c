/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Before each change what it replaces is kept; power that comes back puts some of it back, the
 * latest first.
 */
#include "test/support/faults/power_vfs.h"
#include "test/support/faults/through_vfs.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PIECE_BYTES 4096

struct power_file {
    struct through_file through;
    char path[256];
};

struct change {
    char path[256];
    sqlite3_int64 old_size, at;
    int n; /* bytes that were there; what lay past the old end goes with old_size */
    unsigned char *old;
};

static struct change changes[POWER_VFS_CHANGES];
static size_t n_changes;
static bool cut;
static sqlite3_vfs power;
static sqlite3_vfs *real_vfs;
static sqlite3_io_methods methods;

static void require(bool holds)
{
    if (!holds)
        abort();
}

static struct power_file *own(sqlite3_file *file)
{
    return (struct power_file *)(void *)file;
}

static void forget(size_t i)
{
    free(changes[i].old);
    memmove(&changes[i], &changes[i + 1], (--n_changes - i) * sizeof(changes[0]));
}

static void keep(sqlite3_file *file, sqlite3_int64 at, sqlite3_int64 size)
{
    if (n_changes == POWER_VFS_CHANGES)
        forget(0);
    struct change *change = &changes[n_changes];
    *change = (struct change){.at = at};
    snprintf(change->path, sizeof(change->path), "%s", own(file)->path);
    through_size(file, &change->old_size);
    if (at + size > change->old_size)
        size = change->old_size > at ? change->old_size - at : 0;
    change->n = (int)size;
    change->old = malloc((size_t)size + 1);
    require(change->old != NULL);
    int read = size ? through_read(file, change->old, change->n, at) : 0;
    require(read == SQLITE_OK);
    n_changes++;
}

/* Each page of a large write may be lost alone. */
static int file_write(sqlite3_file *file, const void *data, int size, sqlite3_int64 at)
{
    int outcome = cut ? SQLITE_IOERR_WRITE : SQLITE_OK;
    for (int done = 0; outcome == SQLITE_OK && done < size; done += PIECE_BYTES) {
        int piece = size - done < PIECE_BYTES ? size - done : PIECE_BYTES;
        keep(file, at + done, piece);
        outcome = through_write(file, (const char *)data + done, piece, at + done);
    }
    return outcome;
}

static int file_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    sqlite3_int64 now = 0;
    if (cut)
        return SQLITE_IOERR_TRUNCATE;
    through_size(file, &now);
    keep(file, size, now > size ? now - size : 0);
    return through_truncate(file, size);
}

static int file_sync(sqlite3_file *file, int flags)
{
    (void)flags; /* no real one is needed: the machine stays on */
    if (cut)
        return SQLITE_IOERR_FSYNC;
    for (size_t i = n_changes; i-- > 0;)
        if (!strcmp(changes[i].path, own(file)->path))
            forget(i);
    return SQLITE_OK;
}

/* Nothing is promised: neither that appends come in order, nor that writes are atomic. */
static int file_characteristics(sqlite3_file *file)
{
    (void)file;
    return 0;
}

static int open_file(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out)
{
    (void)vfs;
    snprintf(own(file)->path, sizeof(own(file)->path), "%s", name ? name : "");
    return through_open(real_vfs, name, file, sizeof(struct power_file), flags, out, &methods);
}

/* A file that is gone stays gone: the log's only, after all of it is in the database and synced. */
static int delete_file(sqlite3_vfs *vfs, const char *name, int sync_directory)
{
    (void)vfs;
    if (cut)
        return SQLITE_IOERR_DELETE;
    for (size_t i = n_changes; i-- > 0;)
        if (!strcmp(changes[i].path, name))
            forget(i);
    return real_vfs->xDelete(real_vfs, name, sync_directory);
}

void power_vfs_register(void)
{
    methods = through_methods();
    methods.xWrite = file_write;
    methods.xTruncate = file_truncate;
    methods.xSync = file_sync;
    methods.xDeviceCharacteristics = file_characteristics;
    real_vfs = sqlite3_vfs_find(NULL);
    require(real_vfs && !strcmp(real_vfs->zName, "unix"));
    power = *real_vfs;
    power.zName = POWER_VFS_NAME;
    power.szOsFile = (int)sizeof(struct power_file) + real_vfs->szOsFile;
    power.xOpen = open_file;
    power.xDelete = delete_file;
    power.pNext = NULL;
    sqlite3_vfs_register(&power, 0);
}

void power_vfs_cut(void)
{
    cut = true;
}

static void undo(const struct change *change)
{
    int fd = open(change->path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return;
    require(pwrite(fd, change->old, (size_t)change->n, change->at) == change->n);
    require(ftruncate(fd, change->old_size) == 0);
    close(fd);
}

size_t power_vfs_back(unsigned *seed, bool all)
{
    size_t n = 0;
    cut = false;
    for (; n_changes; forget(n_changes - 1)) {
        if (!all && rand_r(seed) % 2)
            continue;
        undo(&changes[n_changes - 1]);
        n++;
    }
    return n;
}
