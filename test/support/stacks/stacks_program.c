/* SPDX-License-Identifier: Apache-2.0 */
/* What C programs do with stacks. Each mode is a function of its name below main(). */
#include "test/support/stacks/stacks.h"
#include "test/support/stacks/stacks_code.h"
#include "test/support/stacks/unwind_host.h"
#include <alloca.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

static char *const *more; /* arguments of the mode */
static const char *burn_ms;

static void need(bool condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(1);
}

OWN_FRAME static void plain(void)
{
    burn();
    sum++;
}

OWN_FRAME static void descend(int depth)
{
    if (depth > 1)
        descend(depth - 1);
    else
        burn();
    sum++;
}

OWN_FRAME static void recursion(void)
{
    descend(300);
    sum++;
}

OWN_FRAME static void too_deep(void)
{
    descend(1500);
    sum++;
}

/* ---- frames of a size that is known at run time only ---- */

OWN_FRAME static void with_alloca(size_t size)
{
    volatile char *room = alloca(size);
    room[size - 1] = 1;
    burn();
    sum += room[size - 1];
}

OWN_FRAME static void with_array(size_t size)
{
    volatile char room[size];
    room[size - 1] = 1;
    with_alloca(size);
    sum += room[size - 1];
}

/* The stack pointer is aligned anew: the CFA is kept in a word of the frame. */
OWN_FRAME static void with_aligned(size_t size)
{
    volatile char aligned[64] __attribute__((aligned(64)));
    volatile char *room = alloca(size);
    aligned[size % 64] = room[size - 1] = 1;
    with_array(size);
    sum += aligned[size % 64] + room[size - 1];
}

OWN_FRAME static void moving_stack(void)
{
    with_aligned((size_t)(sum & 1) + 1000);
    sum++;
}

/* ---- calls ---- */

OWN_FRAME static void tail_called(int n)
{
    burn();
    sum += n;
}

OWN_FRAME static void tail_caller(int n)
{
    sum++;
    tail_called(n + 1);
}

OWN_FRAME static void tail_call(void)
{
    tail_caller(1);
    sum++;
}

/* Needs no stack at all. */
OWN_FRAME static uint64_t spin(uint64_t x)
{
    for (int i = 0; i < BURN_STEPS; i++)
        __asm__ volatile("" : "+r"(x));
    return x;
}

OWN_FRAME static void spin_long(void)
{
    for (uint64_t end = cpu_ns() + burn_ns; cpu_ns() < end;)
        sum += (int)spin(1);
}

#ifdef __x86_64__
/* Its caller's stack pointer lies in its frame, at a place that r9 tells, as in libcrypto. */
void spin_indexed(uint64_t times);
__asm__(".text\n"
        ".globl spin_indexed\n"
        ".type spin_indexed, @function\n"
        "spin_indexed:\n"
        ".cfi_startproc\n"
        "mov %rsp, %rax\n"
        ".cfi_def_cfa_register rax\n"
        "sub $64, %rsp\n"
        "and $-64, %rsp\n"
        "mov $3, %r9\n"
        "mov %rax, 8(%rsp,%r9,8)\n"
        /* CFA: breg7 (rsp) 8; breg9 (r9) 0; lit8; mul; plus; deref; plus_uconst 8 */
        ".cfi_escape 0x0f, 10, 0x77, 8, 0x79, 0, 0x38, 0x1e, 0x22, 0x06, 0x23, 8\n"
        "1: dec %rdi\n"
        "jnz 1b\n"
        "mov 8(%rsp,%r9,8), %rsp\n"
        ".cfi_def_cfa rsp, 8\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size spin_indexed, .-spin_indexed\n");

OWN_FRAME static void indexed(void)
{
    for (uint64_t end = cpu_ns() + burn_ns; cpu_ns() < end;)
        spin_indexed(1000000);
    sum++;
}
#endif

OWN_FRAME static void leaf(void)
{
    spin_long();
    sum++;
}

OWN_FRAME static int compare(const void *a, const void *b)
{
    burn();
    return *(const int *)a - *(const int *)b;
}

OWN_FRAME static void through_library(void)
{
    int numbers[] = {2, 1};
    qsort(numbers, 2, sizeof(*numbers), compare);
    sum += numbers[0];
}

