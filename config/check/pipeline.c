/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One pipeline a signal: behind the receivers there is one store with one stream of requests a
 * signal, which every exporter of the signal reads. A second pipeline would need to know, of each
 * request, which receiver it came by; several receivers and exporters in one pipeline say most of
 * what is wanted.
 */
#include "config/check/pipeline.h"
#include "config/keys/bind.h"
#include "config/check/check.h"
#include <stdio.h>

struct build {
    struct tree *tree;
    struct node *root;
    struct config *config;
};

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

struct component_id {
    char text[CONFIG_NAME_MAX]; /* type or type/name, without blanks */
    char type[64];
};

static bool copy_trimmed(const char *text, size_t len, char *out, size_t size)
{
    while (len && strchr(" \t", *text)) {
        text++;
        len--;
    }
    while (len && strchr(" \t", text[len - 1]))
        len--;
    if (len == 0 || len >= size)
        return false;
    memcpy(out, text, len);
    out[len] = 0;
    return true;
}

static bool name_ok(const char *name)
{
    for (const char *c = name; *c; c++)
        if ((unsigned char)*c <= ' ' || strchr("\x7f$+<=>^`|~\"\\", *c))
            return false;
    return bytes_utf8_valid(BYTES_STR(name));
}

/* NULL, or what is wrong. */
static const char *parse_id(const char *text, struct component_id *id)
{
    char name[CONFIG_NAME_MAX];
    size_t len = strcspn(text, "/");
    if (!copy_trimmed(text, len, id->type, sizeof(id->type)) || !strchr(LETTERS, id->type[0]) ||
        id->type[strspn(id->type, LETTERS "0123456789_")])
        return "is no id; write type or type/name, where the type begins with a letter and has "
               "letters, digits and _";
    if (!text[len]) {
        snprintf(id->text, sizeof(id->text), "%s", id->type);
        return NULL;
    }
    if (!copy_trimmed(text + len + 1, strlen(text + len + 1), name, sizeof(name)) || !name_ok(name))
        return "has no name behind the /; write type/name, without blanks and symbols in the name";
    int n = snprintf(id->text, sizeof(id->text), "%s/%s", id->type, name);
    return n < (int)sizeof(id->text) ? NULL : "is too long; an id has at most 127 bytes";
}

static void report_unknown_type(struct build *build, enum config_class class, const char *path,
                                const struct node_entry *entry, const char *type)
{
    char known[256];
    size_t len = 0;
    known[0] = 0;
    for (size_t i = 0; i < config_components_count && len < sizeof(known); i++)
        if (config_components[i].class == class)
            len += (size_t)snprintf(known + len, sizeof(known) - len, "%s%s", len ? ", " : "",
                                    config_components[i].name);
    const char *hint = keys_hint(-1 - (int)class, type);
    diag_error(build->tree->diag, entry->place, path, "unknown %s type \"%.64s\"; %s%s%ss here: %s",
               config_class_singular[class], type, hint ? hint : "", hint ? "; " : "",
               config_class_singular[class], known);
}

static void add_component(struct build *build, enum config_class class, struct node_entry *entry,
                          const struct component_id *id, const struct config_component *component)
{
    struct diag *diag = build->tree->diag;
    const char *path = diag_path(diag, config_class_names[class], id->text);
    struct component_slot slot;
    if (!components_add(build->config, class, id->text, component->type, &slot)) {
        diag_error(diag, entry->place, path, "more than %d %s", CONFIG_COMPONENTS_MAX,
                   config_class_names[class]);
        return;
    }
    if (component->alias && strcmp(id->type, component->alias) == 0)
        diag_warn(diag, entry->place, path, "\"%s\" is an old name of the %s \"%s\"", id->type,
                  config_class_singular[class], component->name);
    size_t n_errors = diag->n_errors;
    bind_defaults(build->tree, (int)component->type, slot.settings);
    bind_settings(build->tree, (int)component->type, path, entry->place, entry->value,
                  slot.settings);
    if (diag->n_errors == n_errors && entry->value->kind != NODE_BROKEN)
        check_component(build->tree, path, entry->value, component->type, slot.settings);
}

static void read_component(struct build *build, enum config_class class, struct node *section,
                           struct node_entry *entry)
{
    struct diag *diag = build->tree->diag;
    const char *path = diag_path(diag, config_class_names[class], entry->key);
    struct component_id id;
    const char *problem = parse_id(entry->key, &id);
    if (problem) {
        diag_error(diag, entry->place, config_class_names[class], "\"%.80s\" %s", entry->key,
                   problem);
        return;
    }
    const struct config_component *component = keys_component(class, id.type);
    const struct node_entry *twin = tree_find(section, id.text);
    if (twin && twin != entry)
        diag_error(diag, entry->place, path, "stands twice, with other blanks; keep one");
    else if (component)
        add_component(build, class, entry, &id, component);
    else
        report_unknown_type(build, class, path, entry, id.type);
    entry->key = diag_printf(diag, "%s", id.text); /* as pipelines name it */
}

