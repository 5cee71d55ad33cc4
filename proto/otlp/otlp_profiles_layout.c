/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request of another layout than the one it is read by is malformed at best; at worst its values
 * become indices of attributes. Evidence is collected over all samples: a request has one sender.
 */
#include "proto/otlp/otlp_profiles_layout.h"
#include "proto/otlp/otlp_spans_walk.h"

enum { REQUEST_DICTIONARY = 2, DICTIONARY_ATTRIBUTES = 6, PROFILE_SAMPLES = 2 };
enum { SAMPLE_TIMESTAMPS = 5 }; /* until 1.7 the link */
enum { FORMER_VALUES = 2, FORMER_ATTRIBUTES = 3, FORMER_LINK = 4 };
enum { TODAY_ATTRIBUTES = 2, TODAY_LINK = 3, TODAY_VALUES = 4 };
/* Of a Profile; fields 8 to 12 of 1.8 are one less since. */
enum { PROFILE_TIME = 3, PROFILE_PERIOD_TYPE = 5, PROFILE_PERIOD = 6 };
enum {
    PROFILE_1_8_COMMENTS = 7,
    PROFILE_1_8_ID = 8,
    PROFILE_1_8_DROPPED = 9,
    PROFILE_1_8_ATTRIBUTES = 12
};
enum { PROFILE_ID_BYTES = 16 };

struct evidence {
    uint64_t n_attributes; /* of the dictionary */
    bool is_1_7, is_1_8;   /* a field that only this layout can have */
    bool former, today;    /* the same of samples: former is 1.8 or 1.9 */
    bool maybe_1_8;        /* if it is a former one */
    bool comments;         /* if it is 1.8 */
    bool has_samples;
    bool not_former, not_today; /* some sample is not valid by it */
};

struct sample {
    uint64_t n_seconds, n_timestamps; /* in field 2 and in the timestamps */
    uint64_t last;                    /* of field 2 */
    bool no_attributes;               /* field 2 is no list of attributes */
};

static void add_second(struct sample *sample, uint64_t value, uint64_t n_attributes)
{
    bool again = sample->n_seconds && value == sample->last;
    sample->no_attributes |= again || value >= n_attributes;
    sample->last = value;
    sample->n_seconds++;
}

static int read_seconds(const struct wire_field *field, uint64_t n_attributes,
                        struct sample *sample)
{
    if (field->type == WIRE_VARINT)
        add_second(sample, field->value, n_attributes);
    if (field->type == WIRE_VARINT)
        return OTLP_OK;
    if (field->type != WIRE_BYTES)
        return OTLP_MALFORMED;
    struct wire_reader reader = wire_read(field->bytes);
    uint64_t value;
    while (reader.at < reader.end) {
        if (!wire_next_varint(&reader, &value))
            return OTLP_MALFORMED;
        add_second(sample, value, n_attributes);
    }
    return OTLP_OK;
}

static void weigh_sample_field(const struct wire_field *field, struct evidence *evidence)
{
    bool list = field->type == WIRE_BYTES, number = field->type == WIRE_VARINT;
    evidence->is_1_7 |= field->number == SAMPLE_TIMESTAMPS && number;
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
        weigh_sample_field(&field, evidence);
        if (field.number == TODAY_ATTRIBUTES)
            outcome = read_seconds(&field, evidence->n_attributes, &sample);
        else if (field.number == SAMPLE_TIMESTAMPS)
            sample.n_timestamps += field.type == WIRE_BYTES ? field.bytes.len / 8 : 1;
    }
    if (outcome || got == WIRE_MALFORMED)
        return OTLP_MALFORMED;
    uint64_t n = sample.n_seconds, n_times = sample.n_timestamps;
    evidence->has_samples = true;
    evidence->not_today |= sample.no_attributes || n_times == 0;
    evidence->not_former |= n == 0 || (n_times ? n != n_times : n != 1);
    return OTLP_OK;
}

