/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that knows nothing of the library loads several that use it, each privately
 * (RTLD_LOCAL): two with the static library linked in, one with the shared library. They must end
 * in one context.
 */
#include "test/support/contexts/context_read.h"
#include "test/support/contexts/context_user.h"
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { N_USERS = 3 };

static void *handles[N_USERS];
static const struct context_user *users[N_USERS];

static int load(void **state)
{
    static const char *const paths[N_USERS] = {CONTEXT_USER_A, CONTEXT_USER_B, CONTEXT_USER_SHARED};
    (void)state;
    for (int i = 0; i < N_USERS; i++) {
        handles[i] = dlopen(paths[i], RTLD_NOW | RTLD_LOCAL);
        if (!handles[i])
            fail_msg("%s", dlerror());
        users[i] = dlsym(handles[i], "context_user");
        assert_non_null(users[i]);
    }
    assert_ptr_not_equal(users[0]->publish, users[1]->publish); /* copies of their own */
    return 0;
}

static void *one_symbol(void *argument)
{
    for (int i = 1; i < N_USERS; i++)
        assert_ptr_equal(users[i]->thread_symbol(), users[0]->thread_symbol());
    /* What a reader finds by name in each library that has the symbol. */
    for (int i = 0; i < N_USERS; i++)
        assert_ptr_equal(dlsym(handles[i], OTEL_THREAD_SYMBOL), users[0]->thread_symbol());
    *(void **)argument = users[0]->thread_symbol();
    return NULL;
}

static void test_one_thread_symbol(void **state)
{
    void *here = NULL, *there = NULL;
    pthread_t thread;
    (void)state;
    one_symbol(&here);
    assert_int_equal(pthread_create(&thread, NULL, one_symbol, &there), 0);
    pthread_join(thread, NULL);
    assert_non_null(there);
    assert_ptr_not_equal(here, there);
}

static void fill(uint8_t *id, size_t size, int value)
{
    memset(id, value, size);
}

/* Spans of different users nest. */
static void test_nested_spans(void **state)
{
    struct spanprof_context outer[N_USERS], now;
    uint8_t trace_id[16], span_id[8];
    (void)state;
    int key = users[0]->key("nested");
    for (int i = 0; i < N_USERS; i++) {
        fill(trace_id, sizeof(trace_id), 1);
        fill(span_id, sizeof(span_id), 10 + i);
        assert_int_equal(users[i]->enter(trace_id, span_id, 1, &outer[i]), 0);
        assert_int_equal(users[i]->set_attribute(key, &(char){(char)('a' + i)}, 1), 0);
        for (int k = 0; k < N_USERS; k++) {
            users[k]->get(&now);
            assert_int_equal(now.span_id[0], 10 + i);
            assert_int_equal(now.attributes[2], 'a' + i);
        }
    }
    for (int i = N_USERS - 1; i > 0; i--) {
        assert_int_equal(outer[i].span_id[7], 10 + i - 1);
        assert_int_equal(users[i]->attach(&outer[i]), 0);
        users[0]->get(&now);
        assert_int_equal(now.span_id[7], 10 + i - 1);
        assert_int_equal(now.attributes_size, 3);
        assert_int_equal(now.attributes[2], 'a' + i - 1);
    }
    assert_int_equal(users[0]->attach(&outer[0]), 0);
    users[2]->get(&now);
    assert_int_equal(now.span_id[0], 0);
}

static void check_published(struct context_read *read)
{
    uint64_t address = 0;
    assert_int_equal(context_mappings(getpid(), &address), 1);
    assert_int_equal(context_read(getpid(), address, read), 0);
}

static void test_one_process_context(void **state)
{
    static const struct spanprof_attribute own[N_USERS] = {
        {"service.name", "shop"}, {"db.driver", "pg"}, {"service.name", "shop-eu"}};
    static struct context_read read;
    char value[4097];
    uint64_t address;
    (void)state;
    for (int i = 0; i < N_USERS; i++)
        assert_int_equal(users[i]->publish(&own[i], 1), 0);
    check_published(&read);
    assert_int_equal(context_resource_count(&read), 2);
    assert_true(context_resource(&read, "service.name", value));
    assert_string_equal(value, "shop-eu"); /* the last word */
    assert_true(context_resource(&read, "db.driver", value));
    assert_string_equal(value, "pg");
    assert_int_equal(users[1]->update(&(struct spanprof_attribute){"db.driver", NULL}, 1), 0);
    check_published(&read);
    assert_int_equal(context_resource_count(&read), 1);
    assert_int_equal(users[0]->withdraw(), 0);
    assert_int_equal(users[2]->withdraw(), 0);
    check_published(&read);
    assert_int_equal(users[1]->withdraw(), 0);
    assert_int_equal(context_mappings(getpid(), &address), 0);
    assert_int_equal(users[0]->withdraw(), -ENOENT);
}

static void test_one_key_map(void **state)
{
    static struct context_read read;
    char value[4097];
    (void)state;
    int route = users[0]->key("http.route"), method = users[1]->key("rpc.method");
    assert_true(route >= 0 && method >= 0 && route != method);
    assert_int_equal(users[0]->publish(NULL, 0), 0);
    int late = users[2]->key("late.key");
    for (int i = 0; i < N_USERS; i++) {
        assert_int_equal(users[i]->key("http.route"), route);
        assert_int_equal(users[i]->key("rpc.method"), method);
        assert_int_equal(users[i]->key("late.key"), late);
    }
    check_published(&read);
    assert_true(context_key_name(&read, (unsigned)method, value));
    assert_string_equal(value, "rpc.method");
    assert_true(context_key_name(&read, (unsigned)late, value));
    assert_string_equal(value, "late.key");
    assert_false(context_key_name(&read, (unsigned)late + 1, value));
    assert_int_equal(users[1]->withdraw(), 0);
}

/* Unloading a user leaves what it has set readable: the storage stays. */
static void test_unload(void **state)
{
    struct spanprof_context now;
    uint8_t trace_id[16], span_id[8];
    (void)state;
    fill(trace_id, sizeof(trace_id), 7);
    fill(span_id, sizeof(span_id), 8);
    assert_int_equal(users[1]->enter(trace_id, span_id, 0, NULL), 0);
    assert_int_equal(dlclose(handles[1]), 0);
    assert_int_equal(dlclose(handles[0]), 0);
    users[2]->get(&now);
    assert_memory_equal(now.trace_id, trace_id, sizeof(trace_id));
    assert_memory_equal(now.span_id, span_id, sizeof(span_id));
    assert_int_equal(users[2]->clear(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_thread_symbol),
        cmocka_unit_test(test_nested_spans),
        cmocka_unit_test(test_one_process_context),
        cmocka_unit_test(test_one_key_map),
        cmocka_unit_test(test_unload),
    };
    return cmocka_run_group_tests(tests, load, NULL);
}
