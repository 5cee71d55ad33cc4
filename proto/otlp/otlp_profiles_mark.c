/* SPDX-License-Identifier: Apache-2.0 */
/*
 * At finish, entries that samples use, directly or by reference, are marked and numbered in index
 * order. Entry 0 of each table always stays, so a reference of 0 is 0 on the wire, too.
 */
#include "proto/otlp/otlp_profiles_encode.h"

static void mark_attribute(struct otlp_profiles *profiles, int32_t index)
{
    int32_t name;
    if (!profiles_table_mark(&profiles->attributes, index))
        return;
    memcpy(&name, profiles_table_key(&profiles->attributes, index).data, sizeof(name));
    profiles_table_mark(&profiles->strings, name);
}

static void mark_mapping(struct otlp_profiles *profiles, int32_t index)
{
    struct mapping_key key;
    if (!profiles_table_mark(&profiles->mappings, index))
        return;
    profiles_table_read(&profiles->mappings, index, &key, sizeof(key));
    profiles_table_mark(&profiles->strings, key.file);
    for (size_t i = 0; i < MAPPING_ATTRIBUTES; i++)
        mark_attribute(profiles, key.attributes[i]);
}

static void mark_function(struct otlp_profiles *profiles, int32_t index)
{
    struct function_key key;
    if (!profiles_table_mark(&profiles->functions, index))
        return;
    profiles_table_read(&profiles->functions, index, &key, sizeof(key));
    profiles_table_mark(&profiles->strings, key.name);
    profiles_table_mark(&profiles->strings, key.system_name);
    profiles_table_mark(&profiles->strings, key.file);
}

static void mark_location(struct otlp_profiles *profiles, int32_t index)
{
    struct location_key key;
    if (!profiles_table_mark(&profiles->locations, index))
        return;
    int32_t n_lines = profiles_location(profiles, index, &key);
    mark_mapping(profiles, key.mapping);
    for (int32_t i = 0; i < n_lines; i++)
        mark_function(profiles, profiles_line(profiles, index, i).function);
    for (size_t i = 0; i < LOCATION_ATTRIBUTES_MAX; i++)
        mark_attribute(profiles, key.attributes[i]);
}

static void mark_stack(struct otlp_profiles *profiles, int32_t index)
{
    if (!profiles_table_mark(&profiles->stacks, index))
        return;
    struct bytes key = profiles_table_key(&profiles->stacks, index);
    for (size_t at = 0; at < key.len; at += sizeof(int32_t))
        mark_location(profiles, profiles_list_at(key, at));
}

static void mark_used(struct otlp_profiles *profiles)
{
    for (int32_t i = 0; i < profiles_table_count(&profiles->profiles); i++) {
        struct profile_key key;
        profiles_table_read(&profiles->profiles, i, &key, sizeof(key));
        const int32_t *types = &profiles->types[key.type].type;
        for (size_t string = 0; string < 4; string++)
            profiles_table_mark(&profiles->strings, types[string]);
    }
    for (int32_t i = 0; i < profiles_table_count(&profiles->samples); i++) {
        struct bytes key = profiles_table_key(&profiles->samples, i);
        mark_stack(profiles, profiles_list_at(key, offsetof(struct sample_key, stack)));
        profiles_table_mark(&profiles->links,
                            profiles_list_at(key, offsetof(struct sample_key, link)));
        for (size_t at = sizeof(struct sample_key); at < key.len; at += sizeof(int32_t))
            mark_attribute(profiles, profiles_list_at(key, at));
    }
}

void profiles_number_used(struct otlp_profiles *profiles)
{
    struct profiles_table *tables[] = {
        &profiles->strings,   &profiles->attributes, &profiles->functions, &profiles->mappings,
        &profiles->locations, &profiles->stacks,     &profiles->links};
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
        profiles_table_unmark(tables[i]);
    mark_used(profiles);
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
        profiles_table_number(tables[i]);
}
