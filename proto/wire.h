/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Raw protobuf fields: a bounded reader that neither copies nor recurses, and a writer onto struct
 * buf. Pure; thread: any. Source of the format: protobuf.dev, "Encoding". Refused here, though some
 * decoders take it: groups, a tag or length of more than 5 bytes, a varint that does not fit 64
 * bits.
 */
#include "base/buf.h"

enum wire_type { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

enum wire_outcome { WIRE_END = 0, WIRE_MALFORMED = 1, WIRE_FIELD = 2 };

#define WIRE_FIELD_MAX        UINT32_C(536870911) /* largest field number: 2^29 - 1 */
#define WIRE_VARINT_MAX       10                  /* bytes */
#define WIRE_SHORT_VARINT_MAX 5                   /* bytes of a tag or length */

struct wire_reader {
    const uint8_t *at;
    const uint8_t *end;
};

struct wire_field {
    uint32_t number;
    enum wire_type type;
    uint64_t value;     /* WIRE_VARINT, WIRE_FIXED64, WIRE_FIXED32; of WIRE_BYTES the length */
    struct bytes bytes; /* WIRE_BYTES: what the length covers; borrowed; else empty */
    struct bytes raw;   /* the whole field with its tag; borrowed */
};

static inline struct wire_reader wire_read(struct bytes message)
{
    /* NULL may not even be moved by 0 */
    return (struct wire_reader){message.data,
                                message.len ? message.data + message.len : message.data};
}

/* A varint of at most `limit` bytes: where it ends; NULL when cut short, too long or past 64 bits.
 * Apart from the reader, so that readers stay in registers. */
const uint8_t *wire_varint_long(const uint8_t *at, const uint8_t *end, unsigned limit,
                                uint64_t *value);

static inline bool wire_next_limited(struct wire_reader *reader, unsigned limit, uint64_t *value)
{
    if (reader->at < reader->end && *reader->at < 0x80) {
        *value = *reader->at++;
        return true;
    }
    uint64_t number;
    const uint8_t *at = wire_varint_long(reader->at, reader->end, limit, &number);
    if (!at)
        return false;
    reader->at = at;
    *value = number;
    return true;
}

/* One bare varint, as in packed lists. False at the end or when malformed. */
static inline bool wire_next_varint(struct wire_reader *reader, uint64_t *value)
{
    return wire_next_limited(reader, WIRE_VARINT_MAX, value);
}

static inline bool wire_next_fixed(struct wire_reader *reader, size_t size, uint64_t *value)
{
    if ((size_t)(reader->end - reader->at) < size)
        return false;
    *value = 0;
    memcpy(value, reader->at, size); /* little-endian, as this machine: asserted in wire.c */
    reader->at += size;
    return true;
}

static inline bool wire_next_payload(struct wire_reader *reader, struct wire_field *field)
{
    if (field->type == WIRE_BYTES) { /* three of four fields */
        if (!wire_next_limited(reader, WIRE_SHORT_VARINT_MAX, &field->value) ||
            field->value > (uint64_t)(reader->end - reader->at))
            return false;
        field->bytes = BYTES(reader->at, field->value);
        reader->at += field->value;
        return true;
    }
    if (field->type == WIRE_VARINT)
        return wire_next_varint(reader, &field->value);
    if (field->type == WIRE_FIXED64)
        return wire_next_fixed(reader, 8, &field->value);
    /* groups, and what was never assigned, are none of these */
    return field->type == WIRE_FIXED32 && wire_next_fixed(reader, 4, &field->value);
}

/* The next field. WIRE_FIELD; WIRE_END: all was read; WIRE_MALFORMED: the reader stays where it is.
 * Inline, for a request has tens of fields a span. */
static inline int wire_next(struct wire_reader *reader, struct wire_field *field)
{
    if (reader->at == reader->end)
        return WIRE_END;
    struct wire_reader next = *reader;
    uint64_t tag;
    if (!wire_next_limited(&next, WIRE_SHORT_VARINT_MAX, &tag) || tag < 8 || tag > UINT32_MAX)
        return WIRE_MALFORMED;
    field->number = (uint32_t)(tag >> 3);
    field->type = (enum wire_type)(tag & 7);
    field->bytes = BYTES(NULL, 0);
    if (!wire_next_payload(&next, field))
        return WIRE_MALFORMED;
    field->raw = BYTES(reader->at, (size_t)(next.at - reader->at));
    reader->at = next.at;
    return WIRE_FIELD;
}

size_t wire_varint_size(uint64_t value); /* 1..10 bytes */
size_t wire_tag_size(uint32_t number);   /* 1..5 bytes */
/* A whole WIRE_BYTES field with n bytes inside. */
size_t wire_bytes_size(uint32_t number, size_t n);

/* Outcomes as in base/buf.h: 0, BUF_FULL, -ENOMEM; on failure nothing was appended. A field is
 * written also when its value is zero: leaving it out is for the caller. */
int wire_put_bare_varint(struct buf *out, uint64_t value);
int wire_put_varint(struct buf *out, uint32_t number, uint64_t value);
int wire_put_fixed64(struct buf *out, uint32_t number, uint64_t value);
int wire_put_fixed32(struct buf *out, uint32_t number, uint32_t value);
int wire_put_bytes(struct buf *out, uint32_t number, struct bytes bytes);
/* Tag and length of n bytes to follow. */
int wire_put_header(struct buf *out, uint32_t number, size_t n);

/*
 * A nested message whose length is not known yet: begin, append the fields, end. Room is kept for
 * the length of max_len bytes, and closed up at the end if less was needed. More than max_len is an
 * error of the caller (asserted). Nests.
 */
struct wire_nest {
    size_t length_at; /* offset of the length in the buffer */
    size_t length_size;
};
int wire_begin(struct buf *out, uint32_t number, size_t max_len, struct wire_nest *nest);
void wire_end(struct buf *out, const struct wire_nest *nest);
