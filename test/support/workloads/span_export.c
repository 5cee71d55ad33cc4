/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spans are encoded when they end, so that what waits is one byte string: a run of ScopeSpans.spans
 * fields. A post puts the envelope (Resource, scope) around as many of them as fit a batch. A
 * request that was not answered 2xx keeps its place: the caller flushes again, as an SDK would
 * retry.
 */
#include "test/support/workloads/span_export.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define ANSWER_TIMEOUT_S 10
#define RESOURCE_MAX     1024
#define TEXT_MAX         1024 /* of a key, of a value */
#define SPAN_MAX         (64 << 10)

struct text {
    uint8_t *data;
    size_t size;
    size_t capacity;
};

struct span_exporter {
    struct sockaddr_in address;
    char host[128];
    struct text resource;
    pthread_mutex_t lock;  /* waiting, counts */
    pthread_mutex_t flush; /* one flush at a time */
    struct text waiting;
    struct span_export_counts counts;
};

static void put_byte(struct text *out, uint8_t byte)
{
    assert(out->size < out->capacity);
    out->data[out->size++] = byte;
}

static void put_bytes(struct text *out, const void *data, size_t size)
{
    assert(size <= out->capacity - out->size);
    memcpy(out->data + out->size, data, size);
    out->size += size;
}

static void put_varint(struct text *out, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        put_byte(out, (uint8_t)(value | 0x80));
    put_byte(out, (uint8_t)value);
}

static void put_length_delimited(struct text *out, uint32_t field, const void *data, size_t size)
{
    put_varint(out, field << 3 | 2);
    put_varint(out, size);
    put_bytes(out, data, size);
}

static void put_fixed64(struct text *out, uint32_t field, uint64_t value)
{
    put_varint(out, field << 3 | 1);
    for (int i = 0; i < 8; i++)
        put_byte(out, (uint8_t)(value >> (8 * i)));
}

static void put_attribute(struct text *out, uint32_t field,
                          const struct span_export_attribute *attribute)
{
    uint8_t value_bytes[TEXT_MAX + 16];
    uint8_t pair_bytes[2 * TEXT_MAX + 64];
    struct text value = {value_bytes, 0, sizeof(value_bytes)};
    struct text pair = {pair_bytes, 0, sizeof(pair_bytes)};
    if (attribute->text) {
        put_length_delimited(&value, 1, attribute->text, strlen(attribute->text));
    } else {
        put_varint(&value, 3 << 3);
        put_varint(&value, (uint64_t)attribute->number);
    }
    put_length_delimited(&pair, 1, attribute->key, strlen(attribute->key));
    put_length_delimited(&pair, 2, value.data, value.size);
    put_length_delimited(out, field, pair.data, pair.size);
}

static bool is_zero(const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (bytes[i])
            return false;
    return true;
}

static void put_span(struct text *out, const struct span_export_span *span)
{
    put_length_delimited(out, 1, span->trace_id, 16);
    put_length_delimited(out, 2, span->span_id, 8);
    if (!is_zero(span->parent_id, 8))
        put_length_delimited(out, 4, span->parent_id, 8);
    put_length_delimited(out, 5, span->name, strlen(span->name));
    put_varint(out, 6 << 3);
    put_varint(out, span->kind);
    put_fixed64(out, 7, span->start_unix_ns);
    put_fixed64(out, 8, span->end_unix_ns);
    for (size_t i = 0; i < span->n_attributes; i++)
        put_attribute(out, 9, &span->attributes[i]);
    put_varint(out, 16 << 3 | 5); /* flags, fixed32: sampled, remoteness known, not remote */
    put_bytes(out, (const uint8_t[]){0x01, 0x01, 0, 0}, 4);
}

static bool span_fits(const struct span_export_span *span)
{
    size_t size = 128 + strlen(span->name);
    for (size_t i = 0; i < span->n_attributes; i++) {
        size_t key = strlen(span->attributes[i].key);
        size_t value = span->attributes[i].text ? strlen(span->attributes[i].text) : 10;
        if (key > TEXT_MAX || value > TEXT_MAX)
            return false;
        size += 64 + key + value;
    }
    return size <= SPAN_MAX;
}

