/* SPDX-License-Identifier: Apache-2.0 */
#include "client/client_ask.h"
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static const struct form {
    const char *ending, *path;
} forms[] = {
    {".svg", "/flame.svg"},     {".folded", "/flame.folded"},
    {".txt", "/flame.folded"},  {".json", "/flame.speedscope.json"},
    {".pb.gz", "/flame.pb.gz"}, {".pprof", "/flame.pb.gz"},
};

static const char *form_path(const char *file)
{
    size_t len = strlen(file);
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        size_t ending = strlen(forms[i].ending);
        if (len > ending && strcmp(file + len - ending, forms[i].ending) == 0)
            return forms[i].path;
    }
    return NULL;
}

static int write_file(const struct client *client, const char *path, struct bytes body)
{
    FILE *file = fopen(path, "we");
    bool written = file && (!body.len || fwrite(body.data, 1, body.len, file) == body.len);
    int error = written ? 0 : -errno;
    if (file && fclose(file) && !error)
        error = -errno;
    return error ? client_fail(client, error, path) : 0;
}

int client_check_form(const struct client *client, const char *path)
{
    if (form_path(path))
        return 0;
    fprintf(client->err,
            "spanprof: %s: the name ends with what to write: .svg, .folded, .json (speedscope) or "
            ".pb.gz (pprof)\n",
            path);
    return -EINVAL;
}

/* What is there stays as it is until there is something to write, and what is not there is not
 * left behind. */
int client_check_writable(const struct client *client, const char *path)
{
    bool is_there = faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
    if (fd < 0)
        return client_fail(client, -errno, path);
    close(fd);
    if (!is_there)
        unlink(path);
    return 0;
}

int client_write_flame(struct client *client, const char *path)
{
    struct http_answer answer;
    int error = client_check_form(client, path);
    if (error)
        return error;
    error = client_ask(client, form_path(path), &answer);
    if (!error)
        error = write_file(client, path, buf_bytes(&answer.body));
    http_answer_close(&answer);
    return error;
}

int client_flame(struct client *client)
{
    const char *path = client->output ? client->output : "flame.svg";
    if (client->json && client->output) {
        fputs("spanprof: --json prints the answer, -o writes a file: give one of them\n",
              client->err);
        return 2;
    }
    if (client->json)
        return client_print_answer(client, "/api/flame");
    int error = client_write_flame(client, path);
    if (!error && !client->output)
        fprintf(client->err, "spanprof: written: %s\n", path);
    return error;
}
