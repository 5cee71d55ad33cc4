/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor has rights, so its filter takes away calls that it has no use for: ptrace(),
 * mounts, modules, clocks, files by handle. Children inherit it, and add their own.
 */
#include "service/supervisor_sandbox.h"
#include "sandbox/break_out.h"
#include "sandbox/calls.h"
#include <stdlib.h>
#include <string.h>

static const struct sandbox_call calls[] = {
    /* the start of a program, and its threads */
    SANDBOX_CALL_FAILS(clone3, ENOSYS),
    SANDBOX_CALL(clone),
    SANDBOX_CALL(execveat),
    SANDBOX_CALL(mmap),
    SANDBOX_CALL(mprotect),
    SANDBOX_CALL(set_tid_address),
    SANDBOX_CALL(close_range),
    SANDBOX_CALL(umask),
    /* children */
    SANDBOX_CALL(wait4),
    SANDBOX_CALL(waitid),
    SANDBOX_CALL(pidfd_open),
    SANDBOX_CALL(kill),
    SANDBOX_CALL(tgkill),
    SANDBOX_CALL(signalfd4),
    SANDBOX_CALL(prctl),
    SANDBOX_CALL(prlimit64),
    SANDBOX_CALL(setitimer),
    SANDBOX_CALL(unshare),
    SANDBOX_CALL(seccomp),
    SANDBOX_CALL(landlock_create_ruleset),
    SANDBOX_CALL(landlock_add_rule),
    SANDBOX_CALL(landlock_restrict_self),
    /* rights */
    SANDBOX_CALL(capget),
    SANDBOX_CALL(capset),
    SANDBOX_CALL(getresuid),
    SANDBOX_CALL(getresgid),
    SANDBOX_CALL(setresuid),
    SANDBOX_CALL(setresgid),
    SANDBOX_CALL(getgroups),
    SANDBOX_CALL(setgroups),
    SANDBOX_CALL(setfsuid),
    SANDBOX_CALL(setfsgid),
    /* BPF and perf events */
    SANDBOX_CALL(bpf),
    SANDBOX_CALL(perf_event_open),
    SANDBOX_CALL(ioctl),
    SANDBOX_CALL(name_to_handle_at),
    SANDBOX_CALL(sched_setaffinity),
    /* sockets, and the store's directory */
    SANDBOX_CALL(socket),
    SANDBOX_CALL(bind),
    SANDBOX_CALL(listen),
    SANDBOX_CALL(fcntl),
    SANDBOX_CALL(fchmodat),
    SANDBOX_CALL(fchownat),
    SANDBOX_CALL(memfd_create),
    SANDBOX_CALL(pipe2),
#ifdef __x86_64__
    SANDBOX_CALL(alarm),
    SANDBOX_CALL(arch_prctl),
    SANDBOX_CALL(chmod),
    SANDBOX_CALL(fork),
    SANDBOX_CALL(getpgrp),
#endif
};

#define OWN (sizeof(calls) / sizeof(*calls))

/* Whatever the condition of a child's row is, this process may make the call. */
static void add_calls_of(struct sandbox_call *all, size_t *n, const struct sandbox_table *table)
{
    for (size_t i = 0; i < table->n; i++)
        if (table->calls[i].rule != SANDBOX_REFUSE)
            all[(*n)++] =
                (struct sandbox_call){.number = table->calls[i].number, .rule = SANDBOX_ALLOW};
}

int supervisor_sandbox_enter(void)
{
    static const struct sandbox_table *const tables[] = {&service_calls, &symbolizer_calls,
                                                         &reader_calls,  &broker_calls,
                                                         &config_calls,  &names_calls};
    size_t n = OWN, most = OWN;
    for (size_t i = 0; i < sizeof(tables) / sizeof(*tables); i++)
        most += tables[i]->n;
    struct sandbox_call *all = calloc(most, sizeof(*all));
    if (!all)
        return -ENOMEM;
    memcpy(all, calls, sizeof(calls));
    for (size_t i = 0; i < sizeof(tables) / sizeof(*tables); i++)
        add_calls_of(all, &n, tables[i]);
    int error = sandbox_calls(all, n);
    free(all);
    if (!error)
        sandbox_break_out("supervisor");
    return error;
}
