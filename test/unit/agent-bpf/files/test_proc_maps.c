/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/files/proc_maps.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static const char maps[] =
    "400000-401000 r-xp 00001000 fe:00 77  /usr/bin/program\n"
    "500000-501000 r-xs 00000000 00:01 78  /memfd:vmem (deleted)\n" /* written elsewhere */
    "600000-601000 rw-s 00000000 00:01 78  /memfd:vmem (deleted)\n" /* here */
    "700000-701000 r-xp 00001000 00:01 79  /memfd:loaded (deleted)\n"
    "800000-801000 r-xs 00001000 fe:00 80  /usr/lib/shared\n"
    "900000-901000 r-xp 00000000 00:00 0 \n";

static void inodes(void **state)
{
    static const uint64_t expected[] = {77, 0, 78, 79, 80, 0};
    struct bytes rest = BYTES_STR(maps);
    struct proc_map map;
    (void)state;
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        assert_true(proc_maps_next(&rest, &map));
        assert_int_equal(map.start, 0x400000 + 0x100000 * i);
        assert_int_equal(map.inode, expected[i]);
    }
    assert_false(proc_maps_next(&rest, &map));
}

static void code_of_files(void **state)
{
    static const uint64_t expected[] = {77, 79, 80};
    struct bytes rest = BYTES_STR(maps);
    struct proc_map map = {0};
    (void)state;
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        assert_true(proc_maps_next_code(&rest, &map));
        assert_int_equal(map.inode, expected[i]);
    }
    assert_false(proc_maps_next_code(&rest, &map));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(inodes), cmocka_unit_test(code_of_files)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
