/* SPDX-License-Identifier: Apache-2.0 */
/* The API of libspanprof-context as its user and as a reader see it; test_context_torn.c stops
 * threads. */
#include "context/context_layout.h"
#include "context/spanprof_context.h"
#include "test/support/contexts/context_user.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

extern _Thread_local struct otel_thread_record *otel_thread_ctx_v1;

static const uint8_t trace_a[16] = "trace number = a", span_a[8] = "span isa";
static const uint8_t trace_b[16] = "trace number = b", span_b[8] = "span isb";
static const uint8_t zero[16];

/* The record as something outside sees it, by address; false: none. */
static bool read_record(uint8_t out[OTEL_THREAD_RECORD_MAX])
{
    uint64_t pointer;
    int fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &pointer, 8, (off_t)(uintptr_t)&otel_thread_ctx_v1), 8);
    if (pointer) {
        struct otel_thread_record *record = (struct otel_thread_record *)out;
        assert_int_equal(pointer % 2, 0);
        assert_int_equal(pread(fd, out, OTEL_THREAD_RECORD_HEAD, (off_t)pointer), 28);
        assert_int_equal(record->valid, OTEL_THREAD_RECORD_VALID);
        assert_true(28 + record->attributes_size <= OTEL_THREAD_RECORD_MAX);
        assert_int_equal(pread(fd, out + 28, record->attributes_size, (off_t)pointer + 28),
                         record->attributes_size);
    }
    close(fd);
    return pointer;
}

static void check_record(const uint8_t *trace_id, const uint8_t *span_id, uint8_t flags,
                         const char *attributes, size_t size)
{
    uint8_t raw[OTEL_THREAD_RECORD_MAX];
    assert_true(read_record(raw));
    assert_memory_equal(raw, trace_id, 16);
    assert_memory_equal(raw + 16, span_id, 8);
    assert_int_equal(raw[24], 1);
    assert_int_equal(raw[25], flags);
    assert_int_equal(raw[26] | raw[27] << 8, size);
    assert_memory_equal(raw + 28, attributes, size);
}

static bool no_record(void)
{
    uint8_t raw[OTEL_THREAD_RECORD_MAX];
    return !read_record(raw);
}

static void test_set_and_clear(void **state)
{
    (void)state;
    assert_true(no_record());
    assert_int_equal(spanprof_context_set(trace_a, span_a, 1), 0);
    check_record(trace_a, span_a, 1, "", 0);
    assert_int_equal(spanprof_context_set(trace_b, span_b, 0xff), 0);
    check_record(trace_b, span_b, 0xff, "", 0);
    assert_int_equal(spanprof_context_clear(), 0);
    assert_true(no_record());
    assert_int_equal(spanprof_context_clear(), 0);
}

static void test_zero_ids(void **state)
{
    (void)state;
    assert_int_equal(spanprof_context_set(trace_a, span_a, 1), 0);
    assert_int_equal(spanprof_context_set(trace_b, zero, 1), -EINVAL);
    assert_true(no_record()); /* neither the old nor half a new one */
    assert_int_equal(spanprof_context_set(trace_a, span_a, 1), 0);
    assert_int_equal(spanprof_context_set(zero, span_a, 1), -EINVAL);
    assert_true(no_record());
    assert_int_equal(spanprof_context_set(trace_a, span_a, 1), 0);
    assert_int_equal(spanprof_context_set(zero, zero, 1), 0);
    assert_true(no_record());
    /* One bit anywhere makes an id. */
    for (size_t i = 0; i < 16 * 8; i++) {
        uint8_t trace_id[16] = {0}, span_id[8] = {0};
        trace_id[i / 8] = (uint8_t)(1 << i % 8);
        span_id[i / 16] = (uint8_t)(1 << i % 8);
        assert_int_equal(spanprof_context_set(trace_id, span_id, 0), 0);
        check_record(trace_id, span_id, 0, "", 0);
    }
    spanprof_context_clear();
}

static void test_attributes(void **state)
{
    (void)state;
    int route = spanprof_context_key("http.route"), method = spanprof_context_key("method");
    assert_int_equal(route, 0); /* the first key of this program */
    assert_int_equal(method, 1);
    assert_int_equal(spanprof_context_set_attribute(route, "/", 1), -ENOENT);
    assert_int_equal(spanprof_context_set(trace_a, span_a, 1), 0);
    assert_int_equal(spanprof_context_set_attribute(route, "/cart", 5), 0);
    check_record(trace_a, span_a, 1, "\0\5/cart", 7);
    assert_int_equal(spanprof_context_set_attribute(method, NULL, 0), 0);
    check_record(trace_a, span_a, 1, "\0\5/cart\1\0", 9);
    assert_int_equal(spanprof_context_set_attribute(route, "/pay", 4), 0); /* takes the place */
    check_record(trace_a, span_a, 1, "\1\0\0\4/pay", 8);
    assert_int_equal(spanprof_context_set(trace_a, span_b, 1), 0); /* gone with their span */
    check_record(trace_a, span_b, 1, "", 0);
    spanprof_context_clear();
}

