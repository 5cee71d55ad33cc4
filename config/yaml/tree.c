/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sources are merged before they are checked, as the Collector does it: so each node remembers its
 * own place, and an error in a merged configuration still points at the right file.
 */
#include "config/yaml/tree.h"
#include "config/yaml/value.h"
#include <errno.h>

struct node *tree_node(struct tree *tree, enum node_kind kind, struct config_place place)
{
    if (tree->n_nodes == TREE_NODES_MAX) {
        tree->n_nodes++;
        diag_error(tree->diag, place, "", "more than %d values; a configuration is smaller",
                   TREE_NODES_MAX);
    }
    if (tree->n_nodes > TREE_NODES_MAX)
        return NULL;
    struct node *node = arena_zalloc(tree->arena, sizeof(*node));
    if (!node) {
        tree->diag->exhausted = true;
        return NULL;
    }
    tree->n_nodes++;
    node->kind = kind;
    node->place = place;
    return node;
}

int tree_append(struct tree *tree, struct node *parent, struct node_entry entry)
{
    struct node_entry *copy = arena_dup(tree->arena, &entry, sizeof(entry));
    if (!copy) {
        tree->diag->exhausted = true;
        return -ENOMEM;
    }
    struct node_entry **end = &parent->entries;
    while (*end)
        end = &(*end)->next;
    copy->next = NULL;
    *end = copy;
    parent->count++;
    return 0;
}

struct node_entry *tree_find(const struct node *map, const char *key)
{
    if (map->kind != NODE_MAP)
        return NULL;
    for (struct node_entry *entry = map->entries; entry; entry = entry->next)
        if (strcmp(entry->key, key) == 0)
            return entry;
    return NULL;
}

/* The deepest node on the way; *rest is what of the path does not exist. */
static const struct node *node_walk(const struct node *node, const char *dotted, const char **rest)
{
    while (*dotted) {
        char key[CONFIG_NAME_MAX];
        size_t len = strcspn(dotted, ".");
        if (len >= sizeof(key))
            break;
        memcpy(key, dotted, len);
        key[len] = 0;
        const struct node_entry *entry = tree_find(node, key);
        if (!entry)
            break;
        node = entry->value;
        dotted += len + (dotted[len] == '.');
    }
    *rest = dotted;
    return node;
}

const struct node *tree_get(const struct node *node, const char *dotted)
{
    const char *rest;
    node = node_walk(node, dotted, &rest);
    return *rest ? NULL : node;
}

struct config_place tree_place(const struct node *node, const char *dotted)
{
    const char *rest;
    return node_walk(node, dotted, &rest)->place;
}

struct node *tree_merge(struct tree *tree, struct node *base, struct node *over)
{
    if (!base || !over)
        return over ? over : base;
    if (base->kind != NODE_MAP || over->kind != NODE_MAP)
        return over;
    struct node_entry *next;
    for (struct node_entry *entry = over->entries; entry; entry = next) {
        next = entry->next;
        struct node_entry *old = tree_find(base, entry->key);
        if (!old) {
            if (tree_append(tree, base, *entry))
                return base;
            continue;
        }
        old->value = tree_merge(tree, old->value, entry->value);
        old->place = entry->place;
    }
    return base;
}

const char *node_kind_name(const struct node *node)
{
    static const char *const scalars[] = {[VALUE_TEXT] = "a text",
                                          [VALUE_BOOL] = "a boolean",
                                          [VALUE_INT] = "a number",
                                          [VALUE_FLOAT] = "a number with a fraction"};
    switch (node->kind) {
    case NODE_NULL:
        return "nothing";
    case NODE_LIST:
        return "a list";
    case NODE_MAP:
        return "a map";
    case NODE_SCALAR:
        return node->plain ? scalars[value_type(node->text)] : "a text";
    default:
        return "a broken value";
    }
}
