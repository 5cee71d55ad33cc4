/* SPDX-License-Identifier: Apache-2.0 */
/* names_program [SECONDS]: an executable with a function that only its symbol table names, and two
 * with the names that compilers of C++ and Rust would give them. Each works a third of the time. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

unsigned work_in_cpp(unsigned x) __asm__("_ZN4shop4Cart5totalEid");
unsigned work_in_rust(unsigned x) __asm__("_RNvCs1234_4till5total");

static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Each a loop of its own, so that the compiler makes no two of them one. */
#define WORK(step)                                                                                 \
    for (unsigned i = 0; i < 20000000; i++)                                                        \
        __asm__ volatile("" : "+r"(x));                                                            \
    return x * 3 + (step)

static unsigned __attribute__((noinline)) known_by_symtab(unsigned x)
{
    WORK(1);
}

unsigned __attribute__((noinline)) work_in_cpp(unsigned x)
{
    WORK(2);
}

unsigned __attribute__((noinline)) work_in_rust(unsigned x)
{
    WORK(3);
}

int main(int argc, char **argv)
{
    unsigned x = (unsigned)argc;
    double seconds = argc > 1 ? atof(argv[1]) : 0;
    do {
        x = known_by_symtab(x);
        x = work_in_cpp(x);
        x = work_in_rust(x);
    } while (cpu_seconds() < seconds);
    printf("%u\n", x & 1);
    return 0;
}
