/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of real processes of other users, in roots and pid namespaces of their own, and what else
 * may lie at that path. As root; else skipped. Time is the test's own.
 */
#include "agent-bpf/symbols/perf_maps.h"
#include "agent-bpf/supervisor/privileges.h"
#include "base/stats.h"
#include "test/support/fixtures/skip.h"
#include "test/support/publishers/publisher_fuse.h"
#include "test/support/rigs/reader_rig.h"
#include <fcntl.h>
#include <ftw.h>
#include <linux/capability.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#define USER  12345
#define OTHER 12346

static char directory[64]; /* root of the processes */
static struct perf_maps maps;
static uint64_t now_ns;
static uint64_t tenant; /* of the processes that are looked at */

/* ---- places ---- */

static const char *path_of(const char *name)
{
    static char path[256];
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    return path;
}

static const char *map_path(pid_t own_pid)
{
    char name[64];
    snprintf(name, sizeof(name), "tmp/perf-%d.map", own_pid);
    return path_of(name);
}

static void append(pid_t own_pid, const char *text)
{
    FILE *file = fopen(map_path(own_pid), "ae");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void write_map(pid_t own_pid, const char *text, uid_t owner)
{
    unlink(map_path(own_pid));
    append(own_pid, text);
    assert_int_equal(chown(map_path(own_pid), owner, owner), 0);
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *at)
{
    (void)status, (void)kind, (void)at;
    return remove(path);
}

static int set_up(void **state)
{
    (void)state;
    now_ns = 1000 * NS_PER_SEC;
    tenant = 0;
    if (perf_maps_init(&maps))
        return -1;
    strcpy(directory, "/tmp/spanprof-perf-XXXXXX");
    if (!mkdtemp(directory) || chmod(directory, 0755))
        return -1;
    return mkdir(path_of("tmp"), 0700) || chmod(path_of("tmp"), 01777) ? -1 : 0;
}

static int tear_down(void **state)
{
    (void)state;
    perf_maps_close(&maps);
    perf_maps_close(&maps);
    assert_int_equal(maps.bytes, 0);
    return nftw(directory, remove_one, 8, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

/* ---- processes ---- */

struct process_plan {
    uid_t uid;
    bool own_pids; /* in a pid namespace of its own, where it is 1 */
    bool own_fuse; /* with FUSE mounted on its /tmp */
};

static void carry_out(const struct process_plan *plan)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (plan->own_fuse && !publisher_fuse_page(path_of("tmp")))
        _exit(1);
    if (chroot(directory) || chdir("/") || setresgid(plan->uid, plan->uid, plan->uid) ||
        setresuid(plan->uid, plan->uid, plan->uid))
        _exit(2);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
}

/* -1: not allowed here. */
static pid_t start(const struct process_plan *plan)
{
    int ready[2];
    char byte;
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    unsigned long flags = SIGCHLD | (plan->own_pids ? CLONE_NEWPID : 0);
    pid_t pid = (pid_t)syscall(SYS_clone, flags, 0, 0, 0, 0);
    if (pid == 0) {
        carry_out(plan);
        (void)!write(ready[1], "r", 1);
        for (;;)
            pause();
    }
    close(ready[1]);
    ssize_t n = pid > 0 ? read(ready[0], &byte, 1) : 0;
    close(ready[0]);
    return n == 1 ? pid : -1;
}

static pid_t start_user(void)
{
    pid_t pid = start(&(struct process_plan){.uid = USER});
    assert_true(pid > 0);
    return pid;
}

static void stop(pid_t pid)
{
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* ---- what is found ---- */

static struct perf_user user_of(uint32_t pid)
{
    return (struct perf_user){pid, tenant};
}

static void assert_named(pid_t pid, uint64_t address, const char *name)
{
    struct perf_map_range range;
    bool found = perf_maps_find(&maps, user_of((uint32_t)pid), now_ns, address, &range);
    assert_int_equal(found, name != NULL);
    assert_true(address >= range.start && address <= range.last);
    if (name)
        assert_string_equal(range.name, name);
    else
        assert_null(range.name);
}

static int64_t not_read(const char *reason)
{
    char labels[64];
    snprintf(labels, sizeof(labels), "reason=\"%s\"", reason);
    return stats_find("spanprof_perf_maps_not_read_total", labels);
}

/* ---- tests ---- */

static void test_own_root(void **state)
{
    (void)state;
    pid_t pid = start_user();
    write_map(pid, "10 1 users\n", USER);
    assert_named(pid, 0x10, "users");
    assert_named(pid, 0x11, NULL);
    assert_int_equal(perf_maps_get(&maps, user_of((uint32_t)pid), now_ns)->n, 1);
    stop(pid);
    /* It has ended, and keeps its names. */
    now_ns += PERF_MAPS_AGE_NS;
    assert_named(pid, 0x10, "users");
    perf_maps_left(&maps, (uint32_t)pid, now_ns);
    perf_maps_left(&maps, (uint32_t)pid, now_ns += PERF_MAPS_LEFT_NS - 1);
    assert_named(pid, 0x10, "users");
    perf_maps_left(&maps, 1u << 30, now_ns += 1);
    assert_int_equal(maps.by_pid.count, 0);
    assert_named(pid, 0x10, NULL);
    assert_int_equal(maps.bytes, 0);
}

static void test_own_pid_namespace(void **state)
{
    (void)state;
    pid_t pid = start(&(struct process_plan){.uid = USER, .own_pids = true});
    if (pid < 0)
        skip_because("no PID namespace of its own");
    write_map(pid, "10 1 from outside\n", USER);
    write_map(1, "10 1 from inside\n", USER);
    assert_named(pid, 0x10, "from inside");
    stop(pid);
}

/* Only what the process itself or root may have written. */
static void test_owners(void **state)
{
    (void)state;
    pid_t pid = start_user(), roots = start(&(struct process_plan){.uid = 0});
    int64_t refused = not_read("refused");
    write_map(pid, "10 1 another\n", OTHER);
    write_map(roots, "10 1 a user's\n", USER);
    assert_named(pid, 0x10, NULL);
    assert_named(roots, 0x10, NULL);
    assert_int_equal(not_read("refused") - refused, 2);
    write_map(pid, "10 1 root's\n", 0);
    now_ns += PERF_MAPS_AGE_NS;
    assert_named(pid, 0x10, "root's");
    /* Names go with the file. */
    assert_int_equal(chown(map_path(pid), OTHER, OTHER), 0);
    now_ns += PERF_MAPS_AGE_NS;
    assert_named(pid, 0x10, NULL);
    stop(pid);
    stop(roots);
}

static void test_not_a_file(void **state)
{
    (void)state;
    pid_t pid = start_user();
    int64_t refused = not_read("refused");
    char path[256];
    snprintf(path, sizeof(path), "%s", map_path(pid));
    append(1, "10 1 linked\n");
    alarm(20); /* a FIFO would wait for a writer */

    assert_int_equal(mkfifo(path, 0666), 0);
    assert_named(pid, 0x10, NULL);
    assert_int_equal(not_read("refused") - refused, 1);
    unlink(path);
    assert_int_equal(symlink("perf-1.map", path), 0);
    now_ns += PERF_MAPS_ABSENT_NS;
    assert_named(pid, 0x10, NULL);
    assert_int_equal(not_read("refused") - refused, 2);
    unlink(path);
    assert_int_equal(mkdir(path, 0777), 0);
    now_ns += PERF_MAPS_ABSENT_NS;
    assert_named(pid, 0x10, NULL);
    assert_int_equal(not_read("refused") - refused, 3);
    rmdir(path);

    write_map(pid, "10 1 file\n", USER);
    now_ns += PERF_MAPS_ABSENT_NS;
    assert_named(pid, 0x10, "file");
    /* The folder by another name, which leads out of the root as well. */
    snprintf(path, sizeof(path), "%s", path_of("elsewhere"));
    assert_int_equal(rename(path_of("tmp"), path), 0);
    assert_int_equal(symlink("elsewhere", path_of("tmp")), 0);
    now_ns += PERF_MAPS_AGE_NS;
    assert_named(pid, 0x10, NULL);
    assert_int_equal(not_read("refused") - refused, 4);
    alarm(0);
    stop(pid);
}

static void test_fuse(void **state)
{
    (void)state;
    pid_t pid = start(&(struct process_plan){.uid = USER, .own_fuse = true});
    if (pid < 0)
        skip_because("no FUSE file system of its own");
    int64_t refused = not_read("refused");
    alarm(20);
    assert_named(pid, 0x10, NULL);
    alarm(0);
    assert_int_equal(not_read("refused") - refused, 1);
    stop(pid);
}

/* Of a process that had the same pid, as the first of each container has. */
static void test_from_before(void **state)
{
    (void)state;
    int64_t stale = not_read("stale");
    write_map(1, "10 1 before\n20 1 before\n", USER);
    usleep(200000);
    pid_t pid = start(&(struct process_plan){.uid = USER, .own_pids = true});
    if (pid < 0)
        skip_because("no PID namespace of its own");
    assert_named(pid, 0x10, NULL);
    assert_int_equal(not_read("stale") - stale, 1);
    write_map(1, "10 1 now\n", USER);
    now_ns += PERF_MAPS_AGE_NS;
    assert_named(pid, 0x10, "now");
    assert_named(pid, 0x20, NULL);
    stop(pid);
}

static void test_appended(void **state)
{
    (void)state;
    pid_t pid = start_user();
    write_map(pid, "10 1 a\n20 1 unfini", USER);
    assert_named(pid, 0x10, "a");
    append(pid, "shed\n10 1 moved\n");
    assert_named(pid, 0x20, NULL); /* not again so soon */
    now_ns += PERF_MAPS_RETRY_NS - 1;
    assert_named(pid, 0x20, NULL);
    assert_named(pid, 0x10, "a");
    now_ns += 1;
    assert_named(pid, 0x20, "unfinished");
    assert_named(pid, 0x10, "moved");
    append(pid, "10 1 moved on\n");
    now_ns += PERF_MAPS_AGE_NS - 1;
    assert_named(pid, 0x10, "moved");
    now_ns += 1;
    assert_named(pid, 0x10, "moved on");
    stop(pid);
}

/* Written anew in place, shorter, as long, or longer; and another file in its place. */
static void test_written_anew(void **state)
{
    (void)state;
    static const char *const texts[] = {"10 1 a\n", "10 1 b\n", "30 1 c\n40 1 c\n50 1 c\n60 1 c\n",
                                        ""};
    pid_t pid = start_user();
    write_map(pid, "10 1 first\n20 1 first\n", USER);
    assert_named(pid, 0x20, "first");
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        FILE *file = fopen(map_path(pid), "we");
        assert_non_null(file);
        assert_true(fputs(texts[i], file) >= 0);
        assert_int_equal(fclose(file), 0);
        now_ns += PERF_MAPS_AGE_NS;
        assert_named(pid, 0x20, NULL);
        assert_named(pid, 0x10, i == 0 ? "a" : i == 1 ? "b" : NULL);
        assert_named(pid, 0x40, i == 2 ? "c" : NULL);
    }
    write_map(pid, "10 1 x\n", USER);
    now_ns += PERF_MAPS_AGE_NS;
    assert_named(pid, 0x10, "x");
    char path[256];
    snprintf(path, sizeof(path), "%s", map_path(pid));
    write_map(7, "10 1 y\n", USER);
    assert_int_equal(rename(map_path(7), path), 0);
    now_ns += PERF_MAPS_AGE_NS;
    assert_named(pid, 0x10, "y");
    assert_int_equal(unlink(path), 0);
    now_ns += PERF_MAPS_AGE_NS;
    assert_named(pid, 0x20, NULL);
    assert_int_equal(maps.bytes, 0);
    stop(pid);
}

/* Another file, which ends as the one before did. */
static void test_same_end(void **state)
{
    (void)state;
    char path[256], end[256];
    pid_t pid = start_user();
    snprintf(path, sizeof(path), "%s", map_path(pid));
    snprintf(end, sizeof(end), "20 1 %0200d\n", 0);
    write_map(pid, "10 1 a\n", USER);
    append(pid, end);
    assert_named(pid, 0x10, "a");
    write_map(7, "10 1 b\n", USER);
    append(7, end);
    assert_int_equal(rename(map_path(7), path), 0);
    now_ns += PERF_MAPS_AGE_NS;
    assert_named(pid, 0x10, "b");
    stop(pid);
}

/* A process without one is looked at ever more rarely. */
static void test_absent(void **state)
{
    (void)state;
    pid_t pid = start_user();
    assert_named(pid, 0x10, NULL);
    write_map(pid, "10 1 late\n", USER);
    now_ns += PERF_MAPS_AGE_NS - 1;
    assert_named(pid, 0x10, NULL);
    now_ns += 1;
    assert_named(pid, 0x10, "late");
    assert_int_equal(unlink(map_path(pid)), 0);
    for (int i = 0; i < 20; i++) {
        now_ns += PERF_MAPS_ABSENT_NS;
        assert_named(pid, 0x10, NULL);
    }
    write_map(pid, "10 1 again\n", USER);
    now_ns += PERF_MAPS_ABSENT_NS - 1;
    assert_named(pid, 0x10, NULL);
    now_ns += 1;
    assert_named(pid, 0x10, "again");
    stop(pid);
}

/* ---- limits ---- */

static void make_big(pid_t pid, size_t size)
{
    char line[] = "20 1 filler................................................\n";
    FILE *file = fopen(map_path(pid), "ae");
    assert_non_null(file);
    for (size_t at = 0; at < size; at += sizeof(line) - 1)
        assert_true(fputs(line, file) >= 0);
    assert_true(fputs("10 1 new\n", file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* No name before the last line is read: it may be another by then. */
static void test_steps(void **state)
{
    (void)state;
    pid_t pid = start_user();
    int64_t behind = not_read("too_much");
    write_map(pid, "10 1 old\n", USER);
    make_big(pid, PERF_MAPS_STEP_BYTES * 5 / 2);
    for (int i = 0; i < 2; i++) {
        assert_named(pid, 0x10, NULL);
        assert_null(perf_maps_get(&maps, user_of((uint32_t)pid), now_ns));
        now_ns += PERF_MAPS_RETRY_NS;
    }
    assert_named(pid, 0x10, "new");
    assert_int_equal(not_read("too_much") - behind, 2);
    stop(pid);
}

/* What a tenant may have read in a second, after which others may have theirs read. */
static void test_rate(void **state)
{
    (void)state;
    pid_t pid = start_user(), own = start_user(), other = start_user();
    write_map(own, "10 1 own\n", USER);
    assert_named(own, 0x10, "own");
    write_map(pid, "", USER);
    make_big(pid, PERF_MAPS_STEP_BYTES - 2 * PERF_MAPS_LINE_BYTES);
    size_t n = 0;
    for (; perf_maps_get(&maps, user_of((uint32_t)pid), now_ns); n++) {
        assert_true(n < 100);
        perf_maps_forget(&maps, (uint32_t)pid);
    }
    const size_t all = PERF_MAPS_RATE_BYTES / PERF_MAPS_STEP_BYTES;
    assert_in_range(n, all * 4 / 5, all * 4 / 5 + 2);
    /* The others of its tenant keep their names, unless there is something new to be read. */
    now_ns += PERF_MAPS_AGE_NS;
    assert_named(own, 0x10, "own");
    append(own, "20 1 more\n");
    now_ns += PERF_MAPS_RETRY_NS;
    assert_named(own, 0x20, NULL);
    assert_named(own, 0x10, NULL);
    tenant = 1;
    write_map(other, "10 1 other\n", USER);
    assert_named(other, 0x10, "other");
    tenant = 0;
    now_ns += NS_PER_SEC;
    assert_named(own, 0x10, "own");
    assert_named(own, 0x20, "more");
    assert_named(pid, 0x10, "new");
    stop(other);
    stop(own);
    stop(pid);
}

static void test_end_of_long_file(void **state)
{
    (void)state;
    pid_t pid = start_user();
    int64_t cut = stats_find("spanprof_perf_maps_cut_total", "");
    write_map(pid, "10 1 beginning\n", USER);
    assert_int_equal(truncate(map_path(pid), 2 * (off_t)PERF_MAPS_FILE_BYTES), 0); /* a hole */
    append(pid, "\n20 1 end\n");
    for (int i = 0; i < 200 && !perf_maps_get(&maps, user_of((uint32_t)pid), now_ns); i++)
        now_ns += PERF_MAPS_RETRY_NS;
    assert_named(pid, 0x20, "end");
    assert_named(pid, 0x10, NULL);
    assert_int_equal(stats_find("spanprof_perf_maps_cut_total", "") - cut, 1);
    stop(pid);
}

static void test_long_lines(void **state)
{
    (void)state;
    static char text[3 * PERF_MAPS_LINE_BYTES + 64] = "10 1 ";
    pid_t pid = start_user();
    memset(text + 5, 'n', sizeof(text) - 64);
    strcat(text, "\n20 1 next\n");
    int64_t before = stats_find("spanprof_perf_map_lines_left_out_total", "reason=\"too_long\"");
    write_map(pid, text, USER);
    assert_named(pid, 0x20, "next");
    assert_named(pid, 0x10, NULL);
    assert_int_equal(
        stats_find("spanprof_perf_map_lines_left_out_total", "reason=\"too_long\"") - before, 1);
    stop(pid);
}

/* Of the tenant that has too many. */
static void test_longest_unused_goes(void **state)
{
    enum { N_FLOOD = 2 * PERF_MAPS_MAX };
    (void)state;
    pid_t a = start_user(), b = start_user();
    int64_t evicted = stats_find("spanprof_perf_maps_evicted_total", "");
    write_map(a, "10 1 a\n", USER);
    write_map(b, "10 1 b\n20 1 b\n", USER);
    tenant = 1;
    assert_named(a, 0x10, "a");
    tenant = 0;
    assert_named(b, 0x10, "b");
    for (uint32_t pid = 1u << 30; pid < (1u << 30) + N_FLOOD; pid++)
        assert_null(perf_maps_get(&maps, user_of(pid), now_ns));
    const size_t count = maps.by_pid.count;
    assert_in_range(count, PERF_MAPS_MAX * 4 / 5, PERF_MAPS_MAX);
    assert_int_equal(stats_find("spanprof_perf_maps_evicted_total", "") - evicted,
                     N_FLOOD + 2 - count);
    assert_int_equal(stats_find("spanprof_perf_map_bytes", ""), (int64_t)maps.bytes);
    assert_true(maps.bytes > 0);
    perf_maps_forget(&maps, (uint32_t)b); /* it is gone */
    assert_int_equal(maps.by_pid.count, count);
    perf_maps_forget(&maps, (uint32_t)a);
    assert_int_equal(maps.by_pid.count, count - 1);
    assert_int_equal(maps.bytes, 0);
    stop(a);
    stop(b);
}

/* As the symbolizer runs: another user, with a few capabilities. */
static void test_as_symbolizer(void **state)
{
    (void)state;
    pid_t pid = start_user();
    write_map(pid, "10 1 name\n", USER);
    assert_int_equal(chmod(map_path(pid), 0600), 0);
    pid_t symbolizer = fork();
    if (symbolizer == 0) {
        struct privileges rights = {.uid = OTHER,
                                    .gid = OTHER,
                                    .keep =
                                        PRIVILEGE(CAP_SYS_PTRACE) | PRIVILEGE(CAP_DAC_READ_SEARCH)};
        if (privileges_drop(&rights))
            _exit(2);
        struct perf_map_range range;
        bool found = perf_maps_find(&maps, user_of((uint32_t)pid), now_ns, 0x10, &range);
        _exit(found && strcmp(range.name, "name") == 0 ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(symbolizer, &status, 0), symbolizer);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    stop(pid);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    reader_rig_attach();
    const struct CMUnitTest tests[] = {
        TEST(test_own_root),
        TEST(test_own_pid_namespace),
        TEST(test_owners),
        TEST(test_not_a_file),
        TEST(test_fuse),
        TEST(test_from_before),
        TEST(test_appended),
        TEST(test_written_anew),
        TEST(test_same_end),
        TEST(test_absent),
        TEST(test_steps),
        TEST(test_rate),
        TEST(test_end_of_long_file),
        TEST(test_long_lines),
        TEST(test_longest_unused_goes),
        TEST(test_as_symbolizer),
    };
    if (geteuid()) {
        printf("skipped: needs root\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
