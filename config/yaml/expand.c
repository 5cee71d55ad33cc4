/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values that come in by a reference are treated as if they stood in the file: they are expanded
 * again, and $$ in them is one $. That is what the Collector does, so that the same environment
 * works for both.
 */
#include "config/yaml/expand.h"
#include "config/yaml/file.h"
#include "config/yaml/yaml.h"
#include <errno.h>
#include <stdlib.h>

struct expander {
    struct tree *tree;
    struct config_place place;
    const char *path;
    unsigned rounds;
    bool failed; /* reported already */
};

static int expander_fail(struct expander *e, const char *message)
{
    if (!e->failed)
        diag_error(e->tree->diag, e->place, e->path, "%s", message);
    e->failed = true;
    return -EINVAL;
}

static char *expander_keep(struct expander *e, const void *text, size_t len)
{
    char *copy = arena_zalloc(e->tree->arena, len + 1);
    if (!copy) {
        e->tree->diag->exhausted = e->failed = true;
        return NULL;
    }
    if (len)
        memcpy(copy, text, len);
    return copy;
}

static bool is_name(const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
    if (!*name || !strchr(letters, *name))
        return false;
    for (; *name; name++)
        if (!strchr(letters, *name) && !(*name >= '0' && *name <= '9'))
            return false;
    return true;
}

/* *value: the variable's text, the default, or NULL with a warning. body is changed. */
static int look_up_variable(struct expander *e, char *body, const char **value)
{
    char *fallback = strstr(body, ":-");
    if (fallback)
        *fallback = 0;
    if (!is_name(body))
        return expander_fail(
            e, diag_printf(e->tree->diag,
                           "\"%.80s\" is not the name of an environment variable (letters, "
                           "digits, _, no digit first); write ${env:NAME}, or $$ for a "
                           "plain $",
                           body));
    const char *set = getenv(body);
    if (set && !(*value = expander_keep(e, set, strlen(set))))
        return -ENOMEM;
    if (!*value && fallback)
        *value = fallback + 2;
    if (!*value)
        diag_warn(e->tree->diag, e->place, e->path,
                  "the environment variable %.80s is not set; give it a default with "
                  "${env:%.80s:-text}",
                  body, body);
    return 0;
}

static int look_up_file(struct expander *e, const char *path, const char **value)
{
    _cleanup_buf_ struct buf text = BUF_INIT(0);
    const char *problem = file_read(path, FILE_REGULAR_ONLY, &text);
    if (problem)
        return expander_fail(e, diag_printf(e->tree->diag, "the file %.200s %s", path, problem));
    if (text.len && memchr(text.data, 0, text.len))
        return expander_fail(e, diag_printf(e->tree->diag, "the file %.200s is not a text", path));
    while (text.len && (text.data[text.len - 1] == '\n' || text.data[text.len - 1] == '\r'))
        text.len--;
    *value = expander_keep(e, text.data, text.len);
    return *value ? 0 : -ENOMEM;
}

static bool expand_skip(char **text, const char *prefix)
{
    if (strncmp(*text, prefix, strlen(prefix)) != 0)
        return false;
    *text += strlen(prefix);
    return true;
}

/* What stands behind the body of a reference, not yet expanded. body is changed. */
static int look_up(struct expander *e, char *body, const char **value)
{
    if (e->rounds++ >= EXPAND_ROUNDS_MAX)
        return expander_fail(
            e, "more than 1000 references in one value; does a variable refer to itself?");
    if (expand_skip(&body, "file:"))
        return look_up_file(e, body, value);
    if (expand_skip(&body, "yaml:")) {
        *value = body;
        return 0;
    }
    if (expand_skip(&body, "env:") || !strchr(body, ':') || strchr(body, ':') == strstr(body, ":-"))
        return look_up_variable(e, body, value);
    return expander_fail(
        e, diag_printf(e->tree->diag,
                       "\"${%.40s\" names a source that is not supported; env, file and "
                       "yaml are, as in ${env:NAME}",
                       body));
}

static const char *expand_text(struct expander *e, const char *text, unsigned depth);

/* Reads the reference at *text ("${"), moves *text behind its "}"; *body is it, inner ones
 * expanded. */
static int read_reference(struct expander *e, const char **text, unsigned depth, char **body);

/* Appends what the reference at *text stands for. */
static int append_reference(struct expander *e, struct buf *out, const char **text, unsigned depth)
{
    char *body = NULL;
    const char *value = NULL;
    int error = read_reference(e, text, depth, &body);
    if (!error)
        error = look_up(e, body, &value);
    if (error || !value)
        return error;
    value = expand_text(e, value, depth + 1);
    if (!value)
        return -EINVAL;
    return buf_append(out, value, strlen(value)) ? expander_fail(e, "a value grows past 1 MiB") : 0;
}

