/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The O_PATH descriptor of a look-up opens nothing (no FIFO blocks, no device acts). What is found
 * is checked: its type, and the type of its file system (file_place.h). Only then it is opened for
 * reading, through /proc/self/fd, which cannot lead to another file.
 *
 * If the path is gone (deleted files, upgraded libraries), /proc/PID/map_files is used: it names
 * exactly one mapped file, and only files that can be mapped are there.
 */
#include "agent-bpf/reader/reader_files.h"
#include "agent-bpf/files/file_place.h"
#include "agent-bpf/files/kernel_file.h"
#include "agent-bpf/files/proc_maps.h"
#include "agent-bpf/files/safe_open.h"
#include "base/fd.h"
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

struct found {
    const struct reader_file_wanted *wanted;
    uint32_t pid;     /* in whose root it was looked up; 0 = ours */
    int fd;           /* O_PATH; then, of a local file, O_RDONLY */
    bool by_mapping;  /* else by its path */
    bool is_readable; /* by everybody */
    uid_t owner;
    struct reader_file *file;
};

/* ---- finding ---- */

static int look_up_path(struct found *found)
{
    const char *path = found->wanted->mapping->path;
    bool plain = found->wanted->how == READER_PLAIN;
    struct open_how how = {.flags = O_PATH | O_CLOEXEC,
                           .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS |
                                      (plain ? RESOLVE_NO_SYMLINKS : 0u)};
    char root[32];
    snprintf(root, sizeof(root), "/proc/%u/root", found->pid);
    _cleanup_fd_ int root_fd = open(found->pid ? root : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root_fd < 0)
        return -errno;
    found->fd = (int)syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
    return found->fd < 0 ? -errno : 0;
}

static int look_up_mapping(struct found *found)
{
    const struct process_mapping *mapping = found->wanted->mapping;
    char path[96];
    snprintf(path, sizeof(path), "/proc/%u/map_files/%" PRIx64 "-%" PRIx64, found->wanted->pid,
             mapping->start, mapping->start + mapping->length);
    found->by_mapping = true;
    found->fd = open(path, O_PATH | O_CLOEXEC);
    return found->fd < 0 ? -errno : 0;
}

static int look_at(struct found *found)
{
    struct statx status;
    struct reader_file *file = found->file;
    if (statx(found->fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &status))
        return -errno;
    if (!S_ISREG(status.stx_mode) || !status.stx_size)
        return SAFE_OPEN_REFUSED;
    found->is_readable = status.stx_mode & S_IROTH;
    found->owner = status.stx_uid;
    file->device = makedev(status.stx_dev_major, status.stx_dev_minor);
    file->inode = status.stx_ino;
    file->size = status.stx_size;
    file->changed_ns =
        (uint64_t)status.stx_ctime.tv_sec * UINT64_C(1000000000) + status.stx_ctime.tv_nsec;
    return 0;
}

/* ---- the mapped one? ---- */

/* The inode number of a deleted file may have been used again. Few file systems have generations;
 * without one the file counts as the same. */
static bool same_generation(int fd, const struct process_mapping *mapping)
{
    long generation = 0; /* as the request has it; 32 bits of it are written */
    return !mapping->inode_generation || ioctl(fd, FS_IOC_GETVERSION, &generation) ||
           (uint32_t)generation == mapping->inode_generation;
}

/* Where stat says another device than the mapping (btrfs, overlayfs), the file is mapped here too.
 * Of an overlay's file some kernels (6.8 to 6.17) say in an event what lies below, and in maps what
 * lies above: there the inode number has to do. */
static bool is_mapped_file(int fd, const struct process_mapping *mapping, struct reader_file *file)
{
    uint64_t device = makedev(mapping->device_major, mapping->device_minor);
    struct kernel_file own;
    if (mapping->inode == file->inode && device == file->device)
        return same_generation(fd, mapping);
    if (kernel_file_of(fd, &own))
        return false;
    if ((mapping->inode != own.inode || device != own.device) &&
        (mapping->inode != file->inode || !file->is_on_overlay))
        return false;
    file->device = own.device;
    file->inode = own.inode;
    return true;
}

/* ---- opening ---- */

