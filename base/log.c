/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A record is made in one buffer and written by one write(), so that records of several threads and
 * processes on one stderr do not mix. Each part is sanitized where it enters the line.
 *
 * stderr may be a pipe that is not read, and is shared with other processes, so it cannot be made
 * non-blocking. A pipe or socket that polls writable has room for PIPE_BUF bytes; the lock keeps
 * other threads from taking it first.
 */
#include "base/log.h"
#include "base/clock.h"
#include "base/json_write.h"
#include "base/stats.h"
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { LOG_TEXT_BYTES = 1900 }; /* a line of it is below 2 KiB */

STAT_LOSS(
    dropped, "spanprof_log_dropped_bytes_total",
    "Bytes of log records and of the debug exporter's lines dropped because stderr was not read.");

static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool is_stuck; /* a wait for room timed out, and nothing has been read since */
static _Atomic int least_level = LOG_LEVEL_INFO;
static _Atomic int line_format = LOG_CONSOLE;
static const char *_Atomic process_name = "";

void log_set_format(enum log_format format)
{
    atomic_store_explicit(&line_format, (int)format, memory_order_relaxed);
}

enum log_format log_format(void)
{
    return (enum log_format)atomic_load_explicit(&line_format, memory_order_relaxed);
}

void log_set_level(enum log_level level)
{
    atomic_store_explicit(&least_level, (int)level, memory_order_relaxed);
}

enum log_level log_level(void)
{
    return (enum log_level)atomic_load_explicit(&least_level, memory_order_relaxed);
}

void log_set_process(const char *name)
{
    atomic_store(&process_name, name ? name : "");
}

/* Whether the site may write now; *left_out: records suppressed in the window before. */
static bool site_admits(struct log_site *site, uint32_t *left_out)
{
    uint64_t now_ms = clock_monotonic_ns() / NS_PER_MS, old = atomic_load(&site->window), new;
    bool begins;
    do {
        begins = !LOG_SITE_RECORDS(old) || now_ms >= LOG_SITE_START_MS(old) + LOG_WINDOW_MS;
        if (begins)
            new = now_ms << 24 | 1;
        else
            new = LOG_SITE_RECORDS(old) < LOG_SITE_RECORDS(UINT64_MAX) ? old + 1 : old;
    } while (!atomic_compare_exchange_weak(&site->window, &old, new));
    if (begins && LOG_SITE_RECORDS(old) > LOG_RECORDS_A_WINDOW)
        *left_out = LOG_SITE_RECORDS(old) - LOG_RECORDS_A_WINDOW;
    return LOG_SITE_RECORDS(new) <= LOG_RECORDS_A_WINDOW;
}

static void format_time(char *out, size_t size)
{
    struct timespec now;
    struct tm utc;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    size_t len = strftime(out, size, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(out + len, size - len, ".%03ldZ", now.tv_nsec / 1000000);
}

static size_t line_start(char *line, size_t size, enum log_level level, const char *area)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};
    static const char *const formats[] = {
        [LOG_CONSOLE] = "%s %s %s%s%s: ",
        [LOG_JSON] =
            "{\"ts\":\"%s\",\"level\":\"%s\",\"process\":\"%s%.0s\",\"logger\":\"%s\",\"msg\":"};
    const char *process = atomic_load(&process_name);
    char time[64];
    format_time(time, sizeof(time));
    int n = snprintf(line, size, formats[atomic_load(&line_format)], time, names[level], process,
                     *process ? " " : "", area);
    return n < 0 ? 0 : (size_t)n < size ? (size_t)n : size - 1;
}

/* The text is sanitized: an escape is two bytes at most, so it fits into twice its length. */
static size_t append_json(char *line, size_t len, const char *text)
{
    struct buf out = {.data = (uint8_t *)line, .len = len};
    out.cap = out.limit_bytes = len + 2 * strlen(text) + 3;
    (void)json_write_text(&out, BYTES_STR(text), JSON_ESCAPES_NEEDED);
    line[out.len] = '}';
    return out.len + 1;
}

/* Whether it has room, or an error that write() will tell. */
static bool has_room(int wait_ms)
{
    struct pollfd polled = {.fd = STDERR_FILENO, .events = POLLOUT};
    return poll(&polled, 1, wait_ms) != 0;
}

/* -1 with errno; EAGAIN: no room. */
static ssize_t write_some(const char *text, size_t len)
{
    ssize_t n = -1;
    pthread_mutex_lock(&writing);
    errno = EAGAIN;
    if (has_room(0))
        n = write(STDERR_FILENO, text, len);
    pthread_mutex_unlock(&writing);
    return n;
}

/* Up to PIPE_BUF bytes, whole lines if there are. */
static size_t piece_of(const char *text, size_t len)
{
    if (len <= PIPE_BUF)
        return len;
    const char *end = memrchr(text, '\n', PIPE_BUF);
    return end ? (size_t)(end - text) + 1 : PIPE_BUF;
}

static bool await_room(uint64_t due_ns)
{
    uint64_t now_ns = clock_monotonic_ns();
    if (atomic_load(&is_stuck) || now_ns >= due_ns)
        return false;
    bool has = has_room((int)((due_ns - now_ns) / NS_PER_MS) + 1);
    atomic_store(&is_stuck, !has);
    return has;
}

static void write_all(const char *text, size_t len)
{
    uint64_t due_ns = clock_monotonic_ns() + LOG_WAIT_MS * NS_PER_MS;
    while (len) {
        ssize_t n = write_some(text, piece_of(text, len));
        if (n < 0 && (errno == EINTR || (errno == EAGAIN && await_room(due_ns))))
            continue;
        if (n <= 0)
            break; /* nowhere left to tell of it */
        atomic_store(&is_stuck, false);
        text += n;
        len -= (size_t)n;
    }
    stat_add(&dropped, (int64_t)len);
}

/* The message as one line, with what has to be said of it; text_size > 100. */
static void make_text(char *text, size_t text_size, const char *message, bool cut,
                      uint32_t left_out)
{
    size_t len = strlen(message), room = text_size - 64;
    size_t written = bytes_sanitize(BYTES(message, len), text, room);
    if (cut || written + 4 >= room)
        written += (size_t)snprintf(text + written, 4, "...");
    if (left_out)
        snprintf(text + written, text_size - written, " (%u such records left out before)",
                 left_out);
}

void log_write(struct log_site *site, enum log_level level, const char *area, const char *format,
               ...)
{
    char message[LOG_TEXT_BYTES], text[LOG_TEXT_BYTES];
    char line[256 + 2 * LOG_TEXT_BYTES + 3];
    uint32_t left_out = 0;
    int saved_errno = errno;
    if (!site_admits(site, &left_out))
        return;
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(message, sizeof(message), format, arguments);
    va_end(arguments);
    if (n < 0)
        return;
    make_text(text, sizeof(text), message, (size_t)n >= sizeof(message), left_out);
    bool json = atomic_load(&line_format) == LOG_JSON;
    size_t len = line_start(line, 256, level, area);
    if (json) {
        len = append_json(line, len, text);
    } else {
        memcpy(line + len, text, strlen(text));
        len += strlen(text);
    }
    line[len++] = '\n';
    write_all(line, len);
    errno = saved_errno;
}

void log_text(struct bytes lines)
{
    write_all((const char *)lines.data, lines.len);
}
