/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/supervisor/supervisor_files.h"
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

struct rig {
    char directory[64];
    char path[128];
    struct supervisor_file file;
    unsigned n_changed;
};

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fputs(text, file) < 0, 0);
    assert_int_equal(fclose(file), 0);
}

static int setup(void **state)
{
    struct rig *rig = calloc(1, sizeof(*rig));
    if (!rig)
        return -1;
    strcpy(rig->directory, "/tmp/spanprof-files-XXXXXX");
    if (!mkdtemp(rig->directory))
        return -1;
    snprintf(rig->path, sizeof(rig->path), "%s/file", rig->directory);
    write_file(rig->path, "first");
    rig->file = (struct supervisor_file){.path = rig->path, .interval_ns = 100, .fd = -1};
    *state = rig;
    return supervisor_file_open(&rig->file);
}

static int teardown(void **state)
{
    struct rig *rig = *state;
    supervisor_file_close(&rig->file);
    supervisor_file_close(&rig->file);
    unlink(rig->path);
    int error = rmdir(rig->directory);
    free(rig);
    return error;
}

static void expect_contents(int fd, const char *expected)
{
    _cleanup_buf_ struct buf text = BUF_INIT(0);
    assert_int_equal(supervisor_file_contents(fd, &text), 0);
    assert_true(bytes_is(buf_bytes(&text), expected));
}

static void changed(void *context, size_t i)
{
    struct rig *rig = context;
    assert_int_equal(i, 0);
    rig->n_changed++;
}

static void poll_at(struct rig *rig, uint64_t now_ns, bool all, unsigned n_changed)
{
    supervisor_files_poll(&rig->file, 1, all, now_ns, changed, rig);
    assert_int_equal(rig->n_changed, n_changed);
}

static void test_changes_are_seen_when_due(void **state)
{
    struct rig *rig = *state;
    int fd = rig->file.fd;
    poll_at(rig, 1000, false, 0);
    write_file(rig->path, "next");
    poll_at(rig, 1099, false, 0);
    expect_contents(fd, "first");
    poll_at(rig, 1100, false, 1);
    assert_int_equal(rig->file.fd, fd);
    expect_contents(fd, "next");
    poll_at(rig, 1200, false, 1); /* the same */
    write_file(rig->path, "");
    poll_at(rig, 1201, false, 1);
    poll_at(rig, 1201, true, 2);
    expect_contents(fd, "");
}

static void test_without_an_interval(void **state)
{
    struct rig *rig = *state;
    rig->file.interval_ns = 0;
    write_file(rig->path, "next");
    poll_at(rig, 1000000, false, 0);
    poll_at(rig, 2000000, false, 0);
    poll_at(rig, 2000001, true, 1);
}

static void test_a_file_that_goes_and_comes(void **state)
{
    struct rig *rig = *state;
    assert_int_equal(unlink(rig->path), 0);
    poll_at(rig, 1, true, 0);
    expect_contents(rig->file.fd, "first");
    write_file(rig->path, "first");
    poll_at(rig, 2, true, 0);
    write_file(rig->path, "second");
    poll_at(rig, 3, true, 1);
}

/* Who holds an older fd sees what it saw: no half of a change. */
static void test_what_was_handed_over_stays(void **state)
{
    struct rig *rig = *state;
    int old = dup(rig->file.fd);
    write_file(rig->path, "second");
    poll_at(rig, 1, true, 1);
    expect_contents(old, "first");
    assert_int_equal(pwrite(old, "x", 1, 0), -1);
    assert_int_equal(ftruncate(old, 0), -1);
    assert_int_equal(pwrite(rig->file.fd, "x", 1, 0), -1);
    close(old);
}

static void expect_unreadable(const char *path, int error)
{
    struct supervisor_file file = {.path = path, .fd = -1};
    assert_int_equal(supervisor_file_open(&file), error);
    assert_int_equal(file.fd, -1);
}

static void test_what_is_no_file(void **state)
{
    struct rig *rig = *state;
    char path[160];
    expect_unreadable(rig->directory, -EINVAL);
    expect_unreadable("/dev/zero", -EINVAL);
    snprintf(path, sizeof(path), "%s/missing", rig->directory);
    expect_unreadable(path, -ENOENT);
    assert_int_equal(mkfifo(path, 0600), 0);
    expect_unreadable(path, -EINVAL); /* and waits for nobody */
    unlink(path);
    int fd = open(path, O_CREAT | O_WRONLY, 0600);
    assert_int_equal(ftruncate(fd, SUPERVISOR_FILE_BYTES_MAX + 1), 0);
    close(fd);
    expect_unreadable(path, -EFBIG);
    assert_int_equal(truncate(path, SUPERVISOR_FILE_BYTES_MAX), 0);
    struct supervisor_file file = {.path = path, .fd = -1};
    assert_int_equal(supervisor_file_open(&file), 0);
    supervisor_file_close(&file);
    unlink(path);
}

#define RIG_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(test_changes_are_seen_when_due),
        RIG_TEST(test_without_an_interval),
        RIG_TEST(test_a_file_that_goes_and_comes),
        RIG_TEST(test_what_was_handed_over_stays),
        RIG_TEST(test_what_is_no_file),
    };
    return cmocka_run_group_tests_name("supervisor_files", tests, NULL, NULL);
}
