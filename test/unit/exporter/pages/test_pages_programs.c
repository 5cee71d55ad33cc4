/* SPDX-License-Identifier: Apache-2.0 */
/* The processes of /api/status: which are one row, which of them need something, and what is said.
 */
#include "exporter/pages/pages_programs.h"
#include "context/context_source.h"
#include "context/runtime.h"
#include "exporter/pages/pages_status.h"
#include "test/support/faults/fail_alloc.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#define MANY 200

static struct arena arena;
static struct history_series series[MANY + 1];
static struct coverage_process list[MANY];
static size_t n_processes;
static struct pages_programs programs;

static int setup(void **state)
{
    (void)state;
    arena_init(&arena, PAGES_REQUEST_BYTES);
    n_processes = 0;
    programs = (struct pages_programs){0};
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    arena_close(&arena);
    return 0;
}

struct given {
    uint32_t pid;
    const char *executable, *service;
    uint64_t cpu_ns;
    uint64_t in_span; /* of 100 samples; as many are in context */
    struct coverage_process coverage;
};

static void give(const struct given *given)
{
    struct coverage_process *coverage = &list[n_processes];
    series[n_processes++] = (struct history_series){.pid = given->pid,
                                                    .name = BYTES_STR(given->executable),
                                                    .samples = 100,
                                                    .in_context = given->in_span,
                                                    .in_span = given->in_span,
                                                    .cpu_ns = given->cpu_ns};
    *coverage = given->coverage;
    coverage->pid = given->pid;
    coverage->samples = 100;
    coverage->has_ids = given->in_span;
    snprintf(coverage->service, sizeof(coverage->service), "%s", given->service);
}

static void make(void)
{
    const struct history_groups groups = {.series = series, .n = n_processes};
    assert_int_equal(pages_programs_make(&groups, list, n_processes, &arena, &programs), 0);
}

static const char *answer(void)
{
    struct buf out = BUF_INIT(PAGES_ANSWER_MAX);
    struct json_writer json = {.out = &out};
    json_begin_object(&json, NULL);
    pages_programs_put(&programs, &json);
    json_end_object(&json);
    assert_int_equal(json.error, 0);
    assert_int_equal(buf_append(&out, "", 1), 0);
    const char *text = arena_dup(&arena, out.data, out.len);
    buf_close(&out);
    return text;
}

static const struct pages_program *row_of(uint32_t pid)
{
    for (size_t i = 0; i < programs.n; i++)
        if (programs.programs[i].first->pid == pid)
            return &programs.programs[i];
    fail_msg("no row begins with process %u", pid);
    return NULL;
}

#define PYTHON                                                                                     \
    {                                                                                              \
        .spans = 9, .program = {.runtime = RUNTIME_PYTHON }                                        \
    }

static void whole_answer(void **state)
{
    (void)state;
    give(&(struct given){7, "python3.11", "shop", 300, 0, PYTHON});
    make();
    assert_string_equal(
        answer(),
        "{\"processes\":[{\"pid\":7,\"pids\":[7],\"count\":1,\"executable\":\"python3.11\","
        "\"service\":\"shop\",\"runtime\":\"python\",\"samples\":100,\"in_span\":0,\"cpu_ns\":300,"
        "\"publisher\":\"none\",\"source\":\"\",\"sends_spans\":true,"
        "\"why\":\"Spans of its service arrive here, but it does not publish which of them its "
        "threads work on: it has no publisher.\","
        "\"switch\":{\"line\":\"spanprof exec -- COMMAND\",\"where\":\"\","
        "\"by_hand\":\"PYTHONPATH=/usr/lib/spanprof/publishers/python\"},"
        "\"frames\":{\"state\":\"unknown\",\"engine\":\"\",\"text\":\"–\",\"why\":\"\"}}],"
        "\"more_processes\":0}");
}

/* As it is written in JSON. */
static const char *member(const char *key, const char *value)
{
    struct buf out = BUF_INIT(0);
    struct json_writer json = {.out = &out};
    json_begin_object(&json, NULL);
    json_put_string(&json, key, value);
    assert_int_equal(buf_append(&out, "", 1), 0);
    const char *text = arena_dup(&arena, out.data + 1, out.len - 1);
    buf_close(&out);
    return text;
}

