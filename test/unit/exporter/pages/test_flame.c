/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/pages/flame.h"
#include "test/support/faults/fail_alloc.h"
#include "test/support/fixtures/flame_fixture.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#define MEMORY ((size_t)16 << 20)

/* A line a node: indented name, self, total; with a baseline these too. */
static void assert_tree(const struct flame *flame, bool with_base, const char *expected)
{
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    for (size_t i = 0; i < flame->n_nodes; i++) {
        const struct flame_node *node = &flame->nodes[i];
        struct bytes name = flame->frames[node->frame].function;
        unsigned depth = 0;
        assert_true(node->parent == FLAME_NONE || node->parent < i);
        for (uint32_t at = node->parent; at != FLAME_NONE; at = flame->nodes[at].parent)
            depth++;
        assert_int_equal(node->weights.total.ns, 10 * node->weights.total.samples);
        buf_printf(&out, "%*s%.*s %llu/%llu", (int)depth, "", (int)name.len, name.data,
                   (unsigned long long)node->weights.self.samples,
                   (unsigned long long)node->weights.total.samples);
        if (with_base)
            buf_printf(&out, " %llu/%llu", (unsigned long long)node->base.self.samples,
                       (unsigned long long)node->base.total.samples);
        buf_printf(&out, "\n");
    }
    if (!bytes_is(buf_bytes(&out), expected))
        fail_msg("%.*s\nis not\n%s", (int)out.len, (const char *)out.data, expected);
}

static void add_shop(struct flame *flame)
{
    assert_int_equal(flame_fixture_add(flame, "main;buy;tax;round", 20, false), 0);
    assert_int_equal(flame_fixture_add(flame, "main;buy;tax", 9, false), 0);
    assert_int_equal(flame_fixture_add(flame, "main;list", 5, false), 0);
    assert_int_equal(flame_fixture_add(flame, "main;buy", 2, false), 0);
    assert_int_equal(flame_fixture_add(flame, "idle", 1, false), 0);
}

static void test_callees(void **state)
{
    struct flame flame;
    (void)state;
    assert_int_equal(flame_open(&flame, FLAME_CALLEES, MEMORY), 0);
    add_shop(&flame);
    assert_int_equal(flame_finish(&flame, 1000), 0);
    assert_tree(&flame, false,
                "main 0/36\n buy 2/31\n  tax 9/29\n   round 20/20\n list 5/5\nidle 1/1\n");
    assert_int_equal(flame.all.samples, 37);
    assert_int_equal(flame.all.ns, 370);
    flame_close(&flame);
    flame_close(&flame);
}

static void test_callers(void **state)
{
    struct flame flame;
    (void)state;
    assert_int_equal(flame_open(&flame, FLAME_CALLERS, MEMORY), 0);
    add_shop(&flame);
    assert_int_equal(flame_finish(&flame, 1000), 0);
    assert_tree(&flame, false,
                "round 0/20\n tax 0/20\n  buy 0/20\n   main 20/20\n"
                "tax 0/9\n buy 0/9\n  main 9/9\nlist 0/5\n main 5/5\n"
                "buy 0/2\n main 2/2\nidle 1/1\n");
    flame_close(&flame);
}

static void add_typed(struct flame *flame, const enum history_frame_type types[3], uint64_t samples)
{
    static const char *const names[] = {"leaf", "middle", "root"};
    struct history_frame frames[3];
    const struct history_frame *stack[3];
    for (size_t i = 0; i < 3; i++) {
        frames[i] = (struct history_frame){.key = 100 * (uint64_t)types[i] + i + 1,
                                           .function = BYTES_STR(names[i]),
                                           .type = (uint8_t)types[i]};
        stack[i] = &frames[i];
    }
    const struct flame_weight weight = {10 * samples, samples};
    assert_int_equal(flame_add(flame, stack, 3, weight, false), 0);
}

/* Time of frames that are left out is their caller's; stacks without any frame left do not count.
 */
