/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contents are compared, not times: certificates are replaced by renaming directories, by symbolic
 * links, and in place. Keys do not stay in the supervisor's own memory.
 */
#include "agent-bpf/supervisor/supervisor_files.h"
#include "agent-bpf/supervisor/supervisor_answer.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/memfd.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define DUE_NOW   1
#define NEVER     UINT64_MAX
#define AGAIN_NS  (5 * NS_PER_SEC) /* what did not come in time */
#define PATHS_MAX (SUPERVISOR_FILES_MAX * 4096)

int supervisor_file_contents(int fd, struct buf *out)
{
    return memfd_read(fd, SUPERVISOR_FILE_BYTES_MAX, out);
}

void supervisor_file_close(struct supervisor_file *file)
{
    fd_closep(&file->fd);
}

const char *supervisor_file_reason(int error)
{
    switch (-error) {
    case EINVAL:
        return "it is not a regular file";
    case EFBIG:
        return "it is too large for a certificate";
    case ETIMEDOUT:
        return "it did not come within 2 s: its file system does not answer";
    case EBUSY:
        return "too many file systems do not answer";
    default:
        return strerror(-error);
    }
}

/* ---- one file ---- */

/* Nothing came, which says nothing of the file. */
static bool is_silence(int error)
{
    return error == -ETIMEDOUT || error == -EBUSY;
}

/* The owner says what could not be read the first time. */
static void file_failed(struct supervisor_file *file, int error)
{
    if (file->fd >= 0 && !file->error)
        log_warn("supervisor", "cannot read %s again: %s; what was read last stays in use",
                 file->path, supervisor_file_reason(error));
    file->error = error;
}

static void file_take(struct supervisor_file *file, int fd)
{
    file->fd = fd;
    file->error = 0;
}

/* The number of the fd stays: it is among those that the service inherits. */
static int file_replace(struct supervisor_file *file, int fd)
{
    return dup3(fd, file->fd, O_CLOEXEC) < 0 ? -errno : 0;
}

/* Whether it has changed. */
static bool file_compare(struct supervisor_file *file, int fd)
{
    _cleanup_wipe_ struct buf old = BUF_INIT(0);
    _cleanup_wipe_ struct buf new = BUF_INIT(0);
    int error = supervisor_file_contents(fd, &new);
    if (!error)
        error = supervisor_file_contents(file->fd, &old);
    bool changed = !error && !bytes_equal(buf_bytes(&old), buf_bytes(&new));
    if (changed)
        error = file_replace(file, fd);
    if (error)
        file_failed(file, error);
    else
        file->error = 0;
    return changed && !error;
}

/* ---- those that are asked for ---- */

/* Files beside each other lie on one file system, and would cost a process each. */
static bool same_directory(const char *a, const char *b)
{
    const char *a_end = strrchr(a, '/'), *b_end = strrchr(b, '/');
    size_t a_size = a_end ? (size_t)(a_end - a) : 0, b_size = b_end ? (size_t)(b_end - b) : 0;
    return a_size == b_size && !a_end == !b_end && memcmp(a, b, a_size) == 0;
}

static bool is_held(struct files_reading *reading, const struct supervisor_file *file)
{
    for (size_t i = 0; i < reading->n; i++) {
        struct supervisor_file *other = &reading->files[i];
        if (other->held_by && !children_have_left(other->held_by))
            other->held_by = 0;
        if (other->held_by && same_directory(other->path, file->path))
            return true;
    }
    return false;
}

static void on_answer(void *context, size_t i, int fd)
{
    struct files_reading *reading = context;
    if (i != reading->n_answered || i >= reading->n_asked)
        return fd_close(fd); /* they are answered in order, once */
    size_t index = reading->asked[reading->n_answered++];
    struct supervisor_file *file = &reading->files[index];
    if (fd < 0)
        return file_failed(file, fd);
    if (file->fd < 0)
        return file_take(file, fd);
    if (file_compare(file, fd))
        reading->changed(reading->context, index);
    close(fd);
}

/* 0, or negative errno: none is asked for. */
static int make_list(struct files_reading *reading, uint64_t now_ns, struct buf *paths)
{
    reading->n_asked = reading->n_answered = 0;
    for (size_t i = 0; i < reading->n; i++) {
        struct supervisor_file *file = &reading->files[i];
        if (now_ns < file->due_ns || is_held(reading, file))
            continue;
        file->due_ns = file->interval_ns ? now_ns + file->interval_ns : NEVER;
        reading->asked[reading->n_asked++] = (uint16_t)i;
        if (buf_append(paths, file->path, strlen(file->path) + 1))
            return -ENOMEM;
    }
    return 0;
}