static void test_attribute_limits(void **state)
{
    static char value[256];
    uint8_t raw[OTEL_THREAD_RECORD_MAX], before[OTEL_THREAD_RECORD_MAX];
    (void)state;
    memset(value, 'v', sizeof(value));
    assert_int_equal(spanprof_context_set(trace_a, span_a, 1), 0);
    assert_int_equal(spanprof_context_set_attribute(-1, "", 0), -EINVAL);
    assert_int_equal(spanprof_context_set_attribute(256, "", 0), -EINVAL);
    assert_int_equal(spanprof_context_set_attribute(0, value, 256), -EINVAL);
    assert_int_equal(spanprof_context_set_attribute(0, NULL, 1), -EINVAL);
    assert_int_equal(spanprof_context_set_attribute(0, value, 207), -ENOSPC);
    assert_int_equal(spanprof_context_set_attribute(0, value, 206), 0); /* all there is */
    assert_true(read_record(before));
    assert_int_equal(before[26], SPANPROF_CONTEXT_ATTRIBUTES_MAX);
    assert_int_equal(spanprof_context_set_attribute(1, "", 0), -ENOSPC);
    assert_int_equal(spanprof_context_set_attribute(0, value, 207), -ENOSPC);
    assert_true(read_record(raw));
    assert_memory_equal(raw, before, 28 + 208); /* a failure changes nothing */
    assert_int_equal(spanprof_context_set_attribute(0, value, 100), 0);
    assert_int_equal(spanprof_context_set_attribute(255, value, 104), 0);
    assert_int_equal(spanprof_context_set_attribute(1, "", 0), -ENOSPC);
    assert_true(read_record(raw));
    assert_int_equal(raw[28], 0);
    assert_int_equal(raw[28 + 102], 255);
    assert_int_equal(raw[28 + 103], 104);
    spanprof_context_clear();
}

static void test_nesting(void **state)
{
    struct spanprof_context none, outer, now;
    (void)state;
    memset(&none, 0xee, sizeof(none));
    assert_int_equal(spanprof_context_enter(trace_a, span_a, 1, &none), 0);
    assert_true(!memcmp(none.trace_id, zero, 16) && !none.attributes_size);
    assert_int_equal(spanprof_context_set_attribute(3, "x", 1), 0);
    assert_int_equal(spanprof_context_enter(trace_b, span_b, 0, &outer), 0);
    check_record(trace_b, span_b, 0, "", 0);
    spanprof_context_get(&now);
    assert_memory_equal(now.span_id, span_b, 8);
    assert_int_equal(spanprof_context_attach(&outer), 0);
    check_record(trace_a, span_a, 1, "\3\1x", 3);
    assert_int_equal(spanprof_context_attach(&none), 0);
    assert_true(no_record());
    assert_int_equal(spanprof_context_enter(trace_a, span_a, 1, NULL), 0);
    assert_int_equal(spanprof_context_enter(zero, span_a, 1, &outer), -EINVAL);
    assert_memory_equal(outer.span_id, span_a, 8);
    assert_true(no_record());
    spanprof_context_get(&now);
    assert_memory_equal(now.trace_id, zero, 16);
}

static void test_value(void **state)
{
    struct spanprof_context context = {.trace_flags = 1, .reserved = 77};
    static char value[256];
    (void)state;
    memcpy(context.trace_id, trace_a, 16);
    memcpy(context.span_id, span_a, 8);
    assert_int_equal(spanprof_context_add(&context, 5, "one", 3), 0);
    assert_int_equal(spanprof_context_add(&context, 6, "two", 3), 0);
    assert_int_equal(spanprof_context_add(&context, 5, "three", 5), 0);
    assert_int_equal(spanprof_context_attach(&context), 0);
    check_record(trace_a, span_a, 1, "\6\3two\5\5three", 12);
    assert_int_equal(spanprof_context_add(&context, 7, value, 195), -ENOSPC);
    assert_int_equal(spanprof_context_add(&context, 7, value, 194), 0);
    assert_int_equal(context.attributes_size, 208);
    assert_int_equal(spanprof_context_add(&context, 7, value, 193), 0);
    assert_int_equal(spanprof_context_add(&context, 256, value, 1), -EINVAL);
    context.attributes_size = 209;
    assert_int_equal(spanprof_context_attach(&context), -EINVAL);
    assert_true(no_record());
    assert_int_equal(spanprof_context_add(&context, 1, value, 1), -EINVAL);
    context.attributes_size = 3; /* ends within an entry */
    assert_int_equal(spanprof_context_add(&context, 1, value, 1), -EINVAL);
}