static void test_only(void **state)
{
    static const enum history_frame_type called[] = {HISTORY_FRAME_NATIVE, HISTORY_FRAME_CPYTHON,
                                                     HISTORY_FRAME_CPYTHON},
                                         calling[] = {HISTORY_FRAME_CPYTHON, HISTORY_FRAME_NATIVE,
                                                      HISTORY_FRAME_CPYTHON},
                                         none[] = {HISTORY_FRAME_KERNEL, HISTORY_FRAME_NATIVE,
                                                   HISTORY_FRAME_NATIVE};
    struct flame flame;
    const struct flame_function *functions;
    size_t n;
    (void)state;
    for (int view = FLAME_CALLEES; view <= FLAME_FUNCTIONS; view++) {
        assert_int_equal(flame_open(&flame, (enum flame_view)view, MEMORY), 0);
        flame_only(&flame, HISTORY_FRAME_CPYTHON);
        add_typed(&flame, called, 5);
        add_typed(&flame, calling, 3);
        add_typed(&flame, none, 90);
        assert_int_equal(flame_add(&flame, NULL, 0, (struct flame_weight){70, 7}, false), 0);
        assert_int_equal(flame.all.samples, 8);
        assert_int_equal(flame.types, 1u << HISTORY_FRAME_KERNEL | 1u << HISTORY_FRAME_NATIVE |
                                          1u << HISTORY_FRAME_CPYTHON);
        if (view == FLAME_FUNCTIONS) {
            assert_int_equal(flame_functions(&flame, false, &functions, &n), 0);
            assert_int_equal(n, 3);
            assert_int_equal(functions[0].weights.self.samples, 5);
            assert_int_equal(functions[1].weights.self.samples, 3);
        } else {
            assert_int_equal(flame_finish(&flame, 1000), 0);
            assert_tree(&flame, false,
                        view == FLAME_CALLEES ? "root 0/8\n middle 5/5\n leaf 3/3\n"
                                              : "middle 0/5\n root 5/5\nleaf 0/3\n root 3/3\n");
        }
        flame_close(&flame);
    }
}

static void test_empty(void **state)
{
    struct flame flame;
    (void)state;
    assert_int_equal(flame_open(&flame, FLAME_CALLEES, MEMORY), 0);
    assert_int_equal(flame_finish(&flame, 1000), 0);
    assert_int_equal(flame.n_nodes, 0);
    flame_close(&flame);
}

static void test_recursion(void **state)
{
    struct flame flame;
    const struct flame_function *functions;
    size_t n;
    (void)state;
    assert_int_equal(flame_open(&flame, FLAME_CALLEES, MEMORY), 0);
    assert_int_equal(flame_fixture_add(&flame, "main;f;f;g;f", 4, false), 0);
    assert_int_equal(flame_functions(&flame, true, &functions, &n), 0);
    assert_int_equal(n, 3);
    assert_int_equal(flame_finish(&flame, 1000), 0);
    assert_tree(&flame, false, "main 0/4\n f 0/4\n  f 0/4\n   g 0/4\n    f 4/4\n");
    flame_close(&flame);
}

static void test_difference(void **state)
{
    struct flame flame;
    (void)state;
    assert_int_equal(flame_open(&flame, FLAME_CALLEES, MEMORY), 0);
    add_shop(&flame);
    assert_int_equal(flame_fixture_add(&flame, "main;buy;tax", 3, true), 0);
    assert_int_equal(flame_fixture_add(&flame, "main;gone", 7, true), 0);
    assert_int_equal(flame_finish(&flame, 1000), 0);
    assert_tree(&flame, true,
                "main 0/36 0/10\n buy 2/31 0/3\n  tax 9/29 3/3\n   round 20/20 0/0\n"
                " gone 0/0 7/7\n list 5/5 0/0\nidle 1/1 0/0\n");
    assert_int_equal(flame.base_all.samples, 10);
    flame_close(&flame);
}

/* What is left out is in others, so that sums hold. */
static void test_light_ones(void **state)
{
    struct flame flame;
    char stack[64];
    (void)state;
    assert_int_equal(flame_open(&flame, FLAME_CALLEES, MEMORY), 0);
    assert_int_equal(flame_fixture_add(&flame, "main;heavy;core", 1000, false), 0);
    for (int i = 0; i < 500; i++) {
        snprintf(stack, sizeof(stack), "main;light%d;deep%d", i, i);
        assert_int_equal(flame_fixture_add(&flame, stack, 1, false), 0);
    }
    assert_int_equal(flame_fixture_add(&flame, "", 5, false), 0);
    assert_int_equal(flame_finish(&flame, 20), 0);
    assert_tree(&flame, false,
                "main 0/1500\n heavy 0/1000\n  core 1000/1000\n others 500/500\nothers 5/5\n");
    for (size_t i = 0; i < flame.n_nodes; i++)
        assert_int_equal(flame.frames[flame.nodes[i].frame].type == FLAME_OTHERS,
                         bytes_is(flame.frames[flame.nodes[i].frame].function, "others"));
    flame_close(&flame);
}

