/* SPDX-License-Identifier: Apache-2.0 */
/* PHP's memory made by hand: every version, also those that no machine here has; and memory that
 * lies. */
#include "agent-bpf/runtimes/php/php_attach.h"
#include "agent-bpf/runtimes/php/php_names.h"
#include "test/support/runtimes/php_image.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#define REQUEST   ((size_t)1 << 20)
#define ARENA     ((size_t)1 << 20)
#define WORDS_MAX 1536
#define ENTRY     ((uint64_t)FRAME_LIST_ENTRY << RECORD_FRAME_SHIFT)

static const uint32_t apis[] = {20190902, 20200930, 20210902, 20220829,
                                20230831, 20240924, 20250925};
static struct php_image image;
static struct php_process process;
static struct record_frame frames[IMAGE_FRAMES_N];
static struct runtime_name names[IMAGE_FRAMES_N];
static struct arena arena;

static int attach(enum runtime_refusal *why)
{
    struct runtime_memory memory;
    php_image_memory(&image, &memory, REQUEST);
    return php_attach(&image.constants, 0, &memory, &process, why);
}

/* Takes its frames; their number. */
static size_t take_frames(uint64_t opline, int *outcome)
{
    uint64_t words[WORDS_MAX];
    const uint64_t *at = words;
    struct record_frame frame;
    size_t n = 0, size = php_image_list(&image, &process, opline, words, WORDS_MAX, outcome);
    while (record_frame_next(&at, words + size, &frame))
        if (record_frame_kind(frame.words[0]) == FRAME_PHP && n < IMAGE_FRAMES_N)
            frames[n++] = frame;
    assert_ptr_equal(at, words + size);
    return n;
}

static void make(uint32_t api)
{
    enum runtime_refusal why;
    int outcome;
    php_image_make(&image, api);
    assert_int_equal(attach(&why), 0);
    assert_int_equal(take_frames(0, &outcome), IMAGE_FRAMES_N);
    assert_int_equal(outcome, RUNTIME_LIST_END);
}

static int find_names_with(size_t bytes)
{
    struct runtime_names out = {&arena, names};
    struct runtime_memory memory;
    php_image_memory(&image, &memory, bytes);
    arena_reset(&arena);
    memset(names, 0xff, sizeof(names));
    return php_names(&memory, frames, IMAGE_FRAMES_N, &out);
}

static void find_names(void)
{
    image.calls = 0;
    assert_int_equal(find_names_with(REQUEST), 0);
    assert_in_range(image.calls, 1, 2);
}

static void assert_name(unsigned i)
{
    bool has_file = php_image_files[i][0];
    assert_int_equal(names[i].outcome, RUNTIME_FRAME_NAMED);
    assert_int_equal(names[i].n_lines, 1);
    assert_string_equal((const char *)names[i].lines->function.data, php_image_functions[i]);
    assert_string_equal((const char *)names[i].lines->file.data, php_image_files[i]);
    assert_int_equal(names[i].lines->line, has_file ? IMAGE_LINE(i) : 0);
}

static void assert_names(void)
{
    find_names();
    for (unsigned i = 0; i < IMAGE_FRAMES_N; i++)
        assert_name(i);
}

static void every_version(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(apis) / sizeof(*apis); i++) {
        make(apis[i]);
        assert_names();
    }
}

/* The first frame of an activation ends its group; functions of PHP's own begin none. */
static void entries(void **state)
{
    uint64_t words[WORDS_MAX];
    int outcome;
    (void)state;
    make(20220829);
    assert_int_equal(php_image_list(&image, &process, 0, words, WORDS_MAX, &outcome), 17);
    assert_int_equal(words[3], ENTRY);
    assert_int_equal(words[16], ENTRY);
}

static uint32_t line_of(size_t i)
{
    struct php_frame frame;
    php_frame_unpack(frames[i].words, &frame);
    return frame.line;
}

