/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Trace requests made by hand, field by field, with unknown fields in them, in tests of
 * otlp_spans.h. Asserts with cmocka. Thread: one.
 */
#include "proto/otlp/otlp_spans.h"
#include "proto/wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

enum { UNKNOWN = 999 };

static inline void put(struct buf *out, uint32_t field, struct bytes bytes)
{
    assert_int_equal(wire_put_bytes(out, field, bytes), 0);
}

static inline void put_text(struct buf *out, uint32_t field, const char *text)
{
    put(out, field, BYTES_STR(text));
}

/* A span whose name is its number; with something unknown in it. */
static inline void put_span(struct buf *scope_spans, unsigned number)
{
    _cleanup_buf_ struct buf span = BUF_INIT(0);
    char name[16];
    uint8_t id[16] = {1, [15] = (uint8_t)number};
    snprintf(name, sizeof(name), "span %u", number);
    put(&span, 1, BYTES(id, 16));
    put(&span, 2, BYTES(id + 8, 8));
    put_text(&span, UNKNOWN, "from the future");
    put_text(&span, 5, name);
    wire_put_varint(&span, 6, SPAN_SERVER);
    wire_put_fixed64(&span, 7, 1000 + number);
    wire_put_fixed64(&span, 8, 2000 + number);
    otlp_attribute_string(&span, 9, "http.route", BYTES_LIT("/cart"));
    otlp_attribute_int(&span, 9, "size", -5);
    wire_put_fixed32(&span, 16, 0x101);
    put(scope_spans, 2, buf_bytes(&span));
}

static inline void put_scope(struct buf *resource_spans, unsigned first, unsigned n)
{
    _cleanup_buf_ struct buf scope = BUF_INIT(0), name = BUF_INIT(0);
    put_text(&name, 1, "a.scope");
    put(&scope, 1, buf_bytes(&name));
    put_text(&scope, UNKNOWN, "scope extra");
    for (unsigned i = 0; i < n; i++)
        put_span(&scope, first + i);
    put_text(&scope, 3, "https://scope.schema");
    put(resource_spans, 2, buf_bytes(&scope));
}

static inline void put_service(struct buf *resource_spans, const char *service)
{
    _cleanup_buf_ struct buf resource = BUF_INIT(0);
    otlp_attribute_string(&resource, 1, "service.name", BYTES_STR(service));
    put(resource_spans, 1, buf_bytes(&resource));
}

/* Two services with two scopes of n spans each; the second service's Resource comes last. */
static inline void make_request(struct buf *request, unsigned n)
{
    _cleanup_buf_ struct buf first = BUF_INIT(0), second = BUF_INIT(0);
    put_service(&first, "shop");
    put_scope(&first, 0, n);
    put_scope(&first, n, n);
    put_text(&first, 3, "https://resource.schema");
    put_text(&second, UNKNOWN, "resource extra");
    put_scope(&second, 2 * n, n);
    put_scope(&second, 3 * n, n);
    put_service(&second, "stock");
    put(request, 1, buf_bytes(&first));
    put_text(request, UNKNOWN, "request extra");
    put(request, 1, buf_bytes(&second));
}

/* Adds the raw spans of a body to out, one after the other. */
static inline void collect_spans(struct bytes message, const uint32_t *path, struct buf *out)
{
    struct wire_reader reader = wire_read(message);
    struct wire_field field;
    while (wire_next(&reader, &field) == WIRE_FIELD) {
        if (field.number != *path)
            continue;
        if (path[1])
            collect_spans(field.bytes, path + 1, out);
        else
            put(out, 1, field.bytes);
    }
}

static const uint32_t span_path[] = {1, 2, 2, 0};
