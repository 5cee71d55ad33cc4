/* SPDX-License-Identifier: Apache-2.0 */
/* lines_program [SECONDS]: functions inlined into others, each at a known line of a known file. Two
 * addresses in them have a symbol: lines_marker, and lines_deep_marker below more calls than are
 * told. It works at the first one. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define INLINE static inline __attribute__((always_inline))

static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

#line 100 "lines_innermost.h"
INLINE unsigned innermost(unsigned x)
{
    for (unsigned i = 0; i < 20000000; i++)
        __asm__ volatile(".globl lines_marker\nlines_marker: nop" : "+r"(x));
    return x;
}

#line 200 "lines_middle.h"
INLINE unsigned middle(unsigned x)
{
    return innermost(x + 1) ^ 5;
}

#line 300 "lines_program.c"
static __attribute__((noinline)) unsigned outer(unsigned x)
{
    return middle(x) + 7;
}

#line 400 "lines_deep.h"
INLINE unsigned deep0(unsigned x)
{
    __asm__ volatile(".globl lines_deep_marker\nlines_deep_marker: nop" : "+r"(x));
    return x;
}

#define DEEP(n, below)                                                                             \
    INLINE unsigned deep##n(unsigned x)                                                            \
    {                                                                                              \
        return deep##below(x + 1);                                                                 \
    }
#line 501
DEEP(1, 0)
DEEP(2, 1)
DEEP(3, 2)
DEEP(4, 3)
DEEP(5, 4)
DEEP(6, 5)
DEEP(7, 6)
DEEP(8, 7)
DEEP(9, 8)
DEEP(10, 9)
DEEP(11, 10)
DEEP(12, 11)
DEEP(13, 12)
DEEP(14, 13)
DEEP(15, 14)
DEEP(16, 15)
DEEP(17, 16)
DEEP(18, 17)
DEEP(19, 18)
DEEP(20, 19)
DEEP(21, 20)
DEEP(22, 21)
DEEP(23, 22)
DEEP(24, 23)
DEEP(25, 24)
DEEP(26, 25)
DEEP(27, 26)
DEEP(28, 27)
DEEP(29, 28)
DEEP(30, 29)
DEEP(31, 30)
DEEP(32, 31)
DEEP(33, 32)
DEEP(34, 33)

#line 600
static __attribute__((noinline)) unsigned deep(unsigned x)
{
    return deep34(x);
}

int main(int argc, char **argv)
{
    unsigned x = deep((unsigned)argc);
    double seconds = argc > 1 ? atof(argv[1]) : 0;
    do
        x = outer(x);
    while (cpu_seconds() < seconds);
    printf("%u\n", x & 1);
    return 0;
}
