/* SPDX-License-Identifier: Apache-2.0 */
/* The request itself: Resources, their profiles, samples. */
#include "proto/otlp/otlp_profiles_encode.h"

#include <assert.h>
#include <errno.h>
#include <sys/random.h>

/* ---- samples ---- */

static int put_values(struct encoder *encoder, const struct sample_data *data)
{
    const struct buf *events = &encoder->profiles->events;
    struct wire_nest nest;
    int error =
        wire_begin(encoder->out, SAMPLE_VALUES, (size_t)data->n_events * WIRE_VARINT_MAX, &nest);
    for (uint32_t i = data->events.first; !error && i;) {
        const struct event *event = PROFILES_AT(events, const struct event, i - 1);
        error = wire_put_bare_varint(encoder->out, (uint64_t)event->value);
        i = event->next;
    }
    if (!error)
        wire_end(encoder->out, &nest);
    return error;
}

static int put_timestamps(struct encoder *encoder, const struct sample_data *data)
{
    const struct buf *events = &encoder->profiles->events;
    int error = wire_put_header(encoder->out, SAMPLE_TIMESTAMPS, (size_t)data->n_events * 8);
    for (uint32_t i = data->events.first; !error && i;) {
        const struct event *event = PROFILES_AT(events, const struct event, i - 1);
        error = buf_append(encoder->out, &event->time_unix_ns, sizeof(event->time_unix_ns));
        i = event->next;
    }
    return error;
}

static int put_sample(struct encoder *encoder, int32_t index, enum otlp_profile_type type)
{
    const struct otlp_profiles *profiles = encoder->profiles;
    const struct sample_data *data =
        PROFILES_AT(&profiles->sample_data, const struct sample_data, index);
    struct bytes key = profiles_table_key(&profiles->samples, index);
    struct bytes attributes =
        BYTES(key.data + sizeof(struct sample_key), key.len - sizeof(struct sample_key));
    struct wire_nest nest;
    int error = wire_begin(encoder->out, PROFILE_SAMPLES, profiles->size_bound, &nest);
    if (!error)
        error = profiles_put_index(encoder, SAMPLE_STACK, &profiles->stacks,
                                   profiles_list_at(key, offsetof(struct sample_key, stack)));
    if (!error)
        error = profiles_put_indices(encoder, SAMPLE_ATTRIBUTES_FIELD, &profiles->attributes,
                                     attributes, true);
    if (!error)
        error = profiles_put_index(encoder, SAMPLE_LINK, &profiles->links,
                                   profiles_list_at(key, offsetof(struct sample_key, link)));
    if (!error && type != PROFILE_CPU) /* a tick is worth one sample: the timestamp says it all */
        error = put_values(encoder, data);
    if (!error)
        error = put_timestamps(encoder, data);
    if (!error)
        wire_end(encoder->out, &nest);
    return error;
}

/* ---- profiles ---- */

static int put_value_type(struct encoder *encoder, uint32_t field, int32_t type, int32_t unit)
{
    const struct profiles_table *strings = &encoder->profiles->strings;
    struct wire_nest nest;
    int error = wire_begin(encoder->out, field, 2 * 6, &nest);
    if (!error)
        error = profiles_put_index(encoder, VALUE_TYPE_TYPE, strings, type);
    if (!error)
        error = profiles_put_index(encoder, VALUE_TYPE_UNIT, strings, unit);
    if (!error)
        wire_end(encoder->out, &nest);
    return error;
}

/* Random, so that no two nodes or runs agree; all zero would be invalid. */
static int put_profile_id(struct encoder *encoder)
{
    uint8_t id[16];
    do {
        if (getrandom(id, sizeof(id), 0) != sizeof(id))
            return -errno;
    } while (bytes_zero(id, sizeof(id)));
    return wire_put_bytes(encoder->out, PROFILE_ID, BYTES(id, sizeof(id)));
}

static int put_window(struct encoder *encoder, const struct profile_data *data)
{
    uint64_t start = encoder->start_unix_ns, end = encoder->end_unix_ns;
    if (data->first_ns < start)
        start = data->first_ns;
    if (data->last_ns >= end) /* the end is outside */
        end = data->last_ns == UINT64_MAX ? UINT64_MAX : data->last_ns + 1;
    int error = wire_put_fixed64(encoder->out, PROFILE_TIME, start);
    return error ? error : profiles_put_nonzero(encoder, PROFILE_DURATION, end - start);
}

