/* SPDX-License-Identifier: Apache-2.0 */
#include "base/stats.h"
#include "base/buf.h"
#include "test/support/faults/fail_alloc.h"
#include "test/support/faults/aborts.h"
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

enum when { EARLY, LATE, NEVER, WHENS };
enum colour { BLACK, WHITE, COLOURS };
static const char *const when_names[WHENS] = {[EARLY] = "no", [LATE] = "yes"};
static const char *const colour_names[] = {"black", "white"};

/* Declared out of order, to be printed in order. */
STAT_COUNTERS(zebras, "test_zebras_total", "Zebras seen, by time.",
              STAT_LABEL("late", when_names, WHENS), .losses = STAT_BIT(LATE),
              .absent = STAT_BIT(NEVER));
STAT_GAUGE(depth, "test_depth_bytes", "Depth \\ of\nsomething.");
STAT_COUNTERS(stripes, "test_stripes_total", "Stripes | lost.",
              STAT_LABELS("late", when_names, WHENS, "colour", colour_names, COLOURS),
              .losses = STAT_BIT(COLOURS * LATE + BLACK) | STAT_BIT(COLOURS * LATE + WHITE),
              .absent = STAT_BIT(COLOURS * NEVER + BLACK) | STAT_BIT(COLOURS * NEVER + WHITE));

static void test_before_sharing(void **state)
{
    (void)state;
    stat_add_of(&zebras, LATE, 3);
    stat_set(&depth, -7);
    stat_add_of2(&stripes, LATE, BLACK, 5);
    stat_set_of(&zebras, EARLY, 9);
    stat_set_of(&zebras, EARLY, 0);
    assert_int_equal(stat_get_of(&zebras, LATE), 3);
    assert_int_equal(stats_find("test_stripes_total", "late=\"yes\",colour=\"black\""), 5);
    assert_int_equal(stats_find("test_stripes_total", "late=\"no\",colour=\"white\""), 0);
    assert_int_equal(stats_find("test_zebras_total", "late=\"\""), -1);
    assert_int_equal(stats_find("test_zebras_total", "late=\"yes\""), 3);
    assert_int_equal(stats_find("test_depth_bytes", ""), -7);
    assert_int_equal(stats_find("test_zebras_total", ""), -1);
    assert_int_equal(stats_find("test_nothing", ""), -1);
}

static void test_page(void **state)
{
    static const char expected[] = "# HELP test_depth_bytes Depth \\\\ of\\nsomething.\n"
                                   "# TYPE test_depth_bytes gauge\n"
                                   "test_depth_bytes -7\n"
                                   "# HELP test_stripes_total Stripes | lost.\n"
                                   "# TYPE test_stripes_total counter\n"
                                   "test_stripes_total{late=\"no\",colour=\"black\"} 0\n"
                                   "test_stripes_total{late=\"no\",colour=\"white\"} 0\n"
                                   "test_stripes_total{late=\"yes\",colour=\"black\"} 5\n"
                                   "test_stripes_total{late=\"yes\",colour=\"white\"} 0\n"
                                   "# HELP test_zebras_total Zebras seen, by time.\n"
                                   "# TYPE test_zebras_total counter\n"
                                   "test_zebras_total{late=\"no\"} 0\n"
                                   "test_zebras_total{late=\"yes\"} 3\n";
    _cleanup_buf_ struct buf page = BUF_INIT(0);
    (void)state;
    assert_int_equal(stats_prometheus(&page), 0);
    assert_int_equal(page.len, sizeof(expected) - 1);
    assert_memory_equal(page.data, expected, page.len);
    _cleanup_buf_ struct buf tight = BUF_INIT(100);
    assert_int_equal(stats_prometheus(&tight), BUF_FULL);
    for (unsigned n = 1;; n++) {
        _cleanup_buf_ struct buf again = BUF_INIT(0);
        fail_alloc_at(n);
        int outcome = stats_prometheus(&again);
        if (!fail_alloc_hit())
            break;
        assert_int_equal(outcome, -ENOMEM);
    }
}

/* Sorted, and the same however the compiler names the sources. */
static void test_reference(void **state)
{
    static const char expected[] =
        "\n## test/unit/base\n\n"
        "| Metric | Type | Labels | Unit | Meaning |\n"
        "|---|---|---|---|---|\n"
        "| `test_depth_bytes` | gauge |  | bytes | Depth \\ of something. |\n"
        "| `test_stripes_total` | counter | `late`: `no`, `yes` (loss); `colour`: `black`, `white` "
        "|  | "
        "Stripes \\| lost. |\n"
        "| `test_zebras_total` | counter | `late`: `no`, `yes` (loss) |  | Zebras seen, by time. "
        "|\n";
    _cleanup_buf_ struct buf page = BUF_INIT(0);
    (void)state;
    assert_int_equal(stats_markdown(&page), 0);
    assert_int_equal(buf_append(&page, "", 1), 0);
    assert_non_null(strstr((const char *)page.data, expected));
    _cleanup_buf_ struct buf tight = BUF_INIT(page.len - 2);
    assert_int_equal(stats_markdown(&tight), BUF_FULL);
}

