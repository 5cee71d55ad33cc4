/* SPDX-License-Identifier: Apache-2.0 */
/* A section compressed by zlib, read in any order, while what was decoded is forgotten. */
#include "agent-bpf/dwarf/dwarf_inflated.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>
#include <zlib.h>

#define SIZE   (5 * DWARF_SPAN_BYTES + 4711)
#define OFFSET 64 /* of the section in the file */
#define READS  400
#define READ   9000 /* at most */

struct section {
    uint8_t *plain;
    uint64_t len; /* compressed */
    int fd;
    struct dwarf_spans spans;
    struct dwarf_inflated *inflated;
};

/* Neither all alike nor without any likeness. */
static void fill(uint8_t *plain)
{
    uint32_t state = 1;
    for (size_t i = 0; i < SIZE; i++) {
        state = state * 1664525 + 1013904223;
        plain[i] = i > 40000 && state >> 31 ? plain[i - 30000 - (state >> 20 & 0xff)]
                                            : (uint8_t)(state >> 24);
    }
}

static void open_section(struct section *section, uint64_t len)
{
    section->inflated = dwarf_inflated_open(&section->spans, section->fd, OFFSET, len, SIZE);
    assert_non_null(section->inflated);
}

static int setup(void **state)
{
    static struct section section;
    uLongf len = compressBound(SIZE);
    uint8_t *compressed = malloc(len);
    section.plain = malloc(SIZE);
    fill(section.plain);
    assert_int_equal(compress(compressed, &len, section.plain, SIZE), Z_OK);
    section.len = len;
    section.fd = memfd_create("section", MFD_CLOEXEC);
    assert_int_equal(pwrite(section.fd, compressed, len, OFFSET), (ssize_t)len);
    free(compressed);
    list_init(&section.spans.recent);
    open_section(&section, len);
    *state = &section;
    return 0;
}

static int teardown(void **state)
{
    struct section *section = *state;
    dwarf_inflated_close(section->inflated);
    assert_int_equal(section->spans.n, 0);
    assert_true(list_empty(&section->spans.recent));
    close(section->fd);
    free(section->plain);
    return 0;
}

/* As much as the span has of it. */
static void assert_read(struct section *section, uint64_t at, size_t size)
{
    uint8_t bytes[READ];
    uint64_t left = SIZE - at, of_span = DWARF_SPAN_BYTES - at % DWARF_SPAN_BYTES;
    size_t n = dwarf_inflated_read(section->inflated, at, bytes, size);
    left = left < of_span ? left : of_span;
    assert_int_equal(n, left < size ? left : size);
    assert_memory_equal(bytes, section->plain + at, n);
}

static void test_any_order(void **state)
{
    struct section *section = *state;
    assert_read(section, SIZE - 1, 1); /* all of it is passed */
    for (unsigned i = 0; i < READS; i++) {
        assert_read(section, (uint64_t)rand() % SIZE, (size_t)rand() % READ);
        if (i % 7 == 0)
            dwarf_spans_trim(&section->spans, (size_t)rand() % 3);
    }
    assert_read(section, 0, 1);
    assert_int_equal(dwarf_inflated_read(section->inflated, SIZE, (uint8_t[1]){0}, 1), 0);
    assert_int_equal(dwarf_inflated_read(section->inflated, UINT64_MAX, (uint8_t[1]){0}, 1), 0);
}

/* What is read most is kept longest, and states are less than what they stand for. */
static void test_bounded(void **state)
{
    struct section *section = *state;
    for (uint64_t at = 0; at < SIZE; at += DWARF_SPAN_BYTES)
        assert_read(section, at, 1);
    assert_int_equal(section->spans.n, 6);
    assert_true(dwarf_inflated_bytes(section->inflated) < SIZE / 4);
    assert_read(section, 0, 1);
    dwarf_spans_trim(&section->spans, 1);
    assert_int_equal(section->spans.n, 1);
    assert_int_equal(ftruncate(section->fd, 0), 0);
    assert_read(section, 17, 1);
    assert_int_equal(dwarf_inflated_read(section->inflated, SIZE - 1, (uint8_t[1]){0}, 1), 0);
}

static void test_cut(void **state)
{
    struct section *section = *state;
    uint8_t bytes[16];
    dwarf_inflated_close(section->inflated);
    open_section(section, section->len / 2);
    assert_read(section, DWARF_SPAN_BYTES, sizeof(bytes));
    for (int i = 0; i < 2; i++)
        assert_int_equal(dwarf_inflated_read(section->inflated, SIZE - 16, bytes, 16), 0);
    assert_read(section, 0, sizeof(bytes));
}

static void test_damaged(void **state)
{
    struct section *section = *state;
    uint8_t bytes[16], damage[512];
    memset(damage, 0xff, sizeof(damage));
    assert_int_equal(
        pwrite(section->fd, damage, sizeof(damage), (off_t)(OFFSET + section->len / 2)),
        sizeof(damage));
    assert_int_equal(dwarf_inflated_read(section->inflated, SIZE - 16, bytes, 16), 0);
    assert_read(section, 0, sizeof(bytes));
    assert_int_equal(pwrite(section->fd, damage, sizeof(damage), OFFSET), sizeof(damage));
    dwarf_inflated_close(section->inflated);
    open_section(section, section->len);
    assert_int_equal(dwarf_inflated_read(section->inflated, 0, bytes, 16), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(test_any_order), TEST(test_bounded), TEST(test_cut),
                                       TEST(test_damaged)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
