/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks in letters, leaf first: natives n, activations of the evaluation function E with their
 * CFA (those of another interpreter O; inner parts I), frames of the list p with a number, entries
 * e with an address. */
#include "agent-bpf/list_interleave.h"
#include "agent-bpf/record_frame.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define WORDS_MAX 1536

#define WORD(kind, payload) ((uint64_t)(kind) << RECORD_FRAME_SHIFT | (uint64_t)(payload))
#define n(pc)               WORD(FRAME_NATIVE, pc)
#define E(pc, cfa)          WORD(FRAME_NATIVE_EVAL, pc), WORD(FRAME_PYTHON, cfa)
#define O(pc, cfa)          WORD(FRAME_NATIVE_EVAL, pc), WORD(FRAME_NONE, cfa)
#define I(pc, cfa)          WORD(FRAME_NATIVE_EVAL, pc), WORD(FRAME_PYTHON, cfa) | RECORD_EVAL_INNER
#define p(code)             WORD(FRAME_PYTHON, code), 0, 0
#define e(address)          WORD(FRAME_LIST_ENTRY, address)
#define WORDS(...)          (const uint64_t[]){__VA_ARGS__}, sizeof((const uint64_t[]){__VA_ARGS__}) / 8

/* The result as text: "n1 p2 ..." */
static unsigned merge(const struct list_interleave *stack, char *text, size_t size)
{
    uint64_t out[WORDS_MAX];
    const uint64_t *at = out;
    struct record_frame frame;
    unsigned remarks;
    size_t n_out = list_interleave(stack, out, &remarks), used = 0;
    assert_true(n_out <= stack->n_user + stack->n_list);
    text[0] = '\0';
    while (record_frame_next(&at, out + n_out, &frame) && used < size) {
        enum record_frame_kind kind = record_frame_kind(frame.words[0]);
        assert_true(kind == FRAME_NATIVE || kind == FRAME_PYTHON);
        used += (size_t)snprintf(text + used, size - used, "%s%c%lx", used ? " " : "",
                                 kind == FRAME_PYTHON ? 'p' : 'n',
                                 (unsigned long)record_frame_address(frame.words[0]));
    }
    assert_ptr_equal(at, out + n_out);
    return remarks;
}

static void check_stack(const struct list_interleave *stack, const char *expected, unsigned remarks)
{
    char text[512];
    unsigned found = merge(stack, text, sizeof(text));
    assert_string_equal(text, expected);
    assert_int_equal(found, remarks);
}

static void check(const uint64_t *user, size_t n_user, const uint64_t *list, size_t n_list,
                  const char *expected, unsigned remarks)
{
    check_stack(&(struct list_interleave){user, n_user, list, n_list, false}, expected, remarks);
}

/* The user frames go on to the outermost one. */
static void check_whole(const uint64_t *user, size_t n_user, const uint64_t *list, size_t n_list,
                        const char *expected, unsigned remarks)
{
    check_stack(&(struct list_interleave){user, n_user, list, n_list, true}, expected, remarks);
}

static void by_addresses(void **state)
{
    (void)state;
    check(WORDS(n(1), E(2, 100), n(3), E(4, 200), n(5)), WORDS(p(1), p(2), e(90), p(3), e(190)),
          "n1 p1 p2 n3 p3 n5", 0);
    check(WORDS(n(1), n(2)), NULL, 0, "n1 n2", 0);
    check(NULL, 0, NULL, 0, "", 0);
}

/* The innermost activation has not linked its frame yet, or has unlinked it. */
static void beginning_and_end(void **state)
{
    (void)state;
    check(WORDS(E(1, 100), n(2), E(3, 200), n(4)), WORDS(p(3), e(190)), "n1 n2 p3 n4", 0);
    check(WORDS(E(1, 100), n(2), E(3, 200), n(4), E(5, 300)), WORDS(p(5), e(290)), "n1 n2 n3 n4 p5",
          0);
    /* Of those that are counted. */
    check(WORDS(E(1, 100), n(2), E(3, 200), n(4), E(5, 300)), WORDS(p(5), e(0)), "n1 n2 n3 n4 p5",
          0);
    check(WORDS(E(1, 100), n(2), E(3, 200), n(4)), WORDS(p(3), e(0)), "n1 n2 p3 n4", 0);
}

