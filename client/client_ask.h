/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What the command line of a client asks for, and the asking. Thread: the only one.
 */
#include "client/client_http.h"
#include "client/client_json.h"
#include <stdio.h>

#define CLIENT_TREE_MAX ((size_t)512 << 20)

struct client {
    FILE *out, *err;
    const char *socket; /* NULL: the default one */
    const char *output; /* -o; NULL: not given */
    const char *frequency;
    const char *by, *order, *limit; /* what `top` shows; NULL: not given */
    bool json, once, help;
    struct buf query; /* parameters of the question, with & between them */
    size_t n_words;
    char *const *words; /* what is not a flag; of record: from the command on */
};

/* Reads argv from argv[2] on. 0, or -EINVAL after a line on err. until_command: what follows the
 * first word belongs to it. */
int client_read_flags(struct client *client, int argc, char *const *argv, bool until_command);
void client_close(struct client *client);
/* The flags, for --help. */
void client_print_flags(FILE *out);

/* Adds a parameter; the value is percent-encoded. 0, -ENOMEM. */
int client_parameter(struct client *client, const char *name, struct bytes value);

/* Path with the parameters. 0: the answer is there, with status 200, and if it is not whole a
 * sentence on err; negative errno: a sentence was said on err. */
int client_ask(const struct client *client, const char *path, struct http_answer *answer);
/* Asks, and reads the answer. */
struct client_tree {
    struct http_answer answer;
    struct arena arena;
    struct value root;
};
int client_ask_json(const struct client *client, const char *path, struct client_tree *tree);
void client_tree_close(struct client_tree *tree);
/* --json: prints the answer as it is. */
int client_print_answer(const struct client *client, const char *path);
size_t client_columns(const struct client *client); /* of the terminal, or 140 */

int client_fail(const struct client *client, int error, const char *what); /* says it; error */
int client_show(const struct client *client, const struct buf *text);

int client_traces(struct client *client);
int client_trace(struct client *client);
int client_flame(struct client *client);
int client_top(struct client *client);
int client_record(struct client *client);
int client_pages(struct client *client);
int client_status(struct client *client);

/* Parts that record shares. */
int client_put_top(struct client *client, size_t rows, struct buf *text);
int client_write_flame(struct client *client, const char *path);
/* Before there is something to write; 0, or negative errno after a sentence. */
int client_check_form(const struct client *client, const char *path); /* the name's ending */
int client_check_writable(const struct client *client, const char *path);
