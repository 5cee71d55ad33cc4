/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/trace_request.h"
#include "proto/otlp/otlp_spans.h"
#include "proto/wire.h"
#include "test/support/store_fixture.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#define NESTED_MAX (16u << 20)

static void put_padding(struct buf *out, size_t size)
{
    char *text = malloc(size);
    assert_non_null(text);
    memset(text, 'x', size);
    assert_int_equal(otlp_attribute_string(out, 9, "padding", BYTES(text, size)), 0);
    free(text);
}

static void put_span(struct buf *out, const struct trace_span *span)
{
    struct wire_nest nest;
    uint8_t trace_id[16], span_id[8];
    fixture_trace_id(span->trace, trace_id);
    fixture_span_id(span->id, span_id);
    wire_begin(out, 2, NESTED_MAX, &nest);
    wire_put_bytes(out, 1, BYTES(trace_id, 16));
    wire_put_bytes(out, 2, BYTES(span_id, 8));
    wire_put_bytes(out, 5, BYTES_LIT("GET /cart"));
    wire_put_varint(out, 6, SPAN_SERVER);
    wire_put_fixed64(out, 7, span->start_unix_ns);
    wire_put_fixed64(out, 8, span->end_unix_ns);
    wire_put_bytes(out, 99, BYTES_LIT("unknown to us"));
    if (span->padding)
        put_padding(out, span->padding);
    if (span->added.len)
        buf_append_bytes(out, span->added);
    wire_end(out, &nest);
}

void trace_request(struct buf *out, const struct trace_span *spans, size_t n)
{
    struct wire_nest resource_spans, resource, scope_spans;
    wire_begin(out, 1, NESTED_MAX, &resource_spans);
    wire_begin(out, 1, NESTED_MAX, &resource);
    otlp_attribute_string(out, 1, "service.name", BYTES_LIT("shop"));
    wire_end(out, &resource);
    wire_begin(out, 2, NESTED_MAX, &scope_spans);
    wire_put_bytes(out, 1, BYTES_LIT("\x0a\x03lib"));
    for (size_t i = 0; i < n; i++)
        put_span(out, &spans[i]);
    wire_end(out, &scope_spans);
    wire_end(out, &resource_spans);
    assert_int_equal(otlp_spans_check(buf_bytes(out)), OTLP_OK);
    assert_int_equal(otlp_spans_count(buf_bytes(out)), n);
}

void outgoing_read(struct outgoing *outgoing, const struct db_settings *settings,
                   enum signal signal)
{
    struct db *db;
    struct outbox_reader *reader;
    struct outbox_item item = {0};
    *outgoing = (struct outgoing){0};
    assert_int_equal(db_open_reader(settings, &db), 0);
    assert_int_equal(outbox_reader_open(db, &reader), 0);
    while (outbox_next_signal(reader, "first", signal, item.seq, &item) == 0) {
        assert_true(outgoing->n < OUTGOING_MAX);
        outgoing->items[outgoing->n++] = item;
    }
    outbox_reader_close(reader);
    db_close(db);
}

void outgoing_close(struct outgoing *outgoing)
{
    for (size_t i = 0; i < outgoing->n; i++)
        buf_close(&outgoing->items[i].body);
    outgoing->n = 0;
}
