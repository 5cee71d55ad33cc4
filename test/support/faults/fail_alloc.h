/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The n-th allocation fails. For programs linked by spanprof_failing_alloc(TARGET) of
 * cmake/Tests.cmake: catches malloc, calloc, realloc, strdup and strndup in our own code and in
 * static libraries; not what shared libraries allocate inside. Off until set. Thread: any; the
 * count is the process's.
 *
 *     for (unsigned n = 1;; n++) {
 *         fail_alloc_at(n);
 *         int error = thing_open(&thing);
 *         if (!fail_alloc_hit())
 *             break;                          it made fewer than n allocations: done
 *         assert_int_equal(error, -ENOMEM);
 *     }
 */
#include <stdbool.h>

void fail_alloc_at(unsigned n);   /* the n-th from now, once; 1 = the next; 0 = off */
void fail_alloc_from(unsigned n); /* the n-th from now and all after it, until set anew */
bool fail_alloc_hit(void);        /* whether one has failed since; turns it off */
