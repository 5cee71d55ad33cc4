/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files are read by processes that are executions of this program. One with a "FILE.hold" beside it
 * does not come.
 */
#include "agent-bpf/supervisor/role.h"
#include "agent-bpf/supervisor/supervisor_answer.h"
#include "agent-bpf/supervisor/supervisor_files.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
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
    struct files_reading reading;
    unsigned n_changed;
};

/* ---- the process that reads ---- */

static int answer_or_not(struct role_start *start)
{
    struct bytes rest = buf_bytes(&start->settings);
    const char *path;
    char hold[256];
    while (answer_next(&rest, &path)) {
        snprintf(hold, sizeof(hold), "%s.hold", path);
        while (access(hold, F_OK) == 0)
            pause();
    }
    int error = answer_files(start->config.answer_fd, buf_bytes(&start->settings));
    buf_close(&start->settings);
    return error != 0;
}

/* ---- around a test ---- */

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fputs(text, file) < 0, 0);
    assert_int_equal(fclose(file), 0);
}

static void changed(void *context, size_t i)
{
    struct rig *rig = context;
    assert_int_equal(i, 0);
    rig->n_changed++;
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
    rig->file = (struct supervisor_file){.path = rig->path, .interval_ns = 100};
    rig->reading =
        (struct files_reading){.files = &rig->file, .n = 1, .changed = changed, .context = rig};
    *state = rig;
    supervisor_files_open(&rig->file, 1, NULL, 0);
    return rig->file.error;
}

static int teardown(void **state)
{
    struct rig *rig = *state;
    files_reading_close(&rig->reading);
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

/* Until the process that reads has ended, if one is there at that time. */
static void poll_at(struct rig *rig, uint64_t now_ns, bool all, unsigned n_changed)
{
    if (all)
        files_reading_all(&rig->reading);
    files_reading_tend(&rig->reading, now_ns);
    while (files_reading_fd(&rig->reading) >= 0) {
        struct pollfd fd = {.fd = files_reading_fd(&rig->reading), .events = POLLIN};
        assert_true(poll(&fd, 1, 20000) > 0);
        files_reading_tend(&rig->reading, now_ns);
    }
    assert_int_equal(rig->n_changed, n_changed);
}

/* ---- tests ---- */

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
    struct supervisor_file file = {.path = path};
    supervisor_files_open(&file, 1, NULL, 0);
    assert_int_equal(file.error, error);
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
    struct supervisor_file file = {.path = path};
    supervisor_files_open(&file, 1, NULL, 0);
    assert_int_equal(file.error, 0);
    supervisor_file_close(&file);
    unlink(path);
}

static void hold(const struct rig *rig, bool on)
{
    char path[160];
    snprintf(path, sizeof(path), "%s.hold", rig->path);
    if (on)
        write_file(path, "");
    else
        assert_int_equal(unlink(path), 0);
}

static void test_what_does_not_come_at_first(void **state)
{
    struct rig *rig = *state;
    char other[160];
    snprintf(other, sizeof(other), "%s/other", rig->directory);
    write_file(other, "other");
    struct supervisor_file next[] = {{.path = rig->path}, {.path = other}};
    hold(rig, true);
    uint64_t began_ns = clock_monotonic_ns();
    supervisor_files_open(next, 2, &rig->file, 1);
    uint64_t took_ns = clock_monotonic_ns() - began_ns;
    assert_true(took_ns >= FILES_LIMIT_NS && took_ns < 5 * FILES_LIMIT_NS);
    expect_contents(next[0].fd, "first"); /* as it was */
    assert_int_equal(next[1].fd, -1);
    assert_int_equal(next[1].error, -ETIMEDOUT);
    supervisor_file_close(&next[0]);
    hold(rig, false);
    unlink(other);
}

static void wait_until_reaped(pid_t pid)
{
    for (int i = 0; i < 1000 && children_have_left(pid); i++) {
        children_reap_left(clock_monotonic_ns());
        usleep(10000);
    }
    assert_false(children_have_left(pid));
}

static void test_what_does_not_come_again(void **state)
{
    struct rig *rig = *state;
    write_file(rig->path, "second");
    hold(rig, true);
    files_reading_all(&rig->reading);
    do {
        files_reading_tend(&rig->reading, clock_monotonic_ns());
        usleep(10000);
    } while (files_reading_fd(&rig->reading) >= 0);
    pid_t pid = rig->reading.asking.pid;
    assert_int_equal(rig->file.error, -ETIMEDOUT);
    expect_contents(rig->file.fd, "first");
    assert_true(children_have_left(pid));
    poll_at(rig, clock_monotonic_ns(), true, 0); /* nobody else is lost to it */
    assert_int_equal(rig->reading.asking.pid, pid);
    hold(rig, false);
    wait_until_reaped(pid);
    poll_at(rig, clock_monotonic_ns(), true, 1);
    assert_int_equal(rig->file.error, 0);
    expect_contents(rig->file.fd, "second");
}

#define RIG_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(test_changes_are_seen_when_due),
        RIG_TEST(test_without_an_interval),
        RIG_TEST(test_a_file_that_goes_and_comes),
        RIG_TEST(test_what_was_handed_over_stays),
        RIG_TEST(test_what_is_no_file),
        RIG_TEST(test_what_does_not_come_at_first),
        RIG_TEST(test_what_does_not_come_again),
    };
    struct role_start start;
    if (role_take(argc, argv, &start))
        return SERVICE_EXIT_FATAL;
    if (start.role == ROLE_CONFIG)
        return answer_or_not(&start);
    return cmocka_run_group_tests_name("supervisor_files", tests, NULL, NULL);
}
