/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file is found without waiting for its file system: openat2() with RESOLVE_CACHED fails where a
 * look-up would have to ask anybody, and then the reader is asked. The O_PATH descriptor opens
 * nothing (no FIFO blocks, no device acts). What is found is checked: the type of its file, by
 * attributes from the cache, and the type of its file system, by its mount (file_place.h). Only
 * then it is opened for reading, through /proc/self/fd, which cannot lead to another file. A file
 * of which a read may wait is copied by the reader.
 *
 * If the path is gone (deleted files, upgraded libraries), /proc/PID/map_files is used. That needs
 * a lock which the process may hold, so the reader does it.
 */
#include "agent-bpf/files/safe_open.h"
#include "agent-bpf/files/elf.h"
#include "agent-bpf/files/proc_maps.h"
#include "agent-bpf/files/proc_pid.h"
#include "agent-bpf/files/reader_client.h"
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
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum open_failure { OPEN_REFUSED, OPEN_DIFFERENT, OPEN_FAILED, OPEN_TOO_LARGE, OPEN_FAILURES };

static const char *const open_failure_names[] = {[OPEN_REFUSED] = "refused",
                                                 [OPEN_DIFFERENT] = "different",
                                                 [OPEN_FAILED] = "failed",
                                                 [OPEN_TOO_LARGE] = "too_large"};
STAT_LOSSES(
    not_opened, "spanprof_executables_not_opened_total",
    "Mapped files that were not opened. refused: it is a FIFO, a device, empty, or on FUSE. "
    "too_large: it is not on a local file system, and too large to be copied.",
    STAT_LABEL("reason", open_failure_names, OPEN_FAILURES));

/* ---- finding ---- */

