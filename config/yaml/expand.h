/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * ${...} in scalars (never in keys), as the Collector reads it:
 *
 *     ${env:NAME}  ${NAME}  ${env:NAME:-text}  ${file:/path}  ${yaml:text}      $$ is a plain $
 *
 * A scalar that is one reference as a whole takes the YAML value found there (number, list, map);
 * keys that want a text get that text as it stood. A reference within text inserts text. Values may
 * hold references in turn. Private to config/. Thread: the one that loads.
 * Limits: EXPAND_ROUNDS_MAX references a scalar, EXPAND_DEPTH_MAX levels, CONFIG_FILE_MAX bytes.
 */
#include "config/yaml/tree.h"

#define EXPAND_ROUNDS_MAX 1000
#define EXPAND_DEPTH_MAX  16

/* Expands in place. What fails is reported and becomes NODE_BROKEN. */
void expand_tree(struct tree *tree, struct node *root);
