/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Written out rather than left to getopt: the grammar is small, commands may stand anywhere, and a
 * wrong flag should get an answer that helps, also when it is one of the Collector's.
 */
#include "config/load/cli.h"
#include "base/stats.h"
#include "config/load/config_load.h"
#include <errno.h>
#include <string.h>

static const char help_text[] =
    "spanprof correlates what this node's CPUs do with the spans of its services: an eBPF "
    "sampler,\n"
    "an OTLP receiver, and profiles and spans that know of each other on the way to your backend.\n"
    "\n"
    "Usage:\n"
    "  spanprof --config FILE [--config FILE]... [--set KEY.KEY=VALUE]...\n"
    "  spanprof COMMAND [flags]\n"
    "\n"
    "Commands:\n"
    "  (none)          run until SIGTERM or SIGINT; a second signal ends at once\n"
    "  validate        check the configuration, start nothing; exit code 0 if it is right\n"
    "  print-config    print the merged configuration with all defaults, secrets left out\n"
    "  limits          print what spanprof can take at most with this configuration: memory, disk\n"
    "  components      list the components that a configuration can name\n"
    "  top, traces, trace, flame, status, pages\n"
    "                  ask the spanprof that runs here; each with --help\n"
    "  record          profile a command, without any other spanprof\n"
    "  exec            start a service so that its spans get their CPU time\n"
    "\n"
    "Flags:\n"
    "  --config FILE   a configuration file (YAML, in the Collector's form); may be given several\n"
    "                  times, later files are merged over earlier ones\n"
    "  --set KEY=VALUE one value, as in --set receivers.sampler.frequency=49; may be repeated\n"
    "  --version       print the version\n"
    "  --help, -h      print this\n"
    "\n"
    "Exit codes: 0 done, 1 failed or a wrong configuration, 2 a wrong command line.\n"
    "\n"
    "To begin with: spanprof --config /etc/spanprof/spanprof.yaml, a commented file that samples\n"
    "this node and takes spans on localhost:4317 (gRPC) and :4318 (HTTP). All keys are in\n"
    "docs/configuration.md.\n";

static const struct command {
    const char *name;
    enum cli_command command;
    bool needs_config;
} commands[] = {
    {"validate", CLI_VALIDATE, true},
    {"print-config", CLI_PRINT_CONFIG, true},
    {"limits", CLI_LIMITS, true},
    {"components", CLI_COMPONENTS, false},
    {"print-reference", CLI_PRINT_REFERENCE, false},
    {"print-metrics", CLI_PRINT_METRICS, false},
    {"help", CLI_HELP, false},
    {"version", CLI_VERSION, false},
};
#define N_COMMANDS (sizeof(commands) / sizeof(commands[0]))

struct reader {
    struct cli *cli;
    FILE *err;
    char *const *args; /* what is left */
    bool has_command;
};

static int reader_refuse(struct reader *reader, const char *what, const char *name,
                         const char *hint)
{
    char safe[160];
    bytes_sanitize(BYTES_STR(name), safe, sizeof(safe));
    fprintf(reader->err, "spanprof: %s %s; %s\n", what, safe, hint);
    return -EINVAL;
}

static int add_source(struct reader *reader, int kind, const char *text)
{
    struct cli *cli = reader->cli;
    if (cli->n_sources == CLI_SOURCES_MAX)
        return reader_refuse(reader, "too many sources at", text,
                             "at most 64 --config and --set together");
    if (!*text)
        return reader_refuse(reader, "empty value of",
                             kind == CONFIG_SOURCE_FILE ? "--config" : "--set",
                             "name a file, or KEY=VALUE");
    struct config_source *source = &cli->sources[cli->n_sources++];
    if (kind == CONFIG_SOURCE_FILE)
        *source = (struct config_source){CONFIG_SOURCE_FILE, text};
    else
        *source = (struct config_source){CONFIG_SOURCE_SET, text};
    return 0;
}

/* The text behind `--name=` or the next argument; NULL if arg is another flag, or *error is set. */
static const char *flag_value(struct reader *reader, const char *arg, const char *name, int *error)
{
    size_t len = strlen(name);
    *error = 0;
    if (strncmp(arg, name, len) != 0 || (arg[len] && arg[len] != '='))
        return NULL;
    if (arg[len])
        return arg + len + 1;
    if (*reader->args)
        return *reader->args++;
    *error = reader_refuse(reader, "nothing behind", name, "try spanprof --help");
    return NULL;
}

static const char *unknown_flag_hint(const char *arg)
{
    if (strncmp(arg, "--feature-gates", 15) == 0)
        return "spanprof has no feature gates (profiles are always on); leave it out";
    if (strncmp(arg, "-c", 2) == 0 || strncmp(arg, "-config", 7) == 0)
        return "write --config FILE";
    return "the flags are --config, --set, --version and --help";
}

