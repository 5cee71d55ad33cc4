/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The interpreters that a test is about: those of its command line, else Debian's; without any the
 * case is skipped, and says so. Asserts with cmocka. Thread: one.
 */
#include "test/support/fixtures/skip.h"
#include <glob.h>

#define PHPS "/usr/bin/php[78].[0-9]"

static char **phps;
static int n_phps;

static inline void each_php(void (*check)(const char *php))
{
    glob_t found;
    for (int i = 0; i < n_phps; i++)
        check(phps[i]);
    if (n_phps)
        return;
    if (glob(PHPS, 0, NULL, &found)) {
        globfree(&found);
        skip_because("there is no PHP");
    }
    for (size_t i = 0; i < found.gl_pathc; i++)
        check(found.gl_pathv[i]);
    globfree(&found);
}