/* The register counts for the innermost frame, if it is of its function; garbage does not. */
static void oplines(void **state)
{
    int outcome;
    (void)state;
    make(20220829);
    take_frames(IMAGE_OP(0, 3), &outcome);
    assert_int_equal(line_of(0), IMAGE_LINE(0) + 1);
    assert_int_equal(line_of(2), IMAGE_LINE(2));
    take_frames(IMAGE_OP(0, IMAGE_OPS), &outcome);
    assert_int_equal(line_of(0), IMAGE_LINE(0));
    take_frames(IMAGE_OP(0, 1) + 8, &outcome);
    assert_int_equal(line_of(0), IMAGE_LINE(0));
    take_frames(IMAGE_OP(2, 0), &outcome);
    assert_int_equal(line_of(0), IMAGE_LINE(0));
    php_image_word(&image, IMAGE_FRAME(0), IMAGE_OP(2, 0));
    take_frames(0, &outcome);
    assert_int_equal(line_of(0), 0);
    php_image_word(&image, IMAGE_FRAME(0), UINT64_MAX);
    take_frames(UINT64_MAX - 31, &outcome);
    assert_int_equal(line_of(0), 0);
    find_names();
    assert_int_equal(names[0].outcome, RUNTIME_FRAME_NAMED);
}

/* Text that is evaluated, a class without a name that is shown, a line that is too large. */
static void unusual(void **state)
{
    const uint8_t eval = 4;
    const uint32_t line = 1 << 20;
    int outcome;
    (void)state;
    make(20220829);
    php_image_put(&image, IMAGE_FUNCTION(3), &eval, 1);
    php_image_text(&image, IMAGE_TEXT(IMAGE_TEXT_CLASS),
                   BYTES_LIT("class@anonymous\0/main.php:3$0"));
    php_image_put(&image, IMAGE_OP(4, 2) + 24, &line, sizeof(line));
    take_frames(0, &outcome);
    find_names();
    assert_string_equal((const char *)names[2].lines->function.data, "class@anonymous::sort");
    assert_string_equal((const char *)names[3].lines->function.data, "{eval}");
    assert_int_equal(names[4].lines->line, 0);
}

/* Another string is at the address of the first frame's name, its class's, its file's. */
static void stale(void **state)
{
    static const enum php_image_text texts[] = {IMAGE_TEXT_CLOSURE, IMAGE_TEXT_CLASS,
                                                IMAGE_TEXT_FILE};
    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        make(20240924);
        php_image_text(&image, IMAGE_TEXT(texts[i]), BYTES_LIT("another"));
        find_names();
        assert_int_equal(names[0].outcome, RUNTIME_FRAME_STALE);
        assert_int_equal(names[0].n_lines, 0);
        assert_name(4);
        make(20240924);
        php_image_word(&image, IMAGE_TEXT(texts[i]) + 24, 0x4141414141414141);
        find_names(); /* its header is as it was, its characters are not */
        assert_int_equal(names[0].outcome, RUNTIME_FRAME_UNREADABLE);
        make(20240924);
        php_image_word(&image, IMAGE_TEXT(texts[i]) + 16, UINT64_C(1) << 31);
        find_names();
        assert_int_equal(names[0].outcome, RUNTIME_FRAME_UNREADABLE);
    }
}

static void long_texts(void **state)
{
    char text[200];
    int outcome;
    (void)state;
    make(20220829);
    memset(text, 'x', sizeof(text));
    php_image_text(&image, IMAGE_TEXT(IMAGE_TEXT_USORT), BYTES(text, sizeof(text)));
    take_frames(0, &outcome);
    find_names();
    assert_int_equal(names[1].lines->function.len, sizeof(text));
    assert_int_equal(find_names_with(600), 0); /* too little for all */
    assert_int_equal(names[1].outcome, RUNTIME_FRAME_UNKNOWN);
    assert_int_equal(find_names_with(0), 0);
    assert_int_equal(names[0].outcome, RUNTIME_FRAME_UNKNOWN);
}

static void broken_lists(void **state)
{
    static const uint64_t wrong[] = {IMAGE_FRAME(1), 1, IMAGE_FRAME(0) + 4, 0xfff0000000000000};
    int outcome;
    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        make(20250925);
        php_image_word(&image, IMAGE_FRAME(1) + 48, wrong[i]);
        assert_int_equal(take_frames(0, &outcome), i ? 2 : 1);
        assert_int_equal(outcome, RUNTIME_LIST_UNREADABLE);
    }
    make(20250925);
    php_image_word(&image, IMAGE_FRAME(1) + 48, IMAGE_FRAME(0)); /* a longer cycle */
    take_frames(0, &outcome);
    assert_int_equal(outcome, RUNTIME_LIST_GOES_ON);
    make(20250925);
    php_image_word(&image, IMAGE_FUNCTION(2), 7); /* of no type */
    assert_int_equal(take_frames(0, &outcome), 2);
    assert_int_equal(outcome, RUNTIME_LIST_UNREADABLE);
}

