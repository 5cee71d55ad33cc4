/* SPDX-License-Identifier: Apache-2.0 */
/* The process context as its publisher and as a reader outside see it: changes, limits, forks. */
#include "context/context_layout.h"
#include "context/spanprof_context.h"
#include "test/support/contexts/context_read.h"
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

extern _Thread_local struct otel_thread_record *otel_thread_ctx_v1;

static const uint8_t trace_a[16] = "trace number = a", span_a[8] = "span isa";

static struct context_read read_a, read_b;

static void read_own(struct context_read *read)
{
    uint64_t address = 0;
    assert_int_equal(context_mappings(getpid(), &address), 1);
    assert_int_equal(context_read(getpid(), address, read), 0);
}

static bool published(void)
{
    uint64_t address;
    return context_mappings(getpid(), &address);
}

static void check_resource(const struct context_read *read, const char *key, const char *expected)
{
    char value[4097];
    assert_true(context_resource(read, key, value));
    assert_string_equal(value, expected);
}

static void test_publish(void **state)
{
    static const struct spanprof_attribute attributes[] = {
        {"service.name", "sh\xc3\xb6p"}, {"service.version", ""}, {"service.name", "shop"}};
    char value[4097];
    (void)state;
    assert_false(published());
    assert_int_equal(spanprof_context_update(attributes, 1), -ENOENT);
    assert_int_equal(spanprof_context_withdraw(), -ENOENT);
    assert_int_equal(spanprof_context_publish(attributes, 3), 0);
    read_own(&read_a);
    assert_int_equal(context_resource_count(&read_a), 2);
    check_resource(&read_a, "service.name", "shop");
    check_resource(&read_a, "service.version", "");
    assert_true(context_attribute(&read_a, OTEL_THREAD_SCHEMA_KEY, value));
    assert_string_equal(value, "tlsdesc_v1_dev");
    assert_true(context_key_name(&read_a, 0, value));
    assert_string_equal(value, "http.route");
    assert_int_equal(spanprof_context_withdraw(), 0);
    assert_false(published());
    assert_int_equal(spanprof_context_publish(NULL, 0), 0);
    read_own(&read_a);
    assert_int_equal(context_resource_count(&read_a), 0); /* went with the last user; keys stay */
    assert_true(context_key_name(&read_a, 0, value));
    assert_int_equal(spanprof_context_withdraw(), 0);
}

/* Each change shows as another, later time; late keys too. */
static void test_update(void **state)
{
    static const struct spanprof_attribute first[] = {{"a", "1"}, {"b", "2"}, {"c", "3"}};
    static const struct spanprof_attribute second[] = {{"b", NULL}, {"nothing", NULL}, {"c", "33"}};
    char value[4097];
    (void)state;
    assert_int_equal(spanprof_context_publish(first, 3), 0);
    read_own(&read_a);
    assert_int_equal(spanprof_context_update(second, 3), 0);
    read_own(&read_b);
    assert_true(read_b.header.published_at_ns > read_a.header.published_at_ns);
    assert_true(read_b.header.payload != read_a.header.payload);
    assert_int_equal(context_resource_count(&read_b), 2);
    check_resource(&read_b, "a", "1");
    check_resource(&read_b, "c", "33");
    int key = spanprof_context_key("late");
    read_own(&read_a);
    assert_true(read_a.header.published_at_ns > read_b.header.published_at_ns);
    assert_true(context_key_name(&read_a, (unsigned)key, value));
    assert_string_equal(value, "late");
    assert_int_equal(spanprof_context_key("late"), key);
    read_own(&read_b); /* nothing new, nothing published */
    assert_true(read_a.header.published_at_ns == read_b.header.published_at_ns);
    assert_int_equal(spanprof_context_withdraw(), 0);
}

static void test_publish_refuses(void **state)
{
    static char long_key[257], long_value[4098];
    (void)state;
    memset(long_key, 'k', 256);
    memset(long_value, 'v', 4097);
    const struct {
        struct spanprof_attribute attribute;
        int error;
    } bad[] = {{{NULL, "v"}, -EINVAL},     {{"", "v"}, -EINVAL},
               {{long_key, "v"}, -EINVAL}, {{"k", long_value}, -EINVAL},
               {{"\xff", "v"}, -EILSEQ},   {{"k", "\xed\xa0\x80"}, -EILSEQ}};
    assert_int_equal(spanprof_context_publish(&(struct spanprof_attribute){"k", "v"}, 1), 0);
    read_own(&read_a);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct spanprof_attribute two[] = {{"good", "v"}, bad[i].attribute};
        assert_int_equal(spanprof_context_update(two, 2), bad[i].error);
        assert_int_equal(spanprof_context_publish(two, 2), bad[i].error);
    }
    read_own(&read_b);
    assert_memory_equal(&read_a.header, &read_b.header, sizeof(read_a.header));
    assert_int_equal(spanprof_context_withdraw(), 0);
    assert_false(published()); /* the refused ones do not count */
    assert_int_equal(spanprof_context_publish(&bad[0].attribute, 1), -EINVAL);
    assert_false(published());
}

