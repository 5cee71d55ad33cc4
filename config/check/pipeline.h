/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * From the merged tree to a struct config: components, service, pipelines, and the rules between
 * them. Private to config/. Thread: the one that loads. What is wrong is reported in tree->diag.
 */
#include "config/keys/components.h"
#include "config/yaml/tree.h"

void pipeline_build(struct tree *tree, struct node *root, struct config *config);