static int put_profile_fields(struct encoder *encoder, const struct profile_key *key,
                              const struct profile_data *data)
{
    const struct type_strings *strings = &encoder->profiles->types[key->type];
    int error = put_window(encoder, data);
    if (!error && strings->period_type)
        error = put_value_type(encoder, PROFILE_PERIOD_TYPE, strings->period_type,
                               strings->period_unit);
    if (!error && strings->period_type)
        error = profiles_put_nonzero(encoder, PROFILE_PERIOD, key->period);
    return error ? error : put_profile_id(encoder);
}

static int put_profile(struct encoder *encoder, int32_t index)
{
    const struct otlp_profiles *profiles = encoder->profiles;
    const struct profile_data *data =
        PROFILES_AT(&profiles->profile_data, const struct profile_data, index);
    struct profile_key key;
    struct wire_nest nest;
    profiles_table_read(&profiles->profiles, index, &key, sizeof(key));
    const struct type_strings *strings = &profiles->types[key.type];
    int error = wire_begin(encoder->out, SCOPE_PROFILES_PROFILES, profiles->size_bound, &nest);
    if (!error)
        error = put_value_type(encoder, PROFILE_SAMPLE_TYPE, strings->type, strings->unit);
    for (uint32_t i = data->samples.first; !error && i;) {
        error = put_sample(encoder, (int32_t)i - 1, (enum otlp_profile_type)key.type);
        i = PROFILES_AT(&profiles->sample_data, const struct sample_data, i - 1)->next;
    }
    if (!error)
        error = put_profile_fields(encoder, &key, data);
    if (!error)
        wire_end(encoder->out, &nest);
    return error;
}

static int put_scope(struct encoder *encoder)
{
    struct bytes name = BYTES_LIT("spanprof");
    size_t size = wire_bytes_size(SCOPE_NAME, name.len);
    if (encoder->version.len > 0)
        size += wire_bytes_size(SCOPE_VERSION, encoder->version.len);
    int error = wire_put_header(encoder->out, SCOPE_PROFILES_SCOPE, size);
    if (!error)
        error = wire_put_bytes(encoder->out, SCOPE_NAME, name);
    if (!error && encoder->version.len > 0)
        error = wire_put_bytes(encoder->out, SCOPE_VERSION, encoder->version);
    return error;
}

static int put_resource(struct encoder *encoder, int32_t index)
{
    const struct otlp_profiles *profiles = encoder->profiles;
    struct wire_nest outer, inner;
    uint32_t profile =
        PROFILES_AT(&profiles->resource_data, const struct resource_data, index)->profiles.first;
    if (!profile)
        return 0;
    int error = wire_begin(encoder->out, REQUEST_RESOURCE_PROFILES, profiles->size_bound, &outer);
    if (!error)
        error = wire_put_bytes(encoder->out, RESOURCE_PROFILES_RESOURCE,
                               profiles_table_key(&profiles->resources, index));
    if (!error)
        error = wire_begin(encoder->out, RESOURCE_PROFILES_SCOPE_PROFILES, profiles->size_bound,
                           &inner);
    if (!error)
        error = put_scope(encoder);
    while (!error && profile) {
        error = put_profile(encoder, (int32_t)profile - 1);
        profile =
            PROFILES_AT(&profiles->profile_data, const struct profile_data, profile - 1)->next;
    }
    if (error)
        return error;
    wire_end(encoder->out, &inner);
    wire_end(encoder->out, &outer);
    return 0;
}

int otlp_profiles_finish(struct otlp_profiles *profiles, uint64_t start_unix_ns,
                         uint64_t end_unix_ns, const char *scope_version, struct buf *out)
{
    struct encoder encoder = {profiles, start_unix_ns, end_unix_ns, BYTES_STR(scope_version), out};
    size_t before = out->len;
    assert(start_unix_ns <= end_unix_ns);
    assert(encoder.version.len <= OTLP_PROFILES_VERSION_MAX);
    if (profiles->n_events == 0)
        return 0;
    profiles_number_used(profiles);
    int error = buf_reserve(out, profiles->size_bound); /* in one go, and nothing fails half-way */
    for (int32_t i = 0; !error && i < profiles_table_count(&profiles->resources); i++)
        error = put_resource(&encoder, i);
    if (!error)
        error = profiles_put_dictionary(&encoder);
    if (error)
        out->len = before;
    assert(out->len - before <= profiles->size_bound);
    return error;
}
