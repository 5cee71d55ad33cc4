/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"
#include "base/clock.h"
#include "base/stats.h"
#include <fcntl.h>
#include <pthread.h>
#include <regex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

/*
 * stderr goes to a file in memory while a test writes. It appends: threads that write to a memfd at
 * its file position may overwrite each other, since the kernel locks the position of opened files
 * only.
 */
static int real_stderr, capture_fd;

static void capture(void)
{
    fflush(stderr);
    real_stderr = dup(STDERR_FILENO);
    capture_fd = memfd_create("log", 0);
    assert_int_equal(fcntl(capture_fd, F_SETFL, O_APPEND), 0);
    dup2(capture_fd, STDERR_FILENO);
    close(capture_fd);
}

/* What was written, NUL-terminated; to be freed. */
static char *captured(void)
{
    struct stat file;
    assert_int_equal(fstat(STDERR_FILENO, &file), 0);
    off_t size = file.st_size;
    char *text = calloc(1, (size_t)size + 1);
    ssize_t n = pread(STDERR_FILENO, text, (size_t)size, 0);
    dup2(real_stderr, STDERR_FILENO);
    close(real_stderr);
    assert_int_equal(n, size);
    return text;
}

static size_t n_lines(const char *text)
{
    size_t n = 0;
    for (; *text; text++)
        n += *text == '\n';
    return n;
}

static void assert_matches(const char *text, const char *pattern)
{
    regex_t regex;
    assert_int_equal(regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB), 0);
    if (regexec(&regex, text, 0, NULL, 0))
        fail_msg("'%s' does not match '%s'", text, pattern);
    regfree(&regex);
}

#define TIME_PATTERN "^20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z "

static void test_line(void **state)
{
    (void)state;
    capture();
    log_info("store", "opened %s in %d ms", "x.db", 3);
    char *text = captured();
    assert_matches(text, TIME_PATTERN "info store: opened x\\.db in 3 ms\n$");
    free(text);
    log_set_process("service");
    capture();
    log_error("store", "gone");
    text = captured();
    assert_matches(text, TIME_PATTERN "error service store: gone\n$");
    free(text);
    log_set_process(NULL);
}

static void test_json(void **state)
{
    (void)state;
    log_set_format(LOG_JSON);
    capture();
    log_warn("a", "a \"quote\", a \\ and\na line: %s", "\xc3\xa9");
    log_set_process("service");
    log_info("b", "%s", "");
    char *text = captured();
    log_set_format(LOG_CONSOLE);
    log_set_process(NULL);
    char *second = strchr(text, '\n') + 1;
    second[-1] = 0;
    assert_non_null(strstr(text, "Z\",\"level\":\"warn\",\"process\":\"\",\"logger\":\"a\",\"msg\":"
                                 "\"a \\\"quote\\\", a \\\\ and?a line: \xc3\xa9\"}"));
    assert_matches(text, "^\\{\"ts\":\"20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\\.[0-9]{3}Z\",");
    assert_non_null(strstr(second, "\"process\":\"service\",\"logger\":\"b\",\"msg\":\"\"}\n"));
    free(text);
}

/* As many quotes as there may be, in a line that is still whole. */
static void test_json_of_quotes(void **state)
{
    char quotes[4000];
    (void)state;
    memset(quotes, '"', sizeof(quotes) - 1);
    quotes[sizeof(quotes) - 1] = 0;
    log_set_format(LOG_JSON);
    capture();
    log_warn("a", "%s", quotes);
    char *text = captured();
    log_set_format(LOG_CONSOLE);
    assert_int_equal(n_lines(text), 1);
    assert_string_equal(text + strlen(text) - 10, "\\\"\\\"...\"}\n");
    free(text);
}

static void test_level(void **state)
{
    (void)state;
    capture();
    log_debug("a", "not written");
    log_set_level(LOG_LEVEL_DEBUG);
    assert_int_equal(log_level(), LOG_LEVEL_DEBUG);
    log_debug("a", "written");
    log_set_level(LOG_LEVEL_WARN);
    log_info("a", "not written");
    log_warn("a", "written");
    log_set_level(LOG_LEVEL_INFO);
    char *text = captured();
    assert_int_equal(n_lines(text), 2);
    assert_null(strstr(text, "not written"));
    free(text);
}

