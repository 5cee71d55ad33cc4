/* SPDX-License-Identifier: Apache-2.0 */
/* The queue of requests to the symbolizer: its order, its limit, its thread, and without
 * memory. */
#include "agent-bpf/process/symbolizer_client.h"
#include "agent-bpf/process/symbolizer_queue.h"
#include "base/stats.h"
#include "test/support/faults/aborts.h"
#include "test/support/faults/fail_alloc.h"
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

static const struct symbolizer_message scan = {.kind = SYMBOLIZER_SCAN_WANTED};
static const struct symbolizer_message left = {.kind = SYMBOLIZER_PROCESS_LEFT,
                                               .process = {.pid = 10}};

static int64_t n_dropped(void)
{
    return stats_find("spanprof_process_requests_dropped_total", "reason=\"queue_full\"");
}

static enum symbolizer_kind pop_kind(struct list *requests)
{
    struct list *link = list_pop(requests);
    assert_non_null(link);
    struct list one = LIST_INIT(one);
    list_append(&one, link);
    enum symbolizer_kind kind = container_of(link, struct symbolizer_request, link)->kind;
    symbolizer_requests_free(&one);
    return kind;
}

static void takes_in_order(void **state)
{
    (void)state;
    struct symbolizer_queue queue;
    struct list requests = LIST_INIT(requests);
    symbolizer_queue_init(&queue);
    assert_int_equal(symbolizer_queue_put(&queue, &scan), 0);
    symbolizer_queue_take(&queue, &requests);
    assert_int_equal(symbolizer_queue_put(&queue, &left), 0);
    assert_int_equal(symbolizer_queue_put(&queue, &scan), 0);
    symbolizer_queue_take(&queue, &requests); /* behind what the list has */
    assert_int_equal(queue.n, 0);
    assert_int_equal(pop_kind(&requests), SYMBOLIZER_SCAN_WANTED);
    assert_int_equal(pop_kind(&requests), SYMBOLIZER_PROCESS_LEFT);
    assert_int_equal(pop_kind(&requests), SYMBOLIZER_SCAN_WANTED);
    assert_null(list_pop(&requests));
    symbolizer_queue_take(&queue, &requests);
    assert_null(list_pop(&requests));
    symbolizer_queue_deinit(&queue);
}

static void is_limited(void **state)
{
    (void)state;
    int64_t before = n_dropped();
    struct symbolizer_queue queue;
    symbolizer_queue_init(&queue);
    for (unsigned i = 0; i < SYMBOLIZER_QUEUE_MAX; i++)
        assert_int_equal(symbolizer_queue_put(&queue, &left), 0);
    assert_int_equal(n_dropped() - before, 0);
    assert_int_equal(symbolizer_queue_put(&queue, &left), -ENOMEM);
    assert_int_equal(n_dropped() - before, 1);
    struct list requests = LIST_INIT(requests);
    symbolizer_queue_take(&queue, &requests);
    symbolizer_requests_free(&requests);
    assert_int_equal(symbolizer_queue_put(&queue, &left), 0); /* there is room again */
    symbolizer_queue_deinit(&queue);
}

static void without_memory(void **state)
{
    (void)state;
    int64_t before = n_dropped();
    struct symbolizer_queue queue;
    symbolizer_queue_init(&queue);
    fail_alloc_at(1);
    assert_int_equal(symbolizer_queue_put(&queue, &scan), -ENOMEM);
    assert_true(fail_alloc_hit());
    assert_int_equal(n_dropped() - before, 1);
    assert_int_equal(symbolizer_queue_put(&queue, &scan), 0);
    assert_int_equal(queue.n, 1);
    symbolizer_queue_deinit(&queue);
}

static void *put_main(void *queue)
{
    symbolizer_queue_put(queue, &left);
    return NULL;
}

static void put_elsewhere(void *queue)
{
    pthread_t thread;
    if (!pthread_create(&thread, NULL, put_main, queue))
        pthread_join(thread, NULL);
}

static void belongs_to_one_thread(void **state)
{
    struct symbolizer_queue queue;
    (void)state;
    symbolizer_queue_init(&queue);
    assert_false(aborts(put_elsewhere, &queue)); /* no thread has claimed it yet */
    assert_int_equal(symbolizer_queue_put(&queue, &left), 0);
    assert_true(aborts(put_elsewhere, &queue));
    symbolizer_queue_deinit(&queue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_in_order),
        cmocka_unit_test(is_limited),
        cmocka_unit_test(without_memory),
        cmocka_unit_test(belongs_to_one_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
