/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/otlp/otlp_profiles_layout.h"
#include "proto/otlp/otlp_spans_walk.h"

enum { REQUEST_DICTIONARY = 2, DICTIONARY_ATTRIBUTES = 6, PROFILE_SAMPLES = 2 };
enum { SAMPLE_TIMESTAMPS = 5 };
enum { FORMER_VALUES = 2, FORMER_ATTRIBUTES = 3, FORMER_LINK = 4 };
enum { TODAY_ATTRIBUTES = 2, TODAY_LINK = 3, TODAY_VALUES = 4 };

struct evidence {
    uint64_t n_attributes; /* of the dictionary */
    bool former, today;    /* a field that only this layout can have */
    bool not_former, not_today;
};

struct sample {
    uint64_t n_seconds, n_timestamps; /* in field 2 and in the timestamps */
    bool leads_nowhere;               /* field 2 has an index beyond the dictionary */
};

static int read_seconds(const struct wire_field *field, uint64_t n_attributes,
                        struct sample *sample)
{
    if (field->type == WIRE_VARINT) {
        sample->n_seconds++;
        sample->leads_nowhere |= field->value >= n_attributes;
        return OTLP_OK;
    }
    if (field->type != WIRE_BYTES)
        return OTLP_MALFORMED;
    struct wire_reader reader = wire_read(field->bytes);
    uint64_t value;
    while (reader.at < reader.end) {
        if (!wire_next_varint(&reader, &value))
            return OTLP_MALFORMED;
        sample->n_seconds++;
        sample->leads_nowhere |= value >= n_attributes;
    }
    return OTLP_OK;
}

static void weigh_field(const struct wire_field *field, struct evidence *evidence)
{
    bool list = field->type == WIRE_BYTES, number = field->type == WIRE_VARINT;
    evidence->former |=
        (field->number == FORMER_ATTRIBUTES && list) || (field->number == FORMER_LINK && number);
    evidence->today |=
        (field->number == TODAY_LINK && number) || (field->number == TODAY_VALUES && list);
}

static int weigh_sample(struct bytes message, struct evidence *evidence)
{
    struct wire_reader reader = wire_read(message);
    struct wire_field field;
    struct sample sample = {0};
    int got, outcome = OTLP_OK;
    while (!outcome && (got = wire_next(&reader, &field)) == WIRE_FIELD) {
        weigh_field(&field, evidence);
        if (field.number == TODAY_ATTRIBUTES)
            outcome = read_seconds(&field, evidence->n_attributes, &sample);
        else if (field.number == SAMPLE_TIMESTAMPS)
            sample.n_timestamps += field.type == WIRE_BYTES ? field.bytes.len / 8 : 1;
    }
    if (outcome || got == WIRE_MALFORMED)
        return OTLP_MALFORMED;
    uint64_t n = sample.n_seconds, n_times = sample.n_timestamps;
    evidence->not_today |= sample.leads_nowhere || n_times == 0;
    evidence->not_former |= n == 0 || (n_times ? n != n_times : n != 1);
    return OTLP_OK;
}

static int weigh_profile(void *context, struct bytes profile)
{
    struct wire_reader reader = wire_read(profile);
    struct wire_field field;
    int got, outcome = OTLP_OK;
    while (!outcome && (got = wire_next(&reader, &field)) == WIRE_FIELD)
        if (spans_nested(&field, PROFILE_SAMPLES))
            outcome = weigh_sample(field.bytes, context);
    return outcome ? outcome : got;
}

static int count_attributes(struct bytes request, uint64_t *n)
{
    struct wire_reader reader = wire_read(request);
    struct wire_field field, entry;
    int got;
    while ((got = wire_next(&reader, &field)) == WIRE_FIELD) {
        if (!spans_nested(&field, REQUEST_DICTIONARY))
            continue;
        struct wire_reader dictionary = wire_read(field.bytes);
        while ((got = wire_next(&dictionary, &entry)) == WIRE_FIELD)
            *n += spans_nested(&entry, DICTIONARY_ATTRIBUTES);
        if (got == WIRE_MALFORMED)
            return OTLP_MALFORMED;
    }
    return got;
}

int otlp_profiles_is_former(struct bytes request, bool *former)
{
    struct evidence evidence = {0};
    struct spans_walk walk = {.span = weigh_profile, .context = &evidence};
    int outcome = count_attributes(request, &evidence.n_attributes);
    if (!outcome)
        outcome = spans_walk(request, &walk);
    if (evidence.former || evidence.today)
        *former = !evidence.today;
    else
        *former = evidence.not_today && !evidence.not_former;
    return outcome;
}

/* ---- renumbering ---- */

static int renumber_sample(uint8_t *data, size_t len)
{
    static const uint8_t numbers[] = {[FORMER_VALUES] = TODAY_VALUES,
                                      [FORMER_ATTRIBUTES] = TODAY_ATTRIBUTES,
                                      [FORMER_LINK] = TODAY_LINK};
    struct wire_reader reader = wire_read(BYTES(data, len));
    struct wire_field field;
    int got;
    while ((got = wire_next(&reader, &field)) == WIRE_FIELD) {
        if (field.number < FORMER_VALUES || field.number > FORMER_LINK)
            continue;
        uint8_t *tag = data + (field.raw.data - data);
        if (*tag & 0x80)
            return OTLP_MALFORMED;
        *tag = (uint8_t)((unsigned)numbers[field.number] << 3 | field.type);
    }
    return got;
}

static int renumber_profile(void *context, struct bytes profile)
{
    uint8_t *request = context;
    struct wire_reader reader = wire_read(profile);
    struct wire_field field;
    int got, outcome = OTLP_OK;
    while (!outcome && (got = wire_next(&reader, &field)) == WIRE_FIELD)
        if (spans_nested(&field, PROFILE_SAMPLES) && field.bytes.len)
            outcome = renumber_sample(request + (field.bytes.data - request), field.bytes.len);
    return outcome ? outcome : got;
}

int otlp_profiles_renumber(uint8_t *request, size_t len)
{
    struct spans_walk walk = {.span = renumber_profile, .context = request};
    return spans_walk(BYTES(request, len), &walk);
}
