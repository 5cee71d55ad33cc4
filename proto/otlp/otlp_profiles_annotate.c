/* SPDX-License-Identifier: Apache-2.0 */
/*
 * New data is appended: strings, attributes and Links at the end of the dictionary, indices at the
 * end of a Sample. So no existing index changes. (A packed list may come in several pieces.)
 */
#include "base/map.h"
#include "proto/otlp/otlp_profiles_links.h"
#include "proto/otlp/otlp_spans_walk.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

enum { REQUEST_RESOURCES = 1, REQUEST_DICTIONARY = 2 };
enum { DICTIONARY_LINKS = 4, DICTIONARY_STRINGS = 5, DICTIONARY_ATTRIBUTES = 6 };
enum { SAMPLE_ATTRIBUTES = 2, SAMPLE_LINK = 3 };
enum { ATTRIBUTE_KEY = 1, ATTRIBUTE_VALUE = 2, LINK_TRACE = 1, LINK_SPAN = 2 };
enum { DEPTH = 3 }; /* ResourceProfiles, ScopeProfiles, Profile */

#define KEYS_MAX           66 /* of a span: its name, kind, and CONFIG_LIST_MAX attributes */
#define NO_INDEX           UINT32_MAX
#define LINKS_SEARCHED_MAX 4096
#define SEARCHED_MAX       65536 /* of a table; later entries may get duplicates */
#define DICTIONARY_MAX     (64u << 20)

struct entry { /* an attribute that was added */
    uint8_t hash[16];
    uint32_t index;
};

struct key {
    struct bytes text;
    uint32_t string; /* its index */
};

struct added {        /* what the samples of one span get */
    uint32_t n, link; /* link: NO_INDEX = not made yet */
    struct {
        uint32_t key, attribute;
    } list[KEYS_MAX];
};

struct annotator {
    const struct profiles_annotation *annotation;
    struct buf *out;
    struct bytes *strings;      /* of the dictionary as it came */
    struct profiles_ids *links; /* the same; zero where a Link has no such ids */
    uint32_t *attribute_keys;   /* indices into strings */
    size_t n_strings, n_attributes, n_links;
    size_t cap_strings, cap_attributes, cap_links;
    size_t n_new_strings, n_new_attributes, n_new_links;
    struct buf dictionary; /* what is added to it */
    struct map entries;    /* struct entry */
    uint8_t hash_key[16];
    struct key keys[KEYS_MAX];
    size_t n_keys;
    struct added **added; /* by context */
    size_t sample;        /* ordinal of the next */
};

/* ---- the dictionary as it came ---- */

/* Room for one more element in a list that grows. */
static int annotate_grow(void *listp, size_t n, size_t *cap, size_t size)
{
    void *list;
    memcpy(&list, listp, sizeof(list));
    if (n < *cap)
        return 0;
    size_t wanted = *cap ? 2 * *cap : 256;
    list = realloc(list, wanted * size);
    if (!list)
        return -ENOMEM;
    memcpy(listp, &list, sizeof(list));
    *cap = wanted;
    return 0;
}

static uint32_t attribute_key(struct bytes attribute)
{
    struct wire_reader reader = wire_read(attribute);
    struct wire_field field;
    uint64_t key = 0;
    while (wire_next(&reader, &field) == WIRE_FIELD)
        if (field.number == ATTRIBUTE_KEY && field.type == WIRE_VARINT)
            key = field.value;
    return (uint32_t)key;
}

static struct profiles_ids link_ids(struct bytes link)
{
    struct wire_reader reader = wire_read(link);
    struct wire_field field;
    struct bytes trace_id = {NULL, 0}, span_id = {NULL, 0};
    struct profiles_ids ids = {{0}, {0}};
    while (wire_next(&reader, &field) == WIRE_FIELD) {
        if (spans_nested(&field, LINK_TRACE))
            trace_id = field.bytes;
        else if (spans_nested(&field, LINK_SPAN))
            span_id = field.bytes;
    }
    if (trace_id.len != sizeof(ids.trace_id) || span_id.len != sizeof(ids.span_id))
        return ids;
    memcpy(ids.trace_id, trace_id.data, sizeof(ids.trace_id));
    memcpy(ids.span_id, span_id.data, sizeof(ids.span_id));
    return ids;
}

