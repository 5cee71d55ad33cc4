/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Burns in a function of a name of its own: TWIN. Built twice with the same build id. The forged
 * one also says of that function that nobody called it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define QUOTE(name)  QUOTED(name)
#define QUOTED(name) #name

__attribute__((noinline, noclone)) void TWIN(void);
__attribute__((noinline, noclone)) void called_by_main(double seconds);

void TWIN(void)
{
#ifdef FORGED
    __asm__ volatile(".cfi_undefined rip");
#endif
    for (volatile unsigned i = 0; i < 1000000; i++)
        continue;
}

void called_by_main(double seconds)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    double end = (double)now.tv_sec + (double)now.tv_nsec * 1e-9 + seconds;
    do {
        TWIN();
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((double)now.tv_sec + (double)now.tv_nsec * 1e-9 < end);
}

int main(int argc, char **argv)
{
    called_by_main(argc > 1 ? atof(argv[1]) : 1);
    puts(QUOTE(TWIN));
    return 0;
}