/* A switch for each runtime that has one, of those alone that need it. */
static void switches(void **state)
{
    (void)state;
    for (unsigned runtime = RUNTIME_UNKNOWN; runtime < RUNTIMES; runtime++)
        give(&(struct given){runtime + 1,
                             "program",
                             runtime_row(runtime)->id,
                             100 - runtime,
                             0,
                             {.spans = 1, .program = {.runtime = (uint8_t)runtime}}});
    give(&(struct given){100, "silent", "silent", 1, 0, {.program = {.runtime = RUNTIME_JAVA}}});
    give(&(struct given){101, "done", "done", 1, 95, PYTHON});
    make();
    const char *text = answer();
    for (unsigned runtime = RUNTIME_UNKNOWN + 1; runtime < RUNTIMES; runtime++) {
        const struct pages_program *row = row_of(runtime + 1);
        assert_int_equal(row->need, PAGES_NEEDS_SWITCH);
        const char *line = runtime_row(runtime)->line;
        assert_int_equal(strstr(text, member("line", line)) != NULL, *line != 0);
    }
    assert_int_equal(row_of(100)->need, PAGES_NEEDS_NOTHING);
    assert_non_null(strstr(row_of(100)->why, "No spans are known to come from it"));
    assert_int_equal(row_of(101)->need, PAGES_NEEDS_NOTHING);
    assert_string_equal(row_of(101)->why, "");
    const char *silent = strstr(text, "\"silent\""), *done = strstr(text, "\"done\"");
    assert_null(strstr(silent < done ? silent : done, "\"switch\""));
}

static void states(void **state)
{
    static const struct {
        enum publisher_state state;
        enum pages_need need;
    } cases[] = {
        {PUBLISHER_NONE, PAGES_NEEDS_SWITCH},  {PUBLISHER_OFF, PAGES_NEEDS_LOOK},
        {PUBLISHER_STARTED, PAGES_NEEDS_LOOK}, {PUBLISHER_LOADED, PAGES_NEEDS_LOOK},
        {PUBLISHER_PROCESS, PAGES_NEEDS_LOOK}, {PUBLISHER_UNREADABLE, PAGES_NEEDS_LOOK},
        {PUBLISHER_READ, PAGES_NEEDS_NOTHING},
    };
    (void)state;
    for (uint32_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct given given = {i + 1, "python3", "shop", 100, 0, PYTHON};
        given.coverage.program.publisher = (uint8_t)cases[i].state;
        n_processes = 0;
        give(&given);
        make();
        assert_int_equal(programs.programs[0].state, cases[i].state);
        assert_int_equal(programs.programs[0].need, cases[i].need);
        char quoted[64];
        snprintf(quoted, sizeof(quoted), "\"publisher\":\"%s\"",
                 publisher_state_names[cases[i].state]);
        assert_non_null(strstr(answer(), quoted));
    }
}

static void sources(void **state)
{
    struct given read = {1, "a", "a", 1, 0, PYTHON}, active = {2, "b", "b", 1, 40, PYTHON};
    (void)state;
    read.coverage.program.publisher = PUBLISHER_READ;
    read.coverage.program.publishes = CONTEXT_BIT(CONTEXT_ELASTIC) | CONTEXT_BIT(CONTEXT_GO_LABELS);
    active.coverage.source = CONTEXT_OBI;
    give(&read);
    give(&active);
    make();
    assert_non_null(strstr(answer(), "\"publisher\":\"read\",\"source\":\"elastic\""));
    assert_non_null(strstr(answer(), "\"publisher\":\"active\",\"source\":\"obi\""));
}

/* Workers are one row; another service, another state, and what has no service are not. */
static void groups(void **state)
{
    (void)state;
    for (uint32_t pid = 1; pid <= 16; pid++)
        give(&(struct given){pid, "gunicorn", "shop", 100 - pid, 0, PYTHON});
    give(&(struct given){20, "gunicorn", "cart", 10, 0, PYTHON});
    give(&(struct given){21, "celery", "shop", 9, 0, PYTHON});
    give(&(struct given){22, "sh", "", 8, 0, {.program = {.runtime = RUNTIME_NATIVE}}});
    give(&(struct given){23, "sh", "", 7, 0, {.program = {.runtime = RUNTIME_NATIVE}}});
    make();
    assert_int_equal(programs.n, 5);
    const struct pages_program *workers = row_of(1);
    assert_int_equal(workers->n, 16);
    assert_int_equal(workers->samples, 1600);
    assert_int_equal(workers->cpu_ns, 16 * 100 - 16 * 17 / 2);
    assert_non_null(strstr(answer(), "\"pids\":[1,2,3,4,5,6,7,8,9,10],\"count\":16"));
    assert_ptr_equal(workers, &programs.programs[0]);
}

/* What is known of the process counts before what its first samples were given. */
static void service_names(void **state)
{
    (void)state;
    give(&(struct given){1, "python3", "shop", 30, 0, PYTHON});
    give(&(struct given){2, "python3", "shop", 20, 0, PYTHON});
    give(&(struct given){3, "python3", "", 10, 0, PYTHON});
    series[0].service = BYTES_LIT("unknown_service:python3");
    series[1].service = BYTES_LIT("unknown");
    series[2].service = BYTES_LIT("unknown_service:python3");
    make();
    assert_true(bytes_is(row_of(1)->service, "shop"));
    assert_true(bytes_is(row_of(2)->service, "unknown"));
    assert_true(bytes_is(row_of(3)->service, "unknown_service:python3"));
}