static bool is_own_perf_map(const struct found *found)
{
    static const char start[] = "/tmp/perf-";
    char path[32];
    struct stat process;
    snprintf(path, sizeof(path), "/proc/%u", found->wanted->pid);
    return found->wanted->how == READER_PLAIN &&
           !strncmp(found->wanted->mapping->path, start, sizeof(start) - 1) &&
           !stat(path, &process) && (found->owner == process.st_uid || found->owner == 0);
}

static bool is_elf(int fd)
{
    char magic[SELFMAG];
    return pread(fd, magic, sizeof(magic), 0) == sizeof(magic) && !memcmp(magic, ELFMAG, SELFMAG);
}

static bool may_be_read(const struct found *found, int fd)
{
    return found->is_readable || (found->by_mapping && is_elf(fd)) || is_own_perf_map(found);
}

/* Of a local file the descriptor becomes readable. Another one is opened here to compare it, and
 * for a copy. */
static int open_found(struct found *found)
{
    char link[32];
    struct statfs system;
    struct reader_file *file = found->file;
    if (file->place == FILE_PLACE_FUSE)
        return SAFE_OPEN_REFUSED;
    if (file->place != FILE_PLACE_LOCAL && found->wanted->how != READER_MAPPED)
        return SAFE_OPEN_REFUSED;
    int error = look_at(found);
    if (error)
        return error;
    snprintf(link, sizeof(link), "/proc/self/fd/%d", found->fd);
    _cleanup_fd_ int fd = open(link, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    if (!may_be_read(found, fd))
        return SAFE_OPEN_REFUSED;
    file->is_on_overlay = file->place == FILE_PLACE_LOCAL && !fstatfs(fd, &system) &&
                          system.f_type == OVERLAYFS_SUPER_MAGIC;
    if (found->wanted->how == READER_MAPPED && !is_mapped_file(fd, found->wanted->mapping, file))
        return SAFE_OPEN_DIFFERENT;
    if (file->place == FILE_PLACE_LOCAL) {
        close(found->fd);
        found->fd = fd;
        fd = -1;
    }
    return 0;
}

static int try_one(struct found *found, struct bytes mounts, int (*look_up)(struct found *found))
{
    int error = look_up(found);
    if (error)
        return error;
    found->file->place = (uint8_t)file_place_asking(found->fd, found->pid, mounts);
    if (found->wanted->how != READER_SOCKET)
        error = open_found(found);
    if (error || found->wanted->how == READER_SOCKET)
        fd_closep(&found->fd);
    return error;
}

/* A process that has ended has no root any more; its mapped file may well be in ours, and is
 * compared. */
static void find_mounts(const struct reader_file_wanted *wanted, struct reader_mounts *mounts)
{
    if (mounts->known)
        return;
    mounts->known = true;
    mounts->pid = wanted->pid;
    mounts->error = proc_mounts_read(mounts->pid, &mounts->text);
    if (!mounts->error || wanted->how != READER_MAPPED)
        return;
    mounts->pid = 0;
    mounts->error = proc_mounts_read(0, &mounts->text);
}

static int find_and_open(struct found *found, struct reader_mounts *mounts)
{
    const struct process_mapping *mapping = found->wanted->mapping;
    if (mapping->path[0] != '/')
        return SAFE_OPEN_REFUSED;
    find_mounts(found->wanted, mounts);
    found->pid = mounts->pid;
    if (mounts->error)
        return mounts->error;
    struct bytes text = buf_bytes(&mounts->text);
    if (found->wanted->how != READER_SOCKET &&
        proc_mounts_fuse(text, mapping->device_major, mapping->device_minor,
                         BYTES_STR(mapping->path)))
        return SAFE_OPEN_REFUSED;
    int error = try_one(found, text, look_up_path);
    if (!error || found->wanted->how != READER_MAPPED || !found->pid)
        return error;
    return try_one(found, text, look_up_mapping) ? error : 0;
}

void reader_open_file(const struct reader_file_wanted *wanted, struct reader_mounts *mounts,
                      struct reader_file *file, int *fd)
{
    *file = (struct reader_file){0};
    struct found found = {.wanted = wanted, .fd = -1, .file = file};
    int error = find_and_open(&found, mounts);
    file->error = error < 0 ? (uint32_t)-error : error ? READER_OUTCOME + (uint32_t)error : 0;
    *fd = found.fd;
}
