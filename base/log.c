/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A record is made in one buffer and written by one write(), so that records of several threads and
 * processes on one stderr do not mix. Each part is sanitized where it enters the line.
 */
#include "base/log.h"
#include "base/bytes.h"
#include "base/clock.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { LOG_LINE_BYTES = 2048 };

static _Atomic int least_level = LOG_LEVEL_INFO;
static const char *_Atomic process_name = "";

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

static size_t line_start(char *line, size_t size, enum log_level level, const char *area)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};
    const char *process = atomic_load(&process_name);
    struct timespec now;
    struct tm utc;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    size_t len = strftime(line, size, "%Y-%m-%dT%H:%M:%S", &utc);
    int n = snprintf(line + len, size - len, ".%03ldZ %s %s%s%s: ", now.tv_nsec / 1000000,
                     names[level], process, *process ? " " : "", area);
    return n < 0 ? len : len + ((size_t)n < size - len ? (size_t)n : size - len - 1);
}

static void write_line(const char *line, size_t len)
{
    while (len) {
        ssize_t n = write(STDERR_FILENO, line, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return; /* nowhere left to tell of it */
        line += n;
        len -= (size_t)n;
    }
}

void log_write(struct log_site *site, enum log_level level, const char *area, const char *format,
               ...)
{
    char line[LOG_LINE_BYTES], message[LOG_LINE_BYTES], tail[64] = "";
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
    size_t len = line_start(line, sizeof(line) / 2, level, area);
    size_t room = sizeof(line) - sizeof(tail) - len;
    size_t text_len = strlen(message);
    size_t written = bytes_sanitize(BYTES(message, text_len), line + len, room);
    len += written;
    if ((size_t)n > text_len || written + 4 >= room)
        len += (size_t)snprintf(line + len, 4, "...");
    if (left_out)
        snprintf(tail, sizeof(tail), " (%u such records left out before)", left_out);
    size_t tail_len = strlen(tail);
    memcpy(line + len, tail, tail_len);
    len += tail_len;
    line[len++] = '\n';
    write_line(line, len);
    errno = saved_errno;
}
