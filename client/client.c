/* SPDX-License-Identifier: Apache-2.0 */
#include "client/client.h"
#include "client/client_ask.h"
#include <errno.h>

enum { EXIT_DONE, EXIT_FAILED, EXIT_USAGE };

static const struct command {
    const char *name;
    int (*run)(struct client *client); /* 0, negative errno (said), or an exit code */
    const char *arguments, *sentence;
    size_t max_words;
    bool runs_command;
} commands[] = {
    {"top", client_top, "[flags]",
     "functions, services, ... by CPU time, live; --once: printed once", 0, false},
    {"traces", client_traces, "[flags]", "the slowest traces, with their CPU time", 0, false},
    {"trace", client_trace, "ID [flags]", "one trace: its spans, and when they were on a CPU", 1,
     false},
    {"flame", client_flame, "[flags] [-o FILE]",
     "a flame graph as .svg, .folded, .json (speedscope), .pb.gz (pprof)", 0, false},
    {"status", client_status, "[flags]",
     "problems, and for each process its runtime and what would give its spans their CPU time", 0,
     false},
    {"pages", client_pages, "", "the address of the web pages, with the token that they need", 0,
     false},
    {"record", client_record, "[-F HZ] [-o FILE] [--] COMMAND [ARGUMENT]...",
     "profile a command by a spanprof of its own (root)", 0, true},
};

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; name && i < sizeof(commands) / sizeof(commands[0]); i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

int client_has_command(const char *name)
{
    return find_command(name) != NULL;
}

static int print_help(const struct command *command, const struct client *client)
{
    fprintf(client->out, "spanprof %s: %s\n\nUsage: spanprof %s %s\n\n", command->name,
            command->sentence, command->name, command->arguments);
    client_print_flags(client->out);
    fputs("\nExit codes: 0 done, 1 failed, 2 a wrong command line. More in docs/commands.md.\n",
          client->out);
    return EXIT_DONE;
}

static int too_many(const struct command *command, const struct client *client)
{
    fprintf(client->err, "spanprof: too many arguments; usage: spanprof %s %s\n", command->name,
            command->arguments);
    return EXIT_USAGE;
}

/* `top` asks several questions, and looks after these itself; of the others the server says what it
 * does not take. */
static int add_shown(const struct command *command, struct client *client)
{
    const struct {
        const char *name, *value;
    } shown[] = {{"by", client->by}, {"order", client->order}, {"limit", client->limit}};
    int error = 0;
    for (size_t i = 0; i < 3 && !error && command->run != client_top; i++)
        if (shown[i].value)
            error = client_parameter(client, shown[i].name, BYTES_STR(shown[i].value));
    return error ? client_fail(client, error, "cannot ask") : 0;
}

static int run(const struct command *command, struct client *client)
{
    if (client->help)
        return print_help(command, client);
    if (!command->runs_command && client->n_words > command->max_words)
        return too_many(command, client);
    int code = add_shown(command, client);
    code = code ? code : command->run(client);
    return code < 0 ? EXIT_FAILED : code;
}

int client_main(int argc, char *const *argv, FILE *out, FILE *err)
{
    const struct command *command = find_command(argv[1]);
    struct client client = {.out = out, .err = err, .query = BUF_INIT(1u << 16)};
    int error = client_read_flags(&client, argc, argv, command->runs_command);
    int code = error ? EXIT_USAGE : run(command, &client);
    client_close(&client);
    return code;
}
