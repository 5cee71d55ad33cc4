/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The four arrays of components of a struct config, seen alike. Private to config/.
 * Thread: as struct config. Limit: CONFIG_COMPONENTS_MAX of each class.
 */
#include "config/keys/keys.h"

struct component_slot {
    char *id; /* CONFIG_NAME_MAX bytes */
    enum config_type *type;
    bool *used;
    void *settings;
};

size_t components_count(const struct config *config, enum config_class class);
/* Settings are as constant as the config. */
struct component_slot components_at(const struct config *config, enum config_class class, size_t i);
ptrdiff_t components_find(const struct config *config, enum config_class class,
                          const char *id); /* -1 */
/* Room for one more, with id and type set; false when the array is full. */
bool components_add(struct config *config, enum config_class class, const char *id,
                    enum config_type type, struct component_slot *slot);