static int read_flag(struct reader *reader, const char *arg)
{
    int error;
    const char *value = flag_value(reader, arg, "--config", &error);
    if (value || error)
        return error ? error : add_source(reader, CONFIG_SOURCE_FILE, value);
    value = flag_value(reader, arg, "--set", &error);
    if (value || error)
        return error ? error : add_source(reader, CONFIG_SOURCE_SET, value);
    if (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0)
        reader->cli->command = CLI_HELP;
    else if (strcmp(arg, "--version") == 0 || strcmp(arg, "-v") == 0)
        reader->cli->command = CLI_VERSION;
    else
        return reader_refuse(reader, "unknown flag", arg, unknown_flag_hint(arg));
    reader->has_command = true;
    return 0;
}

static int read_command(struct reader *reader, const char *arg)
{
    size_t i = 0;
    while (i < N_COMMANDS && strcmp(commands[i].name, arg) != 0)
        i++;
    if (i == N_COMMANDS)
        return reader_refuse(reader, "unknown command", arg,
                             strchr(arg, '.') || strchr(arg, '/')
                                 ? "a configuration file is given by --config FILE"
                                 : "the commands are validate, print-config, limits and "
                                   "components; try "
                                   "spanprof --help");
    if (reader->has_command)
        return reader_refuse(reader, "a second command,", arg, "give one");
    reader->has_command = true;
    reader->cli->command = commands[i].command;
    return 0;
}

static bool needs_config(enum cli_command command)
{
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (commands[i].command == command)
            return commands[i].needs_config;
    return command == CLI_RUN;
}

int cli_parse(int argc, char *const *argv, struct cli *cli, FILE *err)
{
    *cli = (struct cli){.command = CLI_RUN};
    struct reader reader = {.cli = cli, .err = err, .args = argc > 0 ? argv + 1 : argv};
    while (*reader.args) {
        const char *arg = *reader.args++;
        int error = *arg == '-' ? read_flag(&reader, arg) : read_command(&reader, arg);
        if (error)
            return error;
        if (cli->command == CLI_HELP || cli->command == CLI_VERSION)
            return 0; /* whatever else is there */
    }
    if (needs_config(cli->command) && cli->n_sources == 0) {
        fputs("spanprof: no configuration; give --config FILE, for example --config "
              "/etc/spanprof/spanprof.yaml, or try spanprof --help\n",
              err);
        return -EINVAL;
    }
    return 0;
}

int cli_load_config(const struct cli *cli, struct config **config, FILE *err)
{
    _cleanup_buf_ struct buf errors = BUF_INIT(0);
    int error = config_load(cli->sources, cli->n_sources, config, &errors);
    if (errors.len)
        fwrite(errors.data, 1, errors.len, err);
    if (error == -ENOMEM)
        fputs("spanprof: out of memory while reading the configuration\n", err);
    else if (error)
        fputs("spanprof: the configuration is not valid; all keys are in docs/configuration.md\n",
              err);
    return error;
}

static int cli_validate(const struct cli *cli, FILE *err)
{
    struct config *config;
    if (cli_load_config(cli, &config, err))
        return CLI_EXIT_FAILURE;
    for (size_t i = 0; i < config->n_warnings; i++)
        fprintf(err, "warning: %s\n", config->warnings[i]);
    config_close(config);
    return CLI_EXIT_OK;
}

static int print_config(const struct cli *cli, struct buf *text, FILE *err)
{
    struct config *config;
    int error = cli_load_config(cli, &config, err);
    if (error)
        return error;
    error =
        cli->command == CLI_LIMITS ? config_print_limits(config, text) : config_print(config, text);
    config_close(config);
    return error;
}

/* Commands that print a text. */
static int cli_print(const struct cli *cli, FILE *out, FILE *err)
{
    _cleanup_buf_ struct buf text = BUF_INIT(0);
    int error = cli->command == CLI_COMPONENTS        ? config_print_components(&text)
                : cli->command == CLI_PRINT_REFERENCE ? config_print_reference(&text)
                : cli->command == CLI_PRINT_METRICS   ? stats_markdown(&text)
                                                      : print_config(cli, &text, err);
    if (error)
        return CLI_EXIT_FAILURE;
    if (fwrite(text.data, 1, text.len, out) != text.len || fflush(out)) {
        fprintf(err, "spanprof: cannot write: %s\n", strerror(errno));
        return CLI_EXIT_FAILURE;
    }
    return CLI_EXIT_OK;
}

int cli_run_command(const struct cli *cli, const char *version, FILE *out, FILE *err)
{
    switch (cli->command) {
    case CLI_VERSION:
        return fprintf(out, "spanprof %s\n", version) < 0 || fflush(out) ? CLI_EXIT_FAILURE
                                                                         : CLI_EXIT_OK;
    case CLI_HELP:
        return fputs(help_text, out) < 0 || fflush(out) ? CLI_EXIT_FAILURE : CLI_EXIT_OK;
    case CLI_VALIDATE:
        return cli_validate(cli, err);
    default:
        return cli_print(cli, out, err);
    }
}
