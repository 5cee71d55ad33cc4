/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is there stays: a path is added to those of the variable, and a setting is made if there is
 * none. A publisher whose files are not there is left out.
 */
#include "client/exec.h"
#include "base/bytes.h"
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* OTLP's ports. This node's take both protocols; other servers do not. */
#define GRPC_PORT    ":4317"
#define NODE_BY_GRPC "http://localhost:4317"
#define NODE_BY_HTTP "http://localhost:4318"

/* In front of a path: less than 32 bytes. Quoted, a path may double, with two quotes around it. */
#define VALUE_MAX (2 * PATH_MAX + 34)

enum { EXIT_DONE = 0, EXIT_USAGE = 2, EXIT_NOT_RUN = 126, EXIT_NOT_FOUND = 127 };

static const struct publisher {
    const char *name;
    const char *file; /* below the directory of publishers: without it the publisher is left out */
    bool by_name;     /* only if --with names it */
} publishers[] = {
    {"python", "python/spanprof_otel/_native.abi3.so", false},
    {"java", "java/spanprof-java.jar", false},
    {"node", "node/spanprof_context.node", false},
    {"ruby", "ruby/spanprof_otel.rb", true},
    {"dotnet", "dotnet/spanprof_otel.dll", true},
};
#define PUBLISHERS (sizeof(publishers) / sizeof(publishers[0]))

enum how { IF_UNSET, IN_FRONT, BEHIND };
enum quoting { AS_IT_IS, NO_BLANKS, NODE_QUOTES }; /* NO_BLANKS: the runtime cannot quote */

static const struct setting {
    const char *publisher;
    const char *variable;
    enum how how;
    char separator;       /* between values of the variable */
    const char *value;    /* in front of the path */
    const char *below;    /* a path in the directory of publishers */
    enum quoting quoting; /* of the path */
} settings[] = {
    {"python", "PYTHONPATH", IN_FRONT, ':', "", "python", AS_IT_IS},
    {"java", "OTEL_JAVAAGENT_EXTENSIONS", BEHIND, ',', "", "java/spanprof-java.jar", AS_IT_IS},
    {"node", "NODE_OPTIONS", BEHIND, ' ', "--require=", "node/preload.js", NODE_QUOTES},
    {"ruby", "RUBYOPT", BEHIND, ' ', "-r", "ruby/spanprof_otel.rb", NO_BLANKS},
    {"dotnet", "DOTNET_STARTUP_HOOKS", BEHIND, ':', "", "dotnet/spanprof_otel.dll", AS_IT_IS},
};
#define SETTINGS (sizeof(settings) / sizeof(settings[0]))

static const struct form {
    const char *name;
    const char *head, *before, *between, *after; /* what stands around names and values */
    char doubled;                                /* begins a reference; 0: nothing is quoted */
    enum { NODE_IS_LOCAL, NODE_IS_UNKNOWN, NODE_IS_HOST_IP } node; /* as the reader sees it */
} forms[] = {
    {"env", "", "", "=", "", 0, NODE_IS_LOCAL},
    {"systemd", "[Service]\n", "Environment=\"", "=", "\"", '%', NODE_IS_LOCAL},
    {"docker", "", "", "=", "", 0, NODE_IS_UNKNOWN},
    {"kubernetes", "env:\n", "  - name: ", "\n    value: \"", "\"", '$', NODE_IS_HOST_IP},
};
#define FORMS (sizeof(forms) / sizeof(forms[0]))

struct exec {
    FILE *out, *err;
    const char *endpoint; /* NULL: of this node */
    bool no_endpoint;
    char directory[PATH_MAX];
    const char *with, *without; /* names with commas; NULL: none */
    const struct form *form;    /* to be printed; NULL: the command is started */
    char *const *command;
};

static const char help_text[] =
    "spanprof exec: starts a service so that its spans get their CPU time, without a change of its "
    "code\n"
    "\n"
    "Usage: spanprof exec [flags] [--] COMMAND [ARGUMENT]...\n"
    "\n"
    "Sets the environment that publishers of the span need, for COMMAND and all that it starts. "
    "What is set\n"
    "already stays.\n"
    "\n"
    "Flags:\n"
    "  --endpoint URL      where spans go if no OTEL_EXPORTER_OTLP_ENDPOINT is set; by default to "
    "this node,\n"
    "                      " NODE_BY_HTTP "\n"
    "  --no-endpoint       do not say where spans go\n"
    "  --without NAMES     leave out publishers, several with commas\n"
    "  --with NAMES        turn on publishers that are not on by default\n"
    "  --publishers DIR    where they lie; by default beside this program's installation\n"
    "  --print[=FORM]      print the variables, start nothing: env (the default), systemd, "
    "docker,\n"
    "                      kubernetes; of PYTHONPATH and the like only what spanprof adds\n"
    "  --help, -h          print this\n"
    "\n"
    "Publishers:\n";

