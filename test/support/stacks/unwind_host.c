/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unwind_host SCENARIO: brings its stack into a known form and stops at a breakpoint instruction,
 * where the test (its tracer) unwinds it. Built with several compilers, libraries and levels of
 * optimization, without frame pointers. x86-64.
 */
#include "test/support/stacks/unwind_host.h"
#include <alloca.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define OWN_FUNCTION __attribute__((noinline, noclone))
#ifdef __clang__
#undef OWN_FUNCTION
#define OWN_FUNCTION __attribute__((noinline))
#endif
#define BREAKPOINT() __asm__ volatile("int3" ::: "memory")

static volatile int sum; /* added to behind each call, so that none becomes a jump */

OWN_FUNCTION static void stop_here(void)
{
    BREAKPOINT();
    sum++;
}

OWN_FUNCTION static void descend(int depth)
{
    if (depth > 1)
        descend(depth - 1);
    else
        stop_here();
    sum++;
}

OWN_FUNCTION static void recursion(void)
{
    descend(300);
    sum++;
}

OWN_FUNCTION static void too_deep(void)
{
    descend(600);
    sum++;
}

OWN_FUNCTION static void with_alloca(size_t size)
{
    volatile char *room = alloca(size);
    room[size - 1] = 1;
    stop_here();
    sum += room[size - 1];
}

/* The stack pointer is aligned anew: the CFA is kept in a word of the frame. */
OWN_FUNCTION static void with_aligned(size_t size)
{
    volatile char aligned[64] __attribute__((aligned(64)));
    volatile char *room = alloca(size);
    aligned[size % 64] = room[size - 1] = 1;
    with_alloca(size);
    sum += aligned[size % 64] + room[size - 1];
}

OWN_FUNCTION static void moving_stack(void)
{
    with_aligned((size_t)sum + 1000);
    sum++;
}

/* ---- signals ---- */

static void on_signal(int signal)
{
    stop_here();
    sum += signal;
}

OWN_FUNCTION static void interrupted(void)
{
    __asm__ volatile("ud2" ::: "memory");
    sum++;
}

static void handle(int flags)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = flags};
    sigaction(SIGILL, &action, NULL);
}

OWN_FUNCTION static void in_handler(void)
{
    handle(0);
    interrupted();
    sum++;
}

OWN_FUNCTION static void in_handler_on_other_stack(void)
{
    static char room[65536];
    char *own = alloca(sizeof(room)); /* within the stack that the test copies */
    memset(own, 0, sizeof(room));
    sigaltstack(&(stack_t){.ss_sp = own, .ss_size = sizeof(room)}, NULL);
    handle(SA_ONSTACK);
    interrupted();
    sum++;
}

/* ---- calls ---- */

OWN_FUNCTION static void tail_called(int n)
{
    stop_here();
    sum += n;
}

OWN_FUNCTION static void tail_caller(int n)
{
    sum++;
    tail_called(n + 1);
}

OWN_FUNCTION static void tail_call(void)
{
    tail_caller(1);
    sum++;
}

OWN_FUNCTION static int compare(const void *a, const void *b)
{
    stop_here();
    return *(const int *)a - *(const int *)b;
}

OWN_FUNCTION static void through_library(void)
{
    int numbers[] = {2, 1};
    qsort(numbers, 2, sizeof(*numbers), compare);
    sum += numbers[0];
}

OWN_FUNCTION static void through_no_info(void)
{
    without_unwind_info(stop_here);
    sum++;
}

/* Every instruction from the first breakpoint to the second: bound lazily, so through the PLT and
 * the dynamic linker, then directly. */
OWN_FUNCTION static void every_instruction(void)
{
    BREAKPOINT();
    for (int i = 0; i < 2; i++) {
        sum += (int)strtol("12", NULL, 10);
        free(malloc(100));
    }
    BREAKPOINT();
    sum++;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } scenarios[] = {
        {"recursion", recursion},
        {"too_deep", too_deep},
        {"moving_stack", moving_stack},
        {"in_handler", in_handler},
        {"in_handler_on_other_stack", in_handler_on_other_stack},
        {"tail_call", tail_call},
        {"through_library", through_library},
        {"through_no_info", through_no_info},
        {"every_instruction", every_instruction},
    };
    for (size_t i = 0; i < sizeof(scenarios) / sizeof(*scenarios); i++)
        if (argc > 1 && !strcmp(argv[1], scenarios[i].name))
            scenarios[i].run();
    return sum ? 0 : 1;
}
