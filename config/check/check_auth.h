/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Rules of authentication: the tokens of an extension bearertokenauth, and that receivers name one.
 * Private to config/. Thread: the one that loads.
 */
#include "config/config.h"
#include "config/yaml/tree.h"

void check_bearer_token_auth(struct tree *tree, const char *path, const struct node *node,
                             const struct config_bearer_token_auth *auth);
/* Of the protocol "grpc" or "http" of a receiver, once the extensions in use are known. node: the
 * receiver's. */
void check_authenticator(struct tree *tree, const struct node *node, const struct config *config,
                         const char *receiver, const char *protocol, const char *authenticator);
