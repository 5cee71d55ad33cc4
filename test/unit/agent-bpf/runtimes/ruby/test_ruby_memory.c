/* SPDX-License-Identifier: Apache-2.0 */
/* Lists and names of Ruby frames in made memory, of each version; and what is not as it was, or
 * lies. */
#include "test/support/runtimes/ruby_image.h"
#include "agent-bpf/runtimes/ruby/ruby_attach.h"
#include "agent-bpf/runtimes/ruby/ruby_names.h"
#include "agent-bpf/runtimes/ruby/ruby_objects.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

#define REQUEST   ((size_t)1 << 20)
#define ARENA     ((size_t)4 << 20)
#define WORDS_MAX 64

static const char *const versions[] = {"2.7.8", "3.0.7", "3.1.2", "3.2.11", "3.3.8", "3.4.12"};
#define VERSIONS (sizeof(versions) / sizeof(*versions))

static struct ruby_image image;

struct found {
    struct arena arena;
    uint64_t words[WORDS_MAX];
    size_t n_words, n;
    int outcome;
    struct ruby_process process;
    struct record_frame frames[WORDS_MAX];
    struct runtime_name names[WORDS_MAX];
};

static void take_list(struct found *found)
{
    struct runtime_memory memory;
    enum runtime_refusal why;
    ruby_image_memory(&image, &memory, REQUEST);
    assert_int_equal(ruby_attach(&image.constants, 0, &memory, &found->process, &why), 0);
    found->n_words =
        ruby_image_list(&image, &found->process, found->words, WORDS_MAX, &found->outcome);
    const uint64_t *at = found->words, *end = at + found->n_words;
    for (found->n = 0; record_frame_next(&at, end, &found->frames[found->n]);)
        found->n += record_frame_kind(found->frames[found->n].words[0]) == FRAME_RUBY;
    assert_ptr_equal(at, end);
}

static int take_names(struct found *found)
{
    struct runtime_memory memory;
    struct runtime_names out = {&found->arena, found->names};
    arena_init(&found->arena, ARENA);
    ruby_image_memory(&image, &memory, REQUEST);
    return ruby_names(&image.constants.layout, &found->process, &memory, found->frames, found->n,
                      &out);
}

static void take(struct found *found)
{
    take_list(found);
    assert_int_equal(take_names(found), 0);
}

static bool is_line(const struct runtime_line *line, const char *function, uint32_t number)
{
    return bytes_is(line->function, function) && line->line == number;
}

static void each_version(void **state)
{
    (void)state;
    for (size_t v = 0; v < VERSIONS; v++) {
        struct found found;
        bool has_path = strncmp(versions[v], "3.2", 3) != 0;
        assert_true(ruby_image_make(&image, versions[v]));
        take(&found);
        assert_int_equal(found.outcome, RUNTIME_LIST_END);
        assert_int_equal(found.n, RUBY_IMAGE_FRAMES);
        for (size_t i = 0; i < found.n; i++) {
            const struct runtime_name *name = &found.names[i];
            bool is_c = i == 1;
            assert_int_equal(name->outcome, RUNTIME_FRAME_NAMED);
            if (has_path)
                assert_true(bytes_is(name->lines->function, ruby_image_functions[i]));
            assert_int_equal(name->lines->line, is_c ? 0 : RUBY_IMAGE_LINE);
            assert_true(
                bytes_is(name->lines->file, is_c ? "" : "/srv/shop/lib/with/a/long/name/shop.rb"));
        }
        assert_int_equal(found.names[2].lines->start_line, 20);
        arena_close(&found.arena);
    }
}

/* FINISH ends an activation: of the block, and of the program. */
static void entries(void **state)
{
    struct found found;
    size_t n = 0;
    (void)state;
    assert_true(ruby_image_make(&image, "3.1.2"));
    take_list(&found);
    for (size_t i = 0; i < found.n_words; i++)
        n += record_frame_kind(found.words[i]) == FRAME_LIST_ENTRY;
    assert_int_equal(n, 2);
    assert_int_equal(record_frame_kind(found.words[3]), FRAME_LIST_ENTRY);
    assert_int_equal(record_frame_kind(found.words[found.n_words - 1]), FRAME_LIST_ENTRY);
}

/* A fiber whose first frame is a method in C. */
static void begins_in_c(void **state)
{
    struct found found;
    (void)state;
    assert_true(ruby_image_make(&image, "3.1.2"));
    ruby_image_word(&image, RUBY_IMAGE_ENVS + 0x40 * 3 + 16, RUBY_FRAME_CFUNC | RUBY_ENV_LOCAL);
    ruby_image_word(&image, RUBY_IMAGE_ENVS + 0x40 * 3, RUBY_IMAGE_METHODS + 0x100);
    take(&found);
    assert_int_equal(found.n, 4);
    assert_true(bytes_is(found.names[3].lines->function, "Array#each"));
    assert_int_equal(record_frame_address(found.words[found.n_words - 1]), RECORD_LIST_OUTSIDE);
    arena_close(&found.arena);
}

