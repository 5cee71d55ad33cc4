/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The details messages are three levels of two or three fields each: read and written on the wire,
 * so that answering needs no descriptors and a hostile peer meets no general decoder.
 */
#include "proto/http/grpc.h"
#include "base/clock.h"
#include "proto/wire.h"
#include <assert.h>
#include <errno.h>
#include <stdio.h>

static const char *const status_names[GRPC_STATUS_COUNT] = {
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
};

const char *grpc_status_name(enum grpc_status status)
{
    return (unsigned)status < GRPC_STATUS_COUNT ? status_names[status] : "UNKNOWN";
}

enum grpc_status grpc_status_parse(struct bytes text)
{
    unsigned value = 0;
    if (text.len == 0 || text.len > 2)
        return GRPC_UNKNOWN;
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return GRPC_UNKNOWN;
        value = value * 10 + (unsigned)(text.data[i] - '0');
    }
    return value < GRPC_STATUS_COUNT ? (enum grpc_status)value : GRPC_UNKNOWN;
}

enum grpc_status grpc_status_from_http(unsigned http_status)
{
    switch (http_status) {
    case 400:
        return GRPC_INTERNAL;
    case 401:
        return GRPC_UNAUTHENTICATED;
    case 403:
        return GRPC_PERMISSION_DENIED;
    case 404:
        return GRPC_UNIMPLEMENTED;
    case 429:
    case 502:
    case 503:
    case 504:
        return GRPC_UNAVAILABLE;
    default:
        return GRPC_UNKNOWN;
    }
}

enum grpc_status grpc_status_from_h2(uint32_t h2_error)
{
    switch (h2_error) {
    case 7:          /* REFUSED_STREAM */
    case 0x7fffffff: /* H2_CONNECTION_LOST */
        return GRPC_UNAVAILABLE;
    case 8: /* CANCEL */
        return GRPC_CANCELLED;
    case 11: /* ENHANCE_YOUR_CALM */
        return GRPC_RESOURCE_EXHAUSTED;
    case 12: /* INADEQUATE_SECURITY */
        return GRPC_PERMISSION_DENIED;
    default:
        return GRPC_INTERNAL;
    }
}

/* ---- messages ---- */

void grpc_prefix_write(uint8_t out[GRPC_PREFIX_SIZE], bool compressed, uint32_t size)
{
    out[0] = compressed;
    out[1] = (uint8_t)(size >> 24);
    out[2] = (uint8_t)(size >> 16);
    out[3] = (uint8_t)(size >> 8);
    out[4] = (uint8_t)size;
}

void grpc_reader_init(struct grpc_reader *reader, size_t max_bytes)
{
    assert(max_bytes > 0);
    *reader = (struct grpc_reader){.message = BUF_INIT(max_bytes)};
}

void grpc_reader_close(struct grpc_reader *reader)
{
    buf_close(&reader->message);
}

static int read_prefix(struct grpc_reader *reader)
{
    const uint8_t *prefix = reader->prefix;
    if (prefix[0] > 1)
        return GRPC_READ_BAD_FLAG;
    reader->compressed = prefix[0];
    reader->size = (uint32_t)prefix[1] << 24 | (uint32_t)prefix[2] << 16 |
                   (uint32_t)prefix[3] << 8 | prefix[4];
    return reader->size > reader->message.limit_bytes ? GRPC_READ_TOO_BIG : GRPC_READ_OK;
}

int grpc_reader_feed(struct grpc_reader *reader, struct bytes piece)
{
    while (piece.len > 0 && reader->n_prefix < GRPC_PREFIX_SIZE) {
        reader->prefix[reader->n_prefix++] = *piece.data++;
        piece.len--;
        int outcome = reader->n_prefix == GRPC_PREFIX_SIZE ? read_prefix(reader) : GRPC_READ_OK;
        if (outcome)
            return outcome;
    }
    if (piece.len == 0)
        return GRPC_READ_OK;
    if (piece.len > reader->size - reader->message.len)
        return GRPC_READ_TWICE;
    return buf_append_bytes(&reader->message, piece); /* never BUF_FULL: size is within the limit */
}