static void test_publish_limits(void **state)
{
    static char value[4097];
    char key[16];
    (void)state;
    assert_int_equal(spanprof_context_publish(NULL, 0), 0);
    for (int i = 0; i < SPANPROF_RESOURCE_ATTRIBUTES_MAX; i++) {
        snprintf(key, sizeof(key), "key%03d", i);
        assert_int_equal(spanprof_context_update(&(struct spanprof_attribute){key, ""}, 1), 0);
    }
    assert_int_equal(spanprof_context_update(&(struct spanprof_attribute){"more", ""}, 1), -ENOSPC);
    assert_int_equal(spanprof_context_update(&(struct spanprof_attribute){"key000", "x"}, 1), 0);
    read_own(&read_a);
    assert_int_equal(context_resource_count(&read_a), SPANPROF_RESOURCE_ATTRIBUTES_MAX);
    assert_int_equal(spanprof_context_withdraw(), 0);
    assert_int_equal(spanprof_context_publish(NULL, 0), 0);
    memset(value, 'v', 4096);
    for (int i = 0; i < 3; i++) {
        snprintf(key, sizeof(key), "%d", i);
        assert_int_equal(spanprof_context_update(&(struct spanprof_attribute){key, value}, 1), 0);
    }
    size_t left = SPANPROF_RESOURCE_BYTES_MAX - 3 * (4 + 1 + 4096) - (4 + 1);
    value[left + 1] = '\0';
    assert_int_equal(spanprof_context_update(&(struct spanprof_attribute){"4", value}, 1), -ENOSPC);
    value[left] = '\0';
    assert_int_equal(spanprof_context_update(&(struct spanprof_attribute){"4", value}, 1), 0);
    read_own(&read_a);
    check_resource(&read_a, "4", value);
    assert_int_equal(spanprof_context_withdraw(), 0);
}

/* Runs body in a child; what it returns must be 0. */
static void in_child(int (*body)(void))
{
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child)
        _exit(body());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            return __LINE__ & 0xff ? __LINE__ & 0xff : 1;                                          \
    } while (0)

static int keys_run_out(void)
{
    char name[256];
    int n = 0;
    for (; n < 300; n++) {
        snprintf(name, sizeof(name), "short key %d", n);
        if (spanprof_context_key(name) < 0)
            break;
    }
    CHECK(spanprof_context_key(name) == -ENOSPC);
    CHECK(spanprof_context_key("short key 0") >= 0);
    CHECK(spanprof_context_publish(NULL, 0) == 0);
    uint64_t address = 0;
    CHECK(context_mappings(getpid(), &address) == 1);
    CHECK(context_read(getpid(), address, &read_a) == 0);
    char value[4097];
    CHECK(context_key_name(&read_a, 255, value));
    CHECK(!context_key_name(&read_a, 256, value));
    return 0;
}

static int key_bytes_run_out(void)
{
    char name[256];
    memset(name, 'n', 255);
    name[255] = '\0';
    int n = 0, index = 0;
    for (; n < 100 && index >= 0; n++) {
        name[0] = (char)('A' + n);
        index = spanprof_context_key(name);
    }
    CHECK(index == -ENOSPC);
    CHECK(n == 32); /* 31 of 256 bytes beside the short ones */
    return 0;
}

static void test_key_limits(void **state)
{
    static char long_key[257];
    (void)state;
    memset(long_key, 'k', 256);
    assert_int_equal(spanprof_context_key(NULL), -EINVAL);
    assert_int_equal(spanprof_context_key(""), -EINVAL);
    assert_int_equal(spanprof_context_key(long_key), -EINVAL);
    assert_int_equal(spanprof_context_key("\xc3("), -EILSEQ);
    in_child(keys_run_out);
    in_child(key_bytes_run_out);
}

/* The child: not published; its thread keeps the span; publishing again keeps attributes and keys.
 */
static int child_of_publisher(void)
{
    uint64_t address = 0;
    char value[4097];
    CHECK(context_mappings(getpid(), &address) == 0);
    CHECK(spanprof_context_withdraw() == -ENOENT);
    CHECK(spanprof_context_update(NULL, 0) == -ENOENT);
    CHECK(otel_thread_ctx_v1 && !memcmp(otel_thread_ctx_v1->span_id, span_a, 8));
    struct spanprof_attribute own = {"service.instance.id", "child"};
    CHECK(spanprof_context_publish(&own, 1) == 0);
    CHECK(context_mappings(getpid(), &address) == 1);
    CHECK(context_read(getpid(), address, &read_b) == 0);
    CHECK(context_resource(&read_b, "service.name", value) && !strcmp(value, "shop"));
    CHECK(context_resource(&read_b, "service.instance.id", value) && !strcmp(value, "child"));
    CHECK(context_key_name(&read_b, 0, value) && !strcmp(value, "http.route"));
    CHECK(spanprof_context_withdraw() == 0);
    CHECK(context_mappings(getpid(), &address) == 0);
    return 0;
}