struct losses {
    unsigned n;
    char text[256];
};

static void add_loss(void *context, const struct stat_series *series)
{
    struct losses *losses = context;
    if (!series->is_loss)
        return;
    losses->n++;
    strncat(losses->text, series->labels, sizeof(losses->text) - strlen(losses->text) - 1);
}

static void test_losses(void **state)
{
    struct losses losses = {0};
    (void)state;
    assert_int_equal(stats_each(add_loss, &losses), 0);
    assert_int_equal(losses.n, 3);
    assert_non_null(strstr(losses.text, "late=\"yes\""));
}

/* What would make a page wrong or a series invisible is found before anything is counted. */
static void test_soundness(void **state)
{
    static _Atomic int64_t values[4];
    static const char *const hole[] = {"a", NULL}, *const twice[] = {"a", "a"},
                             *const odd[] = {"\""};
    const struct metric plain = {.name = "x_total", .help = "X.", .n = 1, .values = values};
    const struct metric family = {
        .name = "y", .help = "Y.", .n = 2, .values = values, .label = {{"late", when_names, 2}}};
    char problem[STAT_TEXT_MAX];
    (void)state;
    const struct metric both[] = {plain, family};
    assert_true(stats_are_sound(both, 2, problem));
    const struct metric same[] = {plain, family, plain};
    assert_false(stats_are_sound(same, 3, problem));
    assert_string_equal(problem, "x_total is declared twice");
    struct metric other = family;
    other.name = "x_total";
    const struct metric mixed[] = {plain, other};
    assert_false(stats_are_sound(mixed, 2, problem));
    const char *const *const wrong[] = {hole, twice};
    for (size_t i = 0; i < 2; i++) {
        other.label[0] = (struct stat_label){"late", wrong[i], 2};
        assert_false(stats_are_sound(&other, 1, problem));
    }
    other = (struct metric){
        .name = "z", .help = "Z.", .n = 1, .values = values, .label = {{"late", odd, 1}}};
    assert_false(stats_are_sound(&other, 1, problem));
    other.label[0].values = colour_names;
    assert_true(stats_are_sound(&other, 1, problem));
    other.help = "";
    assert_false(stats_are_sound(&other, 1, problem));
}

static void stat_wrongly(void *context)
{
    int how = *(int *)context;
    if (how == 0)
        stat_add_of(&zebras, WHENS, 1);
    else if (how == 1)
        stat_add_of(&zebras, NEVER, 1);
    else if (how == 2)
        stat_add_of2(&stripes, LATE, COLOURS, 1);
    else if (how == 3)
        stat_add_of(&stripes, LATE, 1);
    else if (how == 4)
        stat_add(&zebras, 1);
    else
        stat_add_of(&depth, 0, 1);
}

/* An index beyond the enum, or of a value without series, and a wrong number of labels. */
static void test_assertions(void **state)
{
    (void)state;
    for (int how = 0; how < 6; how++)
        assert_true(aborts(stat_wrongly, &how));
}

static void *count(void *argument)
{
    for (int i = 0; i < 10000; i++)
        stat_add_of(&zebras, EARLY, 1);
    return argument;
}

static void test_threads(void **state)
{
    pthread_t threads[4];
    (void)state;
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count, NULL), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(stat_get_of(&zebras, EARLY), 40000);
}

/* Values go over into the shared table, and a child counts into it. */
static void test_sharing(void **state)
{
    (void)state;
    assert_int_equal(stats_share(), 0);
    assert_int_equal(stats_share(), -EALREADY);
    assert_int_equal(stat_get_of(&zebras, LATE), 3);
    assert_int_equal(stat_get_of(&zebras, EARLY), 40000);
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        stat_add_of(&zebras, LATE, 100);
        stat_set(&depth, 12);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(stat_get_of(&zebras, LATE), 103);
    assert_int_equal(stats_find("test_depth_bytes", ""), 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_before_sharing), cmocka_unit_test(test_page),
        cmocka_unit_test(test_reference),      cmocka_unit_test(test_losses),
        cmocka_unit_test(test_soundness),      cmocka_unit_test(test_assertions),
        cmocka_unit_test(test_threads),        cmocka_unit_test(test_sharing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
