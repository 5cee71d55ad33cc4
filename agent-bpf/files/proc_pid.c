/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process controls some of this: its name is in "stat" between parentheses and may contain any
 * byte, so fields are counted from the last parenthesis. In "status" the name's line breaks are
 * escaped by the kernel.
 */
#include "agent-bpf/files/proc_pid.h"
#include "base/clock.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define READ_STEP 65536
/* Fields of stat, counted from 1; the state behind the name is field 3. */
#define USER_TICKS_FIELD  14
#define START_FIELD       22
#define ENVIRONMENT_FIELD 50 /* its start; then its end */

static int open_name(uint32_t pid, const char *name)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%u/%s", pid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int read_all(int fd, struct buf *out)
{
    for (;;) {
        size_t room = out->limit_bytes ? out->limit_bytes - out->len : READ_STEP;
        if (room > READ_STEP)
            room = READ_STEP;
        if (!room)
            return -E2BIG;
        int error = buf_reserve(out, room);
        if (error)
            return error < 0 ? error : -E2BIG;
        ssize_t n = read(fd, out->data + out->len, room);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            return 0;
        out->len += (size_t)n;
    }
}

int proc_pid_read(uint32_t pid, const char *name, struct buf *out)
{
    buf_clear(out);
    int fd = open_name(pid, name);
    if (fd < 0)
        return fd;
    int error = read_all(fd, out);
    close(fd);
    return error;
}

int proc_pid_link(uint32_t pid, const char *name, char *out, size_t size, size_t *len)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%u/%s", pid, name);
    ssize_t n = readlink(path, out, size);
    if (n < 0)
        return -errno;
    *len = (size_t)n;
    return 0;
}

static bool next_number(struct bytes *text, uint64_t *number)
{
    while (text->len && *text->data == ' ')
        text->data++, text->len--;
    if (!text->len || *text->data < '0' || *text->data > '9')
        return false;
    *number = 0;
    while (text->len && *text->data >= '0' && *text->data <= '9') {
        if (__builtin_mul_overflow(*number, 10, number) ||
            __builtin_add_overflow(*number, (uint64_t)(*text->data - '0'), number))
            return false;
        text->data++, text->len--;
    }
    return true;
}

static void skip_field(struct bytes *text)
{
    while (text->len && *text->data == ' ')
        text->data++, text->len--;
    while (text->len && *text->data != ' ')
        text->data++, text->len--;
}

static struct bytes stat_from_field(struct bytes stat, int wanted)
{
    const uint8_t *end = stat.len ? memrchr(stat.data, ')', stat.len) : NULL;
    if (!end)
        return (struct bytes){0};
    struct bytes rest = BYTES(end + 1, stat.len - (size_t)(end + 1 - stat.data));
    for (int field = 3; field < wanted; field++)
        skip_field(&rest);
    return rest;
}

bool proc_parse_start_ticks(struct bytes stat, uint64_t *ticks)
{
    struct bytes rest = stat_from_field(stat, START_FIELD);
    return next_number(&rest, ticks);
}

bool proc_parse_cpu_ticks(struct bytes stat, uint64_t *ticks)
{
    struct bytes rest = stat_from_field(stat, USER_TICKS_FIELD);
    uint64_t user, kernel;
    if (!next_number(&rest, &user) || !next_number(&rest, &kernel))
        return false;
    *ticks = user + kernel;
    return true;
}

bool proc_parse_schedstat(struct bytes schedstat, uint64_t *ran_ns, uint64_t *waited_ns)
{
    return next_number(&schedstat, ran_ns) && next_number(&schedstat, waited_ns);
}

bool proc_parse_environment(struct bytes stat, uint64_t *start, uint64_t *end)
{
    struct bytes rest = stat_from_field(stat, ENVIRONMENT_FIELD);
    return next_number(&rest, start) && next_number(&rest, end);
}

bool proc_parse_own_pid(struct bytes status, uint32_t *own_pid)
{
    static const char key[] = "\nNStgid:";
    const uint8_t *line = status.len ? memmem(status.data, status.len, key, sizeof(key) - 1) : NULL;
    if (!line)
        return false;
    const uint8_t *from = line + sizeof(key) - 1;
    size_t left = status.len - (size_t)(from - status.data);
    const uint8_t *newline = memchr(from, '\n', left);
    struct bytes numbers = BYTES(from, newline ? (size_t)(newline - from) : left);
    uint64_t last = 0, number;
    for (;;) {
        while (numbers.len && *numbers.data == '\t')
            numbers.data++, numbers.len--;
        if (!next_number(&numbers, &number) || number > UINT32_MAX)
            break;
        last = number;
    }
    *own_pid = (uint32_t)last;
    return last != 0;
}

bool proc_parse_start_ns(struct bytes stat, uint64_t *start_ns)
{
    uint64_t ticks;
    if (!proc_parse_start_ticks(stat, &ticks))
        return false;
    long hz = sysconf(_SC_CLK_TCK);
    *start_ns = ticks * (NS_PER_SEC / (uint64_t)(hz > 0 ? hz : 100));
    return true;
}
