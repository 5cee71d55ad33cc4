/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/pages/pages_programs.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static const char *answer(const struct coverage_process *process)
{
    static char text[2048];
    struct buf out = BUF_INIT(sizeof(text) - 1);
    struct json_writer json = {.out = &out};
    json_begin_object(&json, NULL);
    pages_frames_put(process, &json);
    json_end_object(&json);
    assert_int_equal(json.error, 0);
    memcpy(text, out.data, out.len);
    text[out.len] = '\0';
    buf_close(&out);
    return text;
}

static struct coverage_process process_of(enum runtime runtime, enum runtime_frames_state state,
                                          enum coverage_code_map map)
{
    return (struct coverage_process){
        .code_map = (uint8_t)map,
        .program = {.runtime = (uint8_t)runtime,
                    .frames = {.state = (uint8_t)state, .runtime = (uint8_t)runtime}}};
}

static void texts(void **state)
{
    struct coverage_process process =
        process_of(RUNTIME_PYTHON, RUNTIME_FRAMES_READ, COVERAGE_CODE_NO_MAP);
    (void)state;
    process.program.frames.version = (struct runtime_version){3, 11, 2};
    assert_string_equal(answer(&process),
                        "{\"frames\":{\"state\":\"read\",\"engine\":\"CPython 3.11\","
                        "\"text\":\"CPython 3.11\",\"why\":\"\"}}");
    process = process_of(RUNTIME_JAVA, RUNTIME_FRAMES_READ, COVERAGE_CODE_MAP);
    process.program.frames.version = (struct runtime_version){17, 0, 1};
    assert_non_null(strstr(answer(&process), "\"text\":\"HotSpot 17\""));
    process = process_of(RUNTIME_DOTNET, RUNTIME_FRAMES_NO_READER, COVERAGE_CODE_NO_MAP);
    assert_string_equal(answer(&process),
                        "{\"frames\":{\"state\":\"unnamed\",\"engine\":\".NET\","
                        "\"text\":\"no names\",\"why\":\"Code that it makes at run time has no "
                        "names: it writes no perf map.\",\"switch\":{\"line\":"
                        "\"DOTNET_PerfMapEnabled=3\",\"where\":\"in its environment\"}}}");
}

/* What the symbolizer tells, what samples tell, and what follows. */
static void states(void **state)
{
#define CASE(runtime, told, map, expected, needs)                                                  \
    {                                                                                              \
        RUNTIME_##runtime, RUNTIME_FRAMES_##told, COVERAGE_CODE_##map, RUNTIME_FRAMES_##expected,  \
            needs                                                                                  \
    }
    static const struct {
        enum runtime runtime;
        enum runtime_frames_state told;
        enum coverage_code_map map;
        enum runtime_frames_state expected;
        bool needs_map;
    } cases[] = {
        CASE(NATIVE, NATIVE, NO_MAP, NATIVE, false),
        CASE(NATIVE, NATIVE, MAP, PERF_MAP, false),
        CASE(NODE, READ, NO_MAP, READ, false),
        CASE(NODE, READ, MAP, READ, false),
        CASE(NODE, REFUSED, NOT_SEEN, REFUSED, false),
        CASE(NODE, REFUSED, NO_MAP, REFUSED, true),
        CASE(NODE, REFUSED, MAP, PERF_MAP, false),
        CASE(BEAM, NO_READER, NOT_SEEN, NO_READER, false),
        CASE(BEAM, NO_READER, NO_MAP, UNNAMED, true),
        CASE(BEAM, NO_READER, MAP, PERF_MAP, false),
        CASE(LUAJIT, NO_READER, NO_MAP, UNNAMED, true),
        CASE(PERL, NO_READER, NO_MAP, UNNAMED, false),
        CASE(PYTHON, NOT_READY, NOT_SEEN, NOT_READY, false),
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct coverage_process process =
            process_of(cases[i].runtime, cases[i].told, cases[i].map);
        assert_int_equal(pages_frames_state(&process), cases[i].expected);
        assert_int_equal(pages_frames_need_map(&process), cases[i].needs_map);
        assert_int_equal(strstr(answer(&process), "\"switch\"") != NULL, cases[i].needs_map);
    }
}

static void refusals(void **state)
{
    struct coverage_process process =
        process_of(RUNTIME_PYTHON, RUNTIME_FRAMES_REFUSED, COVERAGE_CODE_NOT_SEEN);
    (void)state;
    for (unsigned why = RUNTIME_REFUSAL_NONE + 1; why < RUNTIME_REFUSALS; why++) {
        process.program.frames.refusal = (uint8_t)why;
        assert_non_null(strstr(pages_frames_why(&process), "are not shown: "));
    }
    process = process_of(RUNTIME_PERL, RUNTIME_FRAMES_NO_READER, COVERAGE_CODE_NOT_SEEN);
    assert_non_null(strstr(pages_frames_why(&process), "Perl writes no perf map"));
}

static void alike(void **state)
{
    const struct coverage_process read =
        process_of(RUNTIME_PYTHON, RUNTIME_FRAMES_READ, COVERAGE_CODE_NOT_SEEN);
    struct coverage_process other = read;
    (void)state;
    assert_true(pages_frames_alike(&read, &other));
    other.program.frames.version.minor = 12;
    assert_false(pages_frames_alike(&read, &other));
    other = read;
    other.program.frames.state = RUNTIME_FRAMES_REFUSED;
    assert_false(pages_frames_alike(&read, &other));
    struct coverage_process unnamed = other;
    unnamed.code_map = COVERAGE_CODE_NO_MAP; /* which has a switch */
    assert_false(pages_frames_alike(&unnamed, &other));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(texts), cmocka_unit_test(states),
                                       cmocka_unit_test(refusals), cmocka_unit_test(alike)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
