/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/items_request.h"
#include "proto/otlp/otlp_spans.h"
#include "proto/wire.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#define NESTED_MAX (16u << 20)
#define UNKNOWN    BYTES_LIT("unknown to us")

static void put_text(struct buf *out, uint32_t field, size_t size)
{
    char *text = malloc(size + 1);
    assert_non_null(text);
    memset(text, 'x', size);
    wire_put_bytes(out, field, BYTES(text, size));
    free(text);
}

static void put_metric(struct buf *out, unsigned i, size_t padding)
{
    static const uint32_t kinds[] = {5, 7, 9, 10, 11};
    struct wire_nest metric, data, point;
    wire_begin(out, 2, NESTED_MAX, &metric);
    wire_put_bytes(out, 1, BYTES_LIT("http.server.request.duration"));
    put_text(out, 2, padding);
    wire_begin(out, kinds[i % 5], NESTED_MAX, &data);
    for (unsigned k = 0; k <= i % 3; k++) {
        wire_begin(out, 1, NESTED_MAX, &point);
        wire_put_fixed64(out, 3, UINT64_C(1700000000000000000) + k);
        wire_put_fixed64(out, 4, k);
        wire_put_bytes(out, 99, UNKNOWN);
        wire_end(out, &point);
    }
    wire_end(out, &data);
    wire_put_bytes(out, 99, UNKNOWN);
    wire_end(out, &metric);
}

static void put_record(struct buf *out, unsigned i, size_t padding)
{
    struct wire_nest record, body;
    wire_begin(out, 2, NESTED_MAX, &record);
    wire_put_fixed64(out, 1, UINT64_C(1700000000000000000) + i);
    wire_put_varint(out, 2, 9);
    wire_begin(out, 5, NESTED_MAX, &body);
    put_text(out, 1, padding);
    wire_end(out, &body);
    wire_put_bytes(out, 99, UNKNOWN);
    wire_end(out, &record);
}

void items_request(struct buf *out, enum signal signal, unsigned n, size_t padding)
{
    struct wire_nest resource_items, resource, scope_items;
    wire_begin(out, 1, NESTED_MAX, &resource_items);
    wire_begin(out, 1, NESTED_MAX, &resource);
    otlp_attribute_string(out, 1, "service.name", BYTES_LIT("shop"));
    wire_end(out, &resource);
    wire_begin(out, 2, NESTED_MAX, &scope_items);
    wire_put_bytes(out, 1, BYTES_LIT("\x0a\x03lib"));
    for (unsigned i = 0; i < n; i++) {
        if (signal == SIGNAL_METRICS)
            put_metric(out, i, padding);
        else
            put_record(out, i, padding);
    }
    wire_put_bytes(out, 99, UNKNOWN);
    wire_end(out, &scope_items);
    wire_put_bytes(out, 99, UNKNOWN);
    wire_end(out, &resource_items);
}

uint64_t items_expected(enum signal signal, unsigned n)
{
    uint64_t items = 0;
    for (unsigned i = 0; i < n; i++)
        items += signal == SIGNAL_METRICS ? 1 + i % 3 : 1;
    return items;
}

static void entries(struct bytes message, const uint32_t *path, struct buf *out)
{
    struct wire_reader reader = wire_read(message);
    struct wire_field field;
    while (wire_next(&reader, &field) == WIRE_FIELD)
        if (field.number == *path && path[1])
            entries(field.bytes, path + 1, out);
        else if (field.number == *path)
            assert_int_equal(buf_append_bytes(out, field.raw), 0);
}

void items_entries(struct bytes request, struct buf *out)
{
    static const uint32_t path[] = {1, 2, 2, 0};
    entries(request, path, out);
}
