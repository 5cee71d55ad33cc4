/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * `spanprof exec -- COMMAND`: starts a service with what its runtime needs so that spanprof knows
 * which span its threads work for: environment variables alone, which every other runtime ignores.
 * They reach all processes that it starts. Thread: main.
 */
#include <stdio.h>

/* argv[1] is "exec". Returns only if nothing was started, or what is set was only printed: the exit
 * code. */
int exec_main(int argc, char *const *argv, FILE *out, FILE *err);
