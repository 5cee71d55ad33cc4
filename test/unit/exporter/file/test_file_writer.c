/* SPDX-License-Identifier: Apache-2.0 */
/* In a real directory. Errors of the disk are made by a limit on the size of files. */
#include "base/buf.h"
#include "base/clock.h"
#include "exporter/file/file_backups.h"
#include "exporter/file/file_writer.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#define NOW_NS UINT64_C(1795273445678901234) /* 2026-11-21T15:04:05.678Z */

struct test {
    char directory[64];
    char path[128];
    struct config_exporter_file config;
    struct file_writer writer;
};

static int set_up(void **state)
{
    struct test *test = calloc(1, sizeof(*test));
    snprintf(test->directory, sizeof(test->directory), "/tmp/spanprof-file-XXXXXX");
    assert_non_null(mkdtemp(test->directory));
    snprintf(test->path, sizeof(test->path), "%s/data.json", test->directory);
    test->config = (struct config_exporter_file){
        .path = test->path, .append = true, .flush_interval_ns = NS_PER_SEC};
    file_writer_init(&test->writer, &test->config);
    *state = test;
    return 0;
}

static int tear_down(void **state)
{
    struct test *test = *state;
    char command[128];
    file_writer_close(&test->writer);
    snprintf(command, sizeof(command), "rm -rf %s", test->directory);
    assert_int_equal(system(command), 0);
    free(test);
    return 0;
}

static void load(const char *path, struct buf *out)
{
    char chunk[4096];
    size_t n;
    FILE *file = fopen(path, "rb");
    if (!file)
        fail_msg("%s: %s", path, strerror(errno));
    while ((n = fread(chunk, 1, sizeof(chunk), file)) > 0)
        assert_int_equal(buf_append(out, chunk, n), 0);
    fclose(file);
}

static void assert_file(const char *path, struct bytes expected)
{
    _cleanup_buf_ struct buf got = BUF_INIT(0);
    load(path, &got);
    assert_int_equal(got.len, expected.len);
    assert_memory_equal(got.data, expected.data, expected.len);
}

static void store(const char *path, struct bytes text)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text.data, 1, text.len, file), text.len);
    fclose(file);
}

static void put(struct test *test, const char *record)
{
    assert_int_equal(file_writer_write(&test->writer, BYTES_STR(record)), 0);
}

static void restart(struct test *test)
{
    file_writer_close(&test->writer);
    file_writer_init(&test->writer, &test->config);
}

/* Names in the directory that begin so, sorted; joined by spaces. */
static void list(const struct test *test, char *out, size_t size)
{
    struct dirent **entries;
    int n = scandir(test->directory, &entries, NULL, alphasort);
    assert_true(n >= 2);
    out[0] = '\0';
    for (int i = 0; i < n; i++) {
        if (entries[i]->d_name[0] != '.') {
            size_t len = strlen(out);
            snprintf(out + len, size - len, "%s%s", len ? " " : "", entries[i]->d_name);
        }
        free(entries[i]);
    }
    free(entries);
}

static void assert_lists(const struct test *test, const char *expected)
{
    char names[4096];
    list(test, names, sizeof(names));
    assert_string_equal(names, expected);
}

static void make_backup(const struct test *test, const char *name)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/%s", test->directory, name);
    store(path, BYTES_LIT("x"));
}

/* ---- one file ---- */

static void test_records_follow_each_other(void **state)
{
    struct test *test = *state;
    struct stat status;
    put(test, "{\"a\":1}\n");
    put(test, "{\"b\":2}\n");
    restart(test);
    put(test, "{}\n");
    assert_file(test->path, BYTES_LIT("{\"a\":1}\n{\"b\":2}\n{}\n"));
    assert_int_equal(stat(test->path, &status), 0);
    assert_int_equal(status.st_mode & 0137, 0); /* not for everybody */
}

static void test_truncated_at_start_only(void **state)
{
    struct test *test = *state;
    test->config.append = false;
    store(test->path, BYTES_LIT("old\n"));
    put(test, "1\n");
    put(test, "2\n");
    assert_file(test->path, BYTES_LIT("1\n2\n"));
    /* moved away and back again: it is the same run */
    char aside[160];
    snprintf(aside, sizeof(aside), "%s.aside", test->path);
    assert_int_equal(rename(test->path, aside), 0);
    put(test, "3\n");
    assert_int_equal(rename(aside, test->path), 0);
    put(test, "4\n");
    assert_file(test->path, BYTES_LIT("1\n2\n4\n"));
    restart(test);
    put(test, "5\n");
    assert_file(test->path, BYTES_LIT("5\n"));
    restart(test);
    test->config.rotation.enabled = true;
    test->config.rotation.max_bytes = 100;
    put(test, "6\n");
    assert_file(test->path, BYTES_LIT("5\n6\n"));
}