/* What its environment names, but its spans are others'. */
static void helpers(void **state)
{
    const struct coverage_process native = {.spans = 9, .program = {.runtime = RUNTIME_NATIVE}};
    struct given shell = {1, "sh", "shop", 50, 0, native};
    struct given server = {2, "python3", "shop", 40, 0, PYTHON};
    struct given master = {3, "python3", "pay", 30, 0, PYTHON};
    struct given worker = {4, "python3", "pay", 20, 90, PYTHON};
    struct given stray = {5, "python3", "pay", 10, 0, PYTHON};
    (void)state;
    master.coverage.program.publisher = PUBLISHER_LOADED;
    const struct given *all[] = {&shell, &server, &master, &worker, &stray};
    for (size_t i = 0; i < 5; i++)
        give(all[i]);
    make();
    assert_int_equal(row_of(1)->need, PAGES_NEEDS_NOTHING);
    assert_ptr_equal(row_of(1)->why, pages_why_helper());
    assert_int_equal(row_of(2)->need, PAGES_NEEDS_SWITCH);
    assert_int_equal(row_of(3)->need, PAGES_NEEDS_NOTHING);
    assert_int_equal(row_of(4)->need, PAGES_NEEDS_NOTHING);
    assert_int_equal(row_of(5)->need, PAGES_NEEDS_SWITCH); /* started without, as it seems */

    shell.coverage.sends_spans = true; /* its spans name it */
    n_processes = 0;
    give(&shell);
    give(&server);
    make();
    assert_int_equal(row_of(1)->need, PAGES_NEEDS_SWITCH);
}

static void most_wanting_first(void **state)
{
    (void)state;
    give(&(struct given){1, "big", "", 1000, 0, {.program = {.runtime = RUNTIME_NATIVE}}});
    give(&(struct given){2, "python3", "shop", 10, 0, PYTHON});
    give(&(struct given){3, "python3", "cart", 20, 0, PYTHON});
    make();
    assert_int_equal(programs.programs[0].first->pid, 3);
    assert_int_equal(programs.programs[1].first->pid, 2);
    assert_int_equal(programs.programs[2].first->pid, 1);
}

static void limits(void **state)
{
    static char names[MANY][16];
    (void)state;
    for (uint32_t i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof(names[i]), "service%u", i);
        give(&(struct given){i + 1, "python3", names[i], MANY - i, 0, PYTHON});
    }
    make();
    assert_int_equal(programs.n, PAGES_PROGRAMS_MAX);
    assert_int_equal(programs.n_more, MANY - PAGES_PROGRAMS_MAX);
    assert_non_null(strstr(answer(), "\"more_processes\":100}"));
    const struct history_groups with_others = {.series = series, .n = MANY + 1};
    series[MANY] = (struct history_series){.name = BYTES_LIT("others"), .others = true};
    assert_int_equal(pages_programs_make(&with_others, list, MANY, &arena, &programs), 0);
    assert_int_equal(programs.n, PAGES_PROGRAMS_MAX + 1);
    assert_true(programs.programs[PAGES_PROGRAMS_MAX].first->others);
    assert_int_equal(programs.n_more, MANY - PAGES_PROGRAMS_MAX);
}

static const char *problems(void)
{
    static struct config config;
    const struct pages_facts facts = {.config = &config};
    struct buf out = BUF_INIT(PAGES_ANSWER_MAX);
    struct json_writer json = {.out = &out};
    json_begin_object(&json, NULL);
    pages_status_problems(&facts, &programs, NULL, 0, &json);
    json_end_object(&json);
    assert_int_equal(buf_append(&out, "", 1), 0);
    const char *text = arena_dup(&arena, out.data, out.len);
    buf_close(&out);
    return text;
}

static void said_first(void **state)
{
    static const char *const services[] = {"shop", "cart", "shop", "pay", "mail", "login"};
    (void)state;
    make();
    assert_string_equal(problems(), "{\"problems\":[]}");
    for (uint32_t i = 0; i < 6; i++)
        give(
            &(struct given){i + 1, i == 2 ? "celery" : "python3", services[i], 100 - i, 0, PYTHON});
    make();
    assert_non_null(strstr(problems(), "\"Spans of shop, cart, pay and 2 more have no CPU time"));
}

static void no_memory(void **state)
{
    const struct history_groups groups_ = {.series = series, .n = 0};
    (void)state;
    fail_alloc_at(1);
    assert_int_equal(pages_programs_make(&groups_, list, 0, &arena, &programs), -ENOMEM);
    fail_alloc_at(0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(whole_answer), T(switches),      T(states),    T(sources),
        T(groups),       T(service_names), T(helpers),   T(most_wanting_first),
        T(limits),       T(said_first),    T(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
