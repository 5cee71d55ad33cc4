/* SPDX-License-Identifier: Apache-2.0 */
/* Unwind tables are shared fairly by tenants: who floods them loses his own. */
#include "agent-bpf/symbolizer/symbolizer_tables.h"
#include "base/stats.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>
#include <cmocka.h>

enum { VICTIM = 7, FLOODER = 8, N_VICTIM = 5, N_FLOOD = 3 * TABLES_MAX };

struct rig {
    struct tables *tables;
    int fd; /* any file with code */
};

static int set_up(void **state)
{
    static struct rig rig;
    rig.fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    *state = &rig;
    return rig.fd < 0 ? -1 : tables_open(NULL, &rig.tables);
}

static int tear_down(void **state)
{
    struct rig *rig = *state;
    tables_close(rig->tables);
    close(rig->fd);
    return 0;
}

/* As for one stack. */
static void use(const struct rig *rig, uint64_t file, uint64_t tenant)
{
    const struct binary binary = {.key.inode = file, .fd = rig->fd};
    assert_non_null(tables_get(rig->tables, &binary, 0, tenant));
    tables_release(rig->tables);
}

/* It is not opened again. */
static bool is_kept(const struct rig *rig, uint64_t file, uint64_t tenant)
{
    const struct binary binary = {.key.inode = file, .fd = -1};
    return tables_get(rig->tables, &binary, 0, tenant);
}

static void flood(const struct rig *rig)
{
    for (uint64_t i = 0; i < N_FLOOD; i++)
        use(rig, 1000 + i, FLOODER);
}

static void test_a_flood_evicts_its_own(void **state)
{
    const struct rig *rig = *state;
    int64_t before = stats_find("spanprof_unwind_tables_over_share_total", "");
    for (uint64_t i = 1; i <= N_VICTIM; i++)
        use(rig, i, VICTIM);
    flood(rig);
    for (uint64_t i = 1; i <= N_VICTIM; i++)
        assert_true(is_kept(rig, i, VICTIM));
    assert_true(is_kept(rig, 1000 + N_FLOOD - 1, FLOODER));
    assert_false(is_kept(rig, 1000, FLOODER));
    int64_t over = stats_find("spanprof_unwind_tables_over_share_total", "") - before;
    assert_in_range(over, N_FLOOD - TABLES_MAX, N_FLOOD - TABLES_MAX / 2);
}

/* Whoever brought it, and whoever used it last. */
static void test_a_file_of_both(void **state)
{
    const struct rig *rig = *state;
    use(rig, 1, FLOODER);
    use(rig, 2, FLOODER);
    use(rig, 1, VICTIM);
    use(rig, 1, FLOODER);
    flood(rig);
    assert_true(is_kept(rig, 1, VICTIM));
    assert_false(is_kept(rig, 2, FLOODER));
}

/* Tables that a stack has borrowed stay until they are given back. */
static void test_borrowed(void **state)
{
    const struct rig *rig = *state;
    flood(rig);
    const struct binary first = {.key.inode = 1, .fd = rig->fd};
    struct table *borrowed = tables_get(rig->tables, &first, 0, FLOODER);
    for (uint64_t i = 2; i <= TABLES_BORROWED_MAX; i++)
        assert_non_null(
            tables_get(rig->tables, &(struct binary){.key.inode = i, .fd = rig->fd}, 0, FLOODER));
    assert_ptr_equal(tables_get(rig->tables, &first, 0, FLOODER), borrowed);
    tables_release(rig->tables);
    assert_true(is_kept(rig, 1, FLOODER));
}

/* Files in memory count with their size: whose tables keep most of it loses them. */
static void test_copies(void **state)
{
    enum { MIB = 1 << 20, N = 20 };
    const struct rig *rig = *state;
    struct binary copy = {.fd = rig->fd, .is_copy = true, .key = {.inode = 1, .size = 10 * MIB}};
    assert_non_null(tables_get(rig->tables, &copy, 0, VICTIM));
    tables_release(rig->tables);
    for (copy.key.inode = 1000; copy.key.inode < 1000 + N; copy.key.inode++) {
        copy.key.size = 4 * MIB;
        assert_non_null(tables_get(rig->tables, &copy, 0, FLOODER));
        tables_release(rig->tables);
        int64_t bytes = stats_find("spanprof_unwind_table_bytes", "");
        assert_in_range(bytes, 10 * MIB, TABLES_BYTES_MAX);
    }
    const struct binary first = {.fd = -1, .key = {.inode = 1, .size = 10 * MIB}};
    assert_non_null(tables_get(rig->tables, &first, 0, VICTIM));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_flood_evicts_its_own),
        TEST(test_a_file_of_both),
        TEST(test_borrowed),
        TEST(test_copies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