static int read_entry(struct annotator *annotator, const struct wire_field *entry)
{
    int error = 0;
    if (spans_nested(entry, DICTIONARY_STRINGS)) {
        error = annotate_grow(&annotator->strings, annotator->n_strings, &annotator->cap_strings,
                              sizeof(*annotator->strings));
        if (!error)
            annotator->strings[annotator->n_strings++] = entry->bytes;
    } else if (spans_nested(entry, DICTIONARY_ATTRIBUTES)) {
        error = annotate_grow(&annotator->attribute_keys, annotator->n_attributes,
                              &annotator->cap_attributes, sizeof(*annotator->attribute_keys));
        if (!error)
            annotator->attribute_keys[annotator->n_attributes++] = attribute_key(entry->bytes);
    } else if (spans_nested(entry, DICTIONARY_LINKS)) {
        error = annotate_grow(&annotator->links, annotator->n_links, &annotator->cap_links,
                              sizeof(*annotator->links));
        if (!error)
            annotator->links[annotator->n_links++] = link_ids(entry->bytes);
    }
    return error;
}

static int read_dictionary(struct annotator *annotator, struct bytes request)
{
    struct wire_reader reader = wire_read(request);
    struct wire_field field, entry;
    int error = 0;
    while (!error && wire_next(&reader, &field) == WIRE_FIELD) {
        if (!spans_nested(&field, REQUEST_DICTIONARY))
            continue;
        struct wire_reader entries = wire_read(field.bytes);
        while (!error && wire_next(&entries, &entry) == WIRE_FIELD)
            error = read_entry(annotator, &entry);
    }
    return error;
}

/* ---- what is added to it ---- */

/* Element 0 of a table means "not set": what is added must not become it. */
static int put_zero_elements(struct annotator *annotator)
{
    const struct {
        uint32_t field;
        size_t n, *n_new;
    } tables[] = {
        {DICTIONARY_LINKS, annotator->n_links, &annotator->n_new_links},
        {DICTIONARY_STRINGS, annotator->n_strings, &annotator->n_new_strings},
        {DICTIONARY_ATTRIBUTES, annotator->n_attributes, &annotator->n_new_attributes},
    };
    int error = 0;
    for (size_t i = 0; i < sizeof(tables) / sizeof(*tables) && !error; i++) {
        if (tables[i].n)
            continue;
        error = wire_put_bytes(&annotator->dictionary, tables[i].field, BYTES(NULL, 0));
        ++*tables[i].n_new;
    }
    return error;
}

static size_t annotate_smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static int key_of(struct annotator *annotator, struct bytes text, uint32_t *index)
{
    for (*index = 0; *index < annotator->n_keys; ++*index)
        if (bytes_equal(annotator->keys[*index].text, text))
            return 0;
    if (annotator->n_keys == KEYS_MAX) {
        *index = NO_INDEX;
        return 0;
    }
    size_t at = 0, looked_at = annotate_smaller(annotator->n_strings, SEARCHED_MAX);
    while (at < looked_at && !bytes_equal(annotator->strings[at], text))
        at++;
    if (at == looked_at) {
        int error = wire_put_bytes(&annotator->dictionary, DICTIONARY_STRINGS, text);
        if (error)
            return error;
        at = annotator->n_strings + annotator->n_new_strings++;
    }
    annotator->keys[annotator->n_keys++] = (struct key){text, (uint32_t)at};
    return 0;
}

static int attribute_index(struct annotator *annotator, struct bytes body, uint32_t *index)
{
    uint8_t hash[16];
    bytes_siphash128(body, annotator->hash_key, hash);
    struct entry *entry = map_get(&annotator->entries, hash);
    if (entry) {
        *index = entry->index;
        return 0;
    }
    entry = malloc(sizeof(*entry));
    if (!entry)
        return -ENOMEM;
    memcpy(entry->hash, hash, 16);
    entry->index = (uint32_t)(annotator->n_attributes + annotator->n_new_attributes);
    if (map_put(&annotator->entries, entry, NULL)) {
        free(entry);
        return -ENOMEM;
    }
    annotator->n_new_attributes++;
    *index = entry->index;
    return wire_put_bytes(&annotator->dictionary, DICTIONARY_ATTRIBUTES, body);
}

/* value: an AnyValue message. */
static int add_attribute(struct annotator *annotator, struct added *added, struct bytes name,
                         struct bytes value)
{
    _cleanup_buf_ struct buf body = BUF_INIT(0);
    uint32_t key, attribute;
    int error = key_of(annotator, name, &key);
    if (error || key == NO_INDEX || added->n == KEYS_MAX)
        return error;
    for (uint32_t i = 0; i < added->n; i++)
        if (added->list[i].key == key)
            return 0; /* the first counts */
    error = wire_put_varint(&body, ATTRIBUTE_KEY, annotator->keys[key].string);
    error = error ? error : wire_put_bytes(&body, ATTRIBUTE_VALUE, value);
    error = error ? error : attribute_index(annotator, buf_bytes(&body), &attribute);
    if (error)
        return error;
    added->list[added->n].key = key;
    added->list[added->n++].attribute = attribute;
    return 0;
}

