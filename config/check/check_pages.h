/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Rules of the pages extension. Private to config/. Thread: the one that loads.
 */
#include "config/config.h"
#include "config/yaml/tree.h"

void check_pages(struct tree *tree, const char *path, const struct node *node,
                 const struct config_pages *pages);
/* Once there is a store: where the Unix socket lies. */
void settle_pages_socket(struct tree *tree, const struct node *root, struct config *config);
