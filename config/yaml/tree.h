/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A configuration before it has meaning: maps, lists and scalars, each with its place. Private to
 * config/. Thread: the one that loads; nodes live in the tree's arena.
 * Limits: TREE_NODES_MAX values in all sources together, TREE_DEPTH_MAX levels.
 */
#include "config/yaml/diag.h"

#define TREE_NODES_MAX 10000
#define TREE_DEPTH_MAX 32

enum node_kind {
    NODE_NULL,
    NODE_SCALAR,
    NODE_LIST,
    NODE_MAP,
    NODE_BROKEN, /* already reported: do not report it again */
};

struct node_entry { /* of a map; of a list without key */
    struct node_entry *next;
    const char *key;
    struct config_place place; /* of the key */
    struct node *value;
};

struct node {
    enum node_kind kind;
    struct config_place place;
    bool plain;       /* scalar without quotes: may be a number or a boolean */
    const char *text; /* of a scalar */
    const char
        *original; /* value of the ${...} that the whole node came from, as it was; else NULL */
    struct node_entry *entries;
    size_t count;
};

struct tree {
    struct diag *diag;
    struct arena *arena;
    size_t n_nodes;
};

/* NULL when a limit is reached, which is reported once. */
struct node *tree_node(struct tree *tree, enum node_kind kind, struct config_place place);
/* Appends; key is NULL in lists. -ENOMEM when the arena is full. */
int tree_append(struct tree *tree, struct node *parent, struct node_entry entry);

struct node_entry *tree_find(const struct node *map, const char *key); /* NULL if it is not there */
/* The node at a dotted path; NULL if there is none. */
const struct node *tree_get(const struct node *node, const char *dotted);
/* The place of the node at a dotted path, or of the deepest one on the way that exists. */
struct config_place tree_place(const struct node *node, const char *dotted);

/* Lays over on base: maps merge, everything else is replaced (null empties a map). Either may be
 * NULL. Returns the merged node, which is made of both. */
struct node *tree_merge(struct tree *tree, struct node *base, struct node *over);

const char *node_kind_name(const struct node *node); /* "a list", "a number", ... for messages */