OWN_FRAME static void through_no_info(void)
{
    without_unwind_info(burn);
    sum++;
}

OWN_FRAME static void *on_thread(void *argument)
{
    burn();
    sum++;
    return argument;
}

OWN_FRAME static void thread(void)
{
    pthread_t id;
    need(!pthread_create(&id, NULL, on_thread, NULL), "pthread_create");
    pthread_join(id, NULL);
    sum++;
}

#ifdef __GLIBC__ /* musl has no contexts */
OWN_FRAME static void in_coroutine(void)
{
    burn();
    sum++;
}

OWN_FRAME static void coroutine(void)
{
    static char stack[65536];
    ucontext_t here, there;
    getcontext(&there);
    there.uc_stack.ss_sp = stack;
    there.uc_stack.ss_size = sizeof(stack);
    there.uc_link = &here;
    makecontext(&there, in_coroutine, 0);
    need(!swapcontext(&here, &there), "swapcontext");
    sum++;
}
#endif

/* ---- signals ---- */

static volatile sig_atomic_t handled;

OWN_FRAME static void on_signal(int signal)
{
    burn();
    handled = 1;
    sum += signal;
}

static void handle(int signal, void (*handler)(int), int flags)
{
    struct sigaction action;
    memset(&action, 0, sizeof(action));
    action.sa_handler = handler;
    action.sa_flags = flags;
    need(!sigaction(signal, &action, NULL), "sigaction");
}

/* At any instruction of its loop. */
OWN_FRAME static void interrupted(void)
{
    struct itimerval soon = {{0, 0}, {0, 5000}};
    setitimer(ITIMER_REAL, &soon, NULL);
    while (!handled)
        ;
    sum++;
}

OWN_FRAME static void in_handler(void)
{
    handle(SIGALRM, on_signal, 0);
    interrupted();
    sum++;
}

OWN_FRAME static void in_handler_on_other_stack(void)
{
    static char stack[65536];
    stack_t other;
    memset(&other, 0, sizeof(other));
    other.ss_sp = stack;
    other.ss_size = sizeof(stack);
    need(!sigaltstack(&other, NULL), "sigaltstack");
    handle(SIGALRM, on_signal, SA_ONSTACK);
    interrupted();
    sum++;
}

OWN_FRAME static void in_handler_of_call(void)
{
    handle(SIGUSR1, on_signal, 0);
    kill(getpid(), SIGUSR1);
    sum++;
}

OWN_FRAME static void on_first_signal(int signal)
{
    handle(SIGUSR1, on_signal, 0);
    kill(getpid(), SIGUSR1);
    sum += signal;
}

OWN_FRAME static void in_handler_in_handler(void)
{
    handle(SIGALRM, on_first_signal, 0);
    interrupted();
    sum++;
}

#ifdef __x86_64__
/* As a compiler at run time would, with a frame pointer. */
OWN_FRAME static void generated(void)
{
    static const unsigned char call_argument[] = {
        0x55,             /* push %rbp */
        0x48, 0x89, 0xe5, /* mov %rsp, %rbp */
        0xff, 0xd7,       /* call *%rdi */
        0x5d,             /* pop %rbp */
        0xc3,             /* ret */
    };
    char *code = mmap(NULL, CODE_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    need(code != MAP_FAILED, "mmap");
    memcpy(code, call_argument, sizeof(call_argument));
    ((void (*)(void (*)(void)))(void *)code)(burn);
    sum++;
}

/* What lies in front of the address where a signal struck is another function. */
void trap_at_entry(void);
__asm__(".text\n"
        ".type before_entry, @function\n"
        "before_entry:\n"
        ".cfi_startproc\n"
        "sub $4096, %rsp\n"
        ".cfi_adjust_cfa_offset 4096\n"
        "ud2\n"
        ".cfi_endproc\n"
        ".size before_entry, . - before_entry\n"
        ".type trap_at_entry, @function\n"
        "trap_at_entry:\n"
        ".cfi_startproc\n"
        "ud2\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size trap_at_entry, . - trap_at_entry\n");

OWN_FRAME static void on_trap(int signal, siginfo_t *info, void *context)
{
    ucontext_t *user = context;
    burn();
    user->uc_mcontext.gregs[REG_RIP] += 2;
    sum += signal + (info != NULL);
}

OWN_FRAME static void in_handler_at_entry(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof(action));
    action.sa_sigaction = on_trap;
    action.sa_flags = SA_SIGINFO;
    need(!sigaction(SIGILL, &action, NULL), "sigaction");
    trap_at_entry();
    sum++;
}
#endif