static void weigh_profile_field(const struct wire_field *field, struct evidence *evidence)
{
    bool bytes = field->type == WIRE_BYTES, number = field->type == WIRE_VARINT;
    bool may_be_id = field->bytes.len == 0 || field->bytes.len == PROFILE_ID_BYTES;
    switch (field->number) {
    case PROFILE_TIME:
    case PROFILE_PERIOD:
        evidence->is_1_7 |= bytes;
        break;
    case PROFILE_PERIOD_TYPE:
        evidence->is_1_7 |= number;
        break;
    case PROFILE_1_8_COMMENTS:
        evidence->is_1_7 |= number;
        evidence->comments |= bytes && field->bytes.len;
        evidence->maybe_1_8 |= bytes && !may_be_id;
        break;
    case PROFILE_1_8_ID:
        evidence->is_1_8 |= bytes;
        break;
    case PROFILE_1_8_DROPPED:
        evidence->is_1_8 |= number;
        break;
    case PROFILE_1_8_ATTRIBUTES:
        evidence->maybe_1_8 |= bytes;
        break;
    default:
        break;
    }
}

static int weigh_profile(void *context, struct bytes profile)
{
    struct wire_reader reader = wire_read(profile);
    struct wire_field field;
    int got, outcome = OTLP_OK;
    while (!outcome && (got = wire_next(&reader, &field)) == WIRE_FIELD) {
        weigh_profile_field(&field, context);
        if (spans_nested(&field, PROFILE_SAMPLES))
            outcome = weigh_sample(field.bytes, context);
    }
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

static enum profiles_layout samples_layout(const struct evidence *evidence, bool says_version_1)
{
    if (evidence->former || evidence->today)
        return evidence->today ? PROFILES_TODAY : PROFILES_1_9;
    if (!evidence->has_samples || evidence->not_former)
        return PROFILES_TODAY;
    if (evidence->not_today)
        return PROFILES_1_9;
    return says_version_1 ? PROFILES_TODAY : PROFILES_UNCLEAR;
}

int profiles_layout_of(struct bytes request, bool says_version_1, enum profiles_layout *layout)
{
    struct evidence evidence = {0};
    struct spans_walk walk = {.span = weigh_profile, .context = &evidence};
    int outcome = count_attributes(request, &evidence.n_attributes);
    if (!outcome)
        outcome = spans_walk(request, &walk);
    *layout = samples_layout(&evidence, says_version_1);
    if (evidence.is_1_8 || (*layout == PROFILES_1_9 && evidence.maybe_1_8))
        *layout = evidence.comments ? PROFILES_1_8_COMMENTS : PROFILES_1_8;
    if (evidence.is_1_7)
        *layout = PROFILES_1_7;
    return outcome;
}

/* ---- renumbering ---- */

static int put_number(uint8_t *request_at, const struct wire_field *field, unsigned number)
{
    if (*request_at & 0x80)
        return OTLP_MALFORMED;
    *request_at = (uint8_t)(number << 3 | field->type);
    return OTLP_OK;
}

static int renumber_sample(uint8_t *data, size_t len)
{
    static const uint8_t numbers[] = {[FORMER_VALUES] = TODAY_VALUES,
                                      [FORMER_ATTRIBUTES] = TODAY_ATTRIBUTES,
                                      [FORMER_LINK] = TODAY_LINK};
    struct wire_reader reader = wire_read(BYTES(data, len));
    struct wire_field field;
    int got, outcome = OTLP_OK;
    while (!outcome && (got = wire_next(&reader, &field)) == WIRE_FIELD)
        if (field.number >= FORMER_VALUES && field.number <= FORMER_LINK)
            outcome = put_number(data + (field.raw.data - data), &field, numbers[field.number]);
    return outcome ? outcome : got;
}

struct renumbering {
    uint8_t *request;
    enum profiles_layout layout;
};

static int renumber_profile(void *context, struct bytes profile)
{
    const struct renumbering *renumbering = context;
    uint8_t *request = renumbering->request;
    struct wire_reader reader = wire_read(profile);
    struct wire_field field;
    int got, outcome = OTLP_OK;
    while (!outcome && (got = wire_next(&reader, &field)) == WIRE_FIELD) {
        uint8_t *raw = request + (field.raw.data - request);
        if (spans_nested(&field, PROFILE_SAMPLES) && field.bytes.len)
            outcome = renumber_sample(request + (field.bytes.data - request), field.bytes.len);
        else if (renumbering->layout == PROFILES_1_8 && field.number >= PROFILE_1_8_ID &&
                 field.number <= PROFILE_1_8_ATTRIBUTES)
            outcome = put_number(raw, &field, field.number - 1);
    }
    return outcome ? outcome : got;
}

int profiles_layout_renumber(uint8_t *request, size_t len, enum profiles_layout layout)
{
    struct renumbering renumbering = {request, layout};
    struct spans_walk walk = {.span = renumber_profile, .context = &renumbering};
    return spans_walk(BYTES(request, len), &walk);
}
