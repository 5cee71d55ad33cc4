/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of runtimes: named by the symbolizer, in as many answers as that takes. */
#include "agent-bpf/record_frame.h"
#include "receiver/intake/intake_code.h"
#include "receiver/intake/intake_stacks.h"
#include "store/stacks/stacks.h"
#include "test/support/rigs/samples_rig.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#define WORD(kind, payload) ((uint64_t)(kind) << RECORD_FRAME_SHIFT | (payload))

/* zlib's function, called by a Python function, whose caller is another one in the same activation
 * of the evaluation function; below it a file's. */
static const uint64_t python_words[] = {
    WORD(FRAME_NATIVE, APP + 0x101), WORD(FRAME_NATIVE_EVAL, APP + 0x201),
    WORD(FRAME_PYTHON, 0x7ff0), WORD(FRAME_NATIVE, APP + 0x301)};
static const uint64_t python_list[] = {WORD(FRAME_PYTHON, 0x1000),    3, 0xaa,
                                       WORD(FRAME_PYTHON, 0x2000),    4, 0xbb,
                                       WORD(FRAME_LIST_ENTRY, 0x7fe0)};

/* Code that lies in no file. */
static void add_code(struct samples_rig *rig, uint64_t time_ns)
{
    struct record_parts parts = samples_rig_record(RIG_PID);
    parts.head.time_ns = RECORD_T0 + time_ns;
    parts.n_user = 1;
    parts.user[0] = UINT64_C(0x7e0000000108);
    samples_rig_add(rig, &parts, 1);
}

static void add_python(struct samples_rig *rig, uint64_t time_ns)
{
    struct record_parts parts = samples_rig_record(RIG_PID);
    parts.head.time_ns = RECORD_T0 + time_ns;
    parts.n_user = 0;
    parts.words = BYTES(python_words, sizeof(python_words));
    parts.list = BYTES(python_list, sizeof(python_list));
    samples_rig_add(rig, &parts, 1);
}

static bool asked_for(struct samples_rig *rig, struct symbolizer_message *asked)
{
    size_t n = samples_rig_requests(rig, SYMBOLIZER_CODE_WANTED, asked);
    assert_in_range(n, 0, 1);
    return n;
}

static size_t leave(struct samples_rig *rig, struct samples_rig_left *last)
{
    return samples_rig_leave_settled(rig, last);
}

/* In which the first n frames are named, and others not for a limit that cut it. */
static void answer_lines(struct samples_rig *rig, const struct symbolizer_message *asked,
                         struct symbolizer_line lines[2], uint32_t n, bool cut)
{
    struct symbolizer_code_frame frames[2];
    for (uint32_t i = 0; i < n; i++)
        frames[i] = (struct symbolizer_code_frame){
            .frame = asked->code_wanted.frames[i], .n = 1, .lines = &lines[i]};
    samples_rig_answer(rig,
                       &(struct symbolizer_message){.kind = SYMBOLIZER_CODE,
                                                    .code = {.ticket = asked->code_wanted.ticket,
                                                             .pid = RIG_PID,
                                                             .map = CODE_MAP_NOT_ASKED,
                                                             .cut = cut,
                                                             .n_frames = n,
                                                             .frames = frames}});
}

static void answer_frames(struct samples_rig *rig, const struct symbolizer_message *asked,
                          uint32_t n, bool cut)
{
    struct symbolizer_line lines[] = {
        {.function = BYTES_LIT("Shop.render"), .file = BYTES_LIT("shop.py"), .line = 42},
        {.function = BYTES_LIT("<module>"), .file = BYTES_LIT("shop.py"), .line = 7}};
    answer_lines(rig, asked, lines, n, cut);
}

static void answer_named(struct samples_rig *rig, const struct symbolizer_message *asked,
                         const char *function)
{
    struct symbolizer_line lines[] = {
        {.function = BYTES_STR(function), .file = BYTES_LIT("shop.py"), .line = 42},
        {.function = BYTES_LIT("<module>"), .file = BYTES_LIT("shop.py"), .line = 7}};
    answer_lines(rig, asked, lines, asked->code_wanted.n, false);
}

