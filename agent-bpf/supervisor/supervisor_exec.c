/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SIGTERM is ignored by children: service managers and terminals signal the whole group, and the
 * service is to drain when the supervisor says so.
 *
 * The environment may hold secrets that the configuration refers to (${env:TOKEN}). Only the
 * process that reads the configuration gets all of it; the others get what libraries and tests
 * read.
 */
#include "agent-bpf/supervisor/supervisor_exec.h"
#include "agent-bpf/supervisor/role_message.h"
#include "agent-bpf/supervisor/supervisor.h"
#include "base/fd.h"
#include "base/log.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ENVIRONMENT_MAX 64
#define OOM_SCORE       -900 /* as in packaging/spanprof.service */

static void reset_signals(void)
{
    static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
    sigset_t none;
    for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
        signal(ignored[i], SIG_IGN);
    signal(SIGCHLD, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* A change of ids clears it, so it is set twice. */
static int die_with(pid_t supervisor)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
        return -errno;
    return getppid() == supervisor ? 0 : -ESRCH;
}

/* Closes all others on exec. With as_started, descriptors that the supervisor inherited stay open;
 * its own are CLOEXEC. */
static int keep_open(const struct supervisor_exec *to)
{
    if (!to->as_started &&
        syscall(SYS_close_range, STDERR_FILENO + 1, ~0u, CLOSE_RANGE_CLOEXEC) < 0)
        return -errno;
    int error = fcntl(to->message_fd, F_SETFD, 0) < 0 ? -errno : 0;
    for (size_t i = 0; !error && i < to->n_fds; i++)
        if (to->fds[i] > STDERR_FILENO && fcntl(to->fds[i], F_SETFD, 0) < 0)
            error = -errno;
    return error;
}

static char children_oom_score[16]; /* "" = as the supervisor's */

static bool oom_score_write(const char *score)
{
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    bool written = fd >= 0 && write(fd, score, strlen(score)) > 0;
    if (fd >= 0)
        close(fd);
    return written;
}

/* A unit that has given us the score has given it to the children as well. To raise it takes no
 * right. */
void supervisor_outlive_children(void)
{
    char own[sizeof(children_oom_score)], score[sizeof(children_oom_score)];
    _cleanup_fd_ int fd =
        *children_oom_score ? -1 : open("/proc/self/oom_score_adj", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, own, sizeof(own) - 1) : 0;
    if (n <= 0)
        return;
    own[n] = '\0';
    snprintf(score, sizeof(score), "%d", OOM_SCORE);
    bool is_set = atoi(own) <= OOM_SCORE;
    if (is_set || oom_score_write(score))
        snprintf(children_oom_score, sizeof(children_oom_score), "%s", is_set ? "0" : own);
}

static int prepare(const struct supervisor_exec *to, pid_t supervisor)
{
    reset_signals();
    if (*children_oom_score)
        (void)oom_score_write(children_oom_score);
    int error = to->detached ? 0 : die_with(supervisor);
    if (!error)
        error = keep_open(to);
    if (!error && to->without_network)
        (void)unshare(CLONE_NEWNET); /* a second wall: it may lack the right to it */
    if (!error)
        error = privileges_drop(&to->rights);
    if (!error)
        error = privileges_keep_over_exec();
    return error || to->detached ? error : die_with(supervisor);
}

static bool is_for_libraries(const char *variable)
{
    static const char *const names[] = {"PATH=",
                                        "TZ=",
                                        "TZDIR=",
                                        "TMPDIR=",
                                        "LANG=",
                                        "LC_",
                                        "LD_",
                                        "ASAN_OPTIONS=",
                                        "LSAN_OPTIONS=",
                                        "TSAN_OPTIONS=",
                                        "UBSAN_OPTIONS=",
                                        "LOCALDOMAIN=",
                                        "RES_OPTIONS=",
                                        "SSL_CERT_",
                                        "GNUTLS_",
                                        "SPANPROF_TEST_",
                                        "SPANPROF_BENCH_"};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (strncmp(variable, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

static void make_environment(char *environment[ENVIRONMENT_MAX + 1])
{
    size_t n = 0;
    for (char **variable = environ; *variable && n < ENVIRONMENT_MAX; variable++)
        if (is_for_libraries(*variable))
            environment[n++] = *variable;
    environment[n] = NULL;
}

static int execute(const struct supervisor_exec *to)
{
    char argument[64], *environment[ENVIRONMENT_MAX + 1];
    snprintf(argument, sizeof(argument), ROLE_ARGUMENT "%s:%d", role_names[to->role],
             to->message_fd);
    char *const arguments[] = {(char *)"spanprof", argument, NULL};
    make_environment(environment);
    syscall(SYS_execveat, to->program_fd, "", arguments, to->as_started ? environ : environment,
            AT_EMPTY_PATH);
    return -errno;
}

int supervisor_program_open(void)
{
    int fd = open("/proc/self/exe", O_PATH | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* 0 in a process whose parent has ended; the caller's own child ends at once. */
static pid_t fork_detached(void)
{
    pid_t between = fork();
    if (between < 0)
        return between;
    if (between == 0) {
        pid_t pid = fork();
        if (pid != 0)
            _exit(pid < 0);
        return 0;
    }
    while (waitpid(between, NULL, 0) < 0 && errno == EINTR)
        ;
    return between;
}

pid_t supervisor_exec(const struct supervisor_exec *to)
{
    pid_t supervisor = getpid();
    assert(to->program_fd >= 0);
    fflush(NULL);
    pid_t pid = to->detached ? fork_detached() : fork();
    if (pid != 0)
        return pid < 0 ? -errno : to->detached ? 0 : pid;
    log_set_process(role_names[to->role]);
    int error = prepare(to, supervisor);
    if (error)
        log_error("supervisor", "cannot drop rights: %s", strerror(-error));
    else
        log_error("supervisor", "cannot execute the program again: %s", strerror(-execute(to)));
    _exit(SERVICE_EXIT_FATAL);
}