static void test_fork(void **state)
{
    static const struct spanprof_attribute attributes[] = {{"service.name", "shop"},
                                                           {"service.instance.id", "parent"}};
    (void)state;
    assert_int_equal(spanprof_context_publish(attributes, 2), 0);
    assert_int_equal(spanprof_context_set(trace_a, span_a, 1), 0);
    in_child(child_of_publisher);
    read_own(&read_a);
    check_resource(&read_a, "service.instance.id", "parent");
    assert_int_equal(spanprof_context_withdraw(), 0);
    spanprof_context_clear();
}

static _Atomic bool stop;

static void *update_all_the_time(void *argument)
{
    char value[2000] = "";
    for (unsigned i = 0; !atomic_load(&stop); i++) {
        size_t len = i % (sizeof(value) - 1);
        memset(value, 'a' + (int)(i % 26), len);
        value[len] = '\0';
        struct spanprof_attribute both[] = {{"one", value}, {"two", value}};
        assert_int_equal(spanprof_context_update(both, 2), 0);
        ++*(unsigned *)argument;
    }
    return NULL;
}

static int child_of_updates(void)
{
    struct spanprof_attribute own = {"three", "child"};
    char one[4097], two[4097];
    uint64_t address = 0;
    CHECK(spanprof_context_publish(&own, 1) == 0); /* does not wait for a thread of the parent */
    CHECK(context_mappings(getpid(), &address) == 1);
    CHECK(context_read(getpid(), address, &read_b) == 0);
    CHECK(context_resource(&read_b, "one", one) && context_resource(&read_b, "two", two));
    CHECK(!strcmp(one, two)); /* the fork has not caught half a change */
    return 0;
}

/* Readers and forks meet an update anywhere in its course. */
static void test_update_storm(void **state)
{
    struct spanprof_attribute both[] = {{"one", ""}, {"two", ""}};
    char one[4097], two[4097];
    uint64_t address = 0;
    unsigned n_updates = 0, n_read = 0, n_again = 0;
    pthread_t thread;
    (void)state;
    assert_int_equal(spanprof_context_publish(both, 2), 0);
    assert_int_equal(context_mappings(getpid(), &address), 1);
    assert_int_equal(pthread_create(&thread, NULL, update_all_the_time, &n_updates), 0);
    while (n_read < 3000) {
        int outcome = context_read(getpid(), address, &read_a);
        n_again += outcome == -EAGAIN;
        if (outcome == -EAGAIN)
            continue;
        assert_int_equal(outcome, 0);
        assert_true(context_resource(&read_a, "one", one) && context_resource(&read_a, "two", two));
        assert_string_equal(one, two);
        n_read++;
    }
    for (int i = 0; i < 50; i++)
        in_child(child_of_updates);
    atomic_store(&stop, true);
    pthread_join(thread, NULL);
    assert_true(n_updates > 50);
    print_message("%u updates, %u readings, %u repeated\n", n_updates, n_read, n_again);
    assert_int_equal(spanprof_context_withdraw(), 0);
}

/* Another library's process context is left alone. */
static void test_foreign_process_context(void **state)
{
    (void)state;
    int fd = memfd_create(OTEL_PROCESS_NAME, MFD_CLOEXEC);
    assert_true(fd >= 0 && !ftruncate(fd, 4096));
    void *foreign = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    assert_ptr_not_equal(foreign, MAP_FAILED);
    close(fd);
    assert_int_equal(spanprof_context_publish(NULL, 0), -EEXIST);
    assert_int_equal(spanprof_context_update(NULL, 0), -ENOENT);
    assert_int_equal(munmap(foreign, 4096), 0);
    assert_int_equal(spanprof_context_publish(NULL, 0), 0);
    assert_int_equal(spanprof_context_withdraw(), 0);
}

static int first_key(void **state)
{
    (void)state;
    return spanprof_context_key("http.route"); /* 0 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_publish),         cmocka_unit_test(test_update),
        cmocka_unit_test(test_publish_refuses), cmocka_unit_test(test_publish_limits),
        cmocka_unit_test(test_key_limits),      cmocka_unit_test(test_fork),
        cmocka_unit_test(test_update_storm),    cmocka_unit_test(test_foreign_process_context),
    };
    return cmocka_run_group_tests(tests, first_key, NULL);
}