static bool reserve(struct text *out, size_t size, size_t limit)
{
    if (out->capacity - out->size >= size)
        return true;
    size_t capacity = out->capacity ? out->capacity : 4096;
    while (capacity - out->size < size)
        capacity *= 2;
    if (capacity > limit)
        return false;
    uint8_t *data = realloc(out->data, capacity);
    if (!data)
        return false;
    out->data = data;
    out->capacity = capacity;
    return true;
}

static int encode_resource(struct span_exporter *exporter,
                           const struct span_export_settings *settings)
{
    if (!reserve(&exporter->resource, RESOURCE_MAX, SIZE_MAX) ||
        strlen(settings->service_name) + strlen(settings->instance_id) > RESOURCE_MAX / 2)
        return -ENOMEM;
    const struct span_export_attribute attributes[] = {
        {"service.name", settings->service_name, 0},
        {"service.instance.id", settings->instance_id, 0},
        {"process.pid", NULL, settings->pid},
        {"telemetry.sdk.language", "c", 0},
    };
    for (size_t i = 0; i < sizeof(attributes) / sizeof(attributes[0]); i++)
        put_attribute(&exporter->resource, 1, &attributes[i]);
    return 0;
}

int span_export_open(const struct span_export_settings *settings, struct span_exporter **exporter)
{
    const char *host = strcmp(settings->host, "localhost") ? settings->host : "127.0.0.1";
    struct span_exporter *opened = calloc(1, sizeof(*opened));
    if (!opened)
        return -ENOMEM;
    pthread_mutex_init(&opened->lock, NULL);
    pthread_mutex_init(&opened->flush, NULL);
    opened->address =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(settings->port)};
    snprintf(opened->host, sizeof(opened->host), "%s:%u", settings->host, settings->port);
    int error = inet_pton(AF_INET, host, &opened->address.sin_addr) == 1 ? 0 : -EINVAL;
    if (!error)
        error = encode_resource(opened, settings);
    if (error) {
        span_export_close(opened);
        return error;
    }
    *exporter = opened;
    return 0;
}

void span_export_close(struct span_exporter *exporter)
{
    if (!exporter)
        return;
    pthread_mutex_destroy(&exporter->lock);
    pthread_mutex_destroy(&exporter->flush);
    free(exporter->resource.data);
    free(exporter->waiting.data);
    free(exporter);
}

void span_export_add(struct span_exporter *exporter, const struct span_export_span *span)
{
    uint8_t bytes[SPAN_MAX];
    struct text encoded = {bytes, 0, sizeof(bytes)};
    bool fits = span_fits(span);
    if (fits)
        put_span(&encoded, span);
    pthread_mutex_lock(&exporter->lock);
    exporter->counts.added++;
    if (fits && reserve(&exporter->waiting, encoded.size + 16, SPAN_EXPORT_MAX_BYTES))
        put_length_delimited(&exporter->waiting, 2, encoded.data, encoded.size);
    else
        exporter->counts.dropped++;
    pthread_mutex_unlock(&exporter->lock);
}

/* The length of the first spans of `waiting` that fill a batch, and their number. */
static size_t batch_length(const struct text *waiting, uint64_t *n_spans)
{
    size_t at = 0;
    *n_spans = 0;
    while (at < waiting->size && at < SPAN_EXPORT_BATCH_BYTES) {
        size_t length = 0;
        int shift = 0;
        at++; /* the tag: field 2, one byte */
        do
            length |= (size_t)(waiting->data[at] & 0x7f) << shift, shift += 7;
        while (waiting->data[at++] & 0x80);
        at += length;
        (*n_spans)++;
    }
    return at;
}