static void one_frame_each(void **state)
{
    (void)state;
    check(WORDS(E(1, 100), n(2), E(3, 200), n(4)), WORDS(p(1), e(0), p(3), e(0)), "p1 n2 p3 n4", 0);
    check(WORDS(E(1, 100), n(2)), WORDS(p(1), e(0), p(3), e(0)), "p1 n2 p3",
          LIST_INTERLEAVE_APPENDED);
}

/* The frame that was the first of an activation says so: several end with one entry. */
static void by_kind_of_frame(void **state)
{
    (void)state;
    check_whole(WORDS(n(1), E(2, 100), n(3), E(4, 200), n(5)),
                WORDS(p(1), p(2), e(0), p(3), p(4), p(5), e(0)), "n1 p1 p2 n3 p3 p4 p5 n5", 0);
    check_whole(WORDS(E(2, 100), n(3), E(4, 200), n(5)), WORDS(p(3), p(4), e(0)), "n2 n3 p3 p4 n5",
                0);
    check(WORDS(n(1), E(2, 100), n(3)), WORDS(p(1), e(0), p(3), p(4), e(0)), "n1 p1 n3 p3 p4",
          LIST_INTERLEAVE_APPENDED);
}

/* Its frame is linked, but the activation has not begun yet: where the stack is known to its
 * outermost frame this is told from one that was cut. */
static void a_frame_comes_before_its_activation(void **state)
{
    (void)state;
    check_whole(WORDS(n(1), n(3), E(4, 200), n(5)), WORDS(p(1), e(0), p(3), p(4), e(0)),
                "n1 n3 p1 p3 p4 n5", 0);
    check_whole(WORDS(n(1), E(2, 100), n(3), E(4, 200), n(5)),
                WORDS(p(1), e(0), p(2), e(0), p(3), e(0)), "n1 p1 p2 n3 p3 n5", 0);
    check_whole(WORDS(n(1), E(2, 100), n(3)), WORDS(p(1), e(90), p(3), e(190)), "n1 p1 n3 p3",
                LIST_INTERLEAVE_APPENDED);
    check_whole(WORDS(n(1)), WORDS(p(1), e(0)), "n1 p1", LIST_INTERLEAVE_APPENDED);
}

/* A fiber that begins with a function in C. */
static void frames_of_no_activation(void **state)
{
    (void)state;
    check_whole(WORDS(n(1), E(2, 100), n(3)), WORDS(p(1), e(0), p(2), p(3), e(RECORD_LIST_OUTSIDE)),
                "n1 p1 n3 p2 p3", 0);
    check_whole(WORDS(n(1), E(2, 100), n(3)), WORDS(p(2), e(RECORD_LIST_OUTSIDE)), "n1 n2 n3 p2",
                0);
    check_whole(WORDS(n(1)), WORDS(p(2), e(RECORD_LIST_OUTSIDE)), "n1 p2", 0);
}

/* Where the activation shows its frames, its inner part is not shown. */
static void parts_of_an_activation(void **state)
{
    (void)state;
    check_whole(WORDS(n(1), I(2, 50), E(3, 100), n(4), E(5, 150), I(6, 170), E(7, 200)),
                WORDS(p(1), e(0), p(5), e(0), p(7), e(0)), "n1 p1 n4 p5 p7", 0);
    check_whole(WORDS(I(2, 50), E(3, 100), n(4), I(6, 170), E(7, 200)), WORDS(p(7), e(0)),
                "n2 n3 n4 p7", 0);
    check_whole(WORDS(I(6, 170), E(7, 200)), WORDS(p(1), e(0), p(7), e(0)), "p1 p7", 0);
    check(WORDS(I(2, 50), n(3), E(4, 100)), WORDS(p(1), e(0)), "n2 n3 p1", 0);
    check(WORDS(E(4, 100), I(2, 150)), WORDS(p(1), e(0)), "p1 n2", 0);
}

