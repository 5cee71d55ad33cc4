/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attributes and Resources of strangers go into a profiles request: whatever they hold, the request
 * conforms and keeps to its size. Input: fields 1 (a Resource), 2 (a KeyValue), 3 (text for names);
 * each other field adds a sample of what came so far.
 */
#include "proto/otlp/otlp_profiles.h"
#include "test/support/fixtures/otlp_profiles_check.h"
#include "proto/wire.h"

#include <errno.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_ATTRIBUTES = 16, MAX_BYTES = 4096 };

struct state {
    int32_t resource;
    int32_t attributes[MAX_ATTRIBUTES];
    size_t n_attributes;
    int32_t stack;
};

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void take_text(struct otlp_profiles *profiles, struct bytes text, struct state *state)
{
    struct otlp_mapping mapping = {.filename = text, .go_build_id = text, .gnu_build_id = text};
    struct otlp_line lines[] = {{.function = text, .file = text}, {.function = text, .line = 7}};
    struct otlp_location location = {
        .frame_type = BYTES_LIT("native"), .lines = lines, .n_lines = 2};
    location.mapping = otlp_profiles_mapping(profiles, &mapping);
    if (location.mapping < 0)
        return;
    int32_t index = otlp_profiles_location(profiles, &location);
    if (index < 0)
        return;
    int32_t stack = otlp_profiles_stack(profiles, &index, 1);
    if (stack >= 0)
        state->stack = stack;
}

static void take(struct otlp_profiles *profiles, const struct wire_field *field,
                 struct state *state)
{
    int32_t index;
    if (field->type == WIRE_BYTES && field->number == 1) {
        index = otlp_profiles_resource(profiles, field->bytes);
        if (index >= 0)
            state->resource = index;
    } else if (field->type == WIRE_BYTES && field->number == 2) {
        index = otlp_profiles_attribute(profiles, field->bytes);
        if (index >= 0 && state->n_attributes < MAX_ATTRIBUTES)
            state->attributes[state->n_attributes++] = index;
    } else if (field->type == WIRE_BYTES && field->number == 3) {
        take_text(profiles, field->bytes, state);
    } else if (state->resource >= 0) {
        struct otlp_sample sample = {.resource = state->resource,
                                     .type = (enum otlp_profile_type)(field->number % 3),
                                     .stack = state->stack,
                                     .attributes = state->attributes,
                                     .n_attributes = state->n_attributes,
                                     .time_unix_ns = field->value >> 1,
                                     .value = (int64_t)field->value,
                                     .period_ns = field->number};
        int error = otlp_profiles_add(profiles, &sample);
        require(error == 0 || error == -EMSGSIZE);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_buf_ struct buf out = BUF_INIT(MAX_BYTES);
    struct otlp_profiles *profiles;
    struct state state = {.resource = -1};
    struct wire_reader reader = wire_read(BYTES(data, size));
    struct wire_field field;
    char why[200];
    otlp_profiles_check(BYTES(data, size), 1 << 20, why, sizeof(why));
    require(otlp_profiles_open(MAX_BYTES, &profiles) == 0);
    while (wire_next(&reader, &field) == WIRE_FIELD)
        take(profiles, &field, &state);
    require(otlp_profiles_finish(profiles, 1000, 2000, "1", &out) == 0);
    require((out.len > 0) == (otlp_profiles_samples(profiles) > 0));
    if (out.len > 0)
        require(otlp_profiles_check(buf_bytes(&out), 8 << 20, why, sizeof(why)) ==
                PROFILES_CONFORM);
    otlp_profiles_close(profiles);
    return 0;
}
