/* SPDX-License-Identifier: Apache-2.0 */
/* Asked for code of this process, the symbolizer tells what its perf map has of it. */
#include "agent-bpf/record_frame.h"
#include "agent-bpf/symbols/perf_maps.h"
#include "agent-bpf/record.h"
#include "test/support/rigs/symbolizer_rig.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

struct told {
    struct symbolizer_code code;
    struct symbolizer_code_range ranges[RECORD_MAX_USER_FRAMES];
    char names[RECORD_MAX_USER_FRAMES][SYMBOLIZER_NAME_BYTES + 1];
};

static struct told told;
static char path[64];

static void answered(struct rig *rig, const struct symbolizer_message *message)
{
    (void)rig;
    if (message->kind != SYMBOLIZER_CODE)
        return;
    told.code = message->code;
    for (uint32_t i = 0; i < told.code.n; i++) {
        told.ranges[i] = message->code.ranges[i];
        memcpy(told.names[i], told.ranges[i].function.data, told.ranges[i].function.len);
        told.names[i][told.ranges[i].function.len] = 0;
    }
}

static int set_up(void **state)
{
    struct rig *rig = calloc(1, sizeof(*rig));
    rig_open(rig);
    rig->answered = answered;
    rig_start(rig);
    snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
    *state = rig;
    return 0;
}

static int tear_down(void **state)
{
    unlink(path);
    rig_close(*state);
    free(*state);
    return 0;
}

static FILE *open_map(void)
{
    FILE *file = fopen(path, "ae");
    assert_non_null(file);
    return file;
}

static void ask(struct rig *rig, uint32_t pid, uint64_t *addresses, uint32_t n)
{
    static uint64_t ticket = 76;
    unsigned before = rig->answers[SYMBOLIZER_CODE];
    static struct record_frame frames[RECORD_MAX_USER_FRAMES];
    for (uint32_t i = 0; i < n; i++)
        frames[i] = record_frame_native(addresses[i], true);
    rig_send(rig, &(struct symbolizer_message){
                      .kind = SYMBOLIZER_CODE_WANTED,
                      .code_wanted = {.ticket = ++ticket, .pid = pid, .n = n, .frames = frames}});
    assert_true(rig_wait(rig, SYMBOLIZER_CODE, before + 1, 10000));
    assert_int_equal(told.code.ticket, ticket);
    assert_int_equal(told.code.pid, pid);
}

static void assert_range(uint32_t i, uint64_t start, uint64_t last, const char *name)
{
    assert_true(told.ranges[i].start == start && told.ranges[i].last == last);
    assert_string_equal(told.names[i], name);
}

static void test_named(void **state)
{
    FILE *file = open_map();
    fputs("100 10 JS:*hot app.js:1\n200 10 outer\n", file);
    fclose(file);
    uint64_t addresses[] = {0x108, 0x20f, 0x10f, 0x150, 0x1ff, 0x210};
    ask(*state, (uint32_t)getpid(), addresses, 6);
    assert_int_equal(told.code.map, CODE_MAP_READ);
    assert_int_equal(told.code.n, 4); /* each range once */
    assert_range(0, 0x100, 0x10f, "JS:*hot app.js:1");
    assert_range(1, 0x200, 0x20f, "outer");
    assert_range(2, 0x110, 0x1ff, "");
    assert_range(3, 0x210, UINT64_MAX, "");
    ask(*state, (uint32_t)getpid(), addresses, 0);
    assert_int_equal(told.code.n, 0);

    file = open_map(); /* compiled a moment ago */
    fputs("150 10 new\n", file);
    fclose(file);
    usleep(2 * PERF_MAPS_RETRY_NS / 1000);
    ask(*state, (uint32_t)getpid(), addresses + 3, 1);
    assert_int_equal(told.code.n, 1);
    assert_range(0, 0x150, 0x15f, "new");
}

static void test_nothing_named(void **state)
{
    uint64_t address = 0x100;
    ask(*state, (uint32_t)getpid(), &address, 1);
    assert_int_equal(told.code.map, CODE_MAP_NONE);
    assert_int_equal(told.code.n, 0);
    ask(*state, 1u << 30, &address, 1); /* nobody */
    assert_int_equal(told.code.map, CODE_MAP_NONE);
}

/* Long names, and as many as may be: what fits a datagram. */
static void test_largest(void **state)
{
    uint64_t addresses[RECORD_MAX_USER_FRAMES];
    FILE *file = open_map();
    for (unsigned i = 0; i < RECORD_MAX_USER_FRAMES; i++) {
        addresses[i] = 0x1000 + 0x10 * i;
        fprintf(file, "%x 8 %0600u\n", (unsigned)addresses[i], i);
    }
    fclose(file);
    ask(*state, (uint32_t)getpid(), addresses, RECORD_MAX_USER_FRAMES);
    assert_int_equal(told.code.map, CODE_MAP_READ);
    assert_in_range(told.code.n, 100, SYMBOLIZER_MESSAGE_MAX / SYMBOLIZER_NAME_BYTES);
    for (uint32_t i = 0; i < told.code.n; i++)
        assert_int_equal(told.ranges[i].function.len, SYMBOLIZER_NAME_BYTES);
    fclose(fopen(path, "we"));
    file = open_map();
    for (unsigned i = 0; i < RECORD_MAX_USER_FRAMES; i++)
        fprintf(file, "%x 8 %u\n", (unsigned)addresses[i], i);
    fclose(file);
    usleep(PERF_MAPS_AGE_NS / 1000);
    ask(*state, (uint32_t)getpid(), addresses, RECORD_MAX_USER_FRAMES);
    assert_int_equal(told.code.n, RECORD_MAX_USER_FRAMES);
    assert_string_equal(told.names[511], "511");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(test_named), TEST(test_nothing_named),
                                       TEST(test_largest)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
