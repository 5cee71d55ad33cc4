/* SPDX-License-Identifier: Apache-2.0 */
#include "config/check/check.h"
#include "config/keys/bind.h"
#include "config/check/check_auth.h"
#include "config/check/check_otlp.h"
#include "config/check/check_pages.h"
#include "config/check/check_tls.h"
#include "config/yaml/value.h"
#include "context/context_source.h"
#include <assert.h>
#include <stdio.h>

/* The address says whether it is a socket's path; transport may only agree. */
static void settle_transport(struct tree *tree, const char *path, const struct node *node,
                             const char *protocol, enum config_transport transport, int mode,
                             struct config_endpoint *endpoint)
{
    char dotted[64];
    bool is_path = endpoint->transport == CONFIG_UNIX;
    snprintf(dotted, sizeof(dotted), "protocols.%s.transport", protocol);
    path = diag_path(tree->diag, diag_path(tree->diag, path, protocol), "transport");
    if (is_path ? transport != CONFIG_UNIX && transport != CONFIG_TCP : transport == CONFIG_UNIX)
        diag_error(tree->diag, tree_place(node, dotted), path,
                   is_path ? "the endpoint is a path; write unix, or leave it out"
                           : "the endpoint is no path; write one like /run/spanprof/otlp.sock");
    if (is_path)
        endpoint->socket_mode = (unsigned)mode;
    else
        endpoint->transport = transport;
}

/* As the Collector has them: at most one * each. */
static void check_cors(struct tree *tree, const char *path, const struct node *node,
                       const struct config_cors *cors)
{
    path = diag_path(tree->diag, diag_path(tree->diag, path, "http"), "cors");
    for (size_t i = 0; i < cors->allowed_origins.count; i++) {
        const char *origin = cors->allowed_origins.items[i], *star = strchr(origin, '*');
        bool form = strcmp(origin, "*") == 0 || strstr(origin, "://");
        if (!form || (star && strchr(star + 1, '*')) || origin[strlen(origin) - 1] == '/')
            diag_error(tree->diag, tree_place(node, "protocols.http.cors.allowed_origins"),
                       diag_path(tree->diag, path, "allowed_origins"),
                       "\"%.80s\" is no origin; write one like https://app.example.com or "
                       "https://*.example.com, or *",
                       origin);
    }
}

static void check_otlp_receiver(struct tree *tree, const char *path, const struct node *node,
                                struct config_receiver_otlp *otlp)
{
    const char *protocols = diag_path(tree->diag, path, "protocols");
    settle_transport(tree, protocols, node, "grpc", otlp->grpc.transport, otlp->grpc.socket_mode,
                     &otlp->grpc.endpoint);
    settle_transport(tree, protocols, node, "http", otlp->http.transport, otlp->http.socket_mode,
                     &otlp->http.endpoint);
    check_cors(tree, protocols, node, &otlp->http.cors);
    if (!otlp->grpc.enabled && !otlp->http.enabled)
        diag_error(tree->diag, tree_place(node, "protocols"),
                   diag_path(tree->diag, path, "protocols"),
                   "names no protocol; write protocols: {grpc: , http: }, or one of them");
    check_tls_receiver(tree, diag_path(tree->diag, path, "protocols"), node, "grpc",
                       &otlp->grpc.tls);
    check_tls_receiver(tree, diag_path(tree->diag, path, "protocols"), node, "http",
                       &otlp->http.tls);
}

static void check_label_names(struct tree *tree, const char *path, const struct node *node,
                              const char *key, const struct config_list *names)
{
    char dotted[64];
    snprintf(dotted, sizeof(dotted), "contexts.%s", key);
    for (size_t i = 0; i < names->count; i++)
        if (strlen(names->items[i]) > CONTEXT_LABEL_MAX)
            diag_error(tree->diag, tree_place(node, dotted), diag_path(tree->diag, path, key),
                       "\"%.20s...\" is longer than %d bytes, which is as much as is read of a "
                       "label's name; leave it out",
                       names->items[i], CONTEXT_LABEL_MAX);
}

/* What agent-bpf/sampler/filter.h says of its values; NULL, or what is wrong. */
static const char *wrong_pid(const char *text)
{
    bool good =
        *text >= '1' && *text <= '9' && strlen(text) <= 7 && !text[strspn(text, "0123456789")];
    return good ? NULL : "is not the number of a process; write one like 1234";
}

