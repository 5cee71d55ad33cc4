/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/supervisor/supervisor_answer.h"
#include "agent-bpf/control.h"
#include "agent-bpf/supervisor/supervisor_files.h"
#include "base/fd.h"
#include "base/memfd.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>

void answer_wipe(struct buf *buf)
{
    if (buf->data)
        explicit_bzero(buf->data, buf->cap);
    buf_close(buf);
}

/* Its socket may be full: the supervisor has other work. */
static int answer_send(int answer_fd, const struct control_message *message, int fd)
{
    int error;
    while ((error = control_send(answer_fd, message, fd)) == -EAGAIN) {
        struct pollfd room = {.fd = answer_fd, .events = POLLOUT};
        if (poll(&room, 1, -1) < 0 && errno != EINTR)
            return -errno;
    }
    return error;
}

int answer_error(int answer_fd, size_t i, int error)
{
    return answer_send(
        answer_fd,
        &(struct control_message){.kind = CONTROL_ANSWER, .file = (uint32_t)i, .error = error}, -1);
}

int answer_contents(int answer_fd, size_t i, struct bytes contents)
{
    _cleanup_fd_ int fd = memfd_sealed("spanprof-answer", contents);
    if (fd < 0)
        return answer_error(answer_fd, i, fd);
    return answer_send(answer_fd,
                       &(struct control_message){.kind = CONTROL_ANSWER, .file = (uint32_t)i}, fd);
}

bool answer_next(struct bytes *list, const char **text)
{
    const uint8_t *end = list->len ? memchr(list->data, 0, list->len) : NULL;
    if (!end)
        return false;
    *text = (const char *)list->data;
    *list = bytes_skip(*list, (size_t)(end + 1 - list->data));
    return true;
}

/* ---- files ---- */

static int read_all(int fd, struct buf *out)
{
    struct stat stat;
    if (fstat(fd, &stat))
        return -errno;
    if (!S_ISREG(stat.st_mode))
        return -EINVAL;
    if (stat.st_size > SUPERVISOR_FILE_BYTES_MAX)
        return -EFBIG;
    size_t size = (size_t)stat.st_size, done = 0;
    int error = buf_reserve(out, size + 1) ? -ENOMEM : 0; /* at once: no copies are left behind */
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

static int answer_file(int answer_fd, size_t i, const char *path)
{
    _cleanup_wipe_ struct buf contents = BUF_INIT(0);
    _cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    int error = fd < 0 ? -errno : read_all(fd, &contents);
    return error ? answer_error(answer_fd, i, error)
                 : answer_contents(answer_fd, i, buf_bytes(&contents));
}

int answer_files(int answer_fd, struct bytes paths)
{
    const char *path;
    int error = 0;
    for (size_t i = 0; !error && answer_next(&paths, &path); i++)
        error = answer_file(answer_fd, i, path);
    return error;
}
