/* SPDX-License-Identifier: Apache-2.0 */
/* Samples into profiles: one profile for a resource, type and period, one sample for an identity.
 */
#include "proto/otlp/otlp_profiles_builder.h"
#include "proto/wire.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define PROFILE_BYTES (PROFILES_HEADER_BYTES + 2 * 14 + 9 + 11 + 11 + 18)
#define EVENT_BYTES   ((size_t)8)

/* What is to be added, found or not. */
struct addition {
    const struct otlp_sample *sample;
    struct profile_key profile_key;
    struct bytes sample_key; /* in scratch */
    int32_t profile;         /* -ENOENT: new */
    int32_t index;           /* of the sample; -ENOENT: new */
    size_t bytes_on_wire;
};

static int compare_index(const void *a, const void *b)
{
    int32_t left = *(const int32_t *)a, right = *(const int32_t *)b;
    return (left > right) - (left < right);
}

/* The name of an attribute: an index into strings, at the head of its key. */
static int32_t name_of(const struct otlp_profiles *profiles, int32_t attribute)
{
    int32_t name;
    memcpy(&name, profiles_table_key(&profiles->attributes, attribute).data, sizeof(name));
    return name;
}

static bool has_name(const struct otlp_profiles *profiles, const int32_t *attributes, size_t n,
                     int32_t name)
{
    for (size_t i = 0; i < n; i++)
        if (name_of(profiles, attributes[i]) == name)
            return true;
    return false;
}

/* A key must not be twice in a list: the first counts. Sorted, for they are a set. */
static int put_attributes(struct otlp_profiles *profiles, const struct otlp_sample *sample)
{
    struct buf *scratch = &profiles->scratch;
    int error = buf_reserve(scratch, sample->n_attributes * sizeof(int32_t));
    if (error || sample->n_attributes == 0)
        return error;
    int32_t *kept = (int32_t *)(void *)(scratch->data + scratch->len);
    size_t n = 0;
    for (size_t i = 0; i < sample->n_attributes; i++) {
        int32_t attribute = sample->attributes[i];
        if (attribute != 0 && !has_name(profiles, kept, n, name_of(profiles, attribute)))
            kept[n++] = attribute;
    }
    qsort(kept, n, sizeof(*kept), compare_index);
    scratch->len += n * sizeof(*kept);
    return 0;
}

static int put_sample_key(struct otlp_profiles *profiles, struct addition *addition)
{
    const struct otlp_sample *sample = addition->sample;
    struct sample_key key = {addition->profile, sample->stack, sample->link};
    if (key.profile < 0) /* it will be the next one */
        key.profile = profiles_table_count(&profiles->profiles);
    buf_clear(&profiles->scratch);
    int error = buf_append(&profiles->scratch, &key, sizeof(key));
    if (!error)
        error = put_attributes(profiles, sample);
    addition->sample_key = buf_bytes(&profiles->scratch);
    return error;
}

static size_t sample_bytes(const struct addition *addition)
{
    struct bytes key = addition->sample_key;
    size_t size = 4 * PROFILES_HEADER_BYTES; /* of itself, attributes, values, timestamps */
    for (size_t at = offsetof(struct sample_key, stack); at < key.len; at += sizeof(int32_t)) {
        int32_t index;
        memcpy(&index, key.data + at, sizeof(index));
        size += 1 + wire_varint_size((uint64_t)index);
    }
    return size;
}

static int look_up(struct otlp_profiles *profiles, struct addition *addition)
{
    const struct otlp_sample *sample = addition->sample;
    addition->profile_key.resource = sample->resource;
    addition->profile_key.type = (int32_t)sample->type;
    if (sample->type == PROFILE_CPU)
        addition->profile_key.period = sample->period_ns;
    struct bytes profile_key = BYTES(&addition->profile_key, sizeof(addition->profile_key));
    addition->profile = profiles_table_find(&profiles->profiles, profiles->seed, profile_key);
    int error = put_sample_key(profiles, addition);
    if (error)
        return error;
    addition->index = profiles_table_find(&profiles->samples, profiles->seed, addition->sample_key);
    addition->bytes_on_wire = EVENT_BYTES;
    if (sample->type != PROFILE_CPU)
        addition->bytes_on_wire += wire_varint_size((uint64_t)sample->value);
    if (addition->profile < 0)
        addition->bytes_on_wire += PROFILE_BYTES;
    if (addition->index < 0)
        addition->bytes_on_wire += sample_bytes(addition);
    return 0;
}

/* Appends element number `index` to a chain; next_of is where the last element keeps its successor.
 */
