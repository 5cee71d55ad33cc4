/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/pages/pages_status.h"
#include "context/runtime.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

enum loss { RING_FULL, LOSSES };

static const char *const loss_names[] = {"ring_full"};
STAT_LOSSES(lost, "spanprof_samples_lost_total", "Samples lost, by reason.",
            STAT_LABEL("reason", loss_names, LOSSES));

/* Each plight has words of its own. */
static void test_why(void **state)
{
    const struct {
        struct history_series process;
        struct coverage_process coverage;
        const char *says;
    } cases[] = {
        {{.pid = 0, .samples = 9}, {.samples = 9}, "The kernel's own threads"},
        {{.pid = 1, .samples = 100, .in_context = 95, .in_span = 95}, {.has_ids = 95}, ""},
        {{.pid = 1, .samples = 100, .in_context = 40, .in_span = 38},
         {.samples = 100, .has_ids = 40, .publishes = true, .spans = 9},
         "The rest is work outside of spans"},
        {{.pid = 1, .samples = 100}, {.samples = 100}, "No spans are known to come from it"},
        {{.pid = 1, .samples = 100},
         {.samples = 100, .spans = 9},
         "Spans of its service arrive here, but it does not publish which of them its threads work "
         "on: use a library"},
        {{.pid = 1, .samples = 100},
         {.samples = 100, .spans = 9, .program = {.runtime = RUNTIME_PYTHON}},
         "it has no publisher"},
        {{.pid = 1, .samples = 100},
         {.samples = 100, .spans = 9, .program = {.publisher = PUBLISHER_OFF}},
         "SPANPROF_CONTEXT=off"},
        {{.pid = 1, .samples = 100},
         {.samples = 100, .spans = 9, .program = {.publisher = PUBLISHER_STARTED}},
         "has not loaded it"},
        {{.pid = 1, .samples = 100},
         {.samples = 100, .spans = 9, .program = {.publisher = PUBLISHER_NO_LIBRARY}},
         "library cannot be loaded there"},
        {{.pid = 1, .samples = 100},
         {.samples = 100, .spans = 9, .program = {.publisher = PUBLISHER_VERSION}},
         "does not know the version"},
        {{.pid = 1, .samples = 100},
         {.samples = 100, .spans = 9, .program = {.publisher = PUBLISHER_TAKEN}},
         "stands aside"},
        {{.pid = 1, .samples = 100},
         {.samples = 100, .spans = 9, .program = {.publisher = PUBLISHER_FAILED}},
         "Its publisher failed"},
        {{.pid = 1, .samples = 100},
         {.samples = 100, .spans = 9, .program = {.publisher = PUBLISHER_LOADED}},
         "has published nothing"},
        {{.pid = 1, .samples = 100},
         {.samples = 100, .spans = 9, .program = {.publisher = PUBLISHER_PROCESS}},
         "publishes its Resource, but not which span"},
        {{.pid = 1, .samples = 100},
         {.samples = 100,
          .publishes = true,
          .program = {.publisher = PUBLISHER_UNREADABLE,
                      .unreadable = CONTEXT_UNREADABLE_VARIABLE}},
         "could not be read: its thread-local variable was not located"},
        {{.pid = 1, .samples = 100},
         {.samples = 100,
          .publishes = true,
          .program = {.publisher = PUBLISHER_UNREADABLE, .unreadable = CONTEXT_UNREADABLE_NO_ROOM}},
         "could not be read: too many processes of its cgroup publish"},
        {{.pid = 1, .samples = 100}, {.samples = 100, .publishes = true}, "could not read it yet"},
        {{.pid = 1, .samples = 100},
         {.samples = 100, .publishes = true, .attached = true, .unreadable = 80},
         "was being changed, or is damaged"},
        {{.pid = 1, .samples = 100},
         {.samples = 100, .publishes = true, .attached = true, .spans = 9},
         "no span was active when it was sampled"},
        {{.pid = 1, .samples = 100},
         {.samples = 100, .publishes = true, .attached = true},
         "is its tracing switched on"},
        {{.pid = 1, .samples = 100, .in_context = 90},
         {.samples = 100, .has_ids = 90, .unsampled = 80, .publishes = true},
         "does not sample these spans"},
        {{.pid = 1, .samples = 100, .in_context = 90},
         {.samples = 100, .has_ids = 90, .publishes = true},
         "no span of its service has arrived"},
        {{.pid = 1, .samples = 100, .in_context = 90, .in_span = 10},
         {.samples = 100, .has_ids = 90, .publishes = true, .spans = 9},
         "but not those that it works on"},
        {{.pid = 1, .samples = 100, .in_context = 90},
         {.samples = 100, .has_ids = 90, .publishes = true, .spans = 9, .unproven = 3},
         "processors::join::forwarders"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *why = pages_why(&cases[i].process, &cases[i].coverage);
        if (*cases[i].says ? !strstr(why, cases[i].says) : *why)
            fail_msg("case %zu: \"%s\" does not say \"%s\"", i, why, cases[i].says);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(why, pages_why(&cases[k].process, &cases[k].coverage));
    }
}

static struct buf problems_of(const struct pages_facts *facts, const struct pages_queue *queues,
                              size_t n)
{
    static const struct pages_programs none;
    struct buf out = BUF_INIT(0);
    struct json_writer json = {.out = &out};
    json_begin_object(&json, NULL);
    pages_status_problems(facts, &none, queues, n, &json);
    json_end_object(&json);
    assert_int_equal(json.error, 0);
    assert_int_equal(buf_append(&out, "", 1), 0);
    return out;
}

static void test_problems(void **state)
{
    static struct config config;
    const struct pages_facts facts = {.config = &config};
    const struct pages_queue queues[] = {{"otlp_grpc/a", 0, 5, 100, 59},
                                         {"otlp_grpc/b", 1, 5, 100, 61}};
    (void)state;
    _cleanup_buf_ struct buf well = problems_of(&facts, queues, 1);
    assert_string_equal((const char *)well.data, "{\"problems\":[]}");
    _cleanup_buf_ struct buf late = problems_of(&facts, queues, 2);
    assert_non_null(
        strstr((const char *)late.data, "otlp_grpc/b: profiles have been waiting for 61 s."));
    assert_null(strstr((const char *)late.data, "otlp_grpc/a"));
    stat_add_of(&lost, RING_FULL, 12);
    _cleanup_buf_ struct buf some = problems_of(&facts, queues, 0);
    assert_non_null(strstr((const char *)some.data, "12 samples were lost because the ring"));
    assert_non_null(strstr((const char *)some.data, "ring_size_mib"));
    stat_set_of(&lost, RING_FULL, 0);
    config.n_receivers = 1;
    config.receivers[0] = (struct config_receiver){.type = CONFIG_RECEIVER_SAMPLER, .used = true};
    _cleanup_buf_ struct buf blind = problems_of(&facts, queues, 0);
    assert_non_null(strstr((const char *)blind.data, "CAP_PERFMON"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_why), cmocka_unit_test(test_problems)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
