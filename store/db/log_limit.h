/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Bounds the write-ahead log. SQLite starts the log again from its beginning when all of it has
 * been copied into the database and no read uses it. Reads that follow one another without a gap
 * never let that happen. So, while the log is longer than LOG_LIMIT_SOFT_BYTES, a new read waits
 * until the reads before it have ended and the writer has copied the log, at most
 * LOG_LIMIT_WAIT_NS. Above LOG_LIMIT_FULL_BYTES reads that can be refused should be.
 *
 * One struct log_limit for each database file, shared by its writer and its readers in this
 * process. Thread: any, by a lock.
 */
#include <stdbool.h>
#include <stdint.h>

#define LOG_LIMIT_SOFT_BYTES (UINT64_C(16) << 20)
#define LOG_LIMIT_FULL_BYTES (UINT64_C(64) << 20)
#define LOG_LIMIT_WAIT_NS    UINT64_C(200000000)

struct log_limit;

/* The one of this path, which the first caller makes; NULL: no memory. */
struct log_limit *log_limit_hold(const char *path);
void log_limit_release(struct log_limit *limit); /* NULL is fine */

/* Writer: the length of the log, as of the last commit. */
void log_limit_set(struct log_limit *limit, uint64_t bytes);
bool log_limit_is_long(const struct log_limit *limit);
/* Writer: lets no new read begin for LOG_LIMIT_WAIT_NS. True: no read is going on. */
bool log_limit_close(struct log_limit *limit);
/* Writer: reads go on. */
void log_limit_open(struct log_limit *limit);

/* Reader: each read is between these two. */
void log_limit_read_begin(struct log_limit *limit);
void log_limit_read_end(struct log_limit *limit);
bool log_limit_is_full(const struct log_limit *limit);
