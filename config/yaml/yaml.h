/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * YAML text to a tree, by libyaml's events. Private to config/. Thread: the one that loads.
 * Refused, with a message: more than one document, anchors and aliases, tags, keys that are not
 * scalars or stand twice, NUL characters, nesting past TREE_DEPTH_MAX.
 */
#include "config/yaml/tree.h"

struct yaml_input {
    struct bytes text;
    struct config_place place; /* .source; with `fixed`, the place that all nodes get */
    bool fixed;                /* text of a reference or a --set, without lines of its own */
    bool quiet;                /* errors are the caller's matter */
};

enum { YAML_REFUSED = 1 };

/* 0 and *root (NULL for a text without any value); YAML_REFUSED: reported, unless quiet. */
int yaml_read(struct tree *tree, const struct yaml_input *input, struct node **root);