static bool is_map(struct build *build, const char *path, const struct node *node)
{
    if (node->kind != NODE_MAP && node->kind != NODE_NULL && node->kind != NODE_BROKEN)
        diag_error(build->tree->diag, node->place, path, "expected a map, found %s",
                   node_kind_name(node));
    return node->kind == NODE_MAP;
}

static bool is_empty(const struct node *node)
{
    return node->kind == NODE_NULL || (node->kind == NODE_MAP && node->count == 0);
}

static void read_class(struct build *build, enum config_class class)
{
    const char *name = config_class_names[class];
    struct node_entry *section = tree_find(build->root, name);
    bool required = class == CLASS_RECEIVER || class == CLASS_EXPORTER;
    if (section && is_map(build, name, section->value))
        for (struct node_entry *entry = section->value->entries; entry; entry = entry->next)
            read_component(build, class, section->value, entry);
    if (required && (!section || is_empty(section->value)))
        diag_error(build->tree->diag, section ? section->place : build->root->place, name,
                   "no %s is configured; write at least one, for example %s",
                   config_class_singular[class],
                   class == CLASS_RECEIVER ? "receivers: {otlp: {protocols: {grpc: }}}"
                                           : "exporters: {debug: }");
}

/* One id of a list, on its way into a pipeline or into use. */
struct reference {
    struct build *build;
    enum config_class class;
    const char *path;
    uint32_t *indices;
    size_t *count;
    const struct config_pipeline *pipeline; /* NULL: service::extensions */
};

/* The component's index, or -1 when reported (now or where it should have been configured). */
static ptrdiff_t reference_resolve(const struct reference *ref, const struct node *item)
{
    struct diag *diag = ref->build->tree->diag;
    struct component_id id;
    const char *text = bind_text(item), *name = config_class_names[ref->class];
    if (item->kind == NODE_BROKEN)
        return -1;
    const char *problem = text ? parse_id(text, &id) : "is no id; write type or type/name";
    if (problem) {
        diag_error(diag, item->place, ref->path, "\"%.80s\" %s", text ? text : node_kind_name(item),
                   problem);
        return -1;
    }
    ptrdiff_t i = components_find(ref->build->config, ref->class, id.text);
    const struct node_entry *section = tree_find(ref->build->root, name);
    if (i < 0 && !(section && tree_find(section->value, id.text)))
        diag_error(diag, item->place, ref->path,
                   "the %s \"%s\" is not configured; add it to %s, or take it out here",
                   config_class_singular[ref->class], id.text, name);
    return i;
}

/* false when reported */
static bool check_signal(const struct reference *ref, const struct component_slot *slot,
                         struct config_place place)
{
    const struct config_component *component = keys_component_of(*slot->type);
    if (!ref->pipeline || component->signals & 1U << ref->pipeline->signal)
        return true;
    const char *names[CONFIG_SIGNALS];
    size_t n = 0;
    for (unsigned signal = 0; signal < CONFIG_SIGNALS; signal++)
        if (component->signals & 1U << signal)
            names[n++] = config_signal_names[signal];
    diag_error(ref->build->tree->diag, place, ref->path,
               "the %s \"%s\" has no %s; name it in the %s%s%s pipeline%s only",
               config_class_singular[ref->class], slot->id,
               config_signal_names[ref->pipeline->signal], names[0], n > 1 ? " and the " : "",
               n > 1 ? names[1] : "", n > 1 ? "s" : ""); /* three of four: no such component */
    return false;
}

static void add_reference(const struct reference *ref, const struct node *item)
{
    ptrdiff_t i = reference_resolve(ref, item);
    if (i < 0)
        return;
    struct component_slot slot = components_at(ref->build->config, ref->class, (size_t)i);
    for (size_t k = 0; k < *ref->count; k++)
        if (ref->indices[k] == (uint32_t)i) {
            diag_error(ref->build->tree->diag, item->place, ref->path,
                       "the %s \"%s\" stands twice; keep one", config_class_singular[ref->class],
                       slot.id);
            return;
        }
    if (!check_signal(ref, &slot, item->place))
        return;
    *slot.used = true;
    ref->indices[(*ref->count)++] = (uint32_t)i; /* room: no index twice */
}

static void read_references(const struct reference *ref, const struct node *list)
{
    const char *text = bind_text(list);
    if (list->kind == NODE_NULL || list->kind == NODE_BROKEN)
        return;
    if (list->kind != NODE_LIST) {
        diag_error(ref->build->tree->diag, list->place, ref->path,
                   "expected a list of ids like [%.40s], found %s", text ? text : "a, b/c",
                   node_kind_name(list));
        return;
    }
    for (const struct node_entry *entry = list->entries; entry; entry = entry->next)
        add_reference(ref, entry->value);
}

static void read_extensions(struct build *build, const struct node *service)
{
    uint32_t indices[CONFIG_COMPONENTS_MAX];
    size_t count = 0;
    const struct node_entry *entry = tree_find(service, "extensions");
    if (entry)
        read_references(&(struct reference){build, CLASS_EXTENSION, "service::extensions", indices,
                                            &count, NULL},
                        entry->value);
}

