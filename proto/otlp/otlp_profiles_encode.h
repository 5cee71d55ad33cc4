/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Writing a profiles request, shared by the parts of otlp_profiles that do it. Outcomes: 0,
 * BUF_FULL, negative errno; the caller cuts back what was half written.
 */
#include "proto/otlp/otlp_profiles_builder.h"
#include "proto/wire.h"

struct encoder {
    const struct otlp_profiles *profiles;
    uint64_t start_unix_ns;
    uint64_t end_unix_ns;
    struct bytes version;
    struct buf *out;
};

/* Marks what the samples use and numbers it. */
void profiles_number_used(struct otlp_profiles *profiles);

/* The dictionary: otlp_profiles_dictionary.c. */
int profiles_put_dictionary(struct encoder *encoder);

/* Fields; an index becomes its number. Zero is left out. */
int profiles_put_nonzero(struct encoder *encoder, uint32_t field, uint64_t value);
int profiles_put_index(struct encoder *encoder, uint32_t field, const struct profiles_table *table,
                       int32_t index);
/* Packed. skip_zero: an index of 0 stands for nothing, and is no element. */
int profiles_put_indices(struct encoder *encoder, uint32_t field,
                         const struct profiles_table *table, struct bytes list, bool skip_zero);

/* Returns its n_lines; the i-th of them: profiles_line(). */
static inline int32_t profiles_location(const struct otlp_profiles *profiles, int32_t index,
                                        struct location_key *key)
{
    memcpy(key, profiles_table_key(&profiles->locations, index).data, sizeof(*key));
    return key->n_lines;
}

static inline struct line_key profiles_line(const struct otlp_profiles *profiles, int32_t location,
                                            int32_t i)
{
    struct line_key line;
    const uint8_t *lines =
        profiles_table_key(&profiles->locations, location).data + sizeof(struct location_key);
    memcpy(&line, lines + (size_t)i * sizeof(line), sizeof(line));
    return line;
}

/* An index within a key that is, or has, a list of them. */
static inline int32_t profiles_list_at(struct bytes list, size_t offset)
{
    int32_t index;
    memcpy(&index, list.data + offset, sizeof(index));
    return index;
}