/* The request around a run of ScopeSpans.spans fields. */
static int encode_request(const struct span_exporter *exporter, const uint8_t *spans, size_t size,
                          struct text *request)
{
    static const char scope_name[] = "spanprof.test";
    struct text scope = {(uint8_t[64]){0}, 0, 64};
    put_length_delimited(&scope, 1, scope_name, strlen(scope_name));
    struct text inner = {0}, outer = {0};
    bool enough = reserve(&inner, size + 128, SIZE_MAX) &&
                  reserve(&outer, size + RESOURCE_MAX + 256, SIZE_MAX) &&
                  reserve(request, size + RESOURCE_MAX + 512, SIZE_MAX);
    if (enough) {
        put_length_delimited(&inner, 1, scope.data, scope.size);
        put_bytes(&inner, spans, size);
        put_length_delimited(&outer, 1, exporter->resource.data, exporter->resource.size);
        put_length_delimited(&outer, 2, inner.data, inner.size);
        put_length_delimited(request, 1, outer.data, outer.size);
    }
    free(inner.data);
    free(outer.data);
    return enough ? 0 : -ENOMEM;
}

static int send_all(int fd, const void *data, size_t size)
{
    for (size_t sent = 0; sent < size;) {
        ssize_t n = send(fd, (const char *)data + sent, size - sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        sent += (size_t)n;
    }
    return 0;
}

/* Reads to the end of the answer (the request asked for Connection: close). 0 = 2xx. */
static int read_status(int fd)
{
    char answer[512];
    size_t size = 0;
    for (ssize_t n; size < sizeof(answer) - 1; size += (size_t)n) {
        n = recv(fd, answer + size, sizeof(answer) - 1 - size, 0);
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
    }
    answer[size] = 0;
    int status = 0;
    if (sscanf(answer, "HTTP/1.%*d %d", &status) != 1)
        return -EPROTO;
    return status / 100 == 2 ? 0 : status;
}

static int exchange(int fd, const struct span_exporter *exporter, const struct text *request)
{
    char head[512];
    int length =
        snprintf(head, sizeof(head),
                 "POST /v1/traces HTTP/1.1\r\nHost: %s\r\nContent-Type: application/x-protobuf\r\n"
                 "Content-Length: %zu\r\nConnection: close\r\n\r\n",
                 exporter->host, request->size);
    const struct timeval patience = {.tv_sec = ANSWER_TIMEOUT_S};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    if (connect(fd, (const struct sockaddr *)&exporter->address, sizeof(exporter->address)))
        return -errno;
    int error = send_all(fd, head, (size_t)length);
    if (!error)
        error = send_all(fd, request->data, request->size);
    return error ? error : read_status(fd);
}

static int post(const struct span_exporter *exporter, const struct text *request)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    int error = exchange(fd, exporter, request);
    close(fd);
    return error;
}

static int flush_batch(struct span_exporter *exporter)
{
    struct text request = {0};
    uint64_t n_spans;
    pthread_mutex_lock(&exporter->lock);
    size_t length = batch_length(&exporter->waiting, &n_spans);
    int error = encode_request(exporter, exporter->waiting.data, length, &request);
    pthread_mutex_unlock(&exporter->lock);
    if (!error)
        error = post(exporter, &request);
    free(request.data);
    if (error)
        return error;
    pthread_mutex_lock(&exporter->lock);
    exporter->waiting.size -= length;
    memmove(exporter->waiting.data, exporter->waiting.data + length, exporter->waiting.size);
    exporter->counts.acknowledged += n_spans;
    pthread_mutex_unlock(&exporter->lock);
    return 0;
}

int span_export_flush(struct span_exporter *exporter)
{
    int error = 0;
    pthread_mutex_lock(&exporter->flush);
    for (;;) {
        pthread_mutex_lock(&exporter->lock);
        bool empty = exporter->waiting.size == 0;
        pthread_mutex_unlock(&exporter->lock);
        if (empty || (error = flush_batch(exporter)))
            break;
    }
    pthread_mutex_unlock(&exporter->flush);
    return error;
}

struct span_export_counts span_export_counts(struct span_exporter *exporter)
{
    pthread_mutex_lock(&exporter->lock);
    struct span_export_counts counts = exporter->counts;
    pthread_mutex_unlock(&exporter->lock);
    return counts;
}
