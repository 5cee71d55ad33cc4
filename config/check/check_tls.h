/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What the keys of a tls section say together. Private to config/. Thread: any.
 */
#include "config/config.h"
#include "config/yaml/tree.h"

/* node, path: of the receiver, and of its protocols. */
void check_tls_receiver(struct tree *tree, const char *path, const struct node *node,
                        const char *protocol, const struct config_tls *tls);
/* A server's section elsewhere; dotted: from node to it, path: of what it is in. */
void check_tls_server(struct tree *tree, const char *path, const struct node *node,
                      const char *dotted, const struct config_tls *tls);
/* Sets tls->insecure for http://. */
void check_tls_exporter(struct tree *tree, const char *path, const struct node *node,
                        const struct config_endpoint *endpoint, struct config_tls *tls);