/* ---- the kernel's code ---- */

OWN_FRAME static void in_kernel(void)
{
    static char room[1 << 20];
    int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    need(zero >= 0, "/dev/zero");
    for (uint64_t end = cpu_ns() + burn_ns; cpu_ns() < end;)
        sum += (int)read(zero, room, sizeof(room));
    close(zero);
}

/* Of the clocks this is the one that never takes a system call. */
OWN_FRAME static void in_vdso(void)
{
    struct timespec now;
    for (uint64_t end = cpu_ns() + burn_ns; cpu_ns() < end;)
        for (int i = 0; i < 10000; i++)
            sum += clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
}

/* ---- code that comes and goes ---- */

#ifndef STACKS_STATIC
OWN_FRAME static void plugin(void)
{
    for (; *more; more += 2) { /* path, function */
        void *library = dlopen(more[0], RTLD_NOW | RTLD_LOCAL);
        need(library, more[0]);
        code_run *run = (code_run *)dlsym(library, more[1]);
        need(run, more[1]);
        printf("%s %#lx\n", more[1], (unsigned long)run);
        run(cpu_ns() + burn_ns, cpu_ns);
        dlclose(library);
    }
}
#endif

/* Each file lies over the one before it. */
OWN_FRAME static void mapped_over(void)
{
    char *place = mmap(NULL, CODE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    need(place != MAP_FAILED, "mmap");
    for (; *more; more += 2) { /* path, offset of the function in the file */
        int file = open(more[0], O_RDONLY | O_CLOEXEC);
        need(file >= 0, more[0]);
        need(mmap(place, CODE_BYTES, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, file, 0) ==
                 place,
             more[0]);
        close(file);
        code_run *run = (code_run *)(void *)(place + strtoul(more[1], NULL, 16));
        run(cpu_ns() + burn_ns, cpu_ns);
    }
}

OWN_FRAME static void in_parent(void)
{
    burn();
    sum++;
}

OWN_FRAME static void in_child(void)
{
    burn();
    sum++;
}

OWN_FRAME static void become(const char *mode)
{
    execl("/proc/self/exe", "stacks", mode, burn_ms, (char *)NULL);
    need(false, "exec");
}

OWN_FRAME static void wait_for(pid_t child)
{
    int status;
    need(waitpid(child, &status, 0) == child && status == 0, "child");
}

OWN_FRAME static void forking(void)
{
    in_parent();
    pid_t child = fork();
    if (!child) {
        in_child();
        _exit(0);
    }
    printf("child %d\n", child);
    wait_for(child);
    child = fork();
    if (!child)
        become("recursion");
    printf("exec %d\n", child);
    wait_for(child);
}

int main(int argc, char **argv)
{
    static const struct stacks_mode modes[] = {
        {"plain", plain},
        {"recursion", recursion},
        {"too_deep", too_deep},
        {"moving_stack", moving_stack},
        {"tail_call", tail_call},
        {"leaf", leaf},
        {"through_library", through_library},
        {"through_no_info", through_no_info},
        {"thread", thread},
        {"in_handler", in_handler},
        {"in_handler_on_other_stack", in_handler_on_other_stack},
        {"in_handler_of_call", in_handler_of_call},
        {"in_handler_in_handler", in_handler_in_handler},
        {"in_kernel", in_kernel},
        {"in_vdso", in_vdso},
        {"mapped_over", mapped_over},
        {"forking", forking},
#ifdef __GLIBC__
        {"coroutine", coroutine},
#endif
#ifdef __x86_64__
        {"in_handler_at_entry", in_handler_at_entry},
        {"indexed", indexed},
        {"generated", generated},
#endif
#ifndef STACKS_STATIC
        {"plugin", plugin},
#endif
        {NULL, NULL},
    };
    if (argc < 3)
        return 2;
    burn_ms = argv[2];
    burn_ns = strtoul(burn_ms, NULL, 10) * 1000000u;
    more = argv + 3;
    return stacks_run(modes, argv[1]) ? 0 : 2;
}
