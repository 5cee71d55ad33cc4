/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pages show what programs do. If other machines can reach them, a token must say who may read
 * them, and TLS must keep it secret on the way.
 */
#include "config/check/check_pages.h"
#include "config/check/check_tls.h"
#include "config/yaml/value.h"
#include <arpa/inet.h>
#include <stdio.h>

#define TOKEN_MIN       16
#define SOCKET_PATH_MAX 107 /* of sun_path */
#define SOCKET_NAME     "spanprof.sock"

static bool pages_given(const char *text)
{
    return text && *text;
}

static bool is_loopback(const struct config_endpoint *endpoint)
{
    struct in_addr v4;
    if (strcmp(endpoint->host, "localhost") == 0 || strcmp(endpoint->host, "::1") == 0)
        return true;
    return inet_pton(AF_INET, endpoint->host, &v4) == 1 && ntohl(v4.s_addr) >> 24 == 127;
}

static void check_endpoint(struct tree *tree, const char *path, const struct node *node,
                           const struct config_pages *pages)
{
    char text[VALUE_ENDPOINT_MAX];
    bool token = pages->auth.required;
    if (is_loopback(&pages->endpoint) || (token && pages->tls.enabled))
        return;
    value_format_endpoint(&pages->endpoint, text);
    diag_error(tree->diag, tree_place(node, "endpoint"), diag_path(tree->diag, path, "endpoint"),
               "%s can be reached from elsewhere, which needs a token and TLS: %s; or write "
               "localhost:%u",
               text,
               token                ? "write tls: {cert_file: ..., key_file: ...} too"
               : pages->tls.enabled ? "write auth: {required: true}"
                                    : "write auth: {required: true} and tls: {cert_file: ..., "
                                      "key_file: ...}",
               pages->endpoint.port);
}

static void check_auth(struct tree *tree, const char *path, const struct node *node,
                       const struct config_pages *pages)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "-._~+/=";
    const char *token = pages->auth.token;
    path = diag_path(tree->diag, path, "auth");
    if (!pages->auth.required && (pages_given(token) || pages_given(pages->auth.token_file)))
        diag_error(tree->diag, tree_place(node, "auth.required"),
                   diag_path(tree->diag, path, "required"),
                   "is false beside a token; remove one of them");
    if (pages_given(token) && pages_given(pages->auth.token_file))
        diag_error(tree->diag, tree_place(node, "auth.token_file"),
                   diag_path(tree->diag, path, "token_file"), "stands beside token; keep one");
    if (pages_given(token) && (strlen(token) < TOKEN_MIN || token[strspn(token, letters)]))
        diag_error(tree->diag, tree_place(node, "auth.token"), diag_path(tree->diag, path, "token"),
                   "is no token; write at least %d letters and digits, for example from `openssl "
                   "rand -hex 16`",
                   TOKEN_MIN);
}

static void check_socket(struct tree *tree, const char *path, const struct node *node,
                         const struct config_pages *pages)
{
    const char *socket = pages->socket;
    if (pages_given(socket) && socket[0] != '/' && strcmp(socket, "none") != 0)
        diag_error(tree->diag, tree_place(node, "socket"), diag_path(tree->diag, path, "socket"),
                   "\"%.80s\" is no absolute path; write one like /run/spanprof/spanprof.sock, or "
                   "none",
                   socket);
}

static void check_hosts(struct tree *tree, const char *path, const struct node *node,
                        const struct config_pages *pages)
{
    for (size_t i = 0; i < pages->allowed_hosts.count; i++) {
        const char *host = pages->allowed_hosts.items[i];
        if (!*host || strpbrk(host, "/:* "))
            diag_error(tree->diag, tree_place(node, "allowed_hosts"),
                       diag_path(tree->diag, path, "allowed_hosts"),
                       "\"%.80s\" is no host name; write one like node1.example, without port",
                       host);
    }
}

void check_pages(struct tree *tree, const char *path, const struct node *node,
                 const struct config_pages *pages)
{
    check_tls_server(tree, path, node, "tls", &pages->tls);
    check_auth(tree, path, node, pages);
    check_endpoint(tree, path, node, pages);
    check_socket(tree, path, node, pages);
    check_hosts(tree, path, node, pages);
}

void settle_pages_socket(struct tree *tree, const struct node *root, struct config *config)
{
    const struct config_extension *store =
        config_find_extension(config, CONFIG_EXTENSION_SQLITE_STORAGE);
    struct config_extension *pages =
        (struct config_extension *)config_find_extension(config, CONFIG_EXTENSION_PAGES);
    if (!pages || !store || !pages->pages.socket || strcmp(pages->pages.socket, "none") == 0)
        return;
    struct config_endpoint *endpoint = &pages->pages.socket_endpoint;
    bool own = pages_given(pages->pages.socket);
    int len = own ? snprintf(endpoint->host, sizeof(endpoint->host), "%s", pages->pages.socket)
                  : snprintf(endpoint->host, sizeof(endpoint->host), "%s/" SOCKET_NAME,
                             store->sqlite_storage.directory);
    endpoint->transport = CONFIG_UNIX;
    endpoint->socket_mode = 0600;
    endpoint->set = len <= SOCKET_PATH_MAX;
    if (!endpoint->set)
        diag_warn(tree->diag, tree_place(root, "service.extensions"), "extensions::pages::socket",
                  "the path of the store's directory is too long for a socket in it, so there is "
                  "none; write a shorter one in socket");
}
