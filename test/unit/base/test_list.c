/* SPDX-License-Identifier: Apache-2.0 */
#include "base/list.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

struct item {
    int value;
    struct list link;
};

static int value_of(struct list *link)
{
    return container_of(link, struct item, link)->value;
}

static void test_order(void **state)
{
    struct list head = LIST_INIT(head), *link, *tmp;
    struct item items[5] = {{.value = 0}, {.value = 1}, {.value = 2}, {.value = 3}, {.value = 4}};
    (void)state;
    assert_true(list_empty(&head));
    assert_null(list_first(&head));
    assert_null(list_pop(&head));
    for (int i = 1; i < 5; i++)
        list_append(&head, &items[i].link);
    list_prepend(&head, &items[0].link);
    int n = 0;
    list_each(link, tmp, &head) assert_int_equal(value_of(link), n++);
    assert_int_equal(n, 5);
    for (int i = 0; i < 5; i++) {
        link = list_pop(&head);
        assert_int_equal(value_of(link), i);
        assert_false(list_linked(link));
    }
    assert_true(list_empty(&head));
}

static void test_remove_while_walking(void **state)
{
    struct list head, *link, *tmp;
    struct item items[6] = {{.value = 0}, {.value = 1}, {.value = 2},
                            {.value = 3}, {.value = 4}, {.value = 5}};
    (void)state;
    list_init(&head);
    for (int i = 0; i < 6; i++)
        list_append(&head, &items[i].link);
    list_each(link, tmp, &head)
    {
        if (value_of(link) % 2 == 0)
            list_remove(link);
    }
    int sum = 0;
    list_each(link, tmp, &head) sum += value_of(link);
    assert_int_equal(sum, 9);
    list_remove(&items[0].link); /* unlinked: left alone */
    assert_false(list_linked(&items[0].link));
    assert_true(list_linked(&items[1].link));
    list_append(&head, &items[0].link);
    assert_int_equal(value_of(head.prev), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_order),
                                       cmocka_unit_test(test_remove_while_walking)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