static const char *wrong_comm(const char *text)
{
    return strlen(text) < 16 ? NULL
                             : "is longer than 15 bytes, where the kernel cuts names of threads";
}

static const char *wrong_executable(const char *text)
{
    if (strchr(text, '/'))
        return "holds a /; write the file's name without directories";
    return strlen(text) < 64 ? NULL : "is longer than 63 bytes, which is as much as is compared";
}

static const char *wrong_cgroup(const char *text)
{
    bool good = text[0] == '/' && !strstr(text, "/..") && !strstr(text, "//");
    return good ? NULL : "is not a cgroup's path; write one like /system.slice/ssh.service";
}

static const char *wrong_container(const char *text)
{
    size_t len = strlen(text);
    bool good = len >= 12 && len <= 64 && !text[strspn(text, "0123456789abcdef-")];
    return good ? NULL : "is not a container's id; write 12 to 64 hex digits in lower case";
}

static void check_filter(struct tree *tree, const char *path, const struct node *node,
                         const char *name, const struct config_filter *filter)
{
    const struct {
        const char *key;
        const struct config_list *values;
        const char *(*wrong)(const char *text);
    } lists[] = {{"pids", &filter->pids, wrong_pid},
                 {"comms", &filter->comms, wrong_comm},
                 {"executables", &filter->executables, wrong_executable},
                 {"cgroups", &filter->cgroups, wrong_cgroup},
                 {"containers", &filter->containers, wrong_container}};
    char dotted[64];
    path = diag_path(tree->diag, path, name);
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        snprintf(dotted, sizeof(dotted), "%s.%s", name, lists[i].key);
        for (size_t j = 0; j < lists[i].values->count; j++) {
            const char *wrong = lists[i].wrong(lists[i].values->items[j]);
            if (wrong)
                diag_error(tree->diag, tree_place(node, dotted),
                           diag_path(tree->diag, path, lists[i].key), "\"%.80s\" %s",
                           lists[i].values->items[j], wrong);
        }
    }
}

static void check_sampler(struct tree *tree, const char *path, const struct node *node,
                          const struct config_receiver_sampler *sampler)
{
    check_filter(tree, path, node, "include", &sampler->include);
    check_filter(tree, path, node, "exclude", &sampler->exclude);
    path = diag_path(tree->diag, path, "contexts");
    if (sampler->contexts.obi_map[0] != '/')
        diag_error(tree->diag, tree_place(node, "contexts.obi_map"),
                   diag_path(tree->diag, path, "obi_map"),
                   "\"%s\" is not an absolute path; write one like "
                   "/sys/fs/bpf/otel/traces_ctx_v1, or obi: false to do without",
                   sampler->contexts.obi_map);
    check_label_names(tree, path, node, "trace_id_labels", &sampler->contexts.trace_id_labels);
    check_label_names(tree, path, node, "span_id_labels", &sampler->contexts.span_id_labels);
}

static void check_join(struct tree *tree, const char *path, const struct node *node,
                       const struct config_processor_join *join)
{
    if (join->span_totals_ttl_ns < join->wait_ns)
        diag_error(tree->diag, tree_place(node, "span_totals_ttl"),
                   diag_path(tree->diag, path, "span_totals_ttl"),
                   "is shorter than wait; write at least the same");
    for (size_t i = 0; i < join->forwarders.cgroups.count; i++) {
        const char *cgroup = join->forwarders.cgroups.items[i];
        if (cgroup[0] != '/' || !cgroup[1])
            diag_error(tree->diag, tree_place(node, "forwarders.cgroups"),
                       diag_path(tree->diag, path, "forwarders.cgroups"),
                       "\"%.80s\" is not the path of a cgroup; write one like "
                       "/system.slice/otelcol.service",
                       cgroup);
    }
}

static void check_health(struct tree *tree, const char *path, const struct node *node,
                         const struct config_health_check *health)
{
    if (health->path[0] != '/')
        diag_error(tree->diag, tree_place(node, "path"), diag_path(tree->diag, path, "path"),
                   "\"%.80s\" does not begin with a slash; write one like /health", health->path);
}