static const char help_codes[] =
    "\n"
    "Exit codes: the command's; 2 a wrong command line, 126 it cannot be run, 127 it is not "
    "found.\n"
    "More in docs/commands.md.\n";

/* ---- the command line ---- */

static int exec_refuse(const struct exec *exec, const char *what, const char *word,
                       const char *hint)
{
    char safe[160];
    bytes_sanitize(BYTES_STR(word), safe, sizeof(safe));
    fprintf(exec->err, "spanprof: %s %s; %s\n", what, safe, hint);
    return EXIT_USAGE;
}

static int exec_set_form(struct exec *exec, const char *name)
{
    for (size_t i = 0; i < FORMS; i++)
        if (strcmp(forms[i].name, name) == 0)
            exec->form = &forms[i];
    return exec->form ? 0
                      : exec_refuse(exec, "no form", name,
                                    "--print takes env, systemd, docker or kubernetes");
}

static bool is_publisher(const char *name, size_t length)
{
    for (size_t i = 0; i < PUBLISHERS; i++)
        if (strlen(publishers[i].name) == length && !memcmp(publishers[i].name, name, length))
            return true;
    return false;
}

/* `name` is one of the list. */
static bool is_in(const char *list, const char *name)
{
    for (const char *at = list; at && *at; at += *at == ',') {
        size_t length = strcspn(at, ",");
        if (strlen(name) == length && !memcmp(at, name, length))
            return true;
        at += length;
    }
    return false;
}

/* A list of names of publishers, separated by commas. */
static int exec_set_names(struct exec *exec, const char **names, const char *list)
{
    *names = list;
    for (const char *at = list; *at; at += *at == ',') {
        size_t length = strcspn(at, ",");
        if (!is_publisher(at, length))
            return exec_refuse(exec, "no publisher", at, "spanprof exec --help lists them");
        at += length;
    }
    return 0;
}

static int exec_set_directory(struct exec *exec, const char *path)
{
    if (realpath(path, exec->directory))
        return 0;
    return exec_refuse(exec, "no directory", path, "--publishers names that of the publishers");
}

