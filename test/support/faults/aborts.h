/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Shows that an assertion fires: the call is made in a child process, which must die of it. */
#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* True if call(context) ends its process by SIGABRT; false if it returns or ends in another way. */
static inline bool aborts(void (*call)(void *context), void *context)
{
    int status = 0;
    pid_t child = fork();
    if (!child) {
        const struct rlimit no_core = {0};
        setrlimit(RLIMIT_CORE, &no_core);
        signal(SIGABRT, SIG_DFL); /* cmocka catches it */
        close(STDERR_FILENO);
        call(context);
        _exit(0);
    }
    return child > 0 && waitpid(child, &status, 0) == child && WIFSIGNALED(status) &&
           WTERMSIG(status) == SIGABRT;
}