void check_component(struct tree *tree, const char *path, const struct node *node,
                     enum config_type type, void *settings)
{
    switch (type) {
    case CONFIG_RECEIVER_OTLP:
        check_otlp_receiver(tree, path, node, settings);
        break;
    case CONFIG_RECEIVER_SAMPLER:
        check_sampler(tree, path, node, settings);
        break;
    case CONFIG_PROCESSOR_JOIN:
        check_join(tree, path, node, settings);
        break;
    case CONFIG_EXTENSION_HEALTH_CHECK:
        check_health(tree, path, node, settings);
        break;
    case CONFIG_EXTENSION_PAGES:
        check_pages(tree, path, node, settings);
        break;
    case CONFIG_EXTENSION_BEARER_TOKEN_AUTH:
        check_bearer_token_auth(tree, path, node, settings);
        break;
    case CONFIG_EXPORTER_OTLP_GRPC:
        check_otlp_grpc(tree, path, node, settings);
        break;
    case CONFIG_EXPORTER_OTLP_HTTP:
        check_otlp_http(tree, path, node, settings);
        break;
    default:
        break;
    }
}

struct listener {
    const struct config_endpoint *endpoint;
    const char *path;
    struct config_place place;
};

#define LISTENERS_MAX (2 * CONFIG_COMPONENTS_MAX + 4) /* metrics, health_check, pages: 2 */

struct listeners {
    struct tree *tree;
    size_t count;
    struct listener items[LISTENERS_MAX];
};

static bool is_any(const struct config_endpoint *endpoint)
{
    return strcmp(endpoint->host, "0.0.0.0") == 0 || strcmp(endpoint->host, "::") == 0;
}

static bool config_endpoint_clash(const struct config_endpoint *a, const struct config_endpoint *b)
{
    if (a->transport == CONFIG_UNIX || b->transport == CONFIG_UNIX)
        return a->transport == b->transport && strcmp(a->host, b->host) == 0;
    return a->port && a->port == b->port &&
           (strcmp(a->host, b->host) == 0 || is_any(a) || is_any(b));
}

static void add_listener(struct listeners *all, const struct config_endpoint *endpoint,
                         const char *path, struct config_place place)
{
    for (size_t i = 0; i < all->count; i++) {
        char text[VALUE_ENDPOINT_MAX];
        if (!config_endpoint_clash(all->items[i].endpoint, endpoint))
            continue;
        value_format_endpoint(endpoint, text);
        diag_error(all->tree->diag, place, path, "%s is taken by %s; choose another %s", text,
                   all->items[i].path, endpoint->transport == CONFIG_UNIX ? "path" : "port");
        return;
    }
    assert(all->count < LISTENERS_MAX);
    all->items[all->count++] = (struct listener){endpoint, path, place};
}

static const struct node *component_node(const struct node *root, enum config_class class,
                                         const char *id)
{
    const struct node_entry *section = tree_find(root, config_class_names[class]);
    const struct node_entry *entry = section ? tree_find(section->value, id) : NULL;
    return entry ? entry->value : root;
}

static void check_listeners(struct tree *tree, const struct node *root, const struct config *config)
{
    struct listeners all = {.tree = tree};
    for (size_t i = 0; i < config->n_receivers; i++) {
        const struct config_receiver *receiver = &config->receivers[i];
        if (!receiver->used || receiver->type != CONFIG_RECEIVER_OTLP)
            continue;
        const struct node *node = component_node(root, CLASS_RECEIVER, receiver->id);
        if (receiver->otlp.grpc.enabled)
            add_listener(
                &all, &receiver->otlp.grpc.endpoint,
                diag_printf(tree->diag, "receivers::%s::protocols::grpc::endpoint", receiver->id),
                tree_place(node, "protocols.grpc.endpoint"));
        if (receiver->otlp.http.enabled)
            add_listener(
                &all, &receiver->otlp.http.endpoint,
                diag_printf(tree->diag, "receivers::%s::protocols::http::endpoint", receiver->id),
                tree_place(node, "protocols.http.endpoint"));
    }
    const struct config_extension *health =
        config_find_extension(config, CONFIG_EXTENSION_HEALTH_CHECK);
    if (health)
        add_listener(&all, &health->health_check.endpoint,
                     diag_printf(tree->diag, "extensions::%s::endpoint", health->id),
                     tree_place(component_node(root, CLASS_EXTENSION, health->id), "endpoint"));
    const struct config_extension *pages = config_find_extension(config, CONFIG_EXTENSION_PAGES);
    if (pages)
        add_listener(&all, &pages->pages.endpoint,
                     diag_printf(tree->diag, "extensions::%s::endpoint", pages->id),
                     tree_place(component_node(root, CLASS_EXTENSION, pages->id), "endpoint"));
    if (pages && pages->pages.socket_endpoint.set)
        add_listener(&all, &pages->pages.socket_endpoint,
                     diag_printf(tree->diag, "extensions::%s::socket", pages->id),
                     tree_place(component_node(root, CLASS_EXTENSION, pages->id), "socket"));
    if (config->service.metrics_enabled)
        add_listener(&all, &config->service.metrics_address, "service::telemetry::metrics::address",
                     tree_place(root, "service.telemetry.metrics.address"));
}

