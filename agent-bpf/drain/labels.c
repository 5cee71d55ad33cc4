/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same text is a hex number under one name and a decimal one under another: 16 digits alone are
 * ambiguous. So the name determines the form, and a value of another form is not an id.
 */
#include "agent-bpf/drain/labels.h"
#include <endian.h>

enum row { ROW_CONFIGURED, ROW_PLAIN, ROW_OTEL, ROW_DATADOG, ROW_PROFILE, ROWS };
enum kind { KIND_TRACE, KIND_SPAN, KIND_LOCAL_ROOT, KINDS };

struct id_name {
    struct bytes name;
    enum row row;
    enum kind kind;
    bool decimal;
};

#define NAME(text)                                                                                 \
    {                                                                                              \
        (const uint8_t *)(text), sizeof(text) - 1                                                  \
    }

static const struct id_name known[] = {
    {NAME("trace_id"), ROW_PLAIN, KIND_TRACE, false},
    {NAME("span_id"), ROW_PLAIN, KIND_SPAN, false},
    {NAME("otel_traceid"), ROW_OTEL, KIND_TRACE, false},
    {NAME("otel_spanid"), ROW_OTEL, KIND_SPAN, false},
    {NAME("otel.traceid"), ROW_OTEL, KIND_TRACE, false},
    {NAME("otel.spanid"), ROW_OTEL, KIND_SPAN, false},
    {NAME("otel.trace_id"), ROW_OTEL, KIND_TRACE, false},
    {NAME("otel.span_id"), ROW_OTEL, KIND_SPAN, false},
    {NAME("trace id"), ROW_DATADOG, KIND_TRACE, false},
    {NAME("span id"), ROW_DATADOG, KIND_SPAN, true},
    {NAME("local root span id"), ROW_DATADOG, KIND_LOCAL_ROOT, true},
    {NAME("profile_id"), ROW_PROFILE, KIND_SPAN, false},
};

struct found { /* a label that holds an id */
    enum row row;
    enum kind kind;
    struct bytes key;
    uint8_t id[16];
};

struct found_row {
    struct bytes keys[KINDS]; /* that the ids come from; len 0 = none yet */
    bool contradictory;
    struct label_ids ids;
};

static size_t id_size(enum kind kind)
{
    return kind == KIND_TRACE ? 16 : 8;
}

static uint8_t *id_of(struct label_ids *ids, enum kind kind)
{
    return kind == KIND_TRACE  ? ids->trace_id
           : kind == KIND_SPAN ? ids->span_id
                               : ids->local_root_id;
}

/* As programs print a 64-bit number: without sign, blanks or leading zeros; not 0. */
static bool read_decimal(struct bytes text, uint8_t id[8])
{
    uint64_t number = 0;
    if (!text.len || text.data[0] == '0')
        return false;
    for (size_t i = 0; i < text.len; i++) {
        unsigned digit = (unsigned)text.data[i] - '0';
        if (digit > 9 || __builtin_mul_overflow(number, UINT64_C(10), &number) ||
            __builtin_add_overflow(number, digit, &number))
            return false;
    }
    number = htobe64(number);
    memcpy(id, &number, sizeof(number));
    return true;
}

static bool read_hex(struct bytes text, uint8_t *id, size_t size)
{
    return bytes_from_hex(text, id, size) && !bytes_zero(id, size);
}

static bool is_listed(struct bytes key, const char *const *list)
{
    for (; list && *list; list++)
        if (bytes_is(key, *list))
            return true;
    return false;
}

static bool find_configured(struct bytes value, const struct label_names *names,
                            struct found *found)
{
    found->row = ROW_CONFIGURED;
    found->kind = KIND_TRACE;
    if (is_listed(found->key, names->trace_id) && read_hex(value, found->id, 16))
        return true;
    found->kind = KIND_SPAN;
    return is_listed(found->key, names->span_id) && read_hex(value, found->id, 8);
}

static bool find_known(struct bytes value, struct found *found)
{
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (!bytes_equal(known[i].name, found->key))
            continue;
        found->row = known[i].row;
        found->kind = known[i].kind;
        return known[i].decimal ? read_decimal(value, found->id)
                                : read_hex(value, found->id, id_size(found->kind));
    }
    return false;
}

static bool find_id(struct bytes key, struct bytes value, const struct label_names *names,
                    struct found *found)
{
    found->key = key;
    return find_configured(value, names, found) || find_known(value, found);
}

static void found_row_note(struct found_row *row, const struct found *found)
{
    struct bytes *key = &row->keys[found->kind];
    uint8_t *id = id_of(&row->ids, found->kind);
    size_t size = id_size(found->kind);
    if (!key->len) {
        *key = found->key;
        memcpy(id, found->id, size);
    } else if (!bytes_equal(*key, found->key)) { /* else the first of a key counts */
        row->contradictory |= memcmp(id, found->id, size) != 0;
    }
}

static bool is_empty(const struct found_row *row)
{
    return !row->keys[KIND_TRACE].len && !row->keys[KIND_SPAN].len &&
           !row->keys[KIND_LOCAL_ROOT].len;
}

bool labels_next(struct bytes *rest, struct bytes *key, struct bytes *value)
{
    if (rest->len < 2)
        return false;
    size_t key_len = rest->data[0], value_len = rest->data[1];
    size_t size = 2 + key_len + value_len;
    if (rest->len < size)
        return false;
    *key = BYTES(rest->data + 2, key_len);
    *value = BYTES(rest->data + 2 + key_len, value_len);
    *rest = BYTES(rest->data + size, rest->len - size);
    return true;
}

bool labels_ids(struct bytes labels, const struct label_names *names, struct label_ids *ids)
{
    struct found_row rows[ROWS] = {0};
    struct found found;
    struct bytes key, value;
    while (labels_next(&labels, &key, &value))
        if (find_id(key, value, names, &found))
            found_row_note(&rows[found.row], &found);
    const struct found_row *row = rows;
    while (row < rows + ROWS && is_empty(row))
        row++;
    bool named = row < rows + ROWS && !row->contradictory;
    *ids = named ? row->ids : (struct label_ids){0};
    return named;
}

bool labels_is_id(struct bytes key, struct bytes value, const struct label_names *names)
{
    struct found found;
    return find_id(key, value, names, &found);
}
