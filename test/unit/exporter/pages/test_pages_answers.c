/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of the pages, whole, from a history that is put together here. */
#include "base/clock.h"
#include "exporter/pages/pages_route.h"
#include "test/support/rigs/history_rig.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#define SECOND FIXTURE_SECOND

struct asked {
    struct pages_request request;
    const char *text; /* of the answer */
};

/* question: "service=shop&from=..."; nothing in it is escaped. */
static size_t split(char *question, struct pages_parameter *parameters)
{
    char *rest = question, *each;
    size_t n = 0;
    while ((each = strsep(&rest, "&"))) {
        char *value = strchr(each, '=');
        assert_non_null(value);
        *value = 0;
        parameters[n++] = (struct pages_parameter){BYTES_STR(each), BYTES_STR(value + 1)};
    }
    return n;
}

static struct asked ask(struct history_rig *rig, const char *path, const char *question)
{
    static const struct config_pages pages;
    struct pages_facts facts = {.history = rig->reader, .pages = &pages, .host = RIG_HOST};
    struct pages_parameter parameters[PAGES_PARAMETERS_MAX];
    struct asked asked = {
        .request = {.route = pages_route_find(path), .body = BUF_INIT(PAGES_ANSWER_MAX)}};
    struct pages_request *request = &asked.request;
    arena_init(&request->arena, PAGES_REQUEST_BYTES);
    size_t n = split(arena_dup(&request->arena, question, strlen(question) + 1), parameters);
    if (pages_query_read(parameters, n, request->route->takes, FIXTURE_T0 + 100 * SECOND,
                         &request->arena, &request->query, request->problem))
        fail_msg("%s?%s: %s", path, question, request->problem);
    assert_int_equal(request->route->answer(&facts, request), 0);
    assert_int_equal(buf_append(&request->body, "", 1), 0);
    asked.text = (const char *)request->body.data;
    return asked;
}

static void forget(struct asked *asked)
{
    buf_close(&asked->request.body);
    arena_close(&asked->request.arena);
}

#define T0_MS ((unsigned long long)(FIXTURE_T0 / NS_PER_MS))

static void put_sample(struct history_rig *rig, const char *span, unsigned stack, uint64_t at)
{
    struct history_sample sample = {.value_ns = FIXTURE_TICK,
                                    .period_ns = FIXTURE_TICK,
                                    .time_unix_ns = FIXTURE_T0 + at,
                                    .context = {.span = HISTORY_NO_SPAN}};
    sample.stack = fixture_stack(&rig->fixture, stack);
    sample.series = history_rig_series(
        rig, &(struct rig_series){.service = "shop", .span_name = span, .sample_kind = SAMPLE_CPU});
    history_rig_sample(rig, &sample, BYTES(NULL, 0));
}

static size_t count(const char *text, const char *part)
{
    size_t n = 0;
    for (; (text = strstr(text, part)); text += strlen(part))
        n++;
    return n;
}

/* One outside of spans, and more spans than are told apart, the lightest of which are one. */
static void the_rest_of_many_groups_is_marked(void **state)
{
    struct history_rig *rig = history_rig_open();
    char span[16], question[64];
    (void)state;
    fixture_begin(&rig->fixture);
    for (unsigned i = 0; i < HISTORY_GROUPS_MAX + 5; i++) {
        snprintf(span, sizeof(span), "span %u", i);
        put_sample(rig, i ? span : "", 1, SECOND + i);
        if (i < HISTORY_GROUPS_MAX)
            put_sample(rig, i ? span : "", 1, 2 * SECOND + i);
    }
    history_rig_block(rig, FIXTURE_T0 + 5 * SECOND);
    fixture_commit(&rig->fixture);
    snprintf(question, sizeof(question), "from=%llu&to=%llu", T0_MS, T0_MS + 5000);
    struct asked spans = ask(rig, "/api/spans", question);
    assert_int_equal(count(spans.text, "\"cpu_ns\":"), 1 + HISTORY_GROUPS_MAX + 1);
    assert_int_equal(count(spans.text, "\"others\":true"), 1);
    const char *others = strstr(spans.text, "\"others\":true");
    assert_non_null(strstr(others, "\"samples\":5,"));
    assert_int_equal(count(others, "\"span\":"), 1); /* the last */
    assert_int_equal(count(spans.text, "\"service\":\"shop\",\"span\":\"\""), 1);
    forget(&spans);
    strcat(question, "&by=span");
    struct asked timeline = ask(rig, "/api/timeline", question);
    assert_int_equal(count(timeline.text, "\"others\":true"), 1);
    forget(&timeline);
    history_rig_close(rig);
}

