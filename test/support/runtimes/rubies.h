/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The interpreters that a test is about: those of its command line, else Debian's; without any the
 * case is skipped, and says so. Asserts with cmocka. Thread: one.
 */
#include "test/support/fixtures/skip.h"
#include <glob.h>

#define RUBIES "/usr/bin/ruby[0-9].[0-9]*"

static char **rubies;
static int n_rubies;

static inline void each_ruby(void (*check)(const char *ruby))
{
    glob_t found;
    for (int i = 0; i < n_rubies; i++)
        check(rubies[i]);
    if (n_rubies)
        return;
    if (glob(RUBIES, 0, NULL, &found)) {
        globfree(&found);
        skip_because("there is no Ruby");
    }
    for (size_t i = 0; i < found.gl_pathc; i++)
        check(found.gl_pathv[i]);
    globfree(&found);
}
