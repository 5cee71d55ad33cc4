/* SPDX-License-Identifier: Apache-2.0 */
/* Flame graphs to take away, of a history whose truth is known: do they say what they lack? */
#include "exporter/pages/pages_route.h"
#include "test/support/fixtures/history_truth.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static struct truth *truth;

static int set_up(void **state)
{
    (void)state;
    truth = truth_make(5);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    truth_close(truth);
    return 0;
}

static const char *const paths[] = {"/flame.svg", "/flame.folded", "/flame.speedscope.json",
                                    "/flame.pb.gz", "/debug/pprof/profile"};
#define N_PATHS (sizeof(paths) / sizeof(paths[0]))

static void ask(const char *path, struct pages_request *request)
{
    struct pages_facts facts = {.history = truth->rig->reader, .db = truth->rig->db};
    *request = (struct pages_request){.route = pages_route_find(path),
                                      .query = {.has_range = true},
                                      .body = BUF_INIT(PAGES_ANSWER_MAX)};
    arena_init(&request->arena, PAGES_REQUEST_BYTES);
    assert_int_equal(request->route->answer(&facts, request), 0);
    assert_true(request->body.len > 0 || strcmp(path, "/flame.folded") == 0);
    assert_int_equal(buf_append(&request->body, "", 1), 0);
}

static void forget(struct pages_request *request)
{
    buf_close(&request->body);
    arena_close(&request->arena);
}

static bool body_has(const struct pages_request *request, const char *text)
{
    return strstr((const char *)request->body.data, text) != NULL;
}

static void what_is_whole_says_nothing(void **state)
{
    struct pages_request request;
    (void)state;
    for (size_t i = 0; i < N_PATHS; i++) {
        ask(paths[i], &request);
        assert_int_equal(request.n_headers, 0);
        assert_false(body_has(&request, "incomplete"));
        forget(&request);
    }
}

static void without_time_they_say_so(void **state)
{
    struct pages_request request;
    (void)state;
    history_reader_set_time(truth->rig->reader, 0);
    for (size_t i = 0; i < N_PATHS; i++) {
        ask(paths[i], &request);
        assert_int_equal(request.n_headers, 1);
        assert_string_equal(request.headers[0].name, "Spanprof-More");
        assert_string_equal(request.headers[0].value, "true");
        bool has_title = i == 0 || i == 2; /* others have no place for words */
        assert_int_equal(body_has(&request, "incomplete: not all was looked through"), has_title);
        forget(&request);
    }
    history_reader_set_time(truth->rig->reader, HISTORY_TIME_MAX_NS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_whole_says_nothing),
        cmocka_unit_test(without_time_they_say_so),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