static struct supervisor_question question_of(struct files_reading *reading, struct bytes paths)
{
    return (struct supervisor_question){.kind = QUESTION_FILES,
                                        .texts = paths,
                                        .answer_max = SUPERVISOR_FILE_BYTES_MAX,
                                        .limit_ns = FILES_LIMIT_NS,
                                        .answered = on_answer,
                                        .context = reading};
}

/* It waited for the first of those without an answer. All of them are asked for once more. */
static void reading_ended(struct files_reading *reading, int result, uint64_t now_ns)
{
    int error = result && result != -EINVAL ? result : -EIO; /* it has ended badly */
    reading->under_way = false;
    for (size_t i = reading->n_answered; i < reading->n_asked; i++) {
        struct supervisor_file *file = &reading->files[reading->asked[i]];
        if (file->due_ns > now_ns + AGAIN_NS)
            file->due_ns = now_ns + AGAIN_NS;
        if (i == reading->n_answered && result == -ETIMEDOUT)
            file->held_by = reading->asking.pid;
        if (i == reading->n_answered || file->fd < 0)
            file_failed(file, error);
    }
}

static void reading_begin(struct files_reading *reading, uint64_t now_ns)
{
    _cleanup_buf_ struct buf paths = BUF_INIT(PATHS_MAX);
    int error = make_list(reading, now_ns, &paths);
    if (!reading->n_asked)
        return;
    const struct supervisor_question question = question_of(reading, buf_bytes(&paths));
    if (!error)
        error = asking_begin(&reading->asking, &question);
    if (error)
        reading_ended(reading, error, now_ns);
    else
        reading->under_way = true;
}

static void plan(struct files_reading *reading, uint64_t now_ns)
{
    for (size_t i = 0; i < reading->n; i++) {
        struct supervisor_file *file = &reading->files[i];
        if (!file->due_ns)
            file->due_ns = file->interval_ns ? now_ns + file->interval_ns : NEVER;
    }
}

void files_reading_all(struct files_reading *reading)
{
    for (size_t i = 0; i < reading->n; i++)
        reading->files[i].due_ns = DUE_NOW;
}

void files_reading_tend(struct files_reading *reading, uint64_t now_ns)
{
    plan(reading, now_ns);
    if (!reading->under_way)
        reading_begin(reading, now_ns);
    int r = reading->under_way ? asking_hear(&reading->asking, now_ns) : 0;
    if (reading->under_way && r != ASKING_UNDER_WAY)
        reading_ended(reading, r, now_ns);
}

int files_reading_fd(const struct files_reading *reading)
{
    return reading->under_way ? asking_fd(&reading->asking) : -1;
}

void files_reading_close(struct files_reading *reading)
{
    if (reading->under_way)
        asking_end(&reading->asking);
    reading->under_way = false;
}

/* ---- the first time ---- */

static const struct supervisor_file *file_before(const struct supervisor_file *file,
                                                 const struct supervisor_file *before, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(before[i].path, file->path) == 0)
            return &before[i];
    return NULL;
}

static void file_inherit(struct supervisor_file *file, const struct supervisor_file *before)
{
    int fd = fcntl(before->fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return;
    log_warn("supervisor", "cannot read %s: %s; what was read last stays in use", file->path,
             supervisor_file_reason(file->error));
    file->fd = fd;
    file->due_ns = DUE_NOW;
}

void supervisor_files_open(struct supervisor_file *files, size_t n,
                           const struct supervisor_file *before, size_t n_before)
{
    struct files_reading reading = {.files = files, .n = n};
    assert(n <= SUPERVISOR_FILES_MAX);
    for (size_t i = 0; i < n; i++) {
        const struct supervisor_file *same = file_before(&files[i], before, n_before);
        files[i].fd = -1;
        files[i].error = -ETIMEDOUT; /* as long as it is not read */
        files[i].held_by = same ? same->held_by : 0;
    }
    reading_begin(&reading, clock_monotonic_ns());
    if (reading.under_way)
        reading_ended(&reading, asking_wait(&reading.asking), clock_monotonic_ns());
    for (size_t i = 0; i < n; i++) {
        const struct supervisor_file *same = file_before(&files[i], before, n_before);
        files[i].due_ns = 0;
        if (same && files[i].fd < 0 && is_silence(files[i].error))
            file_inherit(&files[i], same);
    }
}
