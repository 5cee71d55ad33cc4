/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two steps: an O_PATH descriptor, which opens nothing (no FIFO blocks, no device acts, a FUSE
 * daemon only sees the look-up), is checked; only then it is opened for reading, through
 * /proc/self/fd, which cannot lead to another file. Attributes are read without synchronising, so a
 * FUSE or network file system answers from its cache.
 *
 * If the path is gone (deleted files, upgraded libraries), /proc/PID/map_files is used.
 */
#include "agent-bpf/files/safe_open.h"
#include "agent-bpf/files/elf.h"
#include "agent-bpf/files/proc_maps.h"
#include "agent-bpf/files/proc_pid.h"
#include "agent-bpf/unwind_rows.h"
#include "agent-bpf/files/vdso.h"
#include "base/fd.h"
#include "base/stats.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

enum open_failure { OPEN_REFUSED, OPEN_DIFFERENT, OPEN_FAILED, OPEN_FAILURES };

static const char *const open_failure_names[] = {
    [OPEN_REFUSED] = "refused", [OPEN_DIFFERENT] = "different", [OPEN_FAILED] = "failed"};
STAT_LOSSES(
    not_opened, "spanprof_executables_not_opened_total",
    "Mapped files that were not opened. refused: it is a FIFO, a device, empty, or on FUSE.",
    STAT_LABEL("reason", open_failure_names, OPEN_FAILURES));

#ifndef FUSE_SUPER_MAGIC
#define FUSE_SUPER_MAGIC 0x65735546
#endif

/* 0 and what the file is; SAFE_OPEN_REFUSED. */
static int look_at(int path_fd, struct safe_file *file)
{
    struct statx status;
    if (statx(path_fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &status))
        return -errno;
    if (!S_ISREG(status.stx_mode) || !status.stx_size)
        return SAFE_OPEN_REFUSED;
    struct statfs system;
    if (fstatfs(path_fd, &system))
        return -errno;
    if (system.f_type == FUSE_SUPER_MAGIC)
        return SAFE_OPEN_REFUSED;
    file->device = makedev(status.stx_dev_major, status.stx_dev_minor);
    file->inode = status.stx_ino;
    file->size = status.stx_size;
    file->changed_ns =
        (uint64_t)status.stx_ctime.tv_sec * UINT64_C(1000000000) + status.stx_ctime.tv_nsec;
    return 0;
}