static void test_hostile_text(void **state)
{
    static char huge[10000];
    (void)state;
    memset(huge, 'x', sizeof(huge) - 1);
    capture();
    log_info("a", "two\nlines \x1b[31m and \xff");
    log_info("a", "%s", huge);
    char *text = captured();
    assert_int_equal(n_lines(text), 2);
    assert_non_null(strstr(text, "two?lines ?[31m and ?\n"));
    assert_non_null(strstr(text, "xxx...\n"));
    assert_true(strlen(text) < 2200);
    free(text);
}

static void write_from(struct log_site *site, int i)
{
    log_write(site, LOG_LEVEL_INFO, "a", "record %d", i);
}

static void test_rate_limit(void **state)
{
    struct log_site site = {0}, other = {0};
    (void)state;
    capture();
    for (int i = 0; i < 25; i++)
        write_from(&site, i);
    write_from(&other, 100); /* has a limit of its own */
    atomic_fetch_sub(&site.window, (uint64_t)LOG_WINDOW_MS << 24);
    write_from(&site, 200);
    write_from(&site, 201);
    char *text = captured();
    assert_int_equal(n_lines(text), 13);
    assert_non_null(strstr(text, "record 9\n"));
    assert_null(strstr(text, "record 10\n"));
    assert_non_null(strstr(text, "record 100\n"));
    assert_non_null(strstr(text, "record 200 (15 such records left out before)\n"));
    assert_non_null(strstr(text, "record 201\n"));
    free(text);
}

static struct log_site shared_site;

static void *write_many(void *argument)
{
    for (int i = 0; i < 1000; i++)
        log_write(&shared_site, LOG_LEVEL_INFO, "thread", "a longer record, number %d of all", i);
    return argument;
}

static void test_threads(void **state)
{
    pthread_t threads[4];
    (void)state;
    capture();
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_many, NULL), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    char *text = captured();
    assert_int_equal(n_lines(text), LOG_RECORDS_A_WINDOW);
    assert_int_equal(LOG_SITE_RECORDS(atomic_load(&shared_site.window)), 4000);
    free(text);
}

static uint64_t log_ms(void)
{
    static struct log_site site;
    uint64_t began_ns = clock_monotonic_ns();
    site.window = 0;
    log_write(&site, LOG_LEVEL_INFO, "area", "a record");
    return (clock_monotonic_ns() - began_ns) / NS_PER_MS;
}

static int64_t dropped(void)
{
    return stats_find("spanprof_log_dropped_bytes_total", "");
}

/* stderr is a pipe with nobody at its end: it is waited for once. */
static void test_nobody_reads(void **state)
{
    static char lines[1 << 20], read_back[1 << 20];
    int ends[2];
    (void)state;
    memset(lines, 'x', sizeof(lines));
    for (size_t i = 99; i < sizeof(lines); i += 100)
        lines[i] = '\n';
    assert_int_equal(pipe(ends), 0);
    int stderr_fd = dup(STDERR_FILENO);
    dup2(ends[1], STDERR_FILENO);
    int64_t before = dropped();
    uint64_t began_ns = clock_monotonic_ns();
    log_text(BYTES((uint8_t *)lines, sizeof(lines)));
    uint64_t first_ms = (clock_monotonic_ns() - began_ns) / NS_PER_MS;
    int64_t lost = dropped() - before;
    uint64_t stuck_ms = log_ms() + log_ms();
    assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
    ssize_t n = read(ends[0], read_back, sizeof(read_back));
    int64_t lost_in_all = dropped();
    log_ms(); /* somebody reads again */
    ssize_t again = read(ends[0], read_back, sizeof(read_back));
    dup2(stderr_fd, STDERR_FILENO);
    close(stderr_fd);
    close(ends[0]);
    close(ends[1]);
    assert_in_range(first_ms, LOG_WAIT_MS, 10 * LOG_WAIT_MS);
    assert_in_range(stuck_ms, 0, LOG_WAIT_MS / 2);
    assert_in_range(n, 40000, 65536);
    assert_int_equal(n % 100, 0); /* whole lines */
    assert_int_equal(lost, (int64_t)sizeof(lines) - n);
    assert_true(lost_in_all > before + lost);
    assert_int_equal(dropped(), lost_in_all);
    assert_in_range(again, 20, 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_line),         cmocka_unit_test(test_level),
        cmocka_unit_test(test_json),         cmocka_unit_test(test_json_of_quotes),
        cmocka_unit_test(test_hostile_text), cmocka_unit_test(test_rate_limit),
        cmocka_unit_test(test_threads),      cmocka_unit_test(test_nobody_reads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
