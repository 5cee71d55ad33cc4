/* SPDX-License-Identifier: Apache-2.0 */
/* For LD_PRELOAD: counts what a process allocates, in front of glibc. */
#include <stdatomic.h>
#include <stddef.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *memory, size_t size);

static atomic_long allocated;

long allocations(void)
{
    return allocated;
}

void *malloc(size_t size)
{
    allocated++;
    return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    allocated++;
    return __libc_calloc(n, size);
}

void *realloc(void *memory, size_t size)
{
    allocated++;
    return __libc_realloc(memory, size);
}