static void assert_line(struct samples_rig *rig, const struct frame *frame, const char *function,
                        int64_t line)
{
    struct frame_name name;
    assert_true(frame_is_named(frame));
    assert_int_equal(stacks_name(store_stacks(rig->fixture.store), frame, &name), 0);
    assert_true(bytes_is(name.function, function));
    assert_true(bytes_is(name.type, "cpython"));
    assert_true(name.line == line);
}

static void test_runtime_frames(void **state)
{
    struct samples_rig *rig = *state;
    struct samples_rig_left left;
    struct symbolizer_message asked;
    add_python(rig, 0);
    assert_true(asked_for(rig, &asked));
    assert_int_equal(asked.code_wanted.n, 2);
    assert_true(asked.code_wanted.frames[0].words[0] == python_list[0] &&
                asked.code_wanted.frames[0].words[1] == 3 &&
                asked.code_wanted.frames[0].words[2] == 0xaa);
    assert_int_equal(leave(rig, &left), 0);
    answer_frames(rig, &asked, 2, false);
    assert_int_equal(leave(rig, &left), 1);
    assert_int_equal(left.n_frames, 4);
    assert_true(left.frames[0].kind == STACK_FRAME_NATIVE &&
                left.frames[0].address == APP_OFFSET + 0x100);
    assert_line(rig, &left.frames[1], "Shop.render", 42);
    assert_line(rig, &left.frames[2], "<module>", 7);
    assert_true(left.frames[3].kind == STACK_FRAME_NATIVE);

    add_python(rig, CODE_KEEP_NS - 1); /* known for a second */
    assert_false(asked_for(rig, &asked));
    assert_int_equal(leave(rig, &left), 1);
    assert_line(rig, &left.frames[1], "Shop.render", 42);

    add_code(rig, CODE_KEEP_NS - 1); /* no answer has said that there is no perf map */
    assert_true(asked_for(rig, &asked));
}

/* Adds a sample. If its names are requested, answers with this function. Returns whether they were.
 */
static bool add_and_answer(struct samples_rig *rig, uint64_t time_ns, const char *function)
{
    struct samples_rig_left left;
    struct symbolizer_message asked;
    add_python(rig, time_ns);
    bool was_asked = asked_for(rig, &asked);
    if (was_asked)
        answer_named(rig, &asked, function);
    assert_int_equal(leave(rig, &left), 1);
    assert_line(rig, &left.frames[1], function, 42);
    return was_asked;
}

/* The time doubles with each second answer that confirms it, and is a second again with another. */
static void test_runtime_frames_kept(void **state)
{
    static const uint64_t seconds[] = {1, 1, 2, 2, 4, 4, 8, 8, 16, 16, 32, 32, 32};
    struct samples_rig *rig = *state;
    uint64_t time_ns = 0;
    assert_true(add_and_answer(rig, time_ns, "old"));
    for (size_t i = 0; i < sizeof(seconds) / sizeof(*seconds); i++) {
        uint64_t keep_ns = seconds[i] * CODE_KEEP_NS;
        assert_false(add_and_answer(rig, time_ns + keep_ns - 1, "old"));
        assert_true(add_and_answer(rig, time_ns += keep_ns, "old"));
    }
    assert_true(add_and_answer(rig, time_ns += 32 * CODE_KEEP_NS, "new"));
    assert_false(add_and_answer(rig, time_ns + CODE_KEEP_NS - 1, "new"));
    assert_true(add_and_answer(rig, time_ns + CODE_KEEP_NS, "new"));
}

static void add_java(struct samples_rig *rig, uint64_t time_ns, uint64_t compile_id)
{
    const uint64_t words[] = {WORD(FRAME_JVM_COMPILED, 0x7e0000000108), 0x7e0000000000, compile_id};
    struct record_parts parts = samples_rig_record(RIG_PID);
    parts.head.time_ns = RECORD_T0 + time_ns;
    parts.n_user = 0;
    parts.words = BYTES(words, sizeof(words));
    samples_rig_add(rig, &parts, 1);
}

