/* SPDX-License-Identifier: Apache-2.0 */
#include "config/check/check_otlp.h"
#include "config/check/check_tls.h"
#include "config/yaml/diag.h"
#include <stdio.h>

/* ---- one exporter ---- */

static void check_retry(struct tree *tree, const char *path, const struct node *node,
                        const struct config_retry *retry)
{
    path = diag_path(tree->diag, path, "retry_on_failure");
    if (retry->max_interval_ns < retry->initial_interval_ns)
        diag_error(tree->diag, tree_place(node, "retry_on_failure.max_interval"),
                   diag_path(tree->diag, path, "max_interval"),
                   "is shorter than initial_interval; write at least the same");
    if (retry->max_elapsed_time_ns && (retry->max_elapsed_time_ns < retry->initial_interval_ns ||
                                       retry->max_elapsed_time_ns < retry->max_interval_ns))
        diag_error(tree->diag, tree_place(node, "retry_on_failure.max_elapsed_time"),
                   diag_path(tree->diag, path, "max_elapsed_time"),
                   "is shorter than initial_interval or max_interval; write at least the longer of "
                   "them, or 0 for never giving up");
}

static void check_common(struct tree *tree, const char *path, const struct node *node,
                         const struct config_exporter_otlp *otlp)
{
    check_retry(tree, path, node, &otlp->retry);
    if (!otlp->queue_enabled)
        diag_error(tree->diag, tree_place(node, "sending_queue.enabled"),
                   diag_path(tree->diag, diag_path(tree->diag, path, "sending_queue"), "enabled"),
                   "an exporter without a queue is not available; leave it out");
}

void check_otlp_grpc(struct tree *tree, const char *path, const struct node *node,
                     struct config_exporter_otlp *otlp)
{
    check_common(tree, path, node, otlp);
    check_tls_exporter(tree, path, node, &otlp->endpoint, &otlp->tls);
    if (otlp->socket_users.names.count && otlp->endpoint.transport != CONFIG_UNIX)
        diag_error(
            tree->diag, tree_place(node, "socket_users"),
            diag_path(tree->diag, path, "socket_users"),
            "the endpoint is no socket's path, so it cannot be told who listens there; leave "
            "it out, and use tls");
}

/* The tls section is for those of the URLs that begin with https://. */
static struct config_endpoint most_secure(const struct config_exporter_otlp *otlp)
{
    struct config_endpoint endpoint = otlp->url.endpoint;
    for (size_t i = 0; i < CONFIG_SIGNALS; i++)
        if (otlp->urls[i].endpoint.set && endpoint.scheme != CONFIG_SCHEME_HTTPS)
            endpoint = otlp->urls[i].endpoint;
    return endpoint;
}

void check_otlp_http(struct tree *tree, const char *path, const struct node *node,
                     struct config_exporter_otlp *otlp)
{
    const struct config_endpoint endpoint = most_secure(otlp);
    check_common(tree, path, node, otlp);
    check_tls_exporter(tree, path, node, &endpoint, &otlp->tls);
    if (otlp->url.endpoint.set && strchr(otlp->url.path, '?'))
        diag_error(tree->diag, tree_place(node, "endpoint"),
                   diag_path(tree->diag, path, "endpoint"),
                   "has a ?, but the signal's path is put behind it; write complete URLs: "
                   "traces_endpoint...");
}

/* ---- those in use ---- */

struct use {
    struct tree *tree;
    const struct node *node; /* its settings */
    const struct config *config;
    const struct config_exporter *exporter;
    const char *path;
};

static bool leads_to(const struct use *use, enum config_signal signal)
{
    const struct config_pipeline *pipeline = config_find_pipeline(use->config, signal);
    for (size_t i = 0; pipeline && i < pipeline->n_exporters; i++)
        if (&use->config->exporters[pipeline->exporters[i]] == use->exporter)
            return true;
    return false;
}

static void check_urls(const struct use *use)
{
    const struct config_exporter_otlp *otlp = &use->exporter->otlp;
    for (enum config_signal signal = 0; signal < CONFIG_SIGNALS; signal++) {
        const char *name = config_signal_names[signal];
        if (otlp->url.endpoint.set || otlp->urls[signal].endpoint.set || !leads_to(use, signal))
            continue;
        diag_error(use->tree->diag, use->node->place, use->path,
                   "there is no URL for %s; write endpoint, or %s_endpoint", name, name);
    }
}

static void check_storage(const struct use *use)
{
    const char *storage = use->exporter->otlp.queue_storage;
    const struct config_extension *store =
        config_find_extension(use->config, CONFIG_EXTENSION_SQLITE_STORAGE);
    if (!*storage || (store && strcmp(store->id, storage) == 0))
        return;
    diag_error(use->tree->diag, tree_place(use->node, "sending_queue.storage"),
               diag_path(use->tree->diag, diag_path(use->tree->diag, use->path, "sending_queue"),
                         "storage"),
               "\"%s\" is not the store in use; leave it out, queues are in the store anyway",
               storage);
}

void check_otlp_exporters(struct tree *tree, const struct node *root, const struct config *config)
{
    for (size_t i = 0; i < config->n_exporters; i++) {
        const struct config_exporter *exporter = &config->exporters[i];
        const struct node *node = tree_get(root, "exporters");
        const struct node_entry *entry = node ? tree_find(node, exporter->id) : NULL;
        struct use use = {tree, entry ? entry->value : root, config, exporter,
                          diag_printf(tree->diag, "exporters::%s", exporter->id)};
        bool http = exporter->type == CONFIG_EXPORTER_OTLP_HTTP;
        if (!exporter->used || (!http && exporter->type != CONFIG_EXPORTER_OTLP_GRPC))
            continue;
        check_storage(&use);
        if (http)
            check_urls(&use);
    }
}