static void test_moved_removed_and_cut_by_others(void **state)
{
    struct test *test = *state;
    char aside[160];
    snprintf(aside, sizeof(aside), "%s/aside", test->directory);
    put(test, "1\n");
    assert_int_equal(rename(test->path, aside), 0);
    put(test, "2\n");
    assert_file(aside, BYTES_LIT("1\n"));
    assert_file(test->path, BYTES_LIT("2\n"));
    assert_int_equal(unlink(test->path), 0);
    put(test, "3\n");
    assert_file(test->path, BYTES_LIT("3\n"));
    assert_int_equal(truncate(test->path, 0), 0);
    put(test, "4\n");
    assert_file(test->path, BYTES_LIT("4\n"));
}

static void test_directories(void **state)
{
    struct test *test = *state;
    char deep[200];
    snprintf(deep, sizeof(deep), "%s/a/b/c.json", test->directory);
    test->config.path = deep;
    assert_int_equal(file_writer_write(&test->writer, BYTES_LIT("x\n")), -ENOENT);
    test->config.create_directory = true;
    put(test, "x\n");
    assert_file(deep, BYTES_LIT("x\n"));
}

static void test_what_is_no_file(void **state)
{
    struct test *test = *state;
    assert_int_equal(mkfifo(test->path, 0600), 0);
    assert_int_equal(file_writer_open(&test->writer), -ENOTSUP);
    assert_int_equal(unlink(test->path), 0);
    assert_int_equal(mkdir(test->path, 0700), 0);
    assert_int_equal(file_writer_open(&test->writer), -EISDIR);
    test->config.path = "/dev/null";
    assert_int_equal(file_writer_open(&test->writer), -ENOTSUP);
    assert_int_equal(test->writer.fd, -1);
}

/* ---- what an earlier run left ---- */

static void test_a_cut_line_gets_its_end(void **state)
{
    struct test *test = *state;
    store(test->path, BYTES_LIT("{}\n{\"cu"));
    put(test, "{}\n");
    assert_file(test->path, BYTES_LIT("{}\n{\"cu\n{}\n"));
}

static void test_a_cut_frame_is_set_aside(void **state)
{
    static const struct {
        struct bytes old;
        bool kept;
    } cases[] = {{BYTES_LIT("\0\0\0\2ab"), true},         {BYTES_LIT("\0\0\0\2ab\0\0\0\0"), true},
                 {BYTES_LIT("\0\0\0\2a"), false},         {BYTES_LIT("\0\0\0\2ab\0\0"), false},
                 {BYTES_LIT("{\"a\":1}\n"), false},       {BYTES_LIT("\xff\xff\xff\xff"), false},
                 {BYTES_LIT("\0\0\0\2ab\0\0\0\1"), false}};
    struct test *test = *state;
    test->config.format = CONFIG_FILE_PROTO;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char names[512];
        _cleanup_buf_ struct buf expected = BUF_INIT(0);
        restart(test);
        store(test->path, cases[i].old);
        assert_int_equal(file_writer_write(&test->writer, BYTES_LIT("\0\0\0\1x")), 0);
        if (cases[i].kept)
            assert_int_equal(buf_append_bytes(&expected, cases[i].old), 0);
        assert_int_equal(buf_append(&expected, "\0\0\0\1x", 5), 0);
        assert_file(test->path, buf_bytes(&expected));
        list(test, names, sizeof(names));
        if (cases[i].kept) {
            assert_string_equal(names, "data.json");
            continue;
        }
        char backup[600];
        *strchr(names, ' ') = '\0';
        snprintf(backup, sizeof(backup), "%s/%s", test->directory, names);
        assert_file(backup, cases[i].old);
        assert_int_equal(unlink(backup), 0);
    }
}

/* ---- a disk that fails ---- */