static int open_root(uint32_t pid)
{
    char root[32];
    snprintf(root, sizeof(root), "/proc/%u/root", pid);
    int fd = open(pid ? root : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int safe_look_up(uint32_t pid, const char *path, unsigned how, int *fd)
{
    struct open_how open_how = {
        .flags = O_PATH | O_CLOEXEC,
        .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS |
                   (how & SAFE_LOOK_UP_PLAIN ? RESOLVE_NO_SYMLINKS : 0u) |
                   (how & SAFE_LOOK_UP_CACHED ? RESOLVE_CACHED : 0u),
    };
    _cleanup_fd_ int root_fd = open_root(pid);
    if (root_fd < 0)
        return root_fd;
    *fd = (int)syscall(SYS_openat2, root_fd, path, &open_how, sizeof(open_how));
    return *fd < 0 ? -errno : 0;
}

int safe_look_up_mapped(uint32_t pid, uint64_t start, uint64_t end, int *fd)
{
    char path[96];
    snprintf(path, sizeof(path), "/proc/%u/map_files/%" PRIx64 "-%" PRIx64, pid, start, end);
    *fd = open(path, O_PATH | O_CLOEXEC);
    return *fd < 0 ? -errno : 0;
}

/* A process and its mounts. One that has ended has no root any more; its file may well be in ours,
 * and is compared. */
struct viewpoint {
    uint32_t pid; /* 0 = we */
    struct buf mounts;
};

static int viewpoint_open(uint32_t pid, struct viewpoint *view)
{
    *view = (struct viewpoint){.pid = pid, .mounts = BUF_INIT(PROC_MOUNTS_BYTES_MAX)};
    if (pid && !proc_mounts_read(pid, &view->mounts))
        return 0;
    view->pid = 0;
    return proc_mounts_read(0, &view->mounts);
}

static void viewpoint_close(struct viewpoint *view)
{
    buf_close(&view->mounts);
}

/* 0, an O_PATH descriptor, and where that file lies. */
static int find_path(const struct viewpoint *view, const char *path, unsigned how, int *fd,
                     enum file_place *place)
{
    int error = safe_look_up(view->pid, path, how | SAFE_LOOK_UP_CACHED, fd);
    if (error && error != -EAGAIN)
        return error;
    if (!error) {
        *place = file_place(*fd, view->pid, buf_bytes(&view->mounts));
        if (*place != FILE_PLACE_UNKNOWN)
            return 0;
        fd_closep(fd);
    }
    return reader_path(view->pid, path, how & SAFE_LOOK_UP_PLAIN, fd, place);
}

/* ---- opening ---- */

/* 0 and what the file is; SAFE_OPEN_REFUSED. */
static int look_at(int path_fd, struct safe_file *file)
{
    struct statx status;
    if (statx(path_fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &status))
        return -errno;
    if (!S_ISREG(status.stx_mode) || !status.stx_size)
        return SAFE_OPEN_REFUSED;
    file->device = makedev(status.stx_dev_major, status.stx_dev_minor);
    file->inode = status.stx_ino;
    file->size = status.stx_size;
    file->changed_ns =
        (uint64_t)status.stx_ctime.tv_sec * UINT64_C(1000000000) + status.stx_ctime.tv_nsec;
    return 0;
}

static int open_in_place(int path_fd, struct safe_file *file)
{
    char link[32];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", path_fd);
    file->fd = open(link, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    return file->fd < 0 ? -errno : 0;
}

static int open_copy(uint32_t pid, int path_fd, struct safe_file *file)
{
    if (file->size > SAFE_COPY_MAX)
        return SAFE_OPEN_TOO_LARGE;
    file->fd = memfd_create("spanprof-copy", MFD_CLOEXEC);
    if (file->fd < 0)
        return -errno;
    file->is_copy = true;
    int error = reader_copy(pid, path_fd, file->fd, file->size);
    if (error)
        fd_closep(&file->fd);
    return error;
}

/* copies: a file that is not local may be copied; pid: whose it is. */
static int open_found(int path_fd, enum file_place place, uint32_t pid, bool copies,
                      struct safe_file *file)
{
    *file = (struct safe_file){.fd = -1};
    if (place == FILE_PLACE_FUSE || (place == FILE_PLACE_FOREIGN && !copies))
        return SAFE_OPEN_REFUSED;
    int error = look_at(path_fd, file);
    if (error)
        return error;
    return place == FILE_PLACE_LOCAL ? open_in_place(path_fd, file) : open_copy(pid, path_fd, file);
}

static int open_path(uint32_t pid, const char *path, unsigned how, struct safe_file *file)
{
    struct viewpoint view;
    enum file_place place;
    _cleanup_fd_ int fd = -1;
    file->fd = -1;
    int error = viewpoint_open(pid, &view);
    if (!error && view.pid != pid)
        error = -ESRCH;
    if (!error)
        error = find_path(&view, path, how, &fd, &place);
    viewpoint_close(&view);
    return error ? error : open_found(fd, place, pid, false, file);
}

int safe_open_path(uint32_t pid, const char *path, struct safe_file *file)
{
    return open_path(pid, path, 0, file);
}

int safe_open_plain(uint32_t pid, const char *path, struct safe_file *file)
{
    return open_path(pid, path, SAFE_LOOK_UP_PLAIN, file);
}

/* ---- the file of a mapping ---- */

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

static int open_by_path(const struct viewpoint *view, uint32_t pid,
                        const struct process_mapping *mapping, struct safe_file *file)
{
    enum file_place place;
    _cleanup_fd_ int fd = -1;
    int error = find_path(view, mapping->path, 0, &fd, &place);
    return open_checked(error ? error : open_found(fd, place, pid, true, file), mapping, file);
}

/* Names exactly one mapped file, and only files that can be mapped are there. */
static int open_by_mapping(uint32_t pid, const struct process_mapping *mapping,
                           struct safe_file *file)
{
    enum file_place place;
    _cleanup_fd_ int fd = -1;
    int error = reader_mapped(pid, mapping->start, mapping->start + mapping->length, &fd, &place);
    return open_checked(error ? error : open_found(fd, place, pid, true, file), mapping, file);
}

static int open_viewed(const struct viewpoint *view, uint32_t pid,
                       const struct process_mapping *mapping, struct safe_file *file)
{
    if (proc_mounts_fuse(buf_bytes(&view->mounts), mapping->device_major, mapping->device_minor,
                         BYTES_STR(mapping->path)))
        return SAFE_OPEN_REFUSED;
    int error = open_by_path(view, pid, mapping, file);
    if (!error || error == SAFE_OPEN_REFUSED || error == -EAGAIN)
        return error;
    int second = view->pid ? open_by_mapping(pid, mapping, file) : error;
    return !second || second == -EAGAIN ? second : error;
}

static int try_both(uint32_t pid, const struct process_mapping *mapping, struct safe_file *file)
{
    struct viewpoint view;
    if (!mapping->path || mapping->path[0] != '/')
        return SAFE_OPEN_REFUSED;
    int error = viewpoint_open(pid, &view);
    if (!error)
        error = open_viewed(&view, pid, mapping, file);
    viewpoint_close(&view);
    return error;
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

static enum open_failure failure_of(int error)
{
    switch (error) {
    case SAFE_OPEN_REFUSED:
        return OPEN_REFUSED;
    case SAFE_OPEN_DIFFERENT:
        return OPEN_DIFFERENT;
    case SAFE_OPEN_TOO_LARGE:
        return OPEN_TOO_LARGE;
    default:
        return OPEN_FAILED;
    }
}

int safe_open_mapping(uint32_t pid, const struct process_mapping *mapping, struct safe_file *file)
{
    *file = (struct safe_file){.fd = -1};
    int error = mapping->path && !strcmp(mapping->path, VDSO_PATH) ? open_vdso(file)
                                                                   : try_both(pid, mapping, file);
    if (error && error != -EAGAIN)
        stat_add_of(&not_opened, failure_of(error), 1);
    return error;
}