int grpc_reader_end(const struct grpc_reader *reader)
{
    if (reader->n_prefix == 0)
        return GRPC_READ_MISSING;
    bool complete = reader->n_prefix == GRPC_PREFIX_SIZE && reader->message.len == reader->size;
    return complete ? GRPC_READ_OK : GRPC_READ_TRUNCATED;
}

/* ---- header values ---- */

static const struct {
    uint8_t unit;
    uint64_t ns;
} timeout_units[] = {
    {'n', 1},
    {'u', 1000},
    {'m', NS_PER_MS},
    {'S', NS_PER_SEC},
    {'M', 60 * NS_PER_SEC},
    {'H', 3600 * NS_PER_SEC},
};
#define N_UNITS (sizeof(timeout_units) / sizeof(timeout_units[0]))
enum { TIMEOUT_DIGITS = 8 };

int grpc_timeout_parse(struct bytes text, uint64_t *ns)
{
    if (text.len < 2 || text.len > TIMEOUT_DIGITS + 1)
        return -EINVAL;
    uint64_t value = 0;
    for (size_t i = 0; i + 1 < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return -EINVAL;
        value = value * 10 + (uint64_t)(text.data[i] - '0');
    }
    for (size_t i = 0; i < N_UNITS; i++) {
        if (text.data[text.len - 1] != timeout_units[i].unit)
            continue;
        if (__builtin_mul_overflow(value, timeout_units[i].ns, ns))
            *ns = UINT64_MAX; /* 11,000 years: no limit */
        return 0;
    }
    return -EINVAL;
}

void grpc_timeout_format(uint64_t ns, char out[GRPC_TIMEOUT_TEXT])
{
    size_t i = 0;
    uint64_t value = ns;
    while (value > 99999999 && i + 1 < N_UNITS) {
        i++;
        value = ns / timeout_units[i].ns + (ns % timeout_units[i].ns != 0);
    }
    snprintf(out, GRPC_TIMEOUT_TEXT, "%u%c", (unsigned)(value % 100000000), timeout_units[i].unit);
}

int grpc_percent_encode(struct bytes text, struct buf *out)
{
    size_t start = out->len;
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.data[i];
        bool plain = c >= 0x20 && c <= 0x7E && c != '%';
        int error = plain ? buf_append(out, &c, 1) : buf_printf(out, "%%%02X", c);
        if (error) {
            out->len = start;
            return error;
        }
    }
    return 0;
}

int grpc_percent_decode(struct bytes text, struct buf *out)
{
    size_t start = out->len;
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.data[i];
        if (c == '%' && i + 2 < text.len && bytes_from_hex(BYTES(text.data + i + 1, 2), &c, 1))
            i += 2;
        int error = buf_append(out, &c, 1);
        if (error) {
            out->len = start;
            return error;
        }
    }
    return 0;
}

/* ---- error details ---- */

static const char retry_info_url[] = "type.googleapis.com/google.rpc.RetryInfo";

static int put_number(struct buf *out, uint32_t field, uint64_t value)
{
    return value ? wire_put_varint(out, field, value) : 0;
}

int grpc_retry_info_write(uint64_t retry_delay_ns, struct buf *out)
{
    _cleanup_buf_ struct buf duration = BUF_INIT(0);
    int error = put_number(&duration, 1, retry_delay_ns / NS_PER_SEC);
    error = error ? error : put_number(&duration, 2, retry_delay_ns % NS_PER_SEC);
    return error ? error : wire_put_bytes(out, 1, buf_bytes(&duration));
}

static int put_retry_detail(uint64_t retry_delay_ns, struct buf *out)
{
    _cleanup_buf_ struct buf info = BUF_INIT(0);
    _cleanup_buf_ struct buf any = BUF_INIT(0);
    int error = grpc_retry_info_write(retry_delay_ns, &info);
    error = error ? error : wire_put_bytes(&any, 1, BYTES_LIT(retry_info_url));
    error = error ? error : wire_put_bytes(&any, 2, buf_bytes(&info));
    return error ? error : wire_put_bytes(out, 3, buf_bytes(&any));
}

