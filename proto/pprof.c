/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An entry of a table is its encoded message without the id: equal entries have equal bytes, and
 * the id is the index in the table, from 1. A sample is an entry without its values; values of
 * equal samples are summed.
 */
#include "proto/pprof.h"
#include "proto/dedup_table.h"
#include "proto/wire.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#define ENTRY_OVERHEAD 16 /* tag, length and id of an entry; what a field of a sample adds */
#define VALUES_MAX     22 /* bytes of both values, with tag and length */

enum {
    PROFILE_SAMPLE_TYPE = 1,
    PROFILE_SAMPLE,
    PROFILE_MAPPING,
    PROFILE_LOCATION,
    PROFILE_FUNCTION,
    PROFILE_STRING,
    PROFILE_TIME = 9,
    PROFILE_DURATION,
    PROFILE_PERIOD_TYPE,
    PROFILE_PERIOD,
    PROFILE_DEFAULT_TYPE = 14
};
enum { TYPE_TYPE = 1, TYPE_UNIT };
enum { SAMPLE_LOCATIONS = 1, SAMPLE_VALUES, SAMPLE_LABEL };
enum { LABEL_KEY = 1, LABEL_TEXT };
enum { ENTRY_ID = 1 };
enum { MAPPING_FILE = 5, MAPPING_BUILD_ID, MAPPING_HAS_FUNCTIONS };
enum { LOCATION_MAPPING = 2, LOCATION_ADDRESS, LOCATION_LINE };
enum { LINE_FUNCTION = 1, LINE_LINE };
enum { FUNCTION_NAME = 2, FUNCTION_FILE = 4 };

struct values {
    uint64_t count, cpu_ns;
    size_t labels_at; /* in the sample's entry */
};

struct pprof {
    size_t max_bytes;
    uint8_t seed[16];
    struct profiles_table strings, mappings, functions, locations, samples;
    struct buf unnamed; /* a byte a mapping: it has frames without a function */
    struct buf values;  /* struct values of each of samples */
    /* of the current sample */
    struct buf entry, location_ids, text;
    size_t labels_at;
};

static int pprof_intern(struct pprof *pprof, struct profiles_table *table, struct bytes key,
                        uint64_t *index)
{
    int32_t found = profiles_table_find(table, pprof->seed, key);
    if (found == -ENOENT)
        found = profiles_table_add(table, pprof->seed, key);
    *index = found < 0 ? 0 : (uint64_t)found;
    return found < 0 ? found : 0;
}

/* A single string that is not UTF-8 would make a reader refuse the profile. */
static int make_valid(struct pprof *pprof, struct bytes *text)
{
    if (bytes_utf8_valid(*text))
        return 0;
    buf_clear(&pprof->text);
    int error = buf_reserve(&pprof->text, text->len + 1);
    if (error)
        return error;
    char *out = (char *)pprof->text.data;
    *text = BYTES(out, bytes_sanitize(*text, out, text->len + 1));
    return 0;
}

static int intern_text(struct pprof *pprof, struct bytes text, uint64_t *index)
{
    int error = make_valid(pprof, &text);
    return error ? error : pprof_intern(pprof, &pprof->strings, text, index);
}

int pprof_open(size_t max_bytes, struct pprof **result)
{
    if (max_bytes > PPROF_BYTES_MAX)
        return -EINVAL;
    struct pprof *pprof = calloc(1, sizeof(*pprof));
    if (!pprof)
        return -ENOMEM;
    pprof->max_bytes = max_bytes;
    uint64_t empty;
    if (getrandom(pprof->seed, sizeof(pprof->seed), 0) != sizeof(pprof->seed) ||
        intern_text(pprof, BYTES(NULL, 0), &empty)) {
        pprof_close(pprof);
        return -ENOMEM;
    }
    *result = pprof;
    return 0;
}

void pprof_close(struct pprof *pprof)
{
    if (!pprof)
        return;
    profiles_table_close(&pprof->strings);
    profiles_table_close(&pprof->mappings);
    profiles_table_close(&pprof->functions);
    profiles_table_close(&pprof->locations);
    profiles_table_close(&pprof->samples);
    buf_close(&pprof->unnamed);
    buf_close(&pprof->values);
    buf_close(&pprof->entry);
    buf_close(&pprof->location_ids);
    buf_close(&pprof->text);
    free(pprof);
}

