/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What the keys of otlp_grpc and otlp_http say together. Private to config/. Thread: any.
 */
#include "config/config.h"
#include "config/yaml/tree.h"

void check_otlp_grpc(struct tree *tree, const char *path, const struct node *node,
                     struct config_exporter_otlp *otlp);
void check_otlp_http(struct tree *tree, const char *path, const struct node *node,
                     struct config_exporter_otlp *otlp);
/* Those in use, against pipelines and store. */
void check_otlp_exporters(struct tree *tree, const struct node *root, const struct config *config);
