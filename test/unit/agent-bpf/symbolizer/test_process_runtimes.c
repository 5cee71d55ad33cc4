/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a process's runtime is looked at again: its inspection finds the same files, but V8 has
 * mapped its builtins a second time meanwhile. And which names may be asked for again.
 */
#include "agent-bpf/symbolizer/process_runtimes.h"
#include "base/buf.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#define PID      1
#define START_NS 1
#define CODE     "00400000-00500000 r-xp 00000000 fe:00 7 /usr/bin/node\n"
#define DATA     "00600000-00700000 rw-p 00200000 fe:00 7 /usr/bin/node\n"
#define LIBRARY  "7f0000000000-7f0000100000 r-xp 00000000 fe:00 8 /usr/lib/libc.so.6\n"
#define SECOND   "7f0976500000-7f0976600000 r-xp 00100000 fe:00 7 /usr/bin/node\n"

static unsigned looks;
static int outcome;

static int look(struct runtime_constants *constants, uint64_t bias, struct runtime_memory *memory,
                struct runtime_process *entry, enum runtime_refusal *why)
{
    (void)constants, (void)bias, (void)memory, (void)entry, (void)why;
    looks++;
    return outcome;
}

static size_t bytes_wanted;
static useconds_t takes_us;

static int name(struct runtime_constants *constants, const struct runtime_process *entry,
                struct runtime_cache *cache, struct runtime_memory *memory,
                const struct record_frame *frames, size_t n, struct runtime_names *out)
{
    struct reader_range range = {.size = (uint32_t)bytes_wanted};
    (void)constants, (void)entry, (void)cache, (void)frames, (void)out;
    assert_int_equal(n, 1);
    usleep(takes_us);
    return memory->read(memory->context, &range, bytes_wanted != 0);
}

static const struct runtime_reader reader = {
    .runtime = RUNTIME_NODE, .kinds = 1 << FRAME_V8, .attach = look, .names = name};
static struct runtime_file file;
static struct symbolizer symbolizer;
static struct process_runtimes *kept;

/* How often the runtime was looked at. */
static unsigned inspect(const char *maps)
{
    unsigned before = looks;
    struct process_runtimes found = {0};
    const struct proc_map map = {.start = 0x400000, .inode = 7, .executable = true};
    process_runtimes_add(&found, &file, &map, 0);
    buf_clear(&symbolizer.maps);
    assert_int_equal(buf_append(&symbolizer.maps, maps, strlen(maps)), 0);
    process_runtimes_attach(&symbolizer, PID, START_NS, &found, &kept);
    process_runtimes_release(&found);
    assert_int_equal(kept->n, 1);
    return looks - before;
}

static int setup(void **state)
{
    (void)state;
    /* Of a static file; it has no section, so that nothing is entered in a map. */
    static uint8_t constants;
    file = (struct runtime_file){
        .refs = 1, .reader = &reader, .constants = (struct runtime_constants *)&constants};
    symbolizer.settings.runtimes_map_fd = 0;
    outcome = 0;
    return runtime_shares_open(&symbolizer.runtime_shares);
}

static int teardown(void **state)
{
    (void)state;
    process_runtimes_forget(&symbolizer, PID, &kept);
    assert_int_equal(file.refs, 1);
    buf_close(&symbolizer.maps);
    return 0;
}

static void test_code_is_mapped_again(void **state)
{
    (void)state;
    assert_int_equal(inspect(CODE DATA), 1);
    assert_int_equal(inspect(CODE DATA SECOND), 1);
    assert_int_equal(inspect(CODE DATA SECOND), 0);
}

static void test_nothing_new(void **state)
{
    (void)state;
    assert_int_equal(inspect(CODE), 1);
    assert_int_equal(inspect(CODE), 0);
    assert_int_equal(inspect(CODE DATA LIBRARY), 0);
}

static void test_not_ready(void **state)
{
    (void)state;
    outcome = -EAGAIN;
    assert_int_equal(inspect(CODE), 1);
    assert_int_equal(inspect(CODE), 1);
    outcome = 0;
    assert_int_equal(inspect(CODE), 1);
    assert_int_equal(inspect(CODE), 0);
}

/* A limit was reached. */
static bool is_cut(size_t wanted, useconds_t us)
{
    const struct record_frame frame = {{(uint64_t)FRAME_V8 << RECORD_FRAME_SHIFT}};
    struct runtime_name named;
    struct arena arena;
    bytes_wanted = wanted;
    takes_us = us;
    arena_init(&arena, 4096);
    bool cut = process_runtimes_name(&symbolizer, PID, kept, &frame, 1, &arena, &named);
    arena_close(&arena);
    return cut;
}

static void test_cut(void **state)
{
    (void)state;
    assert_int_equal(inspect(CODE), 1);
    for (unsigned i = 0; is_cut(0, 0); i++) /* a busy machine may take the time away */
        assert_true(i < 100);
    assert_true(is_cut(RUNTIME_REQUEST_BYTES + 1, 0));
    assert_true(is_cut(0, (useconds_t)(RUNTIME_REQUEST_NS / 1000) + 1000));
    assert_false(process_runtimes_name(&symbolizer, PID, NULL, NULL, 0, NULL, NULL));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(test_code_is_mapped_again), TEST(test_nothing_new),
                                       TEST(test_not_ready), TEST(test_cut)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