/* ---- entries; `id` is 0 for what is not there ---- */

static int put_text(struct pprof *pprof, uint32_t field, struct bytes text)
{
    uint64_t index;
    int error = intern_text(pprof, text, &index);
    return error || !index ? error : wire_put_varint(&pprof->entry, field, index);
}

static int intern_entry(struct pprof *pprof, struct profiles_table *table, uint64_t *id)
{
    int error = pprof_intern(pprof, table, buf_bytes(&pprof->entry), id);
    *id += 1;
    return error;
}

static int intern_mapping(struct pprof *pprof, const struct pprof_frame *frame, uint64_t *id)
{
    char build_id[129];
    *id = 0;
    if (!frame->module.len)
        return 0;
    struct bytes raw = frame->build_id;
    bytes_to_hex(BYTES(raw.data, raw.len > 64 ? 0 : raw.len), build_id);
    buf_clear(&pprof->entry);
    int error = put_text(pprof, MAPPING_FILE, frame->module);
    error = error ? error : put_text(pprof, MAPPING_BUILD_ID, BYTES_STR(build_id));
    error = error ? error : intern_entry(pprof, &pprof->mappings, id);
    if (!error && *id > pprof->unnamed.len)
        error = buf_append(&pprof->unnamed, "", 1);
    return error;
}

/* Of a frame with neither name nor address; without, Pyroscope drops the sample. */
static struct bytes name_of(const struct pprof_frame *frame)
{
    return frame->function.len || frame->address ? frame->function : BYTES_STR("[unknown]");
}

/* Without a system_name: names that are the same as that, pprof takes for names of symbols that it
 * has to make readable, and cuts "(anonymous namespace)::add" down to "::add". */
static int intern_function(struct pprof *pprof, const struct pprof_frame *frame, uint64_t *id)
{
    buf_clear(&pprof->entry);
    int error = put_text(pprof, FUNCTION_NAME, name_of(frame));
    error = error ? error : put_text(pprof, FUNCTION_FILE, frame->file);
    return error ? error : intern_entry(pprof, &pprof->functions, id);
}

static int put_line(struct buf *out, uint64_t function, int64_t line)
{
    uint64_t number = line > 0 ? (uint64_t)line : 0;
    size_t size = wire_tag_size(LINE_FUNCTION) + wire_varint_size(function) +
                  wire_tag_size(LINE_LINE) + wire_varint_size(number);
    int error = wire_put_header(out, LOCATION_LINE, size);
    error = error ? error : wire_put_varint(out, LINE_FUNCTION, function);
    return error ? error : wire_put_varint(out, LINE_LINE, number);
}

/* A location: a frame and the functions inlined into it. The last of the n frames gives the
 * address. */
static int intern_location(struct pprof *pprof, const struct pprof_frame *frames, size_t n,
                           uint64_t *id)
{
    _cleanup_buf_ struct buf location = BUF_INIT(0);
    const struct pprof_frame *place = &frames[n - 1];
    uint64_t mapping;
    int error = intern_mapping(pprof, place, &mapping);
    if (!error && mapping)
        error = wire_put_varint(&location, LOCATION_MAPPING, mapping);
    if (!error)
        error = wire_put_varint(&location, LOCATION_ADDRESS, place->address);
    if (!error && mapping && !name_of(place).len)
        pprof->unnamed.data[mapping - 1] = 1;
    for (size_t i = 0; !error && i < n; i++) {
        uint64_t function;
        if (!name_of(&frames[i]).len)
            continue;
        error = intern_function(pprof, &frames[i], &function);
        error = error ? error : put_line(&location, function, frames[i].line);
    }
    uint64_t index = 0;
    error = error ? error : pprof_intern(pprof, &pprof->locations, buf_bytes(&location), &index);
    *id = index + 1;
    return error;
}

/* ---- samples ---- */

static int put_locations(struct pprof *pprof, const struct pprof_sample *sample)
{
    size_t first = 0;
    int error = 0;
    buf_clear(&pprof->location_ids);
    for (size_t i = 0; !error && i < sample->n_frames; i++) {
        uint64_t id;
        if (sample->frames[i].inlined && i + 1 < sample->n_frames)
            continue;
        error = intern_location(pprof, &sample->frames[first], i + 1 - first, &id);
        error = error ? error : wire_put_bare_varint(&pprof->location_ids, id);
        first = i + 1;
    }
    return error;
}

