/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The interpreters that a test is about: those of its command line, else Debian's; without any the
 * case is skipped, and says so. Asserts with cmocka. Thread: one.
 */
#include "test/support/fixtures/skip.h"
#include <glob.h>

#define PYTHONS "/usr/bin/python3.[0-9]*[0-9]"

static char **pythons;
static int n_pythons;

static inline void each_python(void (*check)(const char *python))
{
    glob_t found;
    for (int i = 0; i < n_pythons; i++)
        check(pythons[i]);
    if (n_pythons)
        return;
    if (glob(PYTHONS, 0, NULL, &found)) {
        globfree(&found);
        skip_because("there is no Python");
    }
    for (size_t i = 0; i < found.gl_pathc; i++)
        check(found.gl_pathv[i]);
    globfree(&found);
}