static void read_pipeline_lists(struct build *build, struct config_pipeline *pipeline,
                                const char *path, const struct node_entry *entry)
{
    struct {
        uint32_t *indices;
        size_t *count;
    } lists[] = {
        [CLASS_RECEIVER] = {pipeline->receivers, &pipeline->n_receivers},
        [CLASS_PROCESSOR] = {pipeline->processors, &pipeline->n_processors},
        [CLASS_EXPORTER] = {pipeline->exporters, &pipeline->n_exporters},
    };
    for (enum config_class class = CLASS_RECEIVER; class <= CLASS_EXPORTER; class ++) {
        const struct node_entry *list = tree_find(entry->value, config_class_names[class]);
        const char *list_path = diag_path(build->tree->diag, path, config_class_names[class]);
        struct reference ref = {build,   class, list_path, lists[class].indices, lists[class].count,
                                pipeline};
        if (!list)
            continue; /* a required one that is missing is reported by the table */
        read_references(&ref, list->value);
        if (class != CLASS_PROCESSOR && list->value->kind == NODE_LIST && list->value->count == 0)
            diag_error(build->tree->diag, list->place, list_path,
                       "names no %s; a pipeline needs at least one", config_class_singular[class]);
    }
}

/* false when reported */
static bool parse_signal(struct build *build, const struct node_entry *entry, const char *path,
                         struct config_pipeline *pipeline)
{
    struct diag *diag = build->tree->diag;
    struct component_id id;
    const char *problem = parse_id(entry->key, &id);
    size_t signal = 0;
    while (!problem && signal < CONFIG_SIGNALS && strcmp(config_signal_names[signal], id.type) != 0)
        signal++;
    if (problem || signal == CONFIG_SIGNALS) {
        diag_error(diag, entry->place, path,
                   "is no pipeline; write traces, profiles, metrics or logs");
        return false;
    }
    const struct config_pipeline *first =
        config_find_pipeline(build->config, (enum config_signal)signal);
    if (first) {
        diag_error(diag, entry->place, path,
                   "is a second %s pipeline beside \"%s\"; there is one a signal, so name all its "
                   "receivers and exporters there",
                   id.type, first->id);
        return false;
    }
    memcpy(pipeline->id, id.text, sizeof(id.text));
    pipeline->signal = (enum config_signal)signal;
    return true;
}

static void read_pipeline(struct build *build, const struct node_entry *entry)
{
    struct config *config = build->config;
    struct config_pipeline *pipeline = &config->pipelines[config->n_pipelines];
    const char *path = diag_path(build->tree->diag, "service::pipelines", entry->key);
    if (!parse_signal(build, entry, path, pipeline))
        return;
    config->n_pipelines++; /* at most one a signal */
    bind_settings(build->tree, OWNER_PIPELINE, path, entry->place, entry->value, pipeline);
    if (entry->value->kind == NODE_MAP)
        read_pipeline_lists(build, pipeline, path, entry);
}

static void read_pipelines(struct build *build, const struct node_entry *service)
{
    const struct node_entry *pipelines = tree_find(service->value, "pipelines");
    if (pipelines && is_map(build, "service::pipelines", pipelines->value))
        for (const struct node_entry *e = pipelines->value->entries; e; e = e->next)
            read_pipeline(build, e);
    if (!pipelines || is_empty(pipelines->value))
        diag_error(
            build->tree->diag, pipelines ? pipelines->place : service->place, "service::pipelines",
            "there is no pipeline; write for example pipelines: {traces: {receivers: [otlp], "
            "processors: [join], exporters: [otlp_grpc]}}");
}

static void read_service(struct build *build)
{
    const struct node_entry *service = tree_find(build->root, "service");
    bind_defaults(build->tree, OWNER_SERVICE, &build->config->service);
    if (!service) {
        diag_error(build->tree->diag, build->root->place, "service",
                   "is missing; without service: {pipelines: ...} nothing would run");
        return;
    }
    bind_settings(build->tree, OWNER_SERVICE, "service", service->place, service->value,
                  &build->config->service);
    if (service->value->kind != NODE_MAP && service->value->kind != NODE_NULL)
        return;
    read_extensions(build, service->value);
    read_pipelines(build, service);
}

void pipeline_build(struct tree *tree, struct node *root, struct config *config)
{
    struct build build = {tree, root, config};
    for (const struct node_entry *entry = root->entries; entry; entry = entry->next)
        if (!keys_find(OWNER_ROOT, "", entry->key) &&
            !(strcmp(entry->key, "connectors") == 0 && entry->value->kind == NODE_NULL))
            bind_report_unknown(tree, OWNER_ROOT, "", "", entry);
    for (enum config_class class = CLASS_RECEIVER; class < CLASSES; class ++)
        read_class(&build, class);
    read_service(&build);
    const struct node *service = tree_get(root, "service");
    if (service && service->kind == NODE_MAP)
        check_config(tree, root, config);
}
