/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The `headers` key of exporters: names and values as HTTP/2 and gRPC allow them. Private to
 * config/. Thread: the one that loads. Values are secrets: no message holds one.
 */
#include "config/yaml/tree.h"

void headers_bind(struct tree *tree, const char *path, const struct node *node,
                  struct config_exporter_otlp *exporter);
