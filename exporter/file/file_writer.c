/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/file/file_writer.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/stats.h"
#include "exporter/file/file_backups.h"
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

STAT_COUNTER(bytes_written, "spanprof_file_exporter_written_bytes_total",
             "Bytes written by file exporters.");
STAT_COUNTER(rotations, "spanprof_file_exporter_rotations_total",
             "Full files that were renamed to backups.");
STAT_COUNTER(removals, "spanprof_file_exporter_backups_removed_total",
             "Backups removed for their age or number.");

#define FILE_MODE      0640
#define DIRECTORY_MODE 0755

void file_writer_init(struct file_writer *writer, const struct config_exporter_file *config)
{
    *writer = (struct file_writer){.config = config, .fd = -1};
}

bool file_writer_is_framed(const struct config_exporter_file *config)
{
    return config->zstd || config->format == CONFIG_FILE_PROTO;
}

void file_writer_close(struct file_writer *writer)
{
    if (writer->fd < 0)
        return;
    (void)file_writer_sync(writer);
    close(writer->fd);
    writer->fd = -1;
}

int file_writer_sync(struct file_writer *writer)
{
    if (writer->fd < 0 || !writer->unsynced)
        return 0;
    if (fdatasync(writer->fd))
        return -errno;
    writer->unsynced = false;
    return 0;
}

/* ---- opening ---- */

/* Creates all directories of the path. */
static int make_directories(const char *path)
{
    char part[PATH_MAX];
    if (strlen(path) >= sizeof(part))
        return -ENAMETOOLONG;
    for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        memcpy(part, path, (size_t)(slash - path));
        part[slash - path] = '\0';
        if (mkdir(part, DIRECTORY_MODE) && errno != EEXIST)
            return -errno;
    }
    return 0;
}

/* A new file name survives a power loss only after its directory is synced. */
static void sync_directory(const char *path)
{
    char directory[PATH_MAX];
    const char *slash = strrchr(path, '/');
    snprintf(directory, sizeof(directory), "%.*s", slash ? (int)(slash - path) + 1 : 1,
             slash ? path : ".");
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return;
    (void)fsync(fd);
    close(fd);
}

/* O_NONBLOCK: opening a FIFO must not block the thread. */
static int open_path(const struct config_exporter_file *config)
{
    int flags = O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
    int fd = open(config->path, flags, FILE_MODE);
    if (fd < 0 && errno == ENOENT && config->create_directory) {
        int error = make_directories(config->path);
        if (error)
            return error;
        fd = open(config->path, flags, FILE_MODE);
    }
    return fd < 0 ? -errno : fd;
}

/* Each backup name is later than the one before, even if that backup was removed within the same
 * millisecond. */
static int set_aside(struct file_writer *writer)
{
    uint64_t at_ns = clock_unix_ns();
    if (at_ns < writer->rotated_unix_ns + NS_PER_MS)
        at_ns = writer->rotated_unix_ns + NS_PER_MS;
    int error = file_backups_rotate(writer->config, &at_ns);
    if (!error)
        writer->rotated_unix_ns = at_ns;
    return error;
}

static bool lines_end_whole(int fd, uint64_t size)
{
    char last = '\n';
    return size == 0 || (pread(fd, &last, 1, (off_t)size - 1) == 1 && last == '\n');
}

static bool frames_end_whole(int fd, uint64_t size)
{
    uint64_t at = 0;
    uint32_t length;
    while (at < size && pread(fd, &length, sizeof(length), (off_t)at) == sizeof(length))
        at += sizeof(length) + be32toh(length);
    return at == size;
}

/* Prepares a file that was just opened for appending records. 1: it was rotated away; open again.
 */
static int file_writer_prepare(struct file_writer *writer, int fd)
{
    const struct config_exporter_file *config = writer->config;
    bool truncate = !writer->begun && !config->append && !config->rotation.enabled;
    struct stat status;
    if (fstat(fd, &status))
        return -errno;
    if (!S_ISREG(status.st_mode))
        return -ENOTSUP;
    if (truncate && ftruncate(fd, 0))
        return -errno;
    writer->begun = true;
    writer->size = truncate ? 0 : (uint64_t)status.st_size;
    if (file_writer_is_framed(config)) {
        if (frames_end_whole(fd, writer->size))
            return 0;
        log_warn("file", "%s does not end with a whole record: it is kept as a backup",
                 config->path);
        int error = set_aside(writer);
        return error ? error : 1;
    }
    if (lines_end_whole(fd, writer->size))
        return 0;
    if (write(fd, "\n", 1) != 1)
        return -errno;
    writer->size++;
    return 0;
}

static void file_writer_prune(const struct file_writer *writer)
{
    int removed = file_backups_prune(writer->config, clock_unix_ns());
    if (removed < 0)
        log_warn("file", "the backups of %s cannot be listed: %s", writer->config->path,
                 strerror(-removed));
    else
        stat_add(&removals, removed);
}

int file_writer_open(struct file_writer *writer)
{
    int error = 1;
    for (int tries = 0; error == 1 && tries < 2 && writer->fd < 0; tries++) {
        int fd = open_path(writer->config);
        error = fd < 0 ? fd : file_writer_prepare(writer, fd);
        if (error && fd >= 0)
            close(fd);
        if (!error)
            writer->fd = fd;
    }
    if (writer->fd < 0)
        return error == 1 ? -EIO : error;
    sync_directory(writer->config->path);
    if (writer->config->rotation.enabled)
        file_writer_prune(writer);
    return 0;
}

/* ---- writing ---- */

/* Whether the path still names the open file. Updates the size. */
static bool is_in_place(struct file_writer *writer)
{
    struct stat named, opened;
    if (stat(writer->config->path, &named) || fstat(writer->fd, &opened) ||
        named.st_dev != opened.st_dev || named.st_ino != opened.st_ino)
        return false;
    writer->size = (uint64_t)opened.st_size;
    return true;
}

static int file_writer_rotate(struct file_writer *writer)
{
    int error = set_aside(writer);
    if (error)
        return error;
    file_writer_close(writer);
    stat_add(&rotations, 1);
    return file_writer_open(writer);
}

static int make_ready(struct file_writer *writer, size_t len)
{
    const struct config_exporter_file *config = writer->config;
    if (writer->fd >= 0 && !is_in_place(writer))
        file_writer_close(writer);
    int error = writer->fd >= 0 ? 0 : file_writer_open(writer);
    bool full = config->rotation.enabled && writer->size > 0 &&
                writer->size + len > config->rotation.max_bytes;
    return !error && full ? file_writer_rotate(writer) : error;
}

static int file_writer_append(int fd, struct bytes record)
{
    while (record.len > 0) {
        ssize_t n = write(fd, record.data, record.len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n ? -errno : -EIO;
        record = BYTES(record.data + n, record.len - (size_t)n);
    }
    return 0;
}

int file_writer_write(struct file_writer *writer, struct bytes record)
{
    int error = make_ready(writer, record.len);
    if (error)
        return error;
    error = file_writer_append(writer->fd, record);
    writer->unsynced = true;
    if (!error && writer->config->flush_interval_ns == 0)
        error = file_writer_sync(writer);
    if (!error) {
        stat_add(&bytes_written, (int64_t)record.len);
        return 0;
    }
    if (ftruncate(writer->fd, (off_t)writer->size)) /* the next open repairs the end */
        file_writer_close(writer);
    return error;
}