/* Frames without a function: one of the engine's, or generators that wait; the last has `depth`
 * above it. */
static void make_generators(unsigned depth)
{
    uint64_t object = IMAGE_OBJECTS;
    php_image_word(&image, IMAGE_FRAME(1) + 24, 0);
    php_image_word(&image, IMAGE_FRAME(1) + 32, object);
    php_image_word(&image, IMAGE_FRAME(1) + 40, 8);
    for (unsigned i = 0; i <= depth; i++, object += 0x200) {
        php_image_word(&image, object + 16, IMAGE_CLASS + 0x100);
        php_image_word(&image, object + process.generator_frame, IMAGE_FRAME(i == 1 ? 3 : 2));
        php_image_word(&image, object + process.generator_parent, i < depth ? object + 0x200 : 0);
    }
}

static void generators(void **state)
{
    int outcome;
    (void)state;
    make(20220829);
    make_generators(0); /* none waits */
    assert_int_equal(take_frames(0, &outcome), IMAGE_FRAMES_N - 1);
    make(20220829);
    make_generators(1);
    assert_int_equal(take_frames(0, &outcome), IMAGE_FRAMES_N);
    assert_int_equal(line_of(1), IMAGE_LINE(2));
    make(20220829);
    make_generators(2); /* the inner one of two */
    take_frames(0, &outcome);
    assert_int_equal(line_of(1), IMAGE_LINE(3));
    assert_int_equal(line_of(2), IMAGE_LINE(2));
    assert_int_equal(outcome, RUNTIME_LIST_END);
    php_image_word(&image, IMAGE_OBJECTS + 0x200 + process.generator_parent, IMAGE_OBJECTS);
    assert_int_equal(take_frames(0, &outcome), IMAGE_FRAMES_N - 1); /* a cycle */
    php_image_word(&image, IMAGE_OBJECTS + 16, IMAGE_CLASS);        /* another object */
    assert_int_equal(take_frames(0, &outcome), IMAGE_FRAMES_N - 1);
}

static void assert_refused(enum runtime_refusal expected)
{
    enum runtime_refusal why;
    assert_int_equal(attach(&why), expected == RUNTIME_REFUSAL_NOT_READY ? -EAGAIN : -ENOTSUP);
    if (expected != RUNTIME_REFUSAL_NOT_READY)
        assert_int_equal(why, expected);
}

static void refusals(void **state)
{
    const uint64_t core = IMAGE_MODULES + 0x200;
    (void)state;
    make(20220829);
    php_image_put(&image, core + 9, "\1", 1);
    assert_refused(RUNTIME_REFUSAL_THREAD_SAFE);
    make(20220829);
    php_image_put(&image, core + 8, "\1", 1); /* with debugging */
    assert_refused(RUNTIME_REFUSAL_UNKNOWN_LAYOUT);
    make(20220829);
    php_image_put(&image, core + 4, &(uint32_t){20260925}, 4);
    assert_refused(RUNTIME_REFUSAL_UNKNOWN_LAYOUT);
    make(20220829);
    php_image_word(&image, core + 0x80, 0); /* another module */
    assert_refused(RUNTIME_REFUSAL_UNKNOWN_LAYOUT);
    make(20220829);
    php_image_word(&image, IMAGE_GLOBALS + 480, 0x1000); /* the pages of its stack */
    assert_refused(RUNTIME_REFUSAL_UNKNOWN_LAYOUT);
    make(20220829);
    php_image_word(&image, IMAGE_MODULES + 16, 0);
    assert_refused(RUNTIME_REFUSAL_NOT_READY);
    make(20220829);
    memset(image.bytes, 0, 0x1000);
    assert_refused(RUNTIME_REFUSAL_NOT_READY);
    make(20220829);
    image.constants.globals = 0x10;
    assert_refused(RUNTIME_REFUSAL_NOT_READY);
}

static int open_arena(void **state)
{
    (void)state;
    arena_init(&arena, ARENA);
    return 0;
}

static int close_arena(void **state)
{
    (void)state;
    arena_close(&arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_version), cmocka_unit_test(entries),    cmocka_unit_test(oplines),
        cmocka_unit_test(unusual),       cmocka_unit_test(stale),      cmocka_unit_test(long_texts),
        cmocka_unit_test(broken_lists),  cmocka_unit_test(generators), cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, open_arena, close_arena);
}
