/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Rows that tables of system calls have in common: what the C library makes for any program of this
 * project, whatever it does. Where an architecture lacks the older form of a call, the newer one
 * takes its place.
 */
#include "sandbox/sandbox.h"
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>

/* Memory, none of it executable. A library that is loaded later is refused: the resolver does
 * without. */
#define CALLS_OF_MEMORY                                                                            \
    SANDBOX_CALL(brk), SANDBOX_CALL(munmap), SANDBOX_CALL(mremap), SANDBOX_CALL(madvise),          \
        SANDBOX_CALL_IF(mmap, 2, PROT_EXEC, 0), SANDBOX_CALL_FAILS(mmap, EACCES),                  \
        SANDBOX_CALL_IF(mprotect, 2, PROT_EXEC, 0), SANDBOX_CALL_FAILS(mprotect, EACCES)

/* Time, signals, the end; no other process is reached. */
#define CALLS_OF_PROCESS                                                                           \
    SANDBOX_CALL(clock_gettime), SANDBOX_CALL(clock_getres), SANDBOX_CALL(clock_nanosleep),        \
        SANDBOX_CALL(nanosleep), SANDBOX_CALL(gettimeofday), SANDBOX_CALL(getrandom),              \
        SANDBOX_CALL(rt_sigaction), SANDBOX_CALL(rt_sigprocmask), SANDBOX_CALL(rt_sigreturn),      \
        SANDBOX_CALL(sigaltstack), SANDBOX_CALL(restart_syscall), SANDBOX_CALL(exit),              \
        SANDBOX_CALL(exit_group), SANDBOX_CALL_SELF(tgkill), SANDBOX_CALL(getpid),                 \
        SANDBOX_CALL(getppid), SANDBOX_CALL(gettid), SANDBOX_CALL(getuid), SANDBOX_CALL(geteuid),  \
        SANDBOX_CALL(getgid), SANDBOX_CALL(getegid), SANDBOX_CALL(uname), SANDBOX_CALL(sysinfo),   \
        SANDBOX_CALL(getrusage), SANDBOX_CALL(sched_yield), SANDBOX_CALL(sched_getaffinity),       \
        SANDBOX_CALL_IS(prlimit64, 0, 0), SANDBOX_CALL_IS(prctl, 0, PR_SET_NAME),                  \
        SANDBOX_CALL_FAILS(prctl, EINVAL), SANDBOX_CALL(futex), SANDBOX_CALL(set_robust_list),     \
        SANDBOX_CALL(rseq), SANDBOX_CALL(membarrier)

/* Threads, but no other processes: clone3() hides its flags, and the C library then uses clone().
 */
#define CALLS_OF_THREADS                                                                           \
    SANDBOX_CALL_FAILS(clone3, ENOSYS), SANDBOX_CALL_IF(clone, 0, CLONE_THREAD, CLONE_THREAD)

#define CALLS_OF_DESCRIPTORS                                                                       \
    SANDBOX_CALL(read), SANDBOX_CALL(readv), SANDBOX_CALL(pread64), SANDBOX_CALL(write),           \
        SANDBOX_CALL(writev), SANDBOX_CALL(lseek), SANDBOX_CALL(close), SANDBOX_CALL(fstat),       \
        SANDBOX_CALL(newfstatat), SANDBOX_CALL(statx), SANDBOX_CALL(fstatfs), SANDBOX_CALL(dup),   \
        SANDBOX_CALL(dup3), SANDBOX_CALL(ppoll), SANDBOX_CALL(epoll_create1),                      \
        SANDBOX_CALL(epoll_ctl), SANDBOX_CALL(epoll_pwait), SANDBOX_CALL(eventfd2),                \
        SANDBOX_CALL_IS(fcntl, 1, F_DUPFD_CLOEXEC), SANDBOX_CALL_IS(fcntl, 1, F_GETFD),            \
        SANDBOX_CALL_IS(fcntl, 1, F_SETFD), SANDBOX_CALL_IS(fcntl, 1, F_GETFL),                    \
        SANDBOX_CALL_IS(fcntl, 1, F_SETFL), SANDBOX_CALL_IS(fcntl, 1, F_GET_SEALS),                \
        SANDBOX_CALL_IS(fcntl, 1, F_ADD_SEALS) CALLS_OF_DESCRIPTORS_X86

#define CALLS_OF_MESSAGES                                                                          \
    SANDBOX_CALL(sendmsg), SANDBOX_CALL(sendto), SANDBOX_CALL(recvmsg), SANDBOX_CALL(recvfrom),    \
        SANDBOX_CALL(getsockopt), SANDBOX_CALL(setsockopt), SANDBOX_CALL(shutdown)

#ifdef __x86_64__
#define CALLS_OF_DESCRIPTORS_X86                                                                   \
    , SANDBOX_CALL(poll), SANDBOX_CALL(epoll_wait), SANDBOX_CALL(time), SANDBOX_CALL(dup2),        \
        SANDBOX_CALL(stat), SANDBOX_CALL(lstat)
#else
#define CALLS_OF_DESCRIPTORS_X86
#endif
