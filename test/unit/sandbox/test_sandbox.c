/* SPDX-License-Identifier: Apache-2.0 */
/* The mechanism itself, in a child for each case. What each process's own table allows is tested
 * with the whole program: integration.sandbox. */
#include "sandbox/calls.h"
#include "test/support/fixtures/skip.h"
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static const struct sandbox_call calls[] = {
    CALLS_OF_MEMORY,
    CALLS_OF_PROCESS,
    CALLS_OF_DESCRIPTORS,
    SANDBOX_CALL(openat),
    SANDBOX_CALL(connect),
    SANDBOX_CALL(fchmod),
    SANDBOX_CALL_IS(socket, 0, AF_UNIX),
    SANDBOX_CALL_IS(socket, 0, AF_INET),
    SANDBOX_CALL_FAILS(socket, EAFNOSUPPORT),
};

static char text[4096]; /* what the child wrote to stderr */
static char directory[] = "/tmp/spanprof-sandbox-XXXXXX";

/* Exit code of a child that calls this with the table; -1: ended by a signal. */
static int in_child(int (*run)(void))
{
    int fds[2], status;
    size_t len = 0;
    ssize_t n;
    assert_int_equal(pipe(fds), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(fds[1], STDERR_FILENO);
        close(fds[0]);
        close(fds[1]);
        _exit(sandbox_calls(calls, sizeof(calls) / sizeof(*calls)) ? 99 : run());
    }
    close(fds[1]);
    while ((n = read(fds[0], text + len, sizeof(text) - 1 - len)) > 0)
        len += (size_t)n;
    text[len] = '\0';
    close(fds[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int does_what_it_may(void)
{
    char *memory = malloc(1 << 20);
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    bool ok = memory && fd >= 0 && socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) >= 0 &&
              socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) >= 0;
    free(memory);
    return ok ? 7 : 8;
}

static void test_allowed(void **state)
{
    (void)state;
    assert_int_equal(in_child(does_what_it_may), 7);
    assert_string_equal(text, "");
}

static int makes_a_call(void)
{
    return listen(0, 1) ? 8 : 7;
}

/* It does not return from the call, and the call's name is logged. */
static void test_violation(void **state)
{
    (void)state;
    assert_int_equal(in_child(makes_a_call), EXIT_FAILURE);
    assert_non_null(strstr(text, "may not call listen (number "));
}

static int is_refused(void)
{
    if (socket(AF_PACKET, SOCK_RAW, 0) >= 0 || errno != EAFNOSUPPORT)
        return 8;
    if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED ||
        errno != EACCES)
        return 9;
    return prctl(PR_SET_DUMPABLE, 1) == -1 && errno == EINVAL ? 7 : 10;
}

static void test_refusal(void **state)
{
    (void)state;
    assert_int_equal(in_child(is_refused), 7);
}

static int aborts(void)
{
    abort();
}

static int signals_another(void)
{
    return syscall(SYS_tgkill, getppid(), getppid(), 0) ? 8 : 7;
}

static void test_signals_to_itself_alone(void **state)
{
    (void)state;
    assert_int_equal(in_child(aborts), -1);
    assert_int_equal(in_child(signals_another), EXIT_FAILURE);
    assert_non_null(strstr(text, "may not call tgkill "));
}

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(sandbox_call_name(SYS_openat2), "openat2");
    assert_string_equal(sandbox_call_name(SYS_read), "read");
    assert_null(sandbox_call_name(100000));
}

/* ---- places ---- */

static bool opens(const char *name, int flags)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    int fd = open(path, flags | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static int listening(uint16_t *port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&at, size), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &size), 0);
    *port = ntohs(at.sin_port);
    return fd;
}

static bool connects(uint16_t port)
{
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool ok = connect(fd, (const struct sockaddr *)&to, sizeof(to)) == 0;
    close(fd);
    return ok;
}

/* Bits of what went otherwise than it should. */
static int check_places(uint16_t allowed, uint16_t other)
{
    char rw[64], ro[64];
    enum sandbox_support support;
    snprintf(rw, sizeof(rw), "%s/rw", directory);
    snprintf(ro, sizeof(ro), "%s/ro", directory);
    const struct sandbox_path paths[] = {
        {rw, SANDBOX_WRITE}, {ro, SANDBOX_READ}, {"/nonexistent", SANDBOX_READ}};
    if (sandbox_places(&(struct sandbox_places){paths, 3, &allowed, 1}, &support))
        return 99;
    if (support == SANDBOX_NONE)
        return 77;
    int wrong = !opens("rw/new", O_RDWR | O_CREAT) || !opens("rw/new", O_RDONLY) ? 1 : 0;
    wrong |= !opens("ro/old", O_RDONLY) || opens("ro/old", O_WRONLY) ||
                     opens("ro/new", O_WRONLY | O_CREAT)
                 ? 2
                 : 0;
    wrong |= opens("none/old", O_RDONLY) || opens("none/new", O_WRONLY | O_CREAT) ? 4 : 0;
    if (support == SANDBOX_PATHS_AND_PORTS)
        wrong |= !connects(allowed) || connects(other) ? 8 : 0;
    return wrong;
}

static void test_places(void **state)
{
    static const char *const names[] = {"rw", "ro", "none"};
    char path[64], command[64];
    uint16_t allowed, other;
    int status, fds[2] = {listening(&allowed), listening(&other)};
    (void)state;
    assert_non_null(mkdtemp(directory));
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof(path), "%s/%s", directory, names[i]);
        assert_int_equal(mkdir(path, 0700), 0);
        snprintf(path, sizeof(path), "%s/old", names[i]);
        assert_true(opens(path, O_RDWR | O_CREAT));
    }
    pid_t pid = fork();
    if (pid == 0)
        _exit(check_places(allowed, other));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    snprintf(command, sizeof(command), "rm -r %s", directory);
    assert_int_equal(system(command), 0);
    close(fds[0]);
    close(fds[1]);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip_because("the kernel has no Landlock");
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allowed), cmocka_unit_test(test_violation),
        cmocka_unit_test(test_refusal), cmocka_unit_test(test_signals_to_itself_alone),
        cmocka_unit_test(test_names),   cmocka_unit_test(test_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