static int add_text(struct annotator *annotator, struct added *added, const char *name,
                    struct bytes text)
{
    _cleanup_buf_ struct buf value = BUF_INIT(0);
    int error = wire_put_bytes(&value, ANY_VALUE_STRING, text);
    return error ? error : add_attribute(annotator, added, BYTES_STR(name), buf_bytes(&value));
}

static int add_framed(struct annotator *annotator, struct added *added, struct bytes framed)
{
    struct wire_reader reader = wire_read(framed);
    struct wire_field field, part;
    int error = 0;
    while (!error && wire_next(&reader, &field) == WIRE_FIELD) {
        struct bytes value = {NULL, 0};
        struct wire_reader parts = wire_read(field.bytes);
        while (wire_next(&parts, &part) == WIRE_FIELD)
            if (spans_nested(&part, KEY_VALUE_VALUE))
                value = part.bytes;
        error = add_attribute(annotator, added, otlp_key_value_key(field.bytes), value);
    }
    return error;
}

static int add_span(struct annotator *annotator, const struct profiles_span *span,
                    struct added **result)
{
    static const char *const kinds[] = {NULL,     "internal", "server",
                                        "client", "producer", "consumer"};
    struct added *added = calloc(1, sizeof(*added));
    if (!added)
        return -ENOMEM;
    *result = added;
    added->link = NO_INDEX;
    int error = add_text(annotator, added, "span.name", span->name);
    if (!error && span->kind && span->kind < sizeof(kinds) / sizeof(*kinds))
        error = add_text(annotator, added, "span.kind", BYTES_STR(kinds[span->kind]));
    return error ? error : add_framed(annotator, added, span->attributes);
}

static int put_link(struct annotator *annotator, const struct profiles_ids *ids)
{
    struct wire_nest nest;
    int error = wire_begin(&annotator->dictionary, DICTIONARY_LINKS, 64, &nest);
    if (!error)
        error = wire_put_bytes(&annotator->dictionary, LINK_TRACE, BYTES(ids->trace_id, 16));
    if (!error)
        error = wire_put_bytes(&annotator->dictionary, LINK_SPAN, BYTES(ids->span_id, 8));
    if (!error)
        wire_end(&annotator->dictionary, &nest);
    return error;
}

static int link_of(struct annotator *annotator, const struct profiles_span *span,
                   struct added *added)
{
    size_t at = 1, looked_at = annotate_smaller(annotator->n_links, LINKS_SEARCHED_MAX);
    if (added->link != NO_INDEX)
        return 0;
    while (at < looked_at && memcmp(&annotator->links[at], &span->ids, sizeof(span->ids)))
        at++;
    bool found = at < looked_at;
    added->link = (uint32_t)(found ? at : annotator->n_links + annotator->n_new_links++);
    return found ? 0 : put_link(annotator, &span->ids);
}

/* ---- samples ---- */

static bool attribute_has_key(const struct annotator *annotator, uint64_t index, uint32_t string)
{
    return index < annotator->n_attributes && annotator->attribute_keys[index] == string;
}

/* string: the key's index */
static bool sample_has_key(const struct annotator *annotator, struct bytes sample, uint32_t string)
{
    struct wire_reader reader = wire_read(sample);
    struct wire_field field;
    while (wire_next(&reader, &field) == WIRE_FIELD) {
        if (field.number != SAMPLE_ATTRIBUTES)
            continue;
        uint64_t index;
        struct wire_reader list = wire_read(field.bytes);
        if (field.type == WIRE_VARINT && attribute_has_key(annotator, field.value, string))
            return true;
        while (field.type == WIRE_BYTES && wire_next_varint(&list, &index))
            if (attribute_has_key(annotator, index, string))
                return true;
    }
    return false;
}

static bool sample_has_link(struct bytes sample)
{
    struct wire_reader reader = wire_read(sample);
    struct wire_field field;
    uint64_t link = 0;
    while (wire_next(&reader, &field) == WIRE_FIELD)
        if (field.number == SAMPLE_LINK && field.type == WIRE_VARINT)
            link = field.value;
    return link != 0;
}

static int put_additions(struct annotator *annotator, struct bytes sample,
                         const struct profiles_span *span, struct added *added, struct buf *out)
{
    struct wire_nest list;
    int error = wire_begin(out, SAMPLE_ATTRIBUTES, KEYS_MAX * WIRE_SHORT_VARINT_MAX, &list);
    for (uint32_t i = 0; i < added->n && !error; i++)
        if (!sample_has_key(annotator, sample, annotator->keys[added->list[i].key].string))
            error = wire_put_bare_varint(out, added->list[i].attribute);
    if (error)
        return error;
    wire_end(out, &list);
    if (sample_has_link(sample))
        return 0;
    error = link_of(annotator, span, added);
    return error ? error : wire_put_varint(out, SAMPLE_LINK, added->link);
}

