/* SPDX-License-Identifier: Apache-2.0 */
#include "client/client_ask.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define COLUMNS_DEFAULT 140
#define COLUMNS_MIN     20
#define STATE_DIRECTORY "/var/lib/spanprof"

/* ---- flags ---- */

static const struct flag {
    const char *name, *parameter, *value, *sentence;
} flags[] = {
    {"--from", "from", "TIME", "from then on: -15m (the default; top: -1m), -1h, Unix ms"},
    {"--to", "to", "TIME", "until then; now by default"},
    {"--service", "service", "NAME", "of this service"},
    {"--span", "span", "NAME", "of spans with this name"},
    {"--thread", "thread", "NAME", "of threads with this name"},
    {"--container", "container", "ID", "of this container"},
    {"--host", "host", "NAME", "of the host with this name"},
    {"--pid", "pid", "PID", "of this process"},
    {"--function", "function", "NAME", "with this function in the stack"},
    {"--attribute", "attribute", "KEY=VALUE", "of spans with this attribute; may be repeated"},
    {"--min-duration", "min_duration", "TIME", "of traces at least so long: 250ms"},
    {"--max-duration", "max_duration", "TIME", "of traces at most so long"},
    {"--trace", "trace_id", "ID", "of this trace"},
    {"--span-id", "span_id", "ID", "of this span of it, and those below"},
    {"--children", "children", "false", "with --span-id: without those below"},
    {"--frames", "frames", "TYPE", "flame, top: these alone: cpython, jvm, v8js, native, ..."},
    {"--view", "view", "VIEW", "flame: callees (roots first), callers"},
};
#define N_FLAGS (sizeof(flags) / sizeof(flags[0]))

void client_print_flags(FILE *out)
{
    fputs("Flags:\n"
          "  --socket PATH          of the spanprof to ask; else SPANPROF_SOCKET, else\n"
          "                         spanprof.sock in SPANPROF_STATE_DIR or " STATE_DIRECTORY "\n"
          "  --json                 the answer as it is (docs/api.md), printed; flame: instead of\n"
          "                         a file, so without -o\n",
          out);
    for (size_t i = 0; i < N_FLAGS; i++) {
        int n = fprintf(out, "  %s %s", flags[i].name, flags[i].value);
        fprintf(out, "%*s%s\n", n < 24 ? 25 - n : 1, "", flags[i].sentence);
    }
    fputs("  --by WHAT              top: function, service, span, thread, process, container,\n"
          "                         host\n"
          "  --order ORDER          traces: slowest, latest, cpu; top: self, total\n"
          "  --limit N              rows\n",
          out);
}

static int client_refuse(const struct client *client, const char *what, const char *arg)
{
    char safe[160];
    bytes_sanitize(BYTES_STR(arg), safe, sizeof(safe));
    fprintf(client->err, "spanprof: %s %s; try --help\n", what, safe);
    return -EINVAL;
}

static bool is_unreserved(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("-._~", c));
}

int client_parameter(struct client *client, const char *name, struct bytes value)
{
    struct buf *query = &client->query;
    int error = buf_printf(query, "%s%s=", query->len ? "&" : "", name);
    for (size_t i = 0; !error && i < value.len; i++)
        error = is_unreserved(value.data[i]) ? buf_append(query, &value.data[i], 1)
                                             : buf_printf(query, "%%%02X", value.data[i]);
    return error;
}

/* True: it is a switch. */
static bool read_switch(struct client *client, const char *arg)
{
    if (strcmp(arg, "--json") == 0)
        client->json = true;
    else if (strcmp(arg, "--once") == 0)
        client->once = true;
    else if (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0)
        client->help = true;
    else
        return false;
    return true;
}

static const char **own_value(struct client *client, const char *arg, size_t len)
{
    const struct {
        const char *name;
        const char **value;
    } own[] = {{"--socket", &client->socket}, {"-o", &client->output},
               {"--output", &client->output}, {"--by", &client->by},
               {"--order", &client->order},   {"--limit", &client->limit},
               {"-F", &client->frequency},    {"--frequency", &client->frequency}};
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        if (strlen(own[i].name) == len && memcmp(own[i].name, arg, len) == 0)
            return own[i].value;
    return NULL;
}

static const struct flag *find_flag(const char *arg, size_t len)
{
    for (size_t i = 0; i < N_FLAGS; i++)
        if (strlen(flags[i].name) == len && memcmp(flags[i].name, arg, len) == 0)
            return &flags[i];
    return NULL;
}

/* --name VALUE and --name=VALUE. */
static int read_flag(struct client *client, const char *arg, char *const **args)
{
    size_t len = strncmp(arg, "--", 2) == 0 ? strcspn(arg, "=") : strlen(arg);
    const char **own = own_value(client, arg, len);
    const struct flag *flag = find_flag(arg, len);
    if (!own && !flag)
        return client_refuse(client, "unknown flag", arg);
    const char *value = arg[len] ? arg + len + 1 : **args;
    if (!value)
        return client_refuse(client, "nothing behind", arg);
    *args += arg[len] ? 0 : 1;
    if (own)
        *own = value;
    return own ? 0 : client_parameter(client, flag->parameter, BYTES_STR(value));
}