static void chain_append(struct chain *chain, uint32_t *next_of_last, uint32_t index)
{
    if (chain->last)
        *next_of_last = index + 1;
    else
        chain->first = index + 1;
    chain->last = index + 1;
}

static int add_profile(struct otlp_profiles *profiles, struct addition *addition)
{
    struct profile_data data = {.first_ns = addition->sample->time_unix_ns,
                                .last_ns = addition->sample->time_unix_ns};
    int error = buf_reserve(&profiles->profile_data, sizeof(data));
    if (error)
        return error;
    struct bytes key = BYTES(&addition->profile_key, sizeof(addition->profile_key));
    addition->profile = profiles_table_add(&profiles->profiles, profiles->seed, key);
    if (addition->profile < 0)
        return addition->profile;
    buf_append(&profiles->profile_data, &data, sizeof(data)); /* there is room */
    struct chain *chain =
        &PROFILES_AT(&profiles->resource_data, struct resource_data, addition->sample->resource)
             ->profiles;
    uint32_t *next =
        chain->last
            ? &PROFILES_AT(&profiles->profile_data, struct profile_data, chain->last - 1)->next
            : NULL;
    chain_append(chain, next, (uint32_t)addition->profile);
    return 0;
}

static int add_sample(struct otlp_profiles *profiles, struct addition *addition)
{
    struct sample_data data = {.n_events = 0};
    int error = buf_reserve(&profiles->sample_data, sizeof(data));
    if (error)
        return error;
    addition->index = profiles_table_add(&profiles->samples, profiles->seed, addition->sample_key);
    if (addition->index < 0)
        return addition->index;
    buf_append(&profiles->sample_data, &data, sizeof(data)); /* there is room */
    struct chain *chain =
        &PROFILES_AT(&profiles->profile_data, struct profile_data, addition->profile)->samples;
    uint32_t *next =
        chain->last
            ? &PROFILES_AT(&profiles->sample_data, struct sample_data, chain->last - 1)->next
            : NULL;
    chain_append(chain, next, (uint32_t)addition->index);
    return 0;
}

/* There is room for it. */
static void add_event(struct otlp_profiles *profiles, const struct addition *addition)
{
    const struct otlp_sample *sample = addition->sample;
    struct event event = {.time_unix_ns = sample->time_unix_ns, .value = sample->value};
    struct sample_data *data =
        PROFILES_AT(&profiles->sample_data, struct sample_data, addition->index);
    struct profile_data *profile =
        PROFILES_AT(&profiles->profile_data, struct profile_data, addition->profile);
    buf_append(&profiles->events, &event, sizeof(event));
    uint32_t *next =
        data->events.last
            ? &PROFILES_AT(&profiles->events, struct event, data->events.last - 1)->next
            : NULL;
    chain_append(&data->events, next, profiles->n_events++);
    data->n_events++;
    if (event.time_unix_ns < profile->first_ns)
        profile->first_ns = event.time_unix_ns;
    if (event.time_unix_ns > profile->last_ns)
        profile->last_ns = event.time_unix_ns;
}

static void assert_references(const struct otlp_profiles *profiles,
                              const struct otlp_sample *sample)
{
    assert(sample->resource >= 0 && sample->resource < profiles_table_count(&profiles->resources));
    assert(sample->stack >= 0 && sample->stack < profiles_table_count(&profiles->stacks));
    assert(sample->link >= 0 && sample->link < profiles_table_count(&profiles->links));
    assert(sample->type < PROFILE_TYPE_COUNT);
    for (size_t i = 0; i < sample->n_attributes; i++)
        assert(sample->attributes[i] >= 0 &&
               sample->attributes[i] < profiles_table_count(&profiles->attributes));
}

int otlp_profiles_add(struct otlp_profiles *profiles, const struct otlp_sample *sample)
{
    struct addition addition = {.sample = sample};
    assert_references(profiles, sample);
    int error = look_up(profiles, &addition);
    if (error)
        return error;
    if (addition.bytes_on_wire > profiles->max_bytes - profiles->size_bound)
        return -EMSGSIZE;
    error = buf_reserve(&profiles->events, sizeof(struct event));
    if (!error && addition.profile < 0) {
        error = add_profile(profiles, &addition);
        profiles->size_bound += error ? 0 : PROFILE_BYTES;
        addition.bytes_on_wire -= PROFILE_BYTES;
    }
    if (!error && addition.index < 0)
        error = add_sample(profiles, &addition);
    if (error)
        return error;
    add_event(profiles, &addition);
    profiles->size_bound += addition.bytes_on_wire;
    return 0;
}
