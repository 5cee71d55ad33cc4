/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/files/safe_open.h"
#include "agent-bpf/files/proc_maps.h"
#include "agent-bpf/files/reader_client.h"
#include "agent-bpf/files/vdso.h"
#include "agent-bpf/unwind_rows.h"
#include "base/fd.h"
#include "base/stats.h"
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
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

static struct safe_file safe_file_of(const struct reader_file *found)
{
    return (struct safe_file){.fd = -1,
                              .is_on_overlay = found->is_on_overlay,
                              .device = found->device,
                              .inode = found->inode,
                              .size = found->size,
                              .changed_ns = found->changed_ns};
}

static int open_by_reader(uint32_t pid, enum reader_how how, const struct process_mapping *mapping,
                          struct safe_file *file)
{
    struct reader_file found;
    _cleanup_fd_ int fd = -1;
    *file = (struct safe_file){.fd = -1};
    int error = reader_file(pid, how, mapping, &found, &fd);
    if (error)
        return error;
    *file = safe_file_of(&found);
    if (found.place != FILE_PLACE_LOCAL)
        return open_copy(pid, fd, file);
    file->fd = fd;
    fd = -1;
    return 0;
}

int safe_open_path(uint32_t pid, const char *path, struct safe_file *file)
{
    return open_by_reader(pid, READER_BY_PATH, &(struct process_mapping){.path = path}, file);
}

int safe_open_plain(uint32_t pid, const char *path, struct safe_file *file)
{
    return open_by_reader(pid, READER_PLAIN, &(struct process_mapping){.path = path}, file);
}

struct ahead {
    safe_open_take *take;
    void *context;
};

static void ahead_take(void *context, size_t index, int outcome, const struct reader_file *found,
                       int fd)
{
    const struct ahead *ahead = context;
    if (outcome)
        return;
    if (found->place != FILE_PLACE_LOCAL) {
        close(fd);
        return;
    }
    struct safe_file file = safe_file_of(found);
    file.fd = fd;
    ahead->take(ahead->context, index, &file);
}

void safe_open_ahead(uint32_t pid, const struct process_mapping *mappings, size_t n,
                     safe_open_take *take, void *context)
{
    struct ahead ahead = {take, context};
    (void)reader_files(pid, READER_MAPPED, mappings, n, ahead_take, &ahead);
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
    if (!mapping->path)
        return SAFE_OPEN_REFUSED;
    int error = !strcmp(mapping->path, VDSO_PATH)
                    ? open_vdso(file)
                    : open_by_reader(pid, READER_MAPPED, mapping, file);
    if (error && error != -EAGAIN)
        stat_add_of(&not_opened, failure_of(error), 1);
    return error;
}