/* A picture is seen without its address: every filter stands in it. */
static void a_picture_says_what_it_is_of(void **state)
{
    struct history_rig *rig = history_rig_open();
    const char *ids = "trace_id=00000000000000000000000000000001&span_id=0000000000000002";
    char question[512];
    (void)state;
    fixture_begin(&rig->fixture);
    put_sample(rig, "GET /", 1, SECOND);
    put_sample(rig, "GET /", 1, 4 * SECOND);
    history_rig_block(rig, FIXTURE_T0 + 5 * SECOND);
    fixture_commit(&rig->fixture);
    snprintf(question, sizeof(question),
             "from=%llu&to=%llu&service=shop&span=GET /&thread=t1&container=c1&host=node-7&"
             "function=f1&pid=4711&attribute=http.route=/<b>&attribute=a=1&min_duration=250ms&"
             "max_duration=1.5s&%s&children=false",
             T0_MS, T0_MS + 5000, ids);
    struct asked all = ask(rig, "/flame.svg", question);
    static const char *const filters[] = {
        ", service shop, span GET /, thread t1, container c1, host node-7, function f1, pid 4711,",
        " http.route=/&lt;b&gt;, a=1, traces of 250 ms and more, traces of 1500 ms and less,",
        " trace 00000000000000000000000000000001, span 0000000000000002 alone</desc>"};
    for (size_t i = 0; i < sizeof(filters) / sizeof(filters[0]); i++)
        assert_non_null(strstr(all.text, filters[i]));
    forget(&all);
    snprintf(question, sizeof(question), "from=%llu&to=%llu", T0_MS, T0_MS + 5000);
    struct asked svg = ask(rig, "/flame.svg", question);
    struct asked scope = ask(rig, "/flame.speedscope.json", question);
    const char *about = "0.020 s of CPU time, 2 samples, 2023-11-14 22:13:";
    assert_int_equal(count(svg.text, about), 2); /* seen, and read out */
    assert_int_equal(count(scope.text, about), 1);
    forget(&svg);
    forget(&scope);
    history_rig_close(rig);
}

static void a_difference_is_taken_away(void **state)
{
    struct history_rig *rig = history_rig_open();
    char question[256];
    (void)state;
    fixture_begin(&rig->fixture);
    for (unsigned i = 0; i < 6; i++)
        put_sample(rig, i < 4 ? "now" : "before", i == 5 ? 2 : 1, SECOND + i);
    history_rig_block(rig, FIXTURE_T0 + 5 * SECOND);
    fixture_commit(&rig->fixture);
    int n = snprintf(question, sizeof(question), "from=%llu&to=%llu&span=now", T0_MS, T0_MS + 5000);
    struct asked plain = ask(rig, "/flame.folded", question);
    assert_int_equal(count(plain.text, "\n"), 1);
    assert_null(strstr(plain.text, " 1 4\n"));
    forget(&plain);
    snprintf(question + n, sizeof(question) - (size_t)n, "&base_span=before");
    struct asked folded = ask(rig, "/flame.folded", question);
    assert_int_equal(count(folded.text, "\n"), 2);
    assert_non_null(strstr(folded.text, " 1 4\n")); /* before, now */
    assert_non_null(strstr(folded.text, " 1 0\n"));
    forget(&folded);
    struct asked svg = ask(rig, "/flame.svg", question);
    assert_non_null(strstr(svg.text, "red is more than before"));
    assert_non_null(strstr(svg.text, "span now; before: 0.020 s of CPU time, 2 samples"));
    assert_non_null(strstr(svg.text, ", span before</desc>"));
    assert_non_null(strstr(svg.text, "fill=\"#e57761\""));
    forget(&svg);
    history_rig_close(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_picture_says_what_it_is_of),
        cmocka_unit_test(a_difference_is_taken_away),
        cmocka_unit_test(the_rest_of_many_groups_is_marked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
