/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * From tree to struct by the table of keys: types, ranges, choices, unknown keys. Private to
 * config/. Thread: the one that loads. Everything wrong is reported; the struct is then not to be
 * used.
 */
#include "config/keys/keys.h"
#include "config/yaml/tree.h"

/* Fills the fields of an owner with the table's defaults. */
void bind_defaults(struct tree *tree, int owner, void *settings);

/* Reads node (a map or nothing) into settings. path: of the node, for messages; place: where to say
 * that a required key is missing. */
void bind_settings(struct tree *tree, int owner, const char *path, struct config_place place,
                   const struct node *node, void *settings);

/* "unknown key ...; did you mean ...?", for a key below the section `prefix` of the owner. */
void bind_report_unknown(struct tree *tree, int owner, const char *prefix, const char *path,
                         const struct node_entry *entry);

/* The text of a scalar for a key that wants text: the original where it came from a reference.
 * NULL: it is no text (a number without quotes, a list, ...). */
const char *bind_text(const struct node *node);
