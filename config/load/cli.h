/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The command line: flags and commands into a struct, and the commands that start no service.
 * Thread: main, before any other. Limit: CLI_SOURCES_MAX sources.
 *
 *     struct cli cli;
 *     if (cli_parse(argc, argv, &cli, stderr))
 *         return CLI_EXIT_USAGE;
 *     if (cli.command != CLI_RUN)
 *         return cli_run_command(&cli, SPANPROF_VERSION, stdout, stderr);
 *     if (cli_load_config(&cli, &config, stderr))
 *         return CLI_EXIT_FAILURE;
 */
#include "config/config.h"
#include <stdio.h>

#define CLI_SOURCES_MAX 64

enum { CLI_EXIT_OK = 0, CLI_EXIT_FAILURE = 1, CLI_EXIT_USAGE = 2 };

enum cli_command {
    CLI_RUN,
    CLI_VALIDATE,
    CLI_COMPONENTS,
    CLI_PRINT_CONFIG,
    CLI_LIMITS,
    CLI_PRINT_REFERENCE, /* hidden: docs/configuration.md on stdout */
    CLI_PRINT_METRICS,   /* hidden: docs/metrics.md on stdout */
    CLI_VERSION,
    CLI_HELP,
};

struct cli {
    enum cli_command command;
    size_t n_sources;
    struct config_source sources[CLI_SOURCES_MAX]; /* texts lie in argv */
};

/* 0, or -EINVAL after one or two lines on err that say what to do. */
int cli_parse(int argc, char *const *argv, struct cli *cli, FILE *err);

/* Any command but CLI_RUN; returns the exit code. */
int cli_run_command(const struct cli *cli, const char *version, FILE *out, FILE *err);

/* config_load() with its errors on err; the return value is config_load()'s. */
int cli_load_config(const struct cli *cli, struct config **config, FILE *err);
