/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Rules that the table of keys cannot say: between keys of a component, and between components.
 * Private to config/. Thread: the one that loads. What is wrong is reported.
 */
#include "config/keys/components.h"
#include "config/yaml/tree.h"

/* A component whose keys are right each by itself. node: its settings in the tree. */
void check_component(struct tree *tree, const char *path, const struct node *node,
                     enum config_type type, void *settings);
/* All of them, pipelines included; also puts in the default store. */
void check_config(struct tree *tree, const struct node *root, struct config *config);