int grpc_details_write(enum grpc_status status, struct bytes message, uint64_t retry_delay_ns,
                       struct buf *out)
{
    size_t start = out->len;
    int error = put_number(out, 1, status);
    if (!error && message.len)
        error = wire_put_bytes(out, 2, message);
    if (!error && retry_delay_ns != GRPC_NO_RETRY_INFO)
        error = put_retry_detail(retry_delay_ns, out);
    if (error)
        out->len = start;
    return error;
}

static uint64_t duration_ns(struct bytes duration)
{
    int64_t seconds = 0, nanos = 0;
    struct wire_reader reader = wire_read(duration);
    int found;
    for (struct wire_field field; (found = wire_next(&reader, &field)) == WIRE_FIELD;) {
        if (field.type == WIRE_VARINT && field.number == 1)
            seconds = (int64_t)field.value;
        if (field.type == WIRE_VARINT && field.number == 2)
            nanos = (int32_t)field.value;
    }
    if (found == WIRE_MALFORMED)
        return GRPC_NO_RETRY_INFO;
    if (seconds < 0 || nanos < 0)
        return 0;
    const int64_t year = 366 * 86400;
    return (uint64_t)(seconds < year ? seconds : year) * NS_PER_SEC + (uint64_t)nanos;
}

uint64_t grpc_retry_info_delay(struct bytes info)
{
    uint64_t delay = 0; /* a RetryInfo without a delay: at once */
    struct wire_reader reader = wire_read(info);
    int found;
    for (struct wire_field field; (found = wire_next(&reader, &field)) == WIRE_FIELD;) {
        if (field.type == WIRE_BYTES && field.number == 1)
            delay = duration_ns(field.bytes);
    }
    return found == WIRE_MALFORMED ? GRPC_NO_RETRY_INFO : delay;
}

static uint64_t detail_retry_delay(struct bytes any)
{
    struct bytes url = {0}, value = {0};
    struct wire_reader reader = wire_read(any);
    int found;
    for (struct wire_field field; (found = wire_next(&reader, &field)) == WIRE_FIELD;) {
        if (field.type == WIRE_BYTES && field.number == 1)
            url = field.bytes;
        if (field.type == WIRE_BYTES && field.number == 2)
            value = field.bytes;
    }
    if (found == WIRE_MALFORMED || !bytes_is(url, retry_info_url))
        return GRPC_NO_RETRY_INFO;
    return grpc_retry_info_delay(value);
}

uint64_t grpc_details_retry_delay(struct bytes status_message)
{
    uint64_t delay = GRPC_NO_RETRY_INFO;
    struct wire_reader reader = wire_read(status_message);
    int found;
    for (struct wire_field field; (found = wire_next(&reader, &field)) == WIRE_FIELD;) {
        if (field.type == WIRE_BYTES && field.number == 3 && delay == GRPC_NO_RETRY_INFO)
            delay = detail_retry_delay(field.bytes);
    }
    return found == WIRE_MALFORMED ? GRPC_NO_RETRY_INFO : delay;
}

bool grpc_details_read(struct bytes status_message, enum grpc_status *status, struct bytes *message)
{
    *status = GRPC_OK;
    *message = (struct bytes){0};
    struct wire_reader reader = wire_read(status_message);
    int found;
    for (struct wire_field field; (found = wire_next(&reader, &field)) == WIRE_FIELD;) {
        if (field.type == WIRE_VARINT && field.number == 1)
            *status =
                field.value < GRPC_STATUS_COUNT ? (enum grpc_status)field.value : GRPC_UNKNOWN;
        if (field.type == WIRE_BYTES && field.number == 2)
            *message = field.bytes;
    }
    return found == WIRE_END;
}
