/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * CPU time burnt in functions whose names a profile must show. Thread: any.
 */
#include <stdint.h>

enum { BURN_FUNCTIONS = 4 };
extern const char *const burn_names[BURN_FUNCTIONS]; /* burn_alpha, burn_beta, ... */

uint64_t burn_thread_cpu_ns(void); /* CLOCK_THREAD_CPUTIME_ID */
uint64_t burn_wall_ns(void);       /* CLOCK_MONOTONIC */
uint64_t burn_unix_ns(void);       /* CLOCK_REALTIME */

/* Burns cpu_ns in the function with that number, but not past the wall deadline. */
void burn(unsigned function, uint64_t cpu_ns, uint64_t wall_deadline_ns);
/* Busy for percent of the time, in phases of irregular length, until the deadline. */
void burn_duty(unsigned function, unsigned percent, uint64_t wall_deadline_ns);
void burn_sleep_until(uint64_t wall_ns);