int client_read_flags(struct client *client, int argc, char *const *argv, bool until_command)
{
    char **words = calloc((size_t)argc + 1, sizeof(*words)); /* NULL-terminated */
    char *const *args = argv + 2;
    int error = words ? 0 : -ENOMEM;
    client->words = words;
    while (!error && *args) {
        char *arg = *args++;
        bool ends = strcmp(arg, "--") == 0;
        if (!ends && *arg == '-' && arg[1]) {
            error = read_switch(client, arg) ? 0 : read_flag(client, arg, &args);
            continue;
        }
        if (!ends)
            words[client->n_words++] = arg;
        while ((ends || until_command) && *args)
            words[client->n_words++] = *args++;
    }
    return error;
}

void client_close(struct client *client)
{
    buf_close(&client->query);
    free((void *)client->words);
}

/* ---- asking ---- */

int client_fail(const struct client *client, int error, const char *what)
{
    fprintf(client->err, "spanprof: %s: %s\n", what, strerror(-error));
    return error;
}

static const char *socket_path(const struct client *client, char *out, size_t size)
{
    const char *path = client->socket ? client->socket : getenv("SPANPROF_SOCKET");
    const char *directory = getenv("SPANPROF_STATE_DIR");
    if (path && *path)
        return path;
    snprintf(out, size, "%s/spanprof.sock", directory && *directory ? directory : STATE_DIRECTORY);
    return out;
}

static int say_no_answer(const struct client *client, const char *path, int error)
{
    const char *what = "something other than spanprof answers there";
    if (error == -ENOENT || error == -ECONNREFUSED)
        what = "no spanprof listens there; is one running, with the pages extension, and is this "
               "its pages::socket (else --socket PATH)?";
    else if (error == -EACCES || error == -EPERM)
        what = "not allowed; be root, or the user that spanprof's store belongs to";
    else if (error == -ETIMEDOUT)
        what = "no answer came in time";
    else if (error == -EMSGSIZE)
        what = "the answer is too large; ask for less";
    else if (error != -EPROTO)
        what = strerror(-error);
    fprintf(client->err, "spanprof: %s: %s\n", path, what);
    return error;
}

/* {"error": "..."} */
static int say_refused(const struct client *client, const struct http_answer *answer)
{
    char sentence[1200];
    struct arena arena;
    struct value root;
    arena_init(&arena, 1u << 20);
    int error = client_json_read(buf_bytes(&answer->body), &arena, &root);
    struct bytes text = error ? BYTES(NULL, 0) : value_text(&root, "error");
    bytes_sanitize(text, sentence, sizeof(sentence));
    if (text.len)
        fprintf(client->err, "spanprof: %s\n", sentence);
    else
        fprintf(client->err, "spanprof: it answered with status %u\n", answer->status);
    arena_close(&arena);
    return answer->status == 404 ? -ENOENT : -EINVAL;
}

/* What was found is shown all the same. */
static void say_incomplete(const struct client *client)
{
    fputs("spanprof: incomplete: not all was looked through in the time there is; ask for less, "
          "with --from and --to perhaps\n",
          client->err);
}

int client_ask(const struct client *client, const char *path, struct http_answer *answer)
{
    _cleanup_buf_ struct buf target = BUF_INIT(0);
    char own[4096];
    const char *socket = socket_path(client, own, sizeof(own));
    http_answer_begin(answer, CLIENT_ANSWER_MAX);
    int error = buf_printf(&target, "%s%s", path, client->query.len ? "?" : "");
    error = error ? error : buf_append_bytes(&target, buf_bytes(&client->query));
    error = error ? error : buf_append(&target, "", 1);
    if (error)
        return client_fail(client, error, "cannot ask");
    error = client_http_get(socket, (const char *)target.data, answer);
    if (error)
        return say_no_answer(client, socket, error);
    if (answer->status != 200)
        return say_refused(client, answer);
    if (answer->more)
        say_incomplete(client);
    return 0;
}

int client_ask_json(const struct client *client, const char *path, struct client_tree *tree)
{
    *tree = (struct client_tree){0};
    arena_init(&tree->arena, CLIENT_TREE_MAX);
    int error = client_ask(client, path, &tree->answer);
    if (error)
        return error;
    error = client_json_read(buf_bytes(&tree->answer.body), &tree->arena, &tree->root);
    if (error)
        return client_fail(client, error, "the answer cannot be read");
    const struct value *complete = value_get(&tree->root, "complete");
    if (complete && complete->kind == VALUE_BOOL && complete->number < 1)
        say_incomplete(client);
    return 0;
}

void client_tree_close(struct client_tree *tree)
{
    http_answer_close(&tree->answer);
    arena_close(&tree->arena);
}

int client_print_answer(const struct client *client, const char *path)
{
    struct http_answer answer;
    int error = client_ask(client, path, &answer);
    if (!error && answer.body.len)
        fwrite(answer.body.data, 1, answer.body.len, client->out);
    if (!error)
        fputc('\n', client->out);
    http_answer_close(&answer);
    return error;
}

size_t client_columns(const struct client *client)
{
    struct winsize size;
    if (ioctl(fileno(client->out), TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        return COLUMNS_DEFAULT;
    return size.ws_col < COLUMNS_MIN ? COLUMNS_MIN : size.ws_col;
}

int client_show(const struct client *client, const struct buf *text)
{
    if (text->len)
        fwrite(text->data, 1, text->len, client->out);
    return fflush(client->out) ? -EIO : 0;
}
