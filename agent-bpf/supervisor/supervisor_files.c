/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contents are compared, not times: certificates are replaced by renaming directories, by symbolic
 * links, and in place. Keys do not stay in the supervisor's own memory.
 */
#include "agent-bpf/supervisor/supervisor_files.h"
#include "base/log.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static void files_wipe(struct buf *buf)
{
    if (buf->data)
        explicit_bzero(buf->data, buf->cap);
    buf_close(buf);
}

#define _cleanup_wipe_ __attribute__((cleanup(files_wipe)))

static int append_all(int fd, struct buf *out)
{
    struct stat stat;
    if (fstat(fd, &stat))
        return -errno;
    if (!S_ISREG(stat.st_mode))
        return -EINVAL;
    if (stat.st_size > SUPERVISOR_FILE_BYTES_MAX)
        return -EFBIG;
    size_t size = (size_t)stat.st_size, done = 0;
    int error = buf_reserve(out, size + 1); /* at once: no copies are left behind */
    while (!error && done < size) {
        ssize_t n = pread(fd, out->data + out->len, size - done, (off_t)done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : 0; /* it became shorter */
        out->len += (size_t)n;
        done += (size_t)n;
    }
    return error;
}

int supervisor_file_contents(int fd, struct buf *out)
{
    return append_all(fd, out);
}

static int read_path(const char *path, struct buf *out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return -errno;
    int error = append_all(fd, out);
    close(fd);
    return error;
}

/* A sealed memfd, or negative errno. */
static int files_hold(struct bytes contents)
{
    int fd = memfd_create("spanprof-file", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -errno;
    int error = 0;
    for (size_t done = 0; done < contents.len && !error;) {
        ssize_t n = write(fd, contents.data + done, contents.len - done);
        if (n < 0 && errno != EINTR)
            error = -errno;
        done += n > 0 ? (size_t)n : 0;
    }
    if (!error &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
        error = -errno;
    if (!error)
        return fd;
    close(fd);
    return error;
}

int supervisor_file_open(struct supervisor_file *file)
{
    _cleanup_wipe_ struct buf contents = BUF_INIT(0);
    file->fd = -1;
    int error = read_path(file->path, &contents);
    int fd = error ? error : files_hold(buf_bytes(&contents));
    if (fd < 0)
        return fd;
    file->fd = fd;
    return 0;
}

void supervisor_file_close(struct supervisor_file *file)
{
    if (file->fd >= 0)
        close(file->fd);
    file->fd = -1;
}

/* The number of the fd stays: it is among those that the service inherits. */
static int supervisor_file_replace(struct supervisor_file *file, struct bytes contents)
{
    int fd = files_hold(contents);
    if (fd < 0)
        return fd;
    int error = dup3(fd, file->fd, O_CLOEXEC) < 0 ? -errno : 0;
    close(fd);
    return error;
}

/* Whether it has changed. */
static bool supervisor_file_check(struct supervisor_file *file)
{
    _cleanup_wipe_ struct buf old = BUF_INIT(0);
    _cleanup_wipe_ struct buf new = BUF_INIT(0);
    int error = read_path(file->path, &new);
    if (!error)
        error = append_all(file->fd, &old);
    bool changed = !error && !bytes_equal(buf_bytes(&old), buf_bytes(&new));
    if (changed)
        error = supervisor_file_replace(file, buf_bytes(&new));
    if (error && !file->failing)
        log_warn("supervisor", "cannot read %s again: %s; what was read last stays in use",
                 file->path, strerror(-error));
    file->failing = error != 0;
    return changed && !error;
}

void supervisor_files_poll(struct supervisor_file *files, size_t n, bool all, uint64_t now_ns,
                           void (*changed)(void *context, size_t i), void *context)
{
    for (size_t i = 0; i < n; i++) {
        struct supervisor_file *file = &files[i];
        if (!file->due_ns)
            file->due_ns = now_ns + file->interval_ns;
        if (!all && (!file->interval_ns || now_ns < file->due_ns))
            continue;
        file->due_ns = now_ns + file->interval_ns;
        if (supervisor_file_check(file))
            changed(context, i);
    }
}
