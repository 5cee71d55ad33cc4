/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Lets the n-th allocation of a test program fail. Linked with -Wl,--wrap for malloc, calloc,
 * realloc. Thread: one.
 */
#include <stddef.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *pointer, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *pointer, size_t size);

static long allocations_left = -1; /* until one fails; -1: none does */

static int allocation_fails(void)
{
    if (allocations_left < 0)
        return 0;
    return allocations_left-- == 0;
}

void *__wrap_malloc(size_t size)
{
    return allocation_fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return allocation_fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *pointer, size_t size)
{
    return allocation_fails() ? NULL : __real_realloc(pointer, size);
}