/* A record of another writer: read within bounds, never written. */
static void test_foreign_record(void **state)
{
    _Alignas(2) uint8_t raw[640] = "trace number = fspan fff\1\1";
    struct otel_thread_record *foreign = (struct otel_thread_record *)raw;
    uint8_t before[640];
    struct spanprof_context context;
    (void)state;
    foreign->valid = 1;
    foreign->attributes_size = 600; /* 2 + 250 twice: only the first whole ones that fit */
    foreign->attributes[0] = 9, foreign->attributes[1] = 100;
    foreign->attributes[102] = 8, foreign->attributes[103] = 250;
    memcpy(before, raw, sizeof(raw));
    otel_thread_ctx_v1 = foreign;
    spanprof_context_get(&context);
    assert_memory_equal(context.trace_id, raw, 24);
    assert_int_equal(context.attributes_size, 102);
    assert_int_equal(spanprof_context_set_attribute(2, "mine", 4), 0);
    assert_ptr_not_equal(otel_thread_ctx_v1, foreign);
    spanprof_context_get(&context);
    assert_memory_equal(context.trace_id, raw, 24);
    assert_int_equal(context.attributes_size, 108);
    assert_memory_equal(raw, before, sizeof(raw));
    foreign->valid = 0;
    otel_thread_ctx_v1 = foreign;
    spanprof_context_get(&context);
    assert_memory_equal(context.trace_id, zero, 16);
    assert_int_equal(spanprof_context_set_attribute(2, "mine", 4), -ENOENT);
    spanprof_context_clear();
}

static void *other_thread(void *argument)
{
    assert_true(no_record());
    assert_int_equal(spanprof_context_set(trace_b, span_b, 2), 0);
    *(void **)argument = &otel_thread_ctx_v1;
    check_record(trace_b, span_b, 2, "", 0);
    return NULL;
}

static void test_threads_are_apart(void **state)
{
    pthread_t thread;
    void *there = NULL;
    (void)state;
    assert_int_equal(spanprof_context_set(trace_a, span_a, 1), 0);
    for (int i = 0; i < 10; i++) { /* stacks, and their TLS, are used again: without a context */
        assert_int_equal(pthread_create(&thread, NULL, other_thread, &there), 0);
        pthread_join(thread, NULL);
        assert_ptr_not_equal(there, &otel_thread_ctx_v1);
    }
    check_record(trace_a, span_a, 1, "", 0);
    spanprof_context_clear();
}

/* Readers look the symbol up in .dynsym; a library loaded later is to end in the same one. */
static void test_exported(void **state)
{
    (void)state;
    assert_ptr_equal(dlsym(RTLD_DEFAULT, OTEL_THREAD_SYMBOL), &otel_thread_ctx_v1);
    void *handle = dlopen(CONTEXT_USER_A, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(handle);
    const struct context_user *user = dlsym(handle, "context_user");
    assert_non_null(user);
    assert_ptr_equal(user->thread_symbol(), &otel_thread_ctx_v1);
    assert_int_equal(user->enter(trace_b, span_b, 3, NULL), 0);
    check_record(trace_b, span_b, 3, "", 0);
    assert_int_equal(user->key("http.route"), spanprof_context_key("http.route"));
    assert_int_equal(user->publish(NULL, 0), 0);
    assert_int_equal(spanprof_context_withdraw(), 0);
    assert_int_equal(dlclose(handle), 0);
    check_record(trace_b, span_b, 3, "", 0);
    spanprof_context_clear();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_set_and_clear),  cmocka_unit_test(test_zero_ids),
        cmocka_unit_test(test_attributes),     cmocka_unit_test(test_attribute_limits),
        cmocka_unit_test(test_nesting),        cmocka_unit_test(test_value),
        cmocka_unit_test(test_foreign_record), cmocka_unit_test(test_threads_are_apart),
        cmocka_unit_test(test_exported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
