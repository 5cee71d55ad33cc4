/* SPDX-License-Identifier: Apache-2.0 */
/*
 * print-config and components of config.h: the table walked once more, this time outwards.
 */
#include "config/keys/components.h"
#include "config/keys/format.h"
#include "config/load/config_load.h"

static int print_indent(struct buf *out, unsigned depth)
{
    return buf_printf(out, "%*s", (int)(2 * depth), "");
}

static int print_keys(int owner, const char *prefix, const void *settings, unsigned depth,
                      struct buf *out);

static int print_key(const struct config_key *key, const void *settings, unsigned depth,
                     struct buf *out)
{
    bool section = key->kind == KEY_SECTION;
    if (key->kind == KEY_BUILT || key->kind == KEY_IGNORED ||
        (key->kind == KEY_URL &&
         !((const struct config_url *)format_field(key, settings))->endpoint.set) ||
        (section && key->size && !*(const bool *)format_field(key, settings)))
        return 0;
    int error = print_indent(out, depth);
    if (!error)
        error = buf_printf(out, "%s:%s", keys_name(key), section ? "\n" : " ");
    if (!error && section)
        return print_keys(key->owner, key->path, settings, depth + 1, out);
    if (!error)
        error = format_value(key, settings, out);
    return error ? error : buf_printf(out, "\n");
}

static int print_keys(int owner, const char *prefix, const void *settings, unsigned depth,
                      struct buf *out)
{
    int error = 0;
    const struct config_key *key = NULL;
    while (!error && (key = keys_next(owner, prefix, key)))
        error = print_key(key, settings, depth, out);
    return error;
}

static int print_class(const struct config *config, enum config_class class, struct buf *out)
{
    size_t n = components_count(config, class);
    int error = n ? buf_printf(out, "%s:\n", config_class_names[class]) : 0;
    for (size_t i = 0; i < n && !error; i++) {
        struct component_slot slot = components_at(config, class, i);
        error = print_indent(out, 1);
        if (!error)
            error = format_text(slot.id, out);
        if (!error)
            error = buf_printf(out, ":\n");
        if (!error)
            error = print_keys((int)*slot.type, "", slot.settings, 2, out);
    }
    return error;
}

static int print_ids(const struct config *config, enum config_class class, const uint32_t *indices,
                     size_t n, struct buf *out)
{
    int error = buf_printf(out, "      %s: [", config_class_names[class]);
    for (size_t i = 0; i < n && !error; i++) {
        if (i)
            error = buf_printf(out, ", ");
        if (!error)
            error = format_text(components_at(config, class, indices[i]).id, out);
    }
    return error ? error : buf_printf(out, "]\n");
}

static int print_pipeline(const struct config *config, const struct config_pipeline *pipeline,
                          struct buf *out)
{
    int error = print_indent(out, 2);
    if (!error)
        error = format_text(pipeline->id, out);
    if (!error)
        error = buf_printf(out, ":\n");
    if (!error)
        error = print_ids(config, CLASS_RECEIVER, pipeline->receivers, pipeline->n_receivers, out);
    if (!error)
        error =
            print_ids(config, CLASS_PROCESSOR, pipeline->processors, pipeline->n_processors, out);
    if (!error)
        error = print_ids(config, CLASS_EXPORTER, pipeline->exporters, pipeline->n_exporters, out);
    return error;
}

static int print_service(const struct config *config, struct buf *out)
{
    int error = buf_printf(out, "service:\n  extensions: [");
    bool first = true;
    for (size_t i = 0; i < config->n_extensions && !error; i++) {
        if (!config->extensions[i].used)
            continue;
        error = buf_printf(out, "%s", first ? "" : ", ");
        first = false;
        if (!error)
            error = format_text(config->extensions[i].id, out);
    }
    if (!error)
        error = buf_printf(out, "]\n  pipelines:\n");
    for (size_t i = 0; i < config->n_pipelines && !error; i++)
        error = print_pipeline(config, &config->pipelines[i], out);
    return error ? error : print_keys(OWNER_SERVICE, "", &config->service, 1, out);
}

int config_print(const struct config *config, struct buf *out)
{
    int error = 0;
    for (enum config_class class = CLASS_RECEIVER; class < CLASSES && !error; class ++)
        error = print_class(config, class, out);
    return error ? error : print_service(config, out);
}

static int print_component(const struct config_component *component, struct buf *out)
{
    int error = buf_printf(out, "  - name: %s\n", component->name);
    if (!error && component->alias)
        error = buf_printf(out, "    aliases: [%s]\n", component->alias);
    if (!error)
        error = buf_printf(out, "    stability:\n");
    if (!error && component->signals == 0)
        error = buf_printf(out, "      extension: %s\n", component->stability);
    for (unsigned signal = 0; signal < CONFIG_SIGNALS && !error; signal++)
        if (component->signals & 1U << signal)
            error = buf_printf(out, "      %s: %s\n", config_signal_names[signal],
                               component->stability);
    return error;
}

int config_print_components(struct buf *out)
{
    int error = 0;
    for (enum config_class class = CLASS_RECEIVER; class < CLASSES && !error; class ++) {
        error = buf_printf(out, "%s:\n", config_class_names[class]);
        for (size_t i = 0; i < config_components_count && !error; i++)
            if (config_components[i].class == class)
                error = print_component(&config_components[i], out);
    }
    return error;
}