static void another_interpreters_activation(void **state)
{
    (void)state;
    check(WORDS(O(1, 100), E(2, 100), O(3, 150), E(4, 200)), WORDS(p(1), e(90), p(3), e(190)),
          "n1 p1 n3 p3", 0);
    check_whole(WORDS(O(1, 100), E(2, 100), O(3, 150), E(4, 200)), WORDS(p(3), p(4), e(0)),
                "n1 n2 n3 p3 p4", 0);
    check(WORDS(E(1, 100), n(2)), NULL, 0, "n1 n2", 0);
}

/* Parts of the function that are not known, or code of a JIT. */
static void an_activation_is_not_known(void **state)
{
    (void)state;
    check(WORDS(n(1), n(2), E(4, 200), n(5)), WORDS(p(1), e(90), p(3), e(190)), "n1 n2 p1 p3 n5",
          0);
    check(WORDS(n(1), n(2)), WORDS(p(1), e(90)), "n1 n2 p1", LIST_INTERLEAVE_APPENDED);
}

static void the_native_stack_is_cut(void **state)
{
    (void)state;
    check(WORDS(n(1), E(2, 100), n(3)), WORDS(p(1), e(90), p(2), e(190), p(3), e(290)),
          "n1 p1 n3 p2 p3", LIST_INTERLEAVE_APPENDED);
    check(WORDS(n(1), E(2, 0)), WORDS(p(1), e(90)), "n1 n2 p1", LIST_INTERLEAVE_APPENDED);
}

static void the_list_is_cut(void **state)
{
    (void)state;
    check(WORDS(E(1, 100), n(2), E(3, 200), n(4)), WORDS(p(1), e(90), p(2)), "p1 n2 p2 n4",
          LIST_INTERLEAVE_CUT);
    check(WORDS(E(1, 100), n(2), E(3, 200), n(4)), WORDS(p(1)), "p1 n2 n3 n4", LIST_INTERLEAVE_CUT);
    check(WORDS(E(1, 100), n(2), E(3, 200)), WORDS(p(1), e(0), p(2)), "p1 n2 p2",
          LIST_INTERLEAVE_CUT);
}

/* An activation without frames of its own keeps its native frame. */
static void an_entry_without_frames(void **state)
{
    (void)state;
    check(WORDS(E(1, 100), n(2), E(3, 200)), WORDS(e(90), p(2), e(190)), "n1 n2 p2", 0);
}

/* Any words: nothing beyond what is there. */
static void hostile(void **state)
{
    static const uint64_t kinds[] = {0, 1, 2, 3, 3, 4, 4, 5, 5, 6, 10, 11, 255};
    (void)state;
    srand(1);
    for (int turn = 0; turn < 20000; turn++) {
        size_t n_user = (size_t)rand() % 40, n_list = (size_t)rand() % 40;
        uint64_t *words = malloc((n_user + n_list + 1) * 8);
        for (size_t i = 0; i < n_user + n_list; i++)
            words[i] = WORD(kinds[(size_t)rand() % 13], rand() % 300);
        struct list_interleave stack = {words, n_user, words + n_user, n_list, turn % 2};
        uint64_t *out = malloc((n_user + n_list + 1) * 8);
        unsigned remarks;
        assert_true(list_interleave(&stack, out, &remarks) <= n_user + n_list);
        free(out);
        free(words);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_addresses),
        cmocka_unit_test(beginning_and_end),
        cmocka_unit_test(one_frame_each),
        cmocka_unit_test(by_kind_of_frame),
        cmocka_unit_test(a_frame_comes_before_its_activation),
        cmocka_unit_test(frames_of_no_activation),
        cmocka_unit_test(parts_of_an_activation),
        cmocka_unit_test(another_interpreters_activation),
        cmocka_unit_test(an_activation_is_not_known),
        cmocka_unit_test(the_native_stack_is_cut),
        cmocka_unit_test(the_list_is_cut),
        cmocka_unit_test(an_entry_without_frames),
        cmocka_unit_test(hostile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
