/* SPDX-License-Identifier: Apache-2.0 */
#include "config/check/check_auth.h"
#include "config/yaml/diag.h"
#include <string.h>

#define TOKEN_MIN 16
#define TOKEN_MAX 512

static bool is_token(const char *text)
{
    size_t len = strlen(text);
    for (size_t i = 0; i < len; i++)
        if (text[i] <= ' ' || text[i] > '~')
            return false;
    return len >= TOKEN_MIN && len <= TOKEN_MAX;
}

static void token_error(struct tree *tree, const char *path, const struct node *node,
                        const char *key)
{
    diag_error(tree->diag, tree_place(node, key), diag_path(tree->diag, path, key),
               "holds no token of %d to %d letters and digits; make one with `openssl rand -hex "
               "16`",
               TOKEN_MIN, TOKEN_MAX);
}

void check_bearer_token_auth(struct tree *tree, const char *path, const struct node *node,
                             const struct config_bearer_token_auth *auth)
{
    bool token = *auth->token, tokens = auth->tokens.count > 0, file = *auth->filename;
    if (token + tokens + file != 1)
        diag_error(tree->diag, tree_place(node, "token"), path,
                   "needs one of token, tokens and filename; write one of them");
    if (token && !is_token(auth->token))
        token_error(tree, path, node, "token");
    for (size_t i = 0; i < auth->tokens.count; i++)
        if (!is_token(auth->tokens.items[i]))
            return token_error(tree, path, node, "tokens");
}

void check_authenticator(struct tree *tree, const struct node *node, const struct config *config,
                         const char *receiver, const char *protocol, const char *authenticator)
{
    if (!*authenticator)
        return;
    for (size_t i = 0; i < config->n_extensions; i++) {
        const struct config_extension *extension = &config->extensions[i];
        if (extension->used && extension->type == CONFIG_EXTENSION_BEARER_TOKEN_AUTH &&
            strcmp(extension->id, authenticator) == 0)
            return;
    }
    diag_error(
        tree->diag,
        tree_place(node, diag_printf(tree->diag, "protocols.%s.auth.authenticator", protocol)),
        diag_printf(tree->diag, "receivers::%s::protocols::%s::auth::authenticator", receiver,
                    protocol),
        "%.80s is no extension bearertokenauth in service::extensions; configure one there",
        authenticator);
}