static int put_label(struct pprof *pprof, const struct pprof_label *label)
{
    uint64_t key, text;
    int error = intern_text(pprof, BYTES_STR(label->key), &key);
    error = error ? error : intern_text(pprof, label->text, &text);
    if (error)
        return error;
    size_t size = wire_tag_size(LABEL_KEY) + wire_varint_size(key) + wire_tag_size(LABEL_TEXT) +
                  wire_varint_size(text);
    error = wire_put_header(&pprof->entry, SAMPLE_LABEL, size);
    error = error ? error : wire_put_varint(&pprof->entry, LABEL_KEY, key);
    return error ? error : wire_put_varint(&pprof->entry, LABEL_TEXT, text);
}

/* In `entry`: all of it but the values. */
static int put_sample(struct pprof *pprof, const struct pprof_sample *sample)
{
    int error = put_locations(pprof, sample);
    buf_clear(&pprof->entry);
    error = error
                ? error
                : wire_put_bytes(&pprof->entry, SAMPLE_LOCATIONS, buf_bytes(&pprof->location_ids));
    pprof->labels_at = pprof->entry.len;
    for (size_t i = 0; !error && i < sample->n_labels; i++)
        if (sample->labels[i].text.len)
            error = put_label(pprof, &sample->labels[i]);
    return error;
}

static size_t table_size(const struct profiles_table *table)
{
    return table->keys.len + (size_t)profiles_table_count(table) * ENTRY_OVERHEAD;
}

static size_t size_of(const struct pprof *pprof)
{
    return table_size(&pprof->strings) + table_size(&pprof->mappings) +
           table_size(&pprof->functions) + table_size(&pprof->locations) +
           table_size(&pprof->samples) + (size_t)profiles_table_count(&pprof->samples) * VALUES_MAX;
}

static struct values *values_of(const struct pprof *pprof, int32_t index)
{
    return (struct values *)(void *)pprof->values.data + index;
}

/* The index of the sample in `entry`, with values of 0 if it is new. */
static int32_t find_or_add(struct pprof *pprof)
{
    struct bytes key = buf_bytes(&pprof->entry);
    const struct values none = {.labels_at = pprof->labels_at};
    int32_t found = profiles_table_find(&pprof->samples, pprof->seed, key);
    if (found != -ENOENT)
        return found;
    if (size_of(pprof) + key.len + VALUES_MAX + ENTRY_OVERHEAD > pprof->max_bytes)
        return -EMSGSIZE;
    if (buf_reserve(&pprof->values, sizeof(none))) /* so that nothing is added by halves */
        return -ENOMEM;
    found = profiles_table_add(&pprof->samples, pprof->seed, key);
    if (found >= 0)
        buf_append(&pprof->values, &none, sizeof(none)); /* there is room */
    return found;
}

int pprof_add(struct pprof *pprof, const struct pprof_sample *sample)
{
    if (sample->n_frames > PPROF_FRAMES_MAX || sample->n_labels > PPROF_LABELS_MAX)
        return -EINVAL;
    int error = put_sample(pprof, sample);
    int32_t index = error ? 0 : find_or_add(pprof);
    if (error || index < 0)
        return error == BUF_FULL ? -ENOMEM : error ? error : index;
    struct values *values = values_of(pprof, index);
    values->count += sample->count;
    values->cpu_ns += sample->cpu_ns;
    return 0;
}

/* ---- the whole ---- */

static int put_entries(struct buf *out, uint32_t field, const struct profiles_table *table,
                       const struct buf *unnamed)
{
    int error = 0;
    for (int32_t i = 0; !error && i < profiles_table_count(table); i++) {
        struct bytes body = profiles_table_key(table, i);
        bool functions = unnamed && !unnamed->data[i];
        size_t size = wire_tag_size(ENTRY_ID) + wire_varint_size((uint64_t)i + 1) + body.len;
        size += functions ? wire_tag_size(MAPPING_HAS_FUNCTIONS) + 1 : 0;
        error = wire_put_header(out, field, size);
        error = error ? error : wire_put_varint(out, ENTRY_ID, (uint64_t)i + 1);
        error = error ? error : buf_append_bytes(out, body);
        if (!error && functions)
            error = wire_put_varint(out, MAPPING_HAS_FUNCTIONS, 1);
    }
    return error;
}

