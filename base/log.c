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

enum { LOG_TEXT_BYTES = 1900 }; /* a line of it is below 2 KiB */

static _Atomic int least_level = LOG_LEVEL_INFO;
static _Atomic int line_format = LOG_CONSOLE;
static const char *_Atomic process_name = "";

void log_set_format(enum log_format format)
{
    atomic_store_explicit(&line_format, (int)format, memory_order_relaxed);
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
            "{\"ts\":\"%s\",\"level\":\"%s\",\"process\":\"%s%.0s\",\"logger\":\"%s\",\"msg\":\""};
    const char *process = atomic_load(&process_name);
    char time[64];
    format_time(time, sizeof(time));
    int n = snprintf(line, size, formats[atomic_load(&line_format)], time, names[level], process,
                     *process ? " " : "", area);
    return n < 0 ? 0 : (size_t)n < size ? (size_t)n : size - 1;
}

/* The sanitized text has no control characters: what is left is its quotes and backslashes. */
static size_t append_escaped(char *line, size_t len, const char *text)
{
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            line[len++] = '\\';
        line[len++] = *text;
    }
    return len;
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
        len = append_escaped(line, len, text);
        line[len++] = '"';
        line[len++] = '}';
    } else {
        memcpy(line + len, text, strlen(text));
        len += strlen(text);
    }
    line[len++] = '\n';
    write_line(line, len);
    errno = saved_errno;
}
