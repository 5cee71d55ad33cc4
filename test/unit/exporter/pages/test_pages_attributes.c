/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/pages/pages_attributes.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static struct config config;

static struct config_list *with_join(void)
{
    config = (struct config){.n_processors = 1};
    config.processors[0].type = CONFIG_PROCESSOR_JOIN;
    config.processors[0].used = true;
    return &config.processors[0].join.span_attributes;
}

static void add(struct config_list *list, const char *key)
{
    list->items[list->count++] = key;
}

/* Asked for by two attributes; the first is kept. */
static struct pages_request *ask(const char *second)
{
    static struct pages_request request;
    request = (struct pages_request){.status = 200};
    request.query.filter.n_attributes = 2;
    request.query.filter.attributes[0].key = BYTES_LIT("http.route");
    request.query.filter.attributes[1].key = BYTES_STR(second);
    request.empty = &request.query.filter;
    pages_attributes_explain(&config, &request);
    return &request;
}

static void what_is_kept_is_an_answer(void **state)
{
    struct config_list *kept = with_join();
    (void)state;
    add(kept, "http.route");
    add(kept, "tenant");
    assert_int_equal(ask("tenant")->status, 200);
}

static void what_is_not_kept_is_named(void **state)
{
    struct config_list *kept = with_join();
    (void)state;
    add(kept, "http.route");
    add(kept, "rpc.method");
    const struct pages_request *request = ask("ten\nant");
    assert_int_equal(request->status, 400);
    assert_non_null(strstr(request->problem, "by the attribute ten?ant, which"));
    assert_non_null(strstr(request->problem, "kept are http.route, rpc.method"));
}

static void none_is_kept(void **state)
{
    (void)state;
    with_join();
    assert_non_null(strstr(ask("tenant")->problem, "the attribute http.route"));
    assert_non_null(strstr(ask("tenant")->problem, "kept are none"));
    config.n_processors = 0;
    assert_non_null(strstr(ask("tenant")->problem, "kept are none"));
}

/* As many as there may be, each longer than the room for all. */
static void a_long_list_is_cut(void **state)
{
    static char key[2 * PAGES_PROBLEM_MAX];
    struct config_list *kept = with_join();
    (void)state;
    memset(key, 'k', sizeof(key) - 1);
    add(kept, "http.route");
    while (kept->count < CONFIG_LIST_MAX)
        add(kept, key);
    const struct pages_request *request = ask("tenant");
    assert_int_equal(strlen(request->problem), PAGES_PROBLEM_MAX - 1);
    assert_non_null(strstr(request->problem, "span_attributes"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_kept_is_an_answer),
        cmocka_unit_test(what_is_not_kept_is_named),
        cmocka_unit_test(none_is_kept),
        cmocka_unit_test(a_long_list_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
