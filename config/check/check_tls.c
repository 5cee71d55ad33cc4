/* SPDX-License-Identifier: Apache-2.0 */
/*
 * As in the Collector, exporters use TLS unless tls::insecure is set. Contradictions are refused,
 * so that data is never sent in plain text by a configuration that seems to encrypt it.
 */
#include "config/check/check_tls.h"
#include "config/yaml/diag.h"
#include <stdio.h>

struct section {
    struct tree *tree;
    const struct node *node; /* the component */
    const char *dotted;      /* from there to the section */
    const char *path;
};

#define TLS_ERROR(section, key, ...)                                                               \
    diag_error((section)->tree->diag, place_of((section), (key)),                                  \
               diag_path((section)->tree->diag, (section)->path, (key)), __VA_ARGS__)

static struct config_place place_of(const struct section *section, const char *key)
{
    char dotted[128];
    snprintf(dotted, sizeof(dotted), "%s.%s", section->dotted, key);
    return tree_place(section->node, dotted);
}

static bool tls_given(const char *text)
{
    return text && *text;
}

static void check_once(const struct section *section, const char *file, const char *file_value,
                       const char *pem, const char *pem_value)
{
    if (tls_given(file_value) && tls_given(pem_value))
        TLS_ERROR(section, pem, "stands beside %s; keep one of them", file);
}

static void check_common(const struct section *section, const struct config_tls *tls)
{
    bool certificate = tls_given(tls->cert_file) || tls_given(tls->cert_pem);
    bool key = tls_given(tls->key_file) || tls_given(tls->key_pem);
    check_once(section, "cert_file", tls->cert_file, "cert_pem", tls->cert_pem);
    check_once(section, "key_file", tls->key_file, "key_pem", tls->key_pem);
    check_once(section, "ca_file", tls->ca_file, "ca_pem", tls->ca_pem);
    if (certificate && !key)
        TLS_ERROR(section, "cert_file", "has no key; write key_file too");
    if (key && !certificate)
        TLS_ERROR(section, "key_file", "has no certificate; write cert_file too");
    if (tls->max_version < tls->min_version)
        TLS_ERROR(section, "max_version", "is older than min_version; write at least the same");
}

void check_tls_receiver(struct tree *tree, const char *path, const struct node *node,
                        const char *protocol, const struct config_tls *tls)
{
    char dotted[64];
    snprintf(dotted, sizeof(dotted), "protocols.%s.tls", protocol);
    check_tls_server(tree, diag_path(tree->diag, path, protocol), node, dotted, tls);
}

void check_tls_server(struct tree *tree, const char *path, const struct node *node,
                      const char *dotted, const struct config_tls *tls)
{
    if (!tls->enabled)
        return;
    path = diag_path(tree->diag, path, "tls");
    const struct section section = {tree, node, dotted, path};
    check_common(&section, tls);
    if (!tls_given(tls->cert_file) && !tls_given(tls->cert_pem) && !tls_given(tls->key_file) &&
        !tls_given(tls->key_pem))
        diag_error(tree->diag, tree_place(node, dotted), path,
                   "has no certificate; write cert_file and key_file, or leave tls out for plain "
                   "text");
    if (tls->client_ca_file_reload && !tls_given(tls->client_ca_file))
        TLS_ERROR(&section, "client_ca_file_reload", "has no client_ca_file to read again");
}

/* The first key that means TLS; NULL. */
static const char *key_of_tls(const struct config_tls *tls)
{
    const struct {
        const char *key, *value;
    } keys[] = {{"ca_file", tls->ca_file},     {"ca_pem", tls->ca_pem},
                {"cert_file", tls->cert_file}, {"cert_pem", tls->cert_pem},
                {"key_file", tls->key_file},   {"key_pem", tls->key_pem}};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (tls_given(keys[i].value))
            return keys[i].key;
    return NULL;
}

void check_tls_exporter(struct tree *tree, const char *path, const struct node *node,
                        const struct config_endpoint *endpoint, struct config_tls *tls)
{
    const struct section section = {tree, node, "tls", diag_path(tree->diag, path, "tls")};
    const char *key = key_of_tls(tls);
    check_common(&section, tls);
    if (tls->insecure && endpoint->scheme == CONFIG_SCHEME_HTTPS)
        TLS_ERROR(&section, "insecure",
                  "true means plain text, but the endpoint begins with https://; keep one of them");
    else if (tls->insecure && key)
        TLS_ERROR(&section, "insecure",
                  "true means plain text, but %s stands beside it; keep one of them", key);
    if (endpoint->scheme == CONFIG_SCHEME_HTTP && key)
        TLS_ERROR(
            &section, key,
            "means TLS, but the endpoint begins with http://; write https:// or leave it out");
    tls->insecure |= endpoint->scheme == CONFIG_SCHEME_HTTP;
}
