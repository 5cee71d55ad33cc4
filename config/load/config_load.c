/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order is the Collector's: read each source, merge all, expand references in the result, and
 * only then ask what it means. A value that a later source replaces is never checked.
 */
#include "config/load/config_load.h"
#include "config/yaml/expand.h"
#include "config/yaml/file.h"
#include "config/keys/keys.h"
#include "config/check/pipeline.h"
#include "config/yaml/yaml.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define MEMORY_MAX ((size_t)64 << 20)

static int source_read_file(struct tree *tree, size_t source, const char *name, struct node **root)
{
    _cleanup_buf_ struct buf text = BUF_INIT(0);
    struct yaml_input input = {.place = {.source = source}};
    const char *path = strncmp(name, "file:", 5) == 0 ? name + 5 : name;
    const char *problem = file_read(path, FILE_ANY, &text);
    if (problem) {
        diag_error(tree->diag, input.place, "", "%s", problem);
        return -EINVAL;
    }
    input.text = buf_bytes(&text);
    if (yaml_read(tree, &input, root))
        return -EINVAL;
    if (*root && (*root)->kind != NODE_MAP && (*root)->kind != NODE_NULL) {
        diag_error(tree->diag, (*root)->place, "",
                   "expected a map with receivers, exporters and service, found %s",
                   node_kind_name(*root));
        return -EINVAL;
    }
    return 0;
}

/* a.b.c=value to nested maps around value. */
static int set_nest(struct tree *tree, struct config_place place, const char *keys, size_t len,
                    struct node *value, struct node **root)
{
    *root = value;
    for (size_t depth = 0; len || depth == 0; depth++) {
        size_t start = len;
        while (start && keys[start - 1] != '.')
            start--;
        char *key = arena_zalloc(tree->arena, len - start + 1);
        struct node *map = tree_node(tree, NODE_MAP, place);
        if (!key || !map || len == start || depth == TREE_DEPTH_MAX)
            return -EINVAL;
        memcpy(key, keys + start, len - start);
        if (tree_append(tree, map, (struct node_entry){.key = key, .place = place, .value = *root}))
            return -EINVAL;
        *root = map;
        len = start ? start - 1 : 0;
        if (start && len == 0)
            return -EINVAL; /* .a=v */
    }
    return 0;
}

static int source_read_set(struct tree *tree, size_t source, const char *text, struct node **root)
{
    const char *equals = strchr(text, '=');
    struct config_place place = {.source = source};
    struct node *value;
    if (!equals) {
        diag_error(tree->diag, place, "", "has no =; write --set key.key=value");
        return -EINVAL;
    }
    struct yaml_input input = {.text = BYTES_STR(equals + 1), .place = place, .fixed = true};
    if (yaml_read(tree, &input, &value))
        return -EINVAL;
    if (!value)
        value = tree_node(tree, NODE_NULL, place);
    if (!value || set_nest(tree, place, text, (size_t)(equals - text), value, root)) {
        diag_error(tree->diag, place, "",
                   "the keys before = are not understood; write --set key.key=value, for example "
                   "--set receivers.sampler.frequency=49");
        return -EINVAL;
    }
    return 0;
}

/* *root: all sources merged; NULL if they hold nothing. */
static int sources_read(struct tree *tree, struct node **root)
{
    int error = 0;
    const struct diag *diag = tree->diag;
    for (size_t i = 0; i < diag->n_sources; i++) {
        struct node *source = NULL;
        int failed = diag->sources[i].kind == CONFIG_SOURCE_FILE
                         ? source_read_file(tree, i, diag->sources[i].text, &source)
                         : source_read_set(tree, i, diag->sources[i].text, &source);
        if (failed)
            error = failed;
        else if (source && source->kind == NODE_MAP)
            *root = tree_merge(tree, *root, source);
    }
    return error;
}

static void config_read(struct tree *tree, struct config *config)
{
    struct node *root = NULL;
    if (sources_read(tree, &root))
        return; /* half a configuration would give errors that are not in it */
    if (!root || root->count == 0) {
        diag_error(tree->diag, (struct config_place){.line = 1, .column = 1}, "",
                   "the configuration is empty; write receivers, exporters and service, as in "
                   "spanprof.yaml");
        return;
    }
    expand_tree(tree, root);
    pipeline_build(tree, root, config);
}

static void config_keep_warnings(struct diag *diag, struct config *config)
{
    for (size_t i = 0; i < diag->n_warnings; i++) {
        const char *line = diag_warning(diag, i);
        if (line)
            config->warnings[config->n_warnings++] = line;
    }
}

/* An unset variable is a warning, but it is often why a value is missing: so both are shown. */
static int config_write_errors(struct diag *diag, const struct config *config, struct buf *errors)
{
    int error = diag_write(diag, errors);
    for (size_t i = 0; i < config->n_warnings && !error; i++)
        error = buf_printf(errors, "warning: %s\n", config->warnings[i]);
    return error == -ENOMEM ? -ENOMEM : -EINVAL;
}

static int config_finish(struct diag *diag, struct config *config, struct buf *errors)
{
    config_keep_warnings(diag, config);
    if (diag->exhausted)
        diag_error(diag, (struct config_place){.source = diag->n_sources}, "",
                   "out of memory; a configuration needs less than %zu MiB", MEMORY_MAX >> 20);
    return diag->n_errors ? config_write_errors(diag, config, errors) : 0;
}

int config_load(const struct config_source *sources, size_t n, struct config **config,
                struct buf *errors)
{
    *config = NULL;
    struct config *loaded = calloc(1, sizeof(*loaded));
    struct arena *arena = calloc(1, sizeof(*arena));
    struct diag *diag = calloc(1, sizeof(*diag));
    int error = -ENOMEM;
    if (loaded && arena && diag) {
        arena_init(arena, MEMORY_MAX);
        loaded->memory = arena;
        *diag = (struct diag){.arena = arena, .sources = sources, .n_sources = n};
        config_read(&(struct tree){.diag = diag, .arena = arena}, loaded);
        error = config_finish(diag, loaded, errors);
        arena = NULL;
    }
    free(diag);
    free(arena);
    if (error)
        config_close(loaded);
    else
        *config = loaded;
    return error;
}

void config_close(struct config *config)
{
    if (!config)
        return;
    if (config->memory)
        arena_close(config->memory);
    free(config->memory);
    free(config);
}

bool config_other_id(const struct config_exporter *exporter, char other[CONFIG_NAME_MAX])
{
    const struct config_component *component = keys_component_of(exporter->type);
    size_t n = strcspn(exporter->id, "/");
    if (!component->alias)
        return false;
    bool old = bytes_is(BYTES(exporter->id, n), component->alias);
    int length = snprintf(other, CONFIG_NAME_MAX, "%s%s", old ? component->name : component->alias,
                          exporter->id + n);
    return length < CONFIG_NAME_MAX;
}