static void check_authenticators(struct tree *tree, const struct node *root,
                                 const struct config *config)
{
    for (size_t i = 0; i < config->n_receivers; i++) {
        const struct config_receiver *receiver = &config->receivers[i];
        if (!receiver->used || receiver->type != CONFIG_RECEIVER_OTLP)
            continue;
        const struct node *node = component_node(root, CLASS_RECEIVER, receiver->id);
        const struct config_receiver_otlp *otlp = &receiver->otlp;
        if (otlp->grpc.enabled)
            check_authenticator(tree, node, config, receiver->id, "grpc", otlp->grpc.authenticator);
        if (otlp->http.enabled)
            check_authenticator(tree, node, config, receiver->id, "http", otlp->http.authenticator);
    }
}

/* Two writers would rotate each other's file away. */
static void check_files(struct tree *tree, const struct node *root, const struct config *config)
{
    for (size_t i = 0; i < config->n_exporters; i++) {
        const struct config_exporter *exporter = &config->exporters[i];
        for (size_t j = 0; j < i && exporter->type == CONFIG_EXPORTER_FILE; j++) {
            const struct config_exporter *other = &config->exporters[j];
            if (other->type != CONFIG_EXPORTER_FILE || !exporter->used || !other->used ||
                strcmp(exporter->file.path, other->file.path) != 0)
                continue;
            const struct node *node = component_node(root, CLASS_EXPORTER, exporter->id);
            diag_error(tree->diag, tree_place(node, "path"),
                       diag_printf(tree->diag, "exporters::%s::path", exporter->id),
                       "%s is written by %s; choose another file, or name one exporter in several "
                       "pipelines",
                       exporter->file.path, other->id);
        }
    }
}

static size_t count_used(const struct config *config, enum config_class class,
                         enum config_type type)
{
    size_t n = 0;
    for (size_t i = 0; i < components_count(config, class); i++) {
        struct component_slot slot = components_at(config, class, i);
        n += *slot.type == type && *slot.used;
    }
    return n;
}

/* This node has one sampler, one join and one store, whatever their names. */
static void check_single(struct tree *tree, const struct node *root, const struct config *config,
                         enum config_class class, enum config_type type)
{
    bool extension = class == CLASS_EXTENSION;
    if (count_used(config, class, type) > 1)
        diag_error(tree->diag,
                   tree_place(root, extension ? "service.extensions" : "service.pipelines"),
                   extension ? "service::extensions" : "service::pipelines",
                   "more than one %s is in use; there is one of it, so name the same everywhere",
                   keys_component_of(type)->name);
}

static const struct config_extension *find_extension(const struct config *config,
                                                     enum config_type type)
{
    for (size_t i = 0; i < config->n_extensions; i++)
        if (config->extensions[i].type == type)
            return &config->extensions[i];
    return NULL;
}

static bool lists_more_than_used(const struct node *listed, const struct config *config)
{
    size_t n = 0;
    for (size_t i = 0; i < config->n_extensions; i++)
        n += config->extensions[i].used;
    if (!listed || listed->kind == NODE_NULL)
        return false;
    return listed->kind != NODE_LIST || listed->count > n;
}

