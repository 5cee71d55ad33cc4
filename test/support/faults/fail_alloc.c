/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/faults/fail_alloc.h"
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *memory, size_t size);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *memory, size_t size);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t size);

static _Atomic unsigned countdown; /* 0 = off, 1 = the next fails */
static _Atomic bool all_after;
static _Atomic bool hit;

static void set(unsigned n, bool after)
{
    atomic_store(&hit, false);
    atomic_store(&all_after, after);
    atomic_store(&countdown, n);
}

void fail_alloc_at(unsigned n)
{
    set(n, false);
}

void fail_alloc_from(unsigned n)
{
    set(n, true);
}

bool fail_alloc_hit(void)
{
    bool was_hit = atomic_load(&hit);
    set(0, false);
    return was_hit;
}

static bool fails(void)
{
    unsigned left = atomic_load(&countdown);
    do {
        if (!left)
            return false;
    } while (!atomic_compare_exchange_weak(&countdown, &left,
                                           left == 1 && atomic_load(&all_after) ? 1 : left - 1));
    if (left != 1)
        return false;
    atomic_store(&hit, true);
    errno = ENOMEM;
    return true;
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
    return fails() ? NULL : __real_realloc(memory, size);
}

char *__wrap_strdup(const char *text)
{
    return fails() ? NULL : __real_strdup(text);
}

char *__wrap_strndup(const char *text, size_t size)
{
    return fails() ? NULL : __real_strndup(text, size);
}
