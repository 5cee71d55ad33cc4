/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One line a record on stderr: 2026-11-21T01:02:03.456Z level process area: message
 * (without the process before log_set_process()); or, as JSON,
 * {"ts":"2026-...","level":"info","process":"service","logger":"area","msg":"message"}.
 * Each call site may write 10 records in 10 s; the first after a pause says how many were left out.
 * Text from strangers goes through bytes_sanitize() first; control characters are replaced here
 * again. Thread: any; not async-signal-safe.
 * Limit: if stderr has no room, one record waits for LOG_WAIT_MS; later ones do not wait until
 * there is room again. A record without room is dropped and counted.
 */
#include "base/bytes.h"
#include <stdatomic.h>
#include <stdint.h>

enum log_level { LOG_LEVEL_DEBUG, LOG_LEVEL_INFO, LOG_LEVEL_WARN, LOG_LEVEL_ERROR };

struct log_site {
    _Atomic uint64_t window; /* start in ms since boot << 24 | records since, written or not */
};
#define LOG_WAIT_MS              100
#define LOG_WINDOW_MS            10000
#define LOG_RECORDS_A_WINDOW     10
#define LOG_SITE_RECORDS(state)  ((uint32_t)((state)&0xffffff))
#define LOG_SITE_START_MS(state) ((state) >> 24)

enum log_format { LOG_CONSOLE, LOG_JSON };

void log_set_format(enum log_format format);
enum log_format log_format(void);
void log_set_level(enum log_level level);
enum log_level log_level(void);
void log_set_process(const char *name); /* "supervisor", "service", "symbolizer": a static string */
void log_write(struct log_site *site, enum log_level level, const char *area, const char *format,
               ...) __attribute__((format(printf, 4, 5)));

/* Lines that are no records, as they are; some may be missing if stderr has no room. */
void log_text(struct bytes lines);

#define LOG_AT(level, area, ...)                                                                   \
    do {                                                                                           \
        static struct log_site log_site_;                                                          \
        if ((level) >= log_level())                                                                \
            log_write(&log_site_, (level), (area), __VA_ARGS__);                                   \
    } while (0)
#define log_debug(area, ...) LOG_AT(LOG_LEVEL_DEBUG, area, __VA_ARGS__)
#define log_info(area, ...)  LOG_AT(LOG_LEVEL_INFO, area, __VA_ARGS__)
#define log_warn(area, ...)  LOG_AT(LOG_LEVEL_WARN, area, __VA_ARGS__)
#define log_error(area, ...) LOG_AT(LOG_LEVEL_ERROR, area, __VA_ARGS__)