static int read_reference(struct expander *e, const char **text, unsigned depth, char **body)
{
    _cleanup_buf_ struct buf out = BUF_INIT(CONFIG_FILE_MAX);
    if (depth >= EXPAND_DEPTH_MAX)
        return expander_fail(e,
                             "references nested deeper than 16; does a variable refer to itself?");
    const char *at = *text + 2;
    while (*at != '}') {
        size_t plain = strcspn(at, "$}");
        if (buf_append(&out, at, plain))
            return expander_fail(e, "a value grows past 1 MiB");
        at += plain;
        if (!*at)
            return expander_fail(e,
                                 "a ${ is not closed by }; write ${env:NAME}, or $$ for a plain $");
        if (*at == '}')
            break;
        if (at[1] != '{')
            return expander_fail(e, "a $ stands within ${...}; only ${...} may be nested there");
        int error = append_reference(e, &out, &at, depth + 1);
        if (error)
            return error;
    }
    *text = at + 1;
    *body = expander_keep(e, out.data, out.len);
    return *body ? 0 : -ENOMEM;
}

static const char *expand_text(struct expander *e, const char *text, unsigned depth)
{
    if (!strchr(text, '$'))
        return text;
    _cleanup_buf_ struct buf out = BUF_INIT(CONFIG_FILE_MAX);
    while (*text) {
        size_t plain = strcspn(text, "$");
        size_t literal = text[plain] == '$' && text[plain + 1] != '{';
        if (buf_append(&out, text, plain + literal))
            return expander_fail(e, "a value grows past 1 MiB"), NULL;
        text += plain + literal;
        if (literal && *text == '$')
            text++; /* $$ */
        else if (!literal && *text && append_reference(e, &out, &text, depth))
            return NULL;
    }
    return expander_keep(e, out.data, out.len);
}

static void expand_node(struct expander *e, struct node *node, unsigned depth);

/* The node becomes the YAML value of text; text that is no YAML is taken as it is. */
static void replace_node(struct expander *e, struct node *node, const char *text, unsigned depth)
{
    struct yaml_input input = {
        .text = BYTES_STR(text), .place = node->place, .fixed = true, .quiet = true};
    struct node *value;
    if (yaml_read(e->tree, &input, &value) == YAML_REFUSED)
        *node = (struct node){.kind = NODE_SCALAR, .place = node->place, .text = text};
    else if (value)
        *node = *value;
    else
        *node = (struct node){.kind = NODE_NULL, .place = node->place};
    expand_node(e, node, depth);
    if (!node->original && !e->failed)
        node->original = expand_text(e, text, depth);
}

static void expand_scalar(struct expander *e, struct node *node, unsigned depth)
{
    const char *end = node->text, *value = NULL;
    char *body = NULL;
    if (strncmp(end, "${", 2) == 0) {
        if (read_reference(e, &end, depth, &body))
            return;
        if (!*end) { /* the whole scalar is one reference */
            if (look_up(e, body, &value))
                return;
            if (value)
                replace_node(e, node, value, depth + 1);
            else
                *node = (struct node){.kind = NODE_NULL, .place = node->place};
            return;
        }
    }
    node->text = expand_text(e, node->text, depth);
    node->plain = false;
}

static void expand_node(struct expander *e, struct node *node, unsigned depth)
{
    if (node->kind == NODE_SCALAR && strchr(node->text, '$'))
        expand_scalar(e, node, depth);
    for (struct node_entry *entry = node->entries; entry && !e->failed; entry = entry->next)
        expand_node(e, entry->value, depth);
}

/* The walk over the file's own nodes: each scalar has its own count of rounds and its own error. */
static void expand_path(struct tree *tree, struct node *node, const char *path)
{
    if (node->kind == NODE_SCALAR && strchr(node->text, '$')) {
        struct expander e = {.tree = tree, .place = node->place, .path = path};
        expand_scalar(&e, node, 0);
        if (e.failed)
            *node = (struct node){.kind = NODE_BROKEN, .place = node->place};
        return;
    }
    size_t i = 0;
    for (struct node_entry *entry = node->entries; entry; entry = entry->next, i++)
        expand_path(tree, entry->value,
                    diag_path(tree->diag, path,
                              entry->key ? entry->key : diag_printf(tree->diag, "%zu", i)));
}

void expand_tree(struct tree *tree, struct node *root)
{
    expand_path(tree, root, "");
}