/* Beside the installed program, or in the tree that it was built in. */
static void exec_find_directory(struct exec *exec)
{
    static const char *const places[] = {"/../lib/spanprof/publishers", "/publishers"};
    char path[PATH_MAX], self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    self[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(self, '/');
    if (slash)
        *slash = '\0';
    for (size_t i = 0; i < 2; i++) {
        int length = snprintf(path, sizeof(path), "%s%s", self, places[i]);
        if (length > 0 && (size_t)length < sizeof(path) && realpath(path, exec->directory))
            return;
    }
    *exec->directory = '\0';
}

/* The text behind `name=`, or the next word; NULL: another flag. */
static const char *flag_value(const char *name, int argc, char *const *argv, int *i)
{
    size_t length = strlen(name);
    if (strncmp(argv[*i], name, length) != 0)
        return NULL;
    if (argv[*i][length] == '=')
        return argv[*i] + length + 1;
    if (argv[*i][length] || *i + 1 >= argc)
        return NULL;
    return argv[++*i];
}

static int exec_read_flag(struct exec *exec, int argc, char *const *argv, int *i)
{
    const char *value;
    if (strcmp(argv[*i], "--print") == 0)
        return exec_set_form(exec, forms[0].name);
    if (strncmp(argv[*i], "--print=", 8) == 0)
        return exec_set_form(exec, argv[*i] + 8);
    if (strcmp(argv[*i], "--no-endpoint") == 0)
        return exec->no_endpoint = true, 0;
    if ((value = flag_value("--endpoint", argc, argv, i)))
        return exec->endpoint = value, 0;
    if ((value = flag_value("--without", argc, argv, i)))
        return exec_set_names(exec, &exec->without, value);
    if ((value = flag_value("--with", argc, argv, i)))
        return exec_set_names(exec, &exec->with, value);
    if ((value = flag_value("--publishers", argc, argv, i)))
        return exec_set_directory(exec, value);
    return exec_refuse(exec, "unknown flag, or nothing behind", argv[*i],
                       "try spanprof exec --help");
}

/* 0, or the exit code; *help: it is asked for. */
static int exec_read(struct exec *exec, int argc, char *const *argv, bool *help)
{
    int i = 2, code = 0;
    for (; i < argc && argv[i][0] == '-' && !code; i++) {
        if (strcmp(argv[i], "--") == 0) {
            i++;
            break;
        }
        *help = strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0;
        if (*help)
            return 0;
        code = exec_read_flag(exec, argc, argv, &i);
    }
    exec->command = argv + i;
    if (!code && !*exec->command && !exec->form)
        code = exec_refuse(exec, "nothing to start:", "no command",
                           "spanprof exec -- COMMAND, or --print");
    return code;
}

/* ---- the environment ---- */

/* `part` is one of the value's. */
static bool has_part(const char *value, const char *part, char separator)
{
    size_t length = strlen(part);
    for (const char *at = value; at; at = strchr(at, separator), at += at != NULL)
        if (!strncmp(at, part, length) && (!at[length] || at[length] == separator))
            return true;
    return false;
}

/* Adds the value to the variable's, unless it is there already. */
static int add_value(const struct setting *setting, const char *value)
{
    const char *before = getenv(setting->variable);
    if (!before || !*before)
        return setenv(setting->variable, value, 1);
    if (has_part(before, value, setting->separator))
        return 0;
    bool in_front = setting->how == IN_FRONT;
    char *joined;
    if (asprintf(&joined, "%s%c%s", in_front ? value : before, setting->separator,
                 in_front ? before : value) < 0)
        return -1;
    int failed = setenv(setting->variable, joined, 1);
    free(joined);
    return failed;
}

static int print_variable(FILE *out, const struct form *form, const char *name, const char *value)
{
    fprintf(out, "%s%s%s", form->before, name, form->between);
    for (; *value; value++) {
        if (form->doubled && (*value == '"' || *value == '\\'))
            putc('\\', out);
        if (form->doubled && *value == form->doubled)
            putc(*value, out);
        putc(*value, out);
    }
    return fprintf(out, "%s\n", form->after) < 0 ? -1 : 0;
}

/* Printed, or set. */
static int exec_apply(const struct exec *exec, const struct setting *setting, const char *value)
{
    if (exec->form)
        return print_variable(exec->out, exec->form, setting->variable, value);
    return setting->how == IF_UNSET ? setenv(setting->variable, value, 0)
                                    : add_value(setting, value);
}

static bool path_below(const struct exec *exec, const char *name, char path[PATH_MAX])
{
    int length = snprintf(path, PATH_MAX, "%s/%s", exec->directory, name);
    return length > 0 && length < PATH_MAX;
}

static bool exec_reads(const struct exec *exec, const char *name)
{
    char path[PATH_MAX];
    return *exec->directory && path_below(exec, name, path) && !access(path, R_OK);
}

/* Its own file, and what its settings name: Node and Ruby end where that is not there. */
static bool exec_finds(const struct exec *exec, const struct publisher *publisher)
{
    bool found = exec_reads(exec, publisher->file);
    for (size_t i = 0; i < SETTINGS; i++)
        if (!strcmp(settings[i].publisher, publisher->name))
            found = found && exec_reads(exec, settings[i].below);
    return found;
}

static bool exec_has(const struct exec *exec, const struct publisher *publisher)
{
    if (is_in(exec->without, publisher->name))
        return false;
    if (publisher->by_name && !is_in(exec->with, publisher->name))
        return false;
    return exec_finds(exec, publisher);
}

/* Writes the setting's value; -1: its path does not fit, or its runtime cannot take it. */
static int exec_value(const struct exec *exec, const struct setting *setting, char value[VALUE_MAX])
{
    char path[PATH_MAX];
    char *at = stpcpy(value, setting->value);
    if (!path_below(exec, setting->below, path))
        return -1;
    bool blank = path[strcspn(path, " \t")];
    if (setting->quoting == NO_BLANKS && blank)
        return -1;
    bool quoted = setting->quoting == NODE_QUOTES && path[strcspn(path, " \"\\")];
    if (quoted)
        *at++ = '"';
    for (const char *from = path; *from; from++) {
        if (quoted && strchr("\"\\", *from))
            *at++ = '\\';
        *at++ = *from;
    }
    strcpy(at, quoted ? "\"" : "");
    return 0;
}

static int exec_publish(const struct exec *exec, const struct publisher *publisher)
{
    char value[VALUE_MAX];
    int failed = 0;
    for (size_t i = 0; i < SETTINGS && !failed; i++) {
        if (strcmp(settings[i].publisher, publisher->name) != 0)
            continue;
        if (exec_value(exec, &settings[i], value))
            fprintf(exec->err,
                    "spanprof: the publisher for %s is left out: %s cannot hold the path of %s\n",
                    publisher->name, settings[i].variable, exec->directory);
        else
            failed = exec_apply(exec, &settings[i], value);
    }
    return failed;
}

static int exec_publishers(const struct exec *exec)
{
    int failed = 0;
    for (size_t i = 0; i < PUBLISHERS && !failed; i++) {
        if (exec_has(exec, &publishers[i]))
            failed = exec_publish(exec, &publishers[i]);
        else if (is_in(exec->with, publishers[i].name))
            fprintf(exec->err, "spanprof: the publisher for %s is left out: %s is not below %s\n",
                    publishers[i].name, publishers[i].file, exec->directory);
    }
    return failed;
}

static bool endpoint_is_set(void)
{
    return getenv("OTEL_EXPORTER_OTLP_ENDPOINT") || getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") ||
           getenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT") ||
           getenv("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT");
}

/* Named by the user, for spans or for all. */
static bool grpc_is_named(void)
{
    const char *of_traces = getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL");
    const char *named = of_traces ? of_traces : getenv("OTEL_EXPORTER_OTLP_PROTOCOL");
    return named && !strcmp(named, "grpc");
}

static const char *protocol_of_port(const char *url)
{
    const char *port = strstr(url, GRPC_PORT);
    bool grpc = port && strspn(port + strlen(GRPC_PORT), "/") == strlen(port + strlen(GRPC_PORT));
    return grpc ? "grpc" : "http/protobuf";
}

static int exec_point_at(const struct exec *exec, const char *url, const char *protocol)
{
    static const struct setting of_url = {.variable = "OTEL_EXPORTER_OTLP_ENDPOINT",
                                          .how = IF_UNSET},
                                of_protocol = {.variable = "OTEL_EXPORTER_OTLP_PROTOCOL",
                                               .how = IF_UNSET};
    return exec_apply(exec, &of_url, url) || exec_apply(exec, &of_protocol, protocol);
}

static int print_endpoint(const struct exec *exec)
{
    static const char host_ip[] =
        "  - name: HOST_IP\n    valueFrom: {fieldRef: {fieldPath: status.hostIP}}\n"
        "  - name: OTEL_EXPORTER_OTLP_ENDPOINT\n    value: \"http://$(HOST_IP):4318\"\n"
        "  - name: OTEL_EXPORTER_OTLP_PROTOCOL\n    value: \"http/protobuf\"\n";
    const char *url = exec->endpoint ? exec->endpoint : NODE_BY_HTTP;
    if (exec->endpoint || exec->form->node == NODE_IS_LOCAL)
        return exec_point_at(exec, url, protocol_of_port(url));
    if (exec->form->node == NODE_IS_HOST_IP)
        return fputs(host_ip, exec->out) < 0;
    fputs(
        "spanprof: no endpoint is printed, as a container's localhost is not the node; set it with "
        "--endpoint URL\n",
        exec->err);
    return 0;
}

/* Both are set, as SDKs differ in their default protocol. */
static int exec_endpoint(const struct exec *exec)
{
    if (exec->no_endpoint)
        return 0;
    if (exec->form)
        return print_endpoint(exec);
    if (endpoint_is_set())
        return 0;
    bool grpc = grpc_is_named();
    const char *url = exec->endpoint ? exec->endpoint : grpc ? NODE_BY_GRPC : NODE_BY_HTTP;
    return exec_point_at(exec, url, grpc ? "grpc" : protocol_of_port(url));
}

static int exec_help(const struct exec *exec)
{
    fputs(help_text, exec->out);
    for (size_t i = 0; i < PUBLISHERS; i++)
        fprintf(exec->out, "  %-19s %s%s\n", publishers[i].name,
                publishers[i].by_name ? "only by --with" : "on by default",
                exec_finds(exec, &publishers[i]) ? "" : "; its files are not there");
    return fputs(help_codes, exec->out) < 0;
}

int exec_main(int argc, char *const *argv, FILE *out, FILE *err)
{
    struct exec exec = {.out = out, .err = err};
    bool help = false;
    exec_find_directory(&exec);
    int code = exec_read(&exec, argc, argv, &help);
    if (code)
        return code;
    if (help)
        return exec_help(&exec);
    if (!*exec.directory)
        fputs("spanprof: no publishers beside this program; --publishers DIR says where they are\n",
              err);
    if (exec.form)
        fputs(exec.form->head, out);
    if (exec_endpoint(&exec) || exec_publishers(&exec)) {
        fprintf(err, "spanprof: cannot set the environment: %s\n", strerror(errno));
        return EXIT_NOT_RUN;
    }
    if (exec.form)
        return fflush(out) ? 1 : EXIT_DONE;
    execvp(exec.command[0], exec.command);
    code = errno == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_RUN;
    fprintf(err, "spanprof: cannot start %s: %s\n", exec.command[0], strerror(errno));
    return code;
}
