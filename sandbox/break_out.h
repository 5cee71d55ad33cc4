/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * For tests of debug builds: a process that fell. SPANPROF_TEST_BREAK_OUT=ROLE:ATTEMPT makes the
 * process of that role try one thing once it has given up its rights, and log how it went. Other
 * builds have none of it.
 */
#ifdef SANDBOX_BREAK_OUT
void sandbox_break_out(const char *role);
#else
static inline void sandbox_break_out(const char *role)
{
    (void)role;
}
#endif