static void limit_files(rlim_t bytes)
{
    struct rlimit limit = {bytes, RLIM_INFINITY};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void test_a_record_is_whole_or_not_there(void **state)
{
    struct test *test = *state;
    put(test, "first\n");
    signal(SIGXFSZ, SIG_IGN);
    limit_files(10); /* some of the next fits */
    assert_int_equal(file_writer_write(&test->writer, BYTES_LIT("second\n")), -EFBIG);
    assert_file(test->path, BYTES_LIT("first\n"));
    assert_int_equal(file_writer_write(&test->writer, BYTES_LIT("2nd\n")), 0);
    limit_files(RLIM_INFINITY);
    put(test, "third\n");
    assert_file(test->path, BYTES_LIT("first\n2nd\nthird\n"));
}

static void test_synced_when_asked_for(void **state)
{
    struct test *test = *state;
    put(test, "1\n");
    assert_true(test->writer.unsynced);
    assert_int_equal(file_writer_sync(&test->writer), 0);
    assert_false(test->writer.unsynced);
    test->config.flush_interval_ns = 0;
    put(test, "2\n");
    assert_false(test->writer.unsynced);
}

/* ---- rotation ---- */

static void test_rotation_by_size(void **state)
{
    struct test *test = *state;
    char names[4096];
    test->config.rotation.enabled = true;
    test->config.rotation.max_bytes = 10;
    put(test, "12345\n");
    put(test, "789\n"); /* full to the byte */
    assert_lists(test, "data.json");
    put(test, "larger than a file may be\n");
    put(test, "x\n");
    assert_file(test->path, BYTES_LIT("x\n"));
    list(test, names, sizeof(names));
    char *first = strtok(names, " "), *second = strtok(NULL, " "), path[256];
    assert_string_equal(strtok(NULL, " "), "data.json");
    assert_null(strtok(NULL, " "));
    snprintf(path, sizeof(path), "%s/%s", test->directory, first);
    assert_file(path, BYTES_LIT("12345\n789\n"));
    snprintf(path, sizeof(path), "%s/%s", test->directory, second);
    assert_file(path, BYTES_LIT("larger than a file may be\n"));
}

static void test_names_of_backups(void **state)
{
    struct test *test = *state;
    for (int i = 0; i < 3; i++) { /* within one millisecond */
        store(test->path, BYTES_LIT("x"));
        uint64_t at_ns = NOW_NS;
        assert_int_equal(file_backups_rotate(&test->config, &at_ns), 0);
        assert_true(at_ns == NOW_NS + (uint64_t)i * NS_PER_MS);
    }
    assert_lists(test, "data-2026-11-21T15-04-05.678.json data-2026-11-21T15-04-05.679.json "
                       "data-2026-11-21T15-04-05.680.json");
    setenv("TZ", "XYZ-2:30", 1);
    tzset();
    test->config.rotation.localtime = true;
    char bare[128];
    snprintf(bare, sizeof(bare), "%s/zz.d", test->directory);
    assert_int_equal(mkdir(bare, 0700), 0);
    snprintf(bare, sizeof(bare), "%s/zz.d/name", test->directory);
    test->config.path = bare;
    store(bare, BYTES_LIT("x"));
    uint64_t at_ns = NOW_NS;
    assert_int_equal(file_backups_rotate(&test->config, &at_ns), 0);
    assert_int_equal(access(bare, F_OK), -1);
    assert_int_equal(file_backups_rotate(&test->config, &at_ns), -ENOENT);
    char backup[160];
    snprintf(backup, sizeof(backup), "%s-2026-11-21T17-34-05.678", bare);
    assert_int_equal(access(backup, F_OK), 0);
    unsetenv("TZ");
    tzset();
}

#define OTHERS                                                                                     \
    "data-2026-11-20T15-04-05.678.jso data-2026-11-20T15-04-05.678.json.gz "                       \
    "data-2026-11-20T15_04-05.678.json data-2026-11-2xT15-04-05.678.json data.json "               \
    "other-2026-11-20T15-04-05.678.json"

static void test_backups_are_removed(void **state)
{
    static const char *const names[] = {
        "data-2026-11-21T15-04-05.677.json", "data-2026-11-20T15-04-05.679.json",
        "data-2026-11-19T15-04-05.678.json", "data-2026-11-19T15-04-05.677.json",
        "data-2019-01-01T00-00-00.000.json"};
    struct test *test = *state;
    char others[] = OTHERS;
    for (char *name = strtok(others, " "); name; name = strtok(NULL, " "))
        make_backup(test, name);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        make_backup(test, names[i]);
    assert_int_equal(file_backups_prune(&test->config, NOW_NS), 0); /* no limits */
    test->config.rotation.max_days = 2;
    assert_int_equal(file_backups_prune(&test->config, NOW_NS), 2);
    test->config.rotation.max_days = 0;
    test->config.rotation.max_backups = 2;
    assert_int_equal(file_backups_prune(&test->config, NOW_NS), 1);
    assert_lists(test, "data-2026-11-20T15-04-05.678.jso data-2026-11-20T15-04-05.678.json.gz "
                       "data-2026-11-20T15-04-05.679.json data-2026-11-20T15_04-05.678.json "
                       "data-2026-11-21T15-04-05.677.json data-2026-11-2xT15-04-05.678.json "
                       "data.json other-2026-11-20T15-04-05.678.json");
}

static void test_rotating_removes(void **state)
{
    struct test *test = *state;
    char names[4096], record[16];
    test->config.rotation.enabled = true;
    test->config.rotation.max_bytes = 10;
    test->config.rotation.max_backups = 3;
    for (int i = 0; i < 20; i++) {
        snprintf(record, sizeof(record), "%09d\n", i);
        put(test, record);
    }
    list(test, names, sizeof(names));
    char path[256], *name = strtok(names, " ");
    for (int i = 16; i < 20; i++, name = strtok(NULL, " ")) {
        snprintf(record, sizeof(record), "%09d\n", i);
        snprintf(path, sizeof(path), "%s/%s", test->directory, name);
        assert_file(path, BYTES_STR(record));
    }
    assert_null(name);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_records_follow_each_other),
        TEST(test_truncated_at_start_only),
        TEST(test_moved_removed_and_cut_by_others),
        TEST(test_directories),
        TEST(test_what_is_no_file),
        TEST(test_a_cut_line_gets_its_end),
        TEST(test_a_cut_frame_is_set_aside),
        TEST(test_a_record_is_whole_or_not_there),
        TEST(test_synced_when_asked_for),
        TEST(test_rotation_by_size),
        TEST(test_names_of_backups),
        TEST(test_backups_are_removed),
        TEST(test_rotating_removes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
