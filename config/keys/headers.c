/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Headers that the protocols themselves write are refused: a second content-type or :path would
 * make every request malformed, which shows only at the backend.
 */
#include "config/keys/headers.h"
#include "config/keys/bind.h"

struct header_reader {
    struct tree *tree;
    struct config_exporter_otlp *exporter;
};

static const char *name_problem(const char *name)
{
    static const char *const reserved[] = {
        "content-type", "content-encoding", "content-length",    "te",      "host",   "connection",
        "user-agent",   "keep-alive",       "transfer-encoding", "trailer", "expect", "upgrade"};
    size_t len = strlen(name);
    if (len == 0 || len > 256 || name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.")])
        return "is no header name; use letters, digits, - _ and .";
    if (strncmp(name, "grpc-", 5) == 0)
        return "begins with grpc-, which is gRPC's own; choose another name";
    if (len > 4 && strcmp(name + len - 4, "-bin") == 0)
        return "ends with -bin; binary headers are not supported";
    for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++)
        if (strcmp(name, reserved[i]) == 0)
            return "is the protocol's own; leave it out";
    return NULL;
}

static bool value_ok(const char *value)
{
    size_t len = strlen(value);
    if (len > 8192)
        return false;
    for (size_t i = 0; i < len; i++)
        if (value[i] < 0x20 || value[i] > 0x7e)
            return false;
    return len == 0 || (value[0] != ' ' && value[len - 1] != ' ');
}

/* HTTP/2 names are lower case; writing Authorization is common and means the same. */
static char *lower_name(struct header_reader *reader, const char *name)
{
    char *lower = arena_dup(reader->tree->arena, name, strlen(name) + 1);
    if (!lower) {
        reader->tree->diag->exhausted = true;
        return NULL;
    }
    for (char *c = lower; *c; c++)
        if (*c >= 'A' && *c <= 'Z')
            *c = (char)(*c | 0x20);
    return lower;
}

static void add_header(struct header_reader *reader, const char *path, struct config_place place,
                       const char *name, const struct node *value)
{
    struct diag *diag = reader->tree->diag;
    struct config_exporter_otlp *exporter = reader->exporter;
    name = lower_name(reader, name);
    if (!name || value->kind == NODE_BROKEN)
        return;
    const char *problem = name_problem(name);
    const char *text = bind_text(value);
    for (size_t i = 0; i < exporter->n_headers && !problem; i++)
        if (strcmp(exporter->headers[i].name, name) == 0)
            problem = "stands twice; keep one";
    if (problem)
        diag_error(diag, place, path, "the header \"%.80s\" %s", name, problem);
    else if (!text)
        diag_error(diag, value->place, path,
                   "the header \"%.80s\" needs a text, found %s; put numbers in quotes", name,
                   node_kind_name(value));
    else if (!value_ok(text))
        diag_error(diag, value->place, path,
                   "the value of the header \"%.80s\" is not one line of printable ASCII without "
                   "blanks at its ends, at most 8192 bytes",
                   name);
    else if (exporter->n_headers == CONFIG_LIST_MAX)
        diag_error(diag, place, path, "more than %d headers", CONFIG_LIST_MAX);
    else
        exporter->headers[exporter->n_headers++] = (struct config_header){name, text};
}

static void add_item(struct header_reader *reader, const char *path, const struct node *item)
{
    static const struct node nothing = {.kind = NODE_NULL};
    const struct node_entry *name = tree_find(item, "name");
    const struct node_entry *value = tree_find(item, "value");
    const char *text = name ? bind_text(name->value) : NULL;
    if (item->kind == NODE_BROKEN || (name && name->value->kind == NODE_BROKEN))
        return;
    if (!text || !value || item->count != 2) {
        diag_error(reader->tree->diag, item->place, path,
                   "expected an item like {name: authorization, value: ...}, with these two keys");
        return;
    }
    add_header(reader, path, name->value->place, text, value ? value->value : &nothing);
}

void headers_bind(struct tree *tree, const char *path, const struct node *node,
                  struct config_exporter_otlp *exporter)
{
    struct header_reader reader = {tree, exporter};
    exporter->n_headers = 0;
    if (node->kind != NODE_MAP && node->kind != NODE_LIST) {
        diag_error(tree->diag, node->place, path,
                   "expected a map of headers, found %s; write {name: value}",
                   node_kind_name(node));
        return;
    }
    for (const struct node_entry *entry = node->entries; entry; entry = entry->next) {
        if (node->kind == NODE_MAP)
            add_header(&reader, path, entry->place, entry->key, entry->value);
        else
            add_item(&reader, path, entry->value);
    }
}