static int open_seen(int path_fd, struct safe_file *file)
{
    int error = look_at(path_fd, file);
    if (error)
        return error;
    char link[32];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", path_fd);
    file->fd = open(link, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    return file->fd < 0 ? -errno : 0;
}

static int open_resolved(int root_fd, const char *path, uint64_t resolve, struct safe_file *file)
{
    struct open_how how = {
        .flags = O_PATH | O_CLOEXEC,
        .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | resolve,
    };
    file->fd = -1;
    _cleanup_fd_ int fd = (int)syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
    return fd < 0 ? -errno : open_seen(fd, file);
}

int safe_open_path(int root_fd, const char *path, struct safe_file *file)
{
    return open_resolved(root_fd, path, 0, file);
}

int safe_open_plain(int root_fd, const char *path, struct safe_file *file)
{
    return open_resolved(root_fd, path, RESOLVE_NO_SYMLINKS, file);
}

static bool same_build_id(int fd, const struct process_mapping *mapping)
{
    struct elf elf;
    struct elf_build_ids ids;
    return mapping->build_id_len && !elf_open(fd, &elf) && !elf_build_ids(&elf, &ids) &&
           bytes_equal(BYTES(ids.gnu, ids.gnu_len),
                       BYTES(mapping->build_id, mapping->build_id_len));
}

/* The inode number of a deleted file may have been reused. Few file systems have generations;
 * without one the file counts as the same. */
static bool same_generation(int fd, const struct process_mapping *mapping)
{
    long generation = 0; /* as the request has it; 32 bits of it are written */
    return !mapping->inode_generation || ioctl(fd, FS_IOC_GETVERSION, &generation) ||
           (uint32_t)generation == mapping->inode_generation;
}

/* Some file systems (btrfs, overlayfs) show another device to stat than to the mapping: there the
 * build id decides, if there is one. */
static bool is_mapped_file(const struct safe_file *file, const struct process_mapping *mapping)
{
    uint64_t device = makedev(mapping->device_major, mapping->device_minor);
    if (mapping->inode && mapping->inode == file->inode && device == file->device)
        return same_generation(file->fd, mapping);
    return same_build_id(file->fd, mapping);
}

static int open_checked(int error, const struct process_mapping *mapping, struct safe_file *file)
{
    if (error || is_mapped_file(file, mapping))
        return error;
    close(file->fd);
    file->fd = -1;
    return SAFE_OPEN_DIFFERENT;
}

static bool on_fuse(uint32_t pid, const struct process_mapping *mapping)
{
    _cleanup_buf_ struct buf mounts = BUF_INIT(PROC_MOUNTS_BYTES_MAX);
    if (proc_pid_read(pid, "mountinfo", &mounts) && /* gone: tried in our own root, see below */
        proc_pid_read((uint32_t)getpid(), "mountinfo", &mounts))
        return true;
    return proc_mounts_fuse(buf_bytes(&mounts), mapping->device_major, mapping->device_minor,
                            BYTES_STR(mapping->path));
}

/* A process that has ended has no root any more; its file may well be in ours, and is compared. */
static int open_by_path(uint32_t pid, const struct process_mapping *mapping, struct safe_file *file)
{
    char root[32];
    snprintf(root, sizeof(root), "/proc/%u/root", pid);
    _cleanup_fd_ int root_fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root_fd < 0 && (errno == ENOENT || errno == ESRCH))
        root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root_fd < 0)
        return -errno;
    return open_checked(safe_open_path(root_fd, mapping->path, file), mapping, file);
}

/* Names exactly one mapped file, and only files that can be mapped are there. */
static int open_by_mapping(uint32_t pid, const struct process_mapping *mapping,
                           struct safe_file *file)
{
    char path[96];
    snprintf(path, sizeof(path), "/proc/%u/map_files/%" PRIx64 "-%" PRIx64, pid, mapping->start,
             mapping->start + mapping->length);
    _cleanup_fd_ int fd = open(path, O_PATH | O_CLOEXEC);
    return fd < 0 ? -errno : open_checked(open_seen(fd, file), mapping, file);
}

static int try_both(uint32_t pid, const struct process_mapping *mapping, struct safe_file *file)
{
    if (!mapping->path || mapping->path[0] != '/' || on_fuse(pid, mapping))
        return SAFE_OPEN_REFUSED;
    int error = open_by_path(pid, mapping, file);
    if (!error || error == SAFE_OPEN_REFUSED)
        return error;
    int second = open_by_mapping(pid, mapping, file);
    return second ? error : 0;
}

/* The content is the same for all processes. */
static int open_vdso(struct safe_file *file)
{
    file->fd = vdso_open();
    if (file->fd < 0)
        return SAFE_OPEN_REFUSED;
    off_t size = lseek(file->fd, 0, SEEK_END);
    file->device = UNWIND_VDSO_DEVICE;
    file->inode = UNWIND_VDSO_INODE;
    file->size = (uint64_t)size;
    return 0;
}

int safe_open_mapping(uint32_t pid, const struct process_mapping *mapping, struct safe_file *file)
{
    *file = (struct safe_file){.fd = -1};
    int error = mapping->path && !strcmp(mapping->path, VDSO_PATH) ? open_vdso(file)
                                                                   : try_both(pid, mapping, file);
    if (error)
        stat_add_of(&not_opened,
                    error == SAFE_OPEN_REFUSED     ? OPEN_REFUSED
                    : error == SAFE_OPEN_DIFFERENT ? OPEN_DIFFERENT
                                                   : OPEN_FAILED,
                    1);
    return error;
}
