/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Commands that ask a running spanprof: traces, trace, top, flame, status; and record, which runs
 * one for a command. Each is a question to the pages' server and a way to print its answer. Thread:
 * the only one of the program.
 */
#include <stdio.h>

/* Whether `name` is one of them. */
int client_has_command(const char *name);
/* argv as main() has it, argv[1] the command; returns the exit code: 0 done, 1 failed, 2 a wrong
 * command line; of `record` that of the command it ran. */
int client_main(int argc, char *const *argv, FILE *out, FILE *err);