/* Sums of self are the whole, each parent is what its children and itself are, nobody is lost. */
static void test_sums(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 40; round++) {
        struct flame flame;
        uint64_t all = 0, roots = 0, selves = 0;
        srand(round);
        assert_int_equal(flame_open(&flame, round % 2, MEMORY), 0);
        for (int i = 0; i < 300; i++) {
            char stack[256] = "";
            for (int depth = rand() % 12; depth >= 0; depth--)
                snprintf(stack + strlen(stack), sizeof(stack) - strlen(stack), "%sf%d",
                         *stack ? ";" : "", rand() % 9);
            uint64_t weight = (uint64_t)rand() % 50;
            assert_int_equal(flame_fixture_add(&flame, stack, weight, round % 3 == 2), 0);
            all += weight;
        }
        assert_int_equal(flame_finish(&flame, 10 + round * 20), 0);
        uint64_t *children = calloc(flame.n_nodes, sizeof(*children));
        for (size_t i = flame.n_nodes; i-- > 0;) {
            const struct flame_node *node = &flame.nodes[i];
            const struct flame_weights *weights = round % 3 == 2 ? &node->base : &node->weights;
            assert_int_equal(weights->total.samples, weights->self.samples + children[i]);
            selves += weights->self.samples;
            if (node->parent == FLAME_NONE)
                roots += weights->total.samples;
            else
                children[node->parent] += weights->total.samples;
        }
        assert_int_equal(selves, all);
        assert_int_equal(roots, all);
        free(children);
        flame_close(&flame);
    }
}

static void test_functions(void **state)
{
    struct flame flame;
    const struct flame_function *functions;
    size_t n;
    (void)state;
    assert_int_equal(flame_open(&flame, FLAME_FUNCTIONS, MEMORY), 0);
    add_shop(&flame);
    assert_int_equal(flame_fixture_add(&flame, "main;list", 8, true), 0);
    assert_int_equal(flame_fixture_add(&flame, "main;buy", 2, true), 0);
    assert_int_equal(flame_fixture_add(&flame, "", 2, false), 0);
    assert_int_equal(flame_functions(&flame, false, &functions, &n), 0);
    assert_int_equal(n, 6);
    assert_true(bytes_is(flame.frames[functions[0].frame].function, "round"));
    assert_int_equal(functions[0].weights.self.samples, 20);
    assert_int_equal(functions[0].rank, 1);
    assert_int_equal(functions[0].base_rank, 0);
    assert_true(bytes_is(flame.frames[functions[2].frame].function, "list"));
    assert_int_equal(functions[2].rank, 3);
    assert_int_equal(functions[2].base_rank, 1);
    assert_int_equal(functions[2].base.self.samples, 8);
    assert_int_equal(flame_functions(&flame, true, &functions, &n), 0);
    assert_true(bytes_is(flame.frames[functions[0].frame].function, "main"));
    assert_int_equal(functions[0].weights.total.samples, 36);
    assert_int_equal(functions[0].weights.self.samples, 0);
    assert_int_equal(functions[0].base_rank, 1);
    flame_close(&flame);
}

/* The line is that of the first. */
static void test_lines(void **state)
{
    struct flame flame;
    struct history_frame frame = flame_fixture_frame("f", 1);
    const struct history_frame *stack = &frame;
    (void)state;
    assert_int_equal(flame_open(&flame, FLAME_CALLEES, MEMORY), 0);
    frame.line = 40;
    assert_int_equal(flame_add(&flame, &stack, 1, (struct flame_weight){10, 1}, false), 0);
    frame.line = 41;
    assert_int_equal(flame_add(&flame, &stack, 1, (struct flame_weight){10, 1}, false), 0);
    assert_int_equal(flame.n_frames, 1);
    assert_int_equal(flame.frames[0].line, 40);
    flame_close(&flame);
}

static void test_memory(void **state)
{
    struct flame flame;
    char stack[64];
    int error = 0;
    (void)state;
    assert_int_equal(flame_open(&flame, FLAME_CALLEES, 100000), 0);
    for (int i = 0; !error && i < 100000; i++) {
        snprintf(stack, sizeof(stack), "main;f%d", i);
        error = flame_fixture_add(&flame, stack, 1, false);
    }
    assert_int_equal(error, -ENOMEM);
    flame_close(&flame);
    for (unsigned n = 1;; n++) {
        fail_alloc_at(n);
        error = flame_open(&flame, FLAME_CALLEES, MEMORY);
        for (int i = 0; !error && i < 400; i++) {
            snprintf(stack, sizeof(stack), "main;f%d", i);
            error = flame_fixture_add(&flame, stack, 1, false);
        }
        error = error ? error : flame_finish(&flame, 100);
        flame_close(&flame);
        if (!fail_alloc_hit())
            break;
        assert_int_equal(error, -ENOMEM);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_callees),    cmocka_unit_test(test_callers),
        cmocka_unit_test(test_only),       cmocka_unit_test(test_empty),
        cmocka_unit_test(test_recursion),  cmocka_unit_test(test_difference),
        cmocka_unit_test(test_light_ones), cmocka_unit_test(test_sums),
        cmocka_unit_test(test_functions),  cmocka_unit_test(test_lines),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