/* A compile id is given once: the frame is asked for until it has a name, and then never again. */
static void test_runtime_frames_for_good(void **state)
{
    struct samples_rig *rig = *state;
    struct samples_rig_left left;
    struct symbolizer_message asked;
    const char *const names[] = {RECORD_FRAME_UNREADABLE, "Shop.render"};
    for (size_t i = 0; i < 2; i++) {
        add_java(rig, i * CODE_KEEP_NS, 7);
        assert_true(asked_for(rig, &asked));
        answer_named(rig, &asked, names[i]);
        assert_int_equal(leave(rig, &left), 1);
    }
    add_java(rig, 3600 * CODE_KEEP_NS, 7);
    assert_false(asked_for(rig, &asked));
    assert_int_equal(leave(rig, &left), 1);
    for (size_t i = 0; i < 2; i++) { /* a native wrapper may have none */
        add_java(rig, i * CODE_KEEP_NS, 0);
        assert_true(asked_for(rig, &asked));
        answer_named(rig, &asked, "wrapper");
        assert_int_equal(leave(rig, &left), 1);
    }
}

static void answer_all(struct samples_rig *rig, const struct symbolizer_message *asked,
                       const char *function)
{
    struct symbolizer_line line = {.function = BYTES_STR(function), .line = 42};
    struct symbolizer_code_frame frames[RECORD_MAX_USER_FRAMES];
    for (uint32_t i = 0; i < asked->code_wanted.n; i++)
        frames[i] = (struct symbolizer_code_frame){
            .frame = asked->code_wanted.frames[i], .n = 1, .lines = &line};
    samples_rig_answer(rig,
                       &(struct symbolizer_message){.kind = SYMBOLIZER_CODE,
                                                    .code = {.ticket = asked->code_wanted.ticket,
                                                             .pid = RIG_PID,
                                                             .map = CODE_MAP_NOT_ASKED,
                                                             .n_frames = asked->code_wanted.n,
                                                             .frames = frames}});
}

/* A request takes along what was used and is in the second half of its time. */
static void test_runtime_frames_renewed(void **state)
{
    static const struct {
        uint64_t time_ns;
        bool used;
        uint32_t asked;                               /* with the new frame */
    } requests[] = {{CODE_KEEP_NS / 2 - 1, true, 1},  /* the first half */
                    {CODE_KEEP_NS / 2, false, 3},     /* used before */
                    {CODE_KEEP_NS - 1, false, 1},     /* renewed since */
                    {CODE_KEEP_NS, true, 3},          /* half a second after that */
                    {3 * CODE_KEEP_NS / 2, false, 1}, /* not used since */
                    {CODE_KEEP_NS * 2 - 1, true, 3}}; /* kept by the answer before */
    struct samples_rig *rig = *state;
    struct symbolizer_message asked;
    assert_true(add_and_answer(rig, 0, "old"));
    for (size_t i = 0; i < sizeof(requests) / sizeof(*requests); i++) {
        if (requests[i].used)
            assert_false(add_and_answer(rig, requests[i].time_ns, "old"));
        add_java(rig, requests[i].time_ns, i + 1);
        assert_true(asked_for(rig, &asked));
        assert_int_equal(asked.code_wanted.n, requests[i].asked);
        answer_all(rig, &asked, "old");
        assert_int_equal(leave(rig, &(struct samples_rig_left){0}), 1);
    }
}

/* A renewal finds that the object is gone: what is at its place later is asked for. */
static void test_runtime_frames_renewed_too_late(void **state)
{
    struct samples_rig *rig = *state;
    struct symbolizer_message asked;
    assert_true(add_and_answer(rig, 0, "old"));
    assert_false(add_and_answer(rig, CODE_KEEP_NS / 2, "old"));
    add_java(rig, CODE_KEEP_NS / 2, 1);
    assert_true(asked_for(rig, &asked));
    assert_int_equal(asked.code_wanted.n, 3);
    answer_all(rig, &asked, RECORD_FRAME_UNREADABLE);
    assert_int_equal(leave(rig, &(struct samples_rig_left){0}), 1);
    assert_true(add_and_answer(rig, CODE_KEEP_NS / 2 + 1, "new"));
    assert_false(add_and_answer(rig, CODE_KEEP_NS, "new"));
}

