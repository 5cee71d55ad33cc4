/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The filter asks one row after the other. Calls that are always allowed cost nothing: the kernel
 * remembers them by number.
 */
#include "sandbox/sandbox.h"
#include "base/log.h"
#include "base/stats.h"
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

STAT_LOSS(
    violations, "spanprof_sandbox_violations_total",
    "System calls that a process of spanprof made and may not make: each ended that process.");

#if defined(__x86_64__)
#define SANDBOX_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define SANDBOX_ARCH AUDIT_ARCH_AARCH64
#else
#error "no system calls of this architecture are known"
#endif

#define ROW_STEPS           6
#define SECCOMP_AT(field)   ((uint32_t)offsetof(struct seccomp_data, field))
#define ARGUMENT_AT(n)      (SECCOMP_AT(args) + 8 * (n)) /* its lower half: little-endian */
#define STEP(code, k)       ((struct sock_filter)BPF_STMT(code, k))
#define STEP_IF(k, yes, no) ((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, k, yes, no))
#define LOAD(at)            STEP(BPF_LD | BPF_W | BPF_ABS, at)
#define RETURN(action)      STEP(BPF_RET | BPF_K, action)

struct filter {
    struct sock_filter *steps;
    size_t n;
};

static void filter_add(struct filter *filter, struct sock_filter step)
{
    filter->steps[filter->n++] = step;
}

/* Another call goes on with the next row. */
static void filter_add_row(struct filter *filter, const struct sandbox_call *call)
{
    bool is_self = call->rule == SANDBOX_ALLOW_IF && !call->mask && call->value;
    if (call->rule != SANDBOX_ALLOW_IF) {
        filter_add(filter, STEP_IF(call->number, 0, 1));
        filter_add(filter, RETURN(call->rule == SANDBOX_ALLOW
                                      ? SECCOMP_RET_ALLOW
                                      : SECCOMP_RET_ERRNO | (call->value & SECCOMP_RET_DATA)));
        return;
    }
    filter_add(filter, STEP_IF(call->number, 0, 5));
    filter_add(filter, LOAD(ARGUMENT_AT(call->argument)));
    filter_add(filter, STEP(BPF_ALU | BPF_AND | BPF_K, is_self ? UINT32_MAX : call->mask));
    filter_add(filter, STEP_IF(is_self ? (uint32_t)getpid() : call->value, 0, 1));
    filter_add(filter, RETURN(SECCOMP_RET_ALLOW));
    filter_add(filter, LOAD(SECCOMP_AT(nr)));
}

static int filter_make(const struct sandbox_call *calls, size_t n, struct filter *filter)
{
    filter->n = 0;
    filter->steps = calloc(n * ROW_STEPS + 5, sizeof(*filter->steps));
    if (!filter->steps)
        return -ENOMEM;
    filter_add(filter, LOAD(SECCOMP_AT(arch)));
    filter_add(filter, STEP_IF(SANDBOX_ARCH, 1, 0));
    filter_add(filter, RETURN(SECCOMP_RET_KILL_PROCESS));
    filter_add(filter, LOAD(SECCOMP_AT(nr)));
    for (size_t i = 0; i < n; i++)
        filter_add_row(filter, &calls[i]);
    filter_add(filter, RETURN(SECCOMP_RET_TRAP));
    return 0;
}

/* The thread was about to make a call, so it holds no lock that logging takes. */
static void on_violation(int number, siginfo_t *info, void *context)
{
    const char *name = sandbox_call_name((uint32_t)info->si_syscall);
    (void)number, (void)context;
    stat_add(&violations, 1);
    log_error("sandbox", "ending: this process may not call %s (number %d)", name ? name : "?",
              info->si_syscall);
    _exit(EXIT_FAILURE);
}

/* A log's first time of day has the C library open the time zone, with a lock held. */
static int handle_violations(void)
{
    tzset();
    struct sigaction action = {.sa_sigaction = on_violation, .sa_flags = SA_SIGINFO | SA_NODEFER};
    return sigaction(SIGSYS, &action, NULL) < 0 ? -errno : 0;
}

int sandbox_calls(const struct sandbox_call *calls, size_t n)
{
    struct filter filter;
    int error = handle_violations();
    if (!error)
        error = filter_make(calls, n, &filter);
    if (error)
        return error;
    struct sock_fprog program = {.len = (unsigned short)filter.n, .filter = filter.steps};
#ifdef SANDBOX_OFF
    (void)program;
#else
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) < 0)
        error = -errno;
#endif
    free(filter.steps);
    return error;
}

struct call_name {
    uint32_t number;
    const char *name;
};

static const struct call_name call_names[] = {
#include "syscall_names.inc"
};

const char *sandbox_call_name(uint32_t number)
{
    for (size_t i = 0; i < sizeof(call_names) / sizeof(*call_names); i++)
        if (call_names[i].number == number)
            return call_names[i].name;
    return NULL;
}
