/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/faults/count_work.h"
#include "proto/otlp/otlp_spans.h"
#include <sqlite3.h>
#include <stdatomic.h>

static atomic_uint_fast64_t work;

void count_work_begin(void)
{
    atomic_store(&work, 0);
}

uint64_t count_work_end(void)
{
    return atomic_load(&work);
}

static void work_add(size_t bytes)
{
    atomic_fetch_add_explicit(&work, bytes, memory_order_relaxed);
}

int __real_memcmp(const void *a, const void *b, size_t size);
int __wrap_memcmp(const void *a, const void *b, size_t size);
void *__real_memcpy(void *to, const void *from, size_t size);
void *__wrap_memcpy(void *to, const void *from, size_t size);
void *__real_memmove(void *to, const void *from, size_t size);
void *__wrap_memmove(void *to, const void *from, size_t size);
size_t __real_strlen(const char *text);
size_t __wrap_strlen(const char *text);
size_t __real_strnlen(const char *text, size_t max);
size_t __wrap_strnlen(const char *text, size_t max);
uint64_t __real_bytes_siphash(struct bytes in, const uint8_t key[16]);
uint64_t __wrap_bytes_siphash(struct bytes in, const uint8_t key[16]);
void __real_bytes_siphash128(struct bytes in, const uint8_t key[16], uint8_t out[16]);
void __wrap_bytes_siphash128(struct bytes in, const uint8_t key[16], uint8_t out[16]);
bool __real_otlp_resource_attribute(struct bytes resource, const char *key, struct bytes *found);
bool __wrap_otlp_resource_attribute(struct bytes resource, const char *key, struct bytes *found);
bool __real_otlp_span_attribute(const struct otlp_span *span, const char *key, struct bytes *found);
bool __wrap_otlp_span_attribute(const struct otlp_span *span, const char *key, struct bytes *found);
int __real_sqlite3_step(sqlite3_stmt *statement);
int __wrap_sqlite3_step(sqlite3_stmt *statement);
int __real_sqlite3_bind_blob64(sqlite3_stmt *statement, int at, const void *data,
                               sqlite3_uint64 size, void (*done)(void *));
int __wrap_sqlite3_bind_blob64(sqlite3_stmt *statement, int at, const void *data,
                               sqlite3_uint64 size, void (*done)(void *));

int __wrap_memcmp(const void *a, const void *b, size_t size)
{
    work_add(size);
    return __real_memcmp(a, b, size);
}

void *__wrap_memcpy(void *to, const void *from, size_t size)
{
    work_add(size);
    return __real_memcpy(to, from, size);
}

void *__wrap_memmove(void *to, const void *from, size_t size)
{
    work_add(size);
    return __real_memmove(to, from, size);
}

size_t __wrap_strlen(const char *text)
{
    size_t len = __real_strlen(text);
    work_add(len);
    return len;
}

size_t __wrap_strnlen(const char *text, size_t max)
{
    size_t len = __real_strnlen(text, max);
    work_add(len);
    return len;
}

uint64_t __wrap_bytes_siphash(struct bytes in, const uint8_t key[16])
{
    work_add(in.len);
    return __real_bytes_siphash(in, key);
}

void __wrap_bytes_siphash128(struct bytes in, const uint8_t key[16], uint8_t out[16])
{
    work_add(in.len);
    __real_bytes_siphash128(in, key, out);
}

bool __wrap_otlp_resource_attribute(struct bytes resource, const char *key, struct bytes *found)
{
    work_add(resource.len);
    return __real_otlp_resource_attribute(resource, key, found);
}

bool __wrap_otlp_span_attribute(const struct otlp_span *span, const char *key, struct bytes *found)
{
    work_add(span->raw.len);
    return __real_otlp_span_attribute(span, key, found);
}

int __wrap_sqlite3_step(sqlite3_stmt *statement)
{
    work_add(WORK_OF_STEP);
    return __real_sqlite3_step(statement);
}

int __wrap_sqlite3_bind_blob64(sqlite3_stmt *statement, int at, const void *data,
                               sqlite3_uint64 size, void (*done)(void *))
{
    work_add(size);
    return __real_sqlite3_bind_blob64(statement, at, data, size, done);
}