/* What does not fit into one answer is asked for again. */
static void test_runtime_frames_in_parts(void **state)
{
    struct samples_rig *rig = *state;
    struct samples_rig_left left;
    struct symbolizer_message asked, again;
    struct record_frame frames[2];
    add_python(rig, 0);
    assert_true(asked_for(rig, &asked));
    memcpy(frames, asked.code_wanted.frames, sizeof(frames)); /* the rig's until the next request */
    answer_frames(rig, &asked, 1, false);
    assert_int_equal(leave(rig, &left), 0);
    assert_true(asked_for(rig, &again));
    assert_int_equal(again.code_wanted.n, 1);
    assert_true(again.code_wanted.frames[0].words[0] == python_list[3]);
    again.code_wanted.frames = frames;
    answer_frames(rig, &again, 2, false);
    assert_int_equal(leave(rig, &left), 1);
    assert_line(rig, &left.frames[2], "<module>", 7);
}

/* Without an answer in time, the frames keep the name of unreadable ones. */
static void test_runtime_frames_late(void **state)
{
    struct samples_rig *rig = *state;
    struct samples_rig_left left;
    struct frame_name name;
    struct symbolizer_message asked;
    add_python(rig, 0);
    assert_true(asked_for(rig, &asked));
    fixture_begin(&rig->fixture);
    assert_int_equal(intake_samples_expire(rig->samples, RECORD_T0 + QUESTIONS_FRAMES_NS), 0);
    fixture_commit(&rig->fixture);
    assert_int_equal(leave(rig, &left), 1);
    assert_int_equal(left.n_frames, 4);
    assert_true(frame_is_unnamed(&left.frames[1]));
    assert_int_equal(stacks_name(store_stacks(rig->fixture.store), &left.frames[1], &name), 0);
    assert_true(bytes_is(name.function, RECORD_FRAME_UNREADABLE) && bytes_is(name.type, "cpython"));
}

/* What could not be named in time is asked for again: as long as that brings names, and then twice.
 */
static void test_runtime_frames_cut(void **state)
{
    struct samples_rig *rig = *state;
    struct samples_rig_left left;
    struct symbolizer_message asked;
    struct record_frame frames[2];
    add_python(rig, 0);
    assert_true(asked_for(rig, &asked));
    memcpy(frames, asked.code_wanted.frames, sizeof(frames));
    const uint32_t named[] = {0, 0, 1, 0, 0};
    for (size_t i = 0; i < sizeof(named) / sizeof(*named); i++) {
        asked.code_wanted.frames = frames;
        answer_frames(rig, &asked, named[i], true);
        assert_int_equal(leave(rig, &left), 0);
        assert_true(asked_for(rig, &asked));
        assert_int_equal(asked.code_wanted.n, i < 2 ? 2 : 1);
    }
    asked.code_wanted.frames = frames;
    answer_frames(rig, &asked, 0, true);
    assert_false(asked_for(rig, &asked));
    assert_int_equal(leave(rig, &left), 1);
    assert_line(rig, &left.frames[1], "Shop.render", 42);
    assert_true(frame_is_unnamed(&left.frames[2]));

    add_python(rig, 1); /* that it had no name is not remembered */
    assert_true(asked_for(rig, &asked));
    assert_int_equal(asked.code_wanted.n, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, samples_rig_setup, samples_rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_runtime_frames),          TEST(test_runtime_frames_kept),
        TEST(test_runtime_frames_renewed),  TEST(test_runtime_frames_renewed_too_late),
        TEST(test_runtime_frames_for_good), TEST(test_runtime_frames_in_parts),
        TEST(test_runtime_frames_cut),      TEST(test_runtime_frames_late),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