static int put_strings(struct buf *out, const struct profiles_table *table)
{
    int error = 0;
    for (int32_t i = 0; !error && i < profiles_table_count(table); i++)
        error = wire_put_bytes(out, PROFILE_STRING, profiles_table_key(table, i));
    return error;
}

static int put_samples(struct buf *out, const struct pprof *pprof)
{
    int error = 0;
    for (int32_t i = 0; !error && i < profiles_table_count(&pprof->samples); i++) {
        struct bytes body = profiles_table_key(&pprof->samples, i);
        const struct values *values = values_of(pprof, i);
        size_t size = wire_varint_size(values->count) + wire_varint_size(values->cpu_ns);
        struct bytes labels = BYTES(body.data + values->labels_at, body.len - values->labels_at);
        error =
            wire_put_header(out, PROFILE_SAMPLE, body.len + wire_bytes_size(SAMPLE_VALUES, size));
        error = error ? error : buf_append(out, body.data, values->labels_at);
        error = error ? error : wire_put_header(out, SAMPLE_VALUES, size);
        error = error ? error : wire_put_bare_varint(out, values->count);
        error = error ? error : wire_put_bare_varint(out, values->cpu_ns);
        error = error ? error : buf_append_bytes(out, labels);
    }
    return error;
}

struct type_names {
    uint64_t samples, count, cpu, nanoseconds;
};

static int put_type(struct buf *out, uint32_t field, uint64_t type, uint64_t unit)
{
    size_t size = wire_tag_size(TYPE_TYPE) + wire_varint_size(type) + wire_tag_size(TYPE_UNIT) +
                  wire_varint_size(unit);
    int error = wire_put_header(out, field, size);
    error = error ? error : wire_put_varint(out, TYPE_TYPE, type);
    return error ? error : wire_put_varint(out, TYPE_UNIT, unit);
}

/* As an index into the strings. One that no sample has had stands behind all others: the table is
 * the builder's and stays as it is. */
static int put_type_name(struct buf *out, const struct pprof *pprof, const char *name,
                         uint64_t *n_strings, uint64_t *index)
{
    int32_t found = profiles_table_find(&pprof->strings, pprof->seed, BYTES_STR(name));
    *index = found >= 0 ? (uint64_t)found : (*n_strings)++;
    return found >= 0 ? 0 : wire_put_bytes(out, PROFILE_STRING, BYTES_STR(name));
}

static int put_types(struct buf *out, const struct pprof *pprof)
{
    uint64_t n_strings = (uint64_t)profiles_table_count(&pprof->strings);
    struct type_names at;
    int error = put_type_name(out, pprof, "samples", &n_strings, &at.samples);
    error = error ? error : put_type_name(out, pprof, "count", &n_strings, &at.count);
    error = error ? error : put_type_name(out, pprof, "cpu", &n_strings, &at.cpu);
    error = error ? error : put_type_name(out, pprof, "nanoseconds", &n_strings, &at.nanoseconds);
    error = error ? error : put_type(out, PROFILE_SAMPLE_TYPE, at.samples, at.count);
    error = error ? error : put_type(out, PROFILE_SAMPLE_TYPE, at.cpu, at.nanoseconds);
    error = error ? error : put_type(out, PROFILE_PERIOD_TYPE, at.cpu, at.nanoseconds);
    return error ? error : wire_put_varint(out, PROFILE_DEFAULT_TYPE, at.cpu);
}

int pprof_finish(const struct pprof *pprof, const struct pprof_time *time, struct buf *out)
{
    size_t before = out->len;
    int error = put_samples(out, pprof);
    error = error ? error : put_entries(out, PROFILE_MAPPING, &pprof->mappings, &pprof->unnamed);
    error = error ? error : put_entries(out, PROFILE_LOCATION, &pprof->locations, NULL);
    error = error ? error : put_entries(out, PROFILE_FUNCTION, &pprof->functions, NULL);
    error = error ? error : put_strings(out, &pprof->strings);
    error = error ? error : put_types(out, pprof);
    error = error ? error : wire_put_varint(out, PROFILE_TIME, time->start_unix_ns);
    error = error ? error : wire_put_varint(out, PROFILE_DURATION, time->duration_ns);
    error = error ? error : wire_put_varint(out, PROFILE_PERIOD, time->period_ns);
    if (error)
        out->len = before;
    return error;
}
