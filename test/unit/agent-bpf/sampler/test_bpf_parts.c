/* SPDX-License-Identifier: Apache-2.0 */
/* The small parts around the sampler that need neither root nor BPF: CPU lists, exited_leaders,
 * control.
 */
#include "agent-bpf/control.h"
#include "agent-bpf/sampler/cpus.h"
#include "agent-bpf/drain/exited_leaders.h"
#include "agent-bpf/supervisor/privileges.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void test_cpu_lists(void **state)
{
    struct cpus cpus;
    (void)state;
    assert_int_equal(cpus_parse("0-2,7,64-65\n", &cpus), 0);
    for (uint32_t cpu = 0; cpu < 100; cpu++)
        assert_int_equal(cpus_has(&cpus, cpu), cpu <= 2 || cpu == 7 || cpu == 64 || cpu == 65);
    assert_int_equal(cpus_parse("", &cpus), 0);
    assert_false(cpus_has(&cpus, 0));
    assert_int_equal(cpus_parse("4095", &cpus), 0);
    assert_true(cpus_has(&cpus, 4095));
    assert_false(cpus_has(&cpus, 4096));
    static const char *const bad[] = {"4096", "3-1", "1-",   "-1",
                                      "a",    "1 2", "1,,2", "99999999999999999999"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(cpus_parse(bad[i], &cpus), -EINVAL);
}

static void test_this_machine_has_a_cpu(void **state)
{
    struct cpus cpus;
    (void)state;
    assert_int_equal(cpus_online(&cpus), 0);
    uint64_t any = 0;
    for (size_t i = 0; i < CPUS_MAX / 64; i++)
        any |= cpus.bits[i];
    assert_true(any != 0);
}

static void test_exited_leaders_keep_what_lives(void **state)
{
    static struct exited_leaders exited_leaders;
    uint32_t cursor = 0;
    (void)state;
    pid_t lives = fork(), ends = fork();
    if (lives == 0 || ends == 0) {
        if (ends == 0)
            _exit(0);
        pause();
        _exit(0);
    }
    exited_leaders_init(&exited_leaders);
    assert_int_equal(exited_leaders_add(&exited_leaders, (uint32_t)lives), 0);
    assert_int_equal(exited_leaders_add(&exited_leaders, (uint32_t)ends), 0);
    assert_int_equal(exited_leaders_add(&exited_leaders, (uint32_t)ends), 0);
    assert_int_equal(exited_leaders.count, 2);
    siginfo_t info; /* a zombie is not gone */
    assert_int_equal(waitid(P_PID, (id_t)ends, &info, WEXITED | WNOWAIT), 0);
    assert_int_equal(exited_leaders_next_gone(&exited_leaders, &cursor), 0);
    waitpid(ends, NULL, 0);
    cursor = 0;
    assert_int_equal(exited_leaders_next_gone(&exited_leaders, &cursor), ends);
    assert_int_equal(exited_leaders_next_gone(&exited_leaders, &cursor), 0);
    assert_int_equal(exited_leaders.count, 1);
    kill(lives, SIGKILL);
    waitpid(lives, NULL, 0);
    assert_true(exited_leaders_remove(&exited_leaders, (uint32_t)lives));
    assert_false(exited_leaders_remove(&exited_leaders, (uint32_t)lives));
}

static void test_exited_leaders_are_bounded(void **state)
{
    static struct exited_leaders exited_leaders;
    (void)state;
    exited_leaders_init(&exited_leaders);
    for (uint32_t i = 1; i <= EXITED_LEADERS_MAX; i++)
        assert_int_equal(exited_leaders_add(&exited_leaders, i * 3), 0);
    assert_int_equal(exited_leaders_add(&exited_leaders, 1), EXITED_LEADERS_FULL);
    assert_int_equal(exited_leaders_add(&exited_leaders, 3), 0); /* in already */
    for (uint32_t i = EXITED_LEADERS_MAX; i >= 1; i -= 2)        /* from the end: gaps are filled */
        assert_true(exited_leaders_remove(&exited_leaders, i * 3));
    for (uint32_t i = EXITED_LEADERS_MAX - 1; i >= 1 && i < EXITED_LEADERS_MAX; i -= 2)
        assert_true(exited_leaders_remove(&exited_leaders, i * 3));
    assert_int_equal(exited_leaders.count, 0);
    for (int i = 0; i < EXITED_LEADERS_BUCKETS; i++)
        assert_int_equal(exited_leaders.heads[i], -1);
}

static void test_control_passes_an_fd(void **state)
{
    int fds[2], pipe_fds[2], got = -1;
    struct control_message message = {.kind = CONTROL_CPU_CAME, .cpu = 3, .buffer_size = 8192}, in;
    (void)state;
    assert_int_equal(control_pair(fds), 0);
    assert_int_equal(pipe(pipe_fds), 0);
    assert_int_equal(control_receive(fds[1], &in, &got), CONTROL_NONE);
    assert_int_equal(control_send(fds[0], &message, pipe_fds[1]), 0);
    assert_int_equal(control_receive(fds[1], &in, &got), 0);
    assert_memory_equal(&in, &message, sizeof(in));
    char byte = 0;
    assert_int_equal(write(got, "x", 1), 1);
    assert_int_equal(read(pipe_fds[0], &byte, 1), 1);
    assert_int_equal(byte, 'x');
    assert_int_equal(send(fds[0], "short", 5, 0), 5);
    assert_int_equal(control_receive(fds[1], &in, &got), -EPROTO);
    assert_int_equal(got, -1);
    int r = 0;
    for (int i = 0; i < 100000 && r == 0; i++)
        r = control_send(fds[0], &message, -1);
    assert_int_equal(r, -EAGAIN); /* full: never blocks */
    close(fds[0]);
    while ((r = control_receive(fds[1], &in, &got)) == 0)
        ;
    assert_int_equal(r, CONTROL_CLOSED);
    close(fds[1]);
    close(got >= 0 ? got : pipe_fds[0]);
    close(pipe_fds[1]);
}

static void test_target_account(void **state)
{
    struct privileges to;
    struct stat root;
    (void)state;
    assert_int_equal(privileges_target("no-such-account", "/", &to), -ENOENT);
    assert_int_equal(stat("/", &root), 0);
    assert_int_equal(privileges_target(NULL, "/does/not/exist", &to), 0);
    if (geteuid() == 0 && root.st_uid == 0) {
        assert_int_not_equal(to.uid, 0);
        assert_int_equal(privileges_target("root", "/", &to), PRIVILEGES_OF_ROOT);
    } else if (geteuid() != 0)
        assert_int_equal(to.uid, geteuid());
    assert_int_equal(privileges_target("", "relative/not/there", &to), 0);
    assert_int_equal(to.keep, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cpu_lists),
        cmocka_unit_test(test_this_machine_has_a_cpu),
        cmocka_unit_test(test_exited_leaders_keep_what_lives),
        cmocka_unit_test(test_exited_leaders_are_bounded),
        cmocka_unit_test(test_control_passes_an_fd),
        cmocka_unit_test(test_target_account),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