static int put_sample(struct annotator *annotator, const struct wire_field *field)
{
    const struct profiles_annotation *annotation = annotator->annotation;
    size_t ordinal = annotator->sample++;
    uint32_t context = ordinal < annotation->n_samples ? annotation->contexts_of[ordinal] : 0;
    const struct profiles_span *span =
        context && context <= annotation->n_contexts ? annotation->spans[context - 1] : NULL;
    if (!span)
        return buf_append_bytes(annotator->out, field->raw);
    _cleanup_buf_ struct buf additions = BUF_INIT(0);
    struct added **added = &annotator->added[context - 1];
    int error = *added ? 0 : add_span(annotator, span, added);
    error = error ? error : put_additions(annotator, field->bytes, span, *added, &additions);
    error = error
                ? error
                : wire_put_header(annotator->out, field->number, field->bytes.len + additions.len);
    error = error ? error : buf_append_bytes(annotator->out, field->bytes);
    return error ? error : buf_append_bytes(annotator->out, buf_bytes(&additions));
}

/* level 0: the request's fields; in level DEPTH lie the samples. */
static int put_level(struct annotator *annotator, struct bytes message, unsigned level)
{
    static const uint32_t below[] = {REQUEST_RESOURCES, 2, 2, 2};
    struct wire_reader reader = wire_read(message);
    struct wire_field field;
    struct wire_nest nest;
    int error = 0;
    while (!error && wire_next(&reader, &field) == WIRE_FIELD) {
        if (!spans_nested(&field, below[level])) {
            error = level == 0 && field.number == REQUEST_DICTIONARY
                        ? 0
                        : buf_append_bytes(annotator->out, field.raw);
            continue;
        }
        if (level == DEPTH) {
            error = put_sample(annotator, &field);
            continue;
        }
        error = wire_begin(annotator->out, field.number, DICTIONARY_MAX, &nest);
        error = error ? error : put_level(annotator, field.bytes, level + 1);
        if (!error)
            wire_end(annotator->out, &nest);
    }
    return error;
}

/* Merges the dictionary's parts into one: not every decoder merges them. */
static int put_dictionary(struct annotator *annotator, struct bytes request)
{
    struct wire_reader reader = wire_read(request);
    struct wire_field field;
    struct wire_nest nest;
    int error = wire_begin(annotator->out, REQUEST_DICTIONARY, DICTIONARY_MAX, &nest);
    while (!error && wire_next(&reader, &field) == WIRE_FIELD)
        if (spans_nested(&field, REQUEST_DICTIONARY))
            error = buf_append_bytes(annotator->out, field.bytes);
    error = error ? error : buf_append_bytes(annotator->out, buf_bytes(&annotator->dictionary));
    if (!error)
        wire_end(annotator->out, &nest);
    return error;
}

static void close_annotator(struct annotator *annotator)
{
    struct entry *entry;
    for (size_t i = 0; (entry = map_next(&annotator->entries, &i));)
        free(entry);
    map_close(&annotator->entries);
    for (size_t i = 0; annotator->added && i < annotator->annotation->n_contexts; i++)
        free(annotator->added[i]);
    free(annotator->added);
    free(annotator->strings);
    free(annotator->attribute_keys);
    free(annotator->links);
    buf_close(&annotator->dictionary);
}

int profiles_annotate(struct bytes request, const struct profiles_annotation *annotation,
                      struct buf *out)
{
    struct annotator annotator = {.annotation = annotation, .out = out};
    if (request.len > DICTIONARY_MAX / 2)
        return PROFILES_LINKS_TOO_BIG;
    MAP_INIT(&annotator.entries, struct entry, hash);
    annotator.added = calloc(annotation->n_contexts + 1, sizeof(*annotator.added));
    int error = annotator.added ? 0 : -ENOMEM;
    if (!error && getrandom(annotator.hash_key, sizeof(annotator.hash_key), 0) < 0)
        error = -errno;
    error = error ? error : read_dictionary(&annotator, request);
    error = error ? error : put_zero_elements(&annotator);
    error = error ? error : put_level(&annotator, request, 0);
    error = error ? error : put_dictionary(&annotator, request);
    close_annotator(&annotator);
    return error == BUF_FULL ? PROFILES_LINKS_TOO_BIG : error;
}
