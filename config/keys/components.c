/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Callers of config.h want typed arrays, the code that fills and prints them wants one loop.
 */
#include "config/keys/components.h"
#include <stdio.h>

static size_t *count_of(struct config *config, enum config_class class)
{
    switch (class) {
    case CLASS_RECEIVER:
        return &config->n_receivers;
    case CLASS_PROCESSOR:
        return &config->n_processors;
    case CLASS_EXPORTER:
        return &config->n_exporters;
    default:
        return &config->n_extensions;
    }
}

size_t components_count(const struct config *config, enum config_class class)
{
    switch (class) {
    case CLASS_RECEIVER:
        return config->n_receivers;
    case CLASS_PROCESSOR:
        return config->n_processors;
    case CLASS_EXPORTER:
        return config->n_exporters;
    default:
        return config->n_extensions;
    }
}

struct component_slot components_at(const struct config *constant, enum config_class class,
                                    size_t i)
{
    struct config *config = (struct config *)constant;
    switch (class) {
    case CLASS_RECEIVER: {
        struct config_receiver *receiver = &config->receivers[i];
        return (struct component_slot){receiver->id, &receiver->type, &receiver->used,
                                       &receiver->otlp};
    }
    case CLASS_PROCESSOR: {
        struct config_processor *processor = &config->processors[i];
        return (struct component_slot){processor->id, &processor->type, &processor->used,
                                       &processor->join};
    }
    case CLASS_EXPORTER: {
        struct config_exporter *exporter = &config->exporters[i];
        return (struct component_slot){exporter->id, &exporter->type, &exporter->used,
                                       &exporter->otlp};
    }
    default: {
        struct config_extension *extension = &config->extensions[i];
        return (struct component_slot){extension->id, &extension->type, &extension->used,
                                       &extension->sqlite_storage};
    }
    }
}

ptrdiff_t components_find(const struct config *config, enum config_class class, const char *id)
{
    for (size_t i = 0; i < components_count(config, class); i++)
        if (strcmp(components_at(config, class, i).id, id) == 0)
            return (ptrdiff_t)i;
    return -1;
}

bool components_add(struct config *config, enum config_class class, const char *id,
                    enum config_type type, struct component_slot *slot)
{
    size_t *count = count_of(config, class);
    if (*count == CONFIG_COMPONENTS_MAX)
        return false;
    *slot = components_at(config, class, (*count)++);
    snprintf(slot->id, CONFIG_NAME_MAX, "%s", id);
    *slot->type = type;
    return true;
}