/* The first lines of a table, and of a sequence that has one line. */
static void lines(void **state)
{
    struct found found;
    (void)state;
    assert_true(ruby_image_make(&image, "3.3.8"));
    take_list(&found);
    found.frames[0].words[1] = (found.frames[0].words[1] >> 32 << 32) | 8;
    found.frames[2].words[1] = (found.frames[2].words[1] >> 32 << 32) | 600;
    found.frames[3].words[1] = (found.frames[3].words[1] >> 32 << 32) | 601;
    assert_int_equal(take_names(&found), 0);
    assert_true(is_line(found.names[0].lines, "block in Shop#render", 10));
    assert_true(is_line(found.names[2].lines, "Shop#render", 20));
    assert_true(is_line(found.names[3].lines, "<main>", RUBY_IMAGE_LINE));
    arena_close(&found.arena);
}

static void others_in_their_place(void **state)
{
    struct found found;
    (void)state;
    for (size_t v = 0; v < VERSIONS; v++) {
        assert_true(ruby_image_make(&image, versions[v]));
        take_list(&found);
        ruby_image_text(&image, 0, "block in sender"); /* in the same memory, as long */
        ruby_image_word(&image, RUBY_IMAGE_BODIES + 0x200 + RUBY_BODY_CODE, 0x60000000);
        ruby_image_word(&image, RUBY_IMAGE_METHODS + 0x100 + 24, 901 << 4);
        ruby_image_word(&image, RUBY_IMAGE_ISEQS + 0x80, RUBY_T_STRING);
        assert_int_equal(take_names(&found), 0);
        assert_int_equal(found.names[0].outcome, RUNTIME_FRAME_STALE);
        assert_int_equal(found.names[1].outcome, RUNTIME_FRAME_STALE);
        assert_int_equal(found.names[2].outcome, RUNTIME_FRAME_STALE);
        assert_int_equal(found.names[3].outcome, RUNTIME_FRAME_UNREADABLE);
        arena_close(&found.arena);
    }
}

/* The method entry is of another sequence: its class is not shown. */
static void another_method(void **state)
{
    struct found found;
    (void)state;
    assert_true(ruby_image_make(&image, "3.1.2"));
    ruby_image_word(&image, RUBY_IMAGE_METHODS + 0x80 + 8, RUBY_IMAGE_ISEQS + 0x80);
    take(&found);
    assert_true(bytes_is(found.names[0].lines->function, "block in render"));
    assert_true(bytes_is(found.names[2].lines->function, "render"));
    arena_close(&found.arena);
}

static void bad_lists(void **state)
{
    static const struct {
        uint64_t at, word;
    } bad[] = {{RUBY_IMAGE_CONTEXT, 3},
               {RUBY_IMAGE_CONTEXT + 8, 1ULL << 40},
               {RUBY_IMAGE_CONTEXT + 8, UINT64_MAX},
               {RUBY_IMAGE_CONTEXT + 16, RUBY_IMAGE_STACK - 8},
               {RUBY_IMAGE_CONTEXT + 16, RUBY_IMAGE_STACK + 4},
               {RUBY_IMAGE_ENVS + 16, 0},
               {RUBY_IMAGE_ISEQS + 16, 0x123456789abc}};
    struct found found;
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        assert_true(ruby_image_make(&image, "3.1.2"));
        ruby_image_word(&image, bad[i].at, bad[i].word);
        take_list(&found);
        assert_int_equal(found.n_words, 0);
        assert_int_equal(found.outcome, RUNTIME_LIST_UNREADABLE);
    }
    assert_true(ruby_image_make(&image, "3.1.2"));
    ruby_image_word(&image, RUBY_IMAGE_TP + 8, 0); /* no thread of Ruby's */
    take_list(&found);
    assert_int_equal(found.outcome, RUNTIME_LIST_END);
    ruby_image_word(&image, RUBY_IMAGE_ENVS + 8, (RUBY_IMAGE_ENVS + 16) | 1); /* leads to itself */
    take_list(&found);
}

static void not_ready(void **state)
{
    struct runtime_memory memory;
    struct ruby_process process;
    enum runtime_refusal why;
    (void)state;
    assert_true(ruby_image_make(&image, "3.3.8"));
    ruby_image_word(&image, image.constants.string_class, 0);
    ruby_image_memory(&image, &memory, REQUEST);
    assert_int_equal(ruby_attach(&image.constants, 0, &memory, &process, &why), -EAGAIN);
    assert_int_equal(why, RUNTIME_REFUSAL_NOT_READY);
}

static void versions_that_are_not_known(void **state)
{
    static const char *const unknown[] = {"", "2.6.10", "3", "3.5.0", "4.0.1", "x.y", "31.1"};
    struct ruby_layout layout;
    (void)state;
    for (size_t i = 0; i < sizeof(unknown) / sizeof(*unknown); i++)
        assert_false(ruby_layout(unknown[i], &layout));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_version),
        cmocka_unit_test(entries),
        cmocka_unit_test(begins_in_c),
        cmocka_unit_test(lines),
        cmocka_unit_test(others_in_their_place),
        cmocka_unit_test(another_method),
        cmocka_unit_test(bad_lists),
        cmocka_unit_test(not_ready),
        cmocka_unit_test(versions_that_are_not_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