/* There has to be one; who names none gets one with the defaults. */
static void need_extension(struct tree *tree, const struct node *root, struct config *config,
                           enum config_type type, const char *what)
{
    const char *name = keys_component_of(type)->name;
    if (count_used(config, CLASS_EXTENSION, type))
        return;
    const struct node *listed = tree_get(root, "service.extensions");
    if (lists_more_than_used(listed, config))
        return; /* what it lists is wrong, and reported */
    const struct config_extension *unused = find_extension(config, type);
    if (unused) {
        const char *id = unused->id;
        diag_error(tree->diag, tree_place(root, "service.extensions"), "service::extensions",
                   "the %s \"%s\" is configured but not in use; write extensions: [%s] under "
                   "service",
                   what, id, id);
        return;
    }
    struct component_slot slot;
    if (components_add(config, CLASS_EXTENSION, name, type, &slot)) {
        bind_defaults(tree, (int)type, slot.settings);
        *slot.used = true;
    }
}

static void check_store(struct tree *tree, const struct node *root, struct config *config)
{
    check_single(tree, root, config, CLASS_EXTENSION, CONFIG_EXTENSION_SQLITE_STORAGE);
    need_extension(tree, root, config, CONFIG_EXTENSION_SQLITE_STORAGE, "store");
}

/* What others need of the store comes first. */
static void check_history(struct tree *tree, const struct node *root, struct config *config)
{
    check_single(tree, root, config, CLASS_EXTENSION, CONFIG_EXTENSION_HISTORY);
    if (config_find_extension(config, CONFIG_EXTENSION_PAGES))
        need_extension(tree, root, config, CONFIG_EXTENSION_HISTORY, "history");
    struct config_extension *history =
        (struct config_extension *)config_find_extension(config, CONFIG_EXTENSION_HISTORY);
    const struct config_extension *store =
        config_find_extension(config, CONFIG_EXTENSION_SQLITE_STORAGE);
    if (!history || !store ||
        history->history.max_size_bytes <= store->sqlite_storage.max_size_bytes / 2)
        return;
    const struct node *node = component_node(root, CLASS_EXTENSION, history->id);
    if (node != root && tree_get(node, "max_size_mib"))
        diag_error(tree->diag, tree_place(node, "max_size_mib"),
                   diag_printf(tree->diag, "extensions::%s::max_size_mib", history->id),
                   "is more than half of sqlite_storage::max_size_mib; write less here, or more "
                   "there");
    history->history.max_size_bytes = store->sqlite_storage.max_size_bytes / 2;
}

static bool has_join(const struct config *config, enum config_signal signal)
{
    const struct config_pipeline *pipeline = config_find_pipeline(config, signal);
    for (size_t i = 0; pipeline && i < pipeline->n_processors; i++)
        if (config->processors[pipeline->processors[i]].type == CONFIG_PROCESSOR_JOIN)
            return true;
    return false;
}

/* Half a join is allowed, but hardly meant. */
static void warn_half_join(struct tree *tree, const struct node *root, const struct config *config)
{
    bool traces = has_join(config, CONFIG_TRACES), profiles = has_join(config, CONFIG_PROFILES);
    if (traces != profiles)
        diag_warn(
            tree->diag, tree_place(root, "service.pipelines"), "service::pipelines",
            "join is in the %s pipeline only, so samples and spans are not joined; name it in "
            "the %s pipeline too",
            config_signal_names[traces ? CONFIG_TRACES : CONFIG_PROFILES],
            config_signal_names[traces ? CONFIG_PROFILES : CONFIG_TRACES]);
}

void check_config(struct tree *tree, const struct node *root, struct config *config)
{
    check_single(tree, root, config, CLASS_RECEIVER, CONFIG_RECEIVER_SAMPLER);
    check_single(tree, root, config, CLASS_PROCESSOR, CONFIG_PROCESSOR_JOIN);
    check_store(tree, root, config);
    check_single(tree, root, config, CLASS_EXTENSION, CONFIG_EXTENSION_HEALTH_CHECK);
    check_single(tree, root, config, CLASS_EXTENSION, CONFIG_EXTENSION_PAGES);
    check_history(tree, root, config);
    settle_pages_socket(tree, root, config);
    check_listeners(tree, root, config);
    check_authenticators(tree, root, config);
    check_files(tree, root, config);
    check_otlp_exporters(tree, root, config);
    if (tree->diag->n_errors == 0)
        warn_half_join(tree, root, config);
}
