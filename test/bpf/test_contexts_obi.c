/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OBI's map, pinned as OBI pins it, in a BPF file system of this test's own: it comes later, is
 * replaced, is something else, and goes.
 */
#include "contexts_fixture.h"
#include "agent-bpf/sampler/obi_map.h"
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>

#define PIN  "otel/traces_ctx_v1" /* below the working directory, a BPF file system */
#define FIFO "../fifo"

static char directory[] = "/tmp/spanprof-test-XXXXXX";

struct obi_value {
    uint8_t trace_id[16], span_id[8];
};

static bool enter_own_bpffs(void)
{
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return false;
    return mkdtemp(directory) && chdir(directory) == 0 && mkdir("bpf", 0700) == 0 &&
           mount("bpf", "bpf", "bpf", 0, NULL) == 0 && chdir("bpf") == 0;
}

static void leave_own_bpffs(void)
{
    (void)!chdir(directory);
    (void)umount2("bpf", MNT_DETACH);
    (void)rmdir("bpf");
    (void)rmdir(directory);
}

static void setup_obi(struct fixture *fixture)
{
    setup_with(fixture, &(struct sampler_settings){
                            .frequency_hz = FREQUENCY, .ring_size_bytes = 4 << 20, .obi_map = PIN});
}

static int pin_map(enum bpf_map_type type, uint32_t value_size)
{
    int fd = bpf_map_create(type, "traces_ctx_v1", 8, value_size, 16384, NULL);
    assert_true(fd >= 0);
    assert_true(mkdir("otel", 01700) == 0 || errno == EEXIST);
    assert_int_equal(bpf_obj_pin(fd, PIN), 0);
    return fd;
}

static void unpin_map(int fd)
{
    assert_int_equal(unlink(PIN), 0);
    close(fd);
}

static struct obi_value some_obi(uint8_t seed)
{
    struct obi_value value;
    memset(value.trace_id, seed, sizeof(value.trace_id));
    memset(value.span_id, seed + 1, sizeof(value.span_id));
    return value;
}

static struct expected expect_obi(const struct obi_value *value)
{
    struct expected expected = {.source = CONTEXT_OBI};
    memcpy(expected.trace_id, value->trace_id, 16);
    memcpy(expected.span_id, value->span_id, 8);
    return expected;
}

/* The number of a thread in the root namespace is what the samples say. */
struct numbers {
    uint32_t tid, root_tid, root_pid;
};

static void judge_numbers(void *context, const struct record_header *record)
{
    struct numbers *numbers = context;
    if (record->pid != (uint32_t)getpid() || record->tid != numbers->tid)
        return;
    numbers->root_tid = record->root_tid;
    numbers->root_pid = record->root_pid;
}

/* As check(), of a thread of which OBI's map (if any) says `value`. */
static void check_obi(struct fixture *fixture, const char *what, int map,
                      const struct obi_value *value, void *own, const struct expected *expected)
{
    struct burner burner = {.context = own, .cpu = -1};
    burner_start(&burner);
    struct numbers numbers = {.tid = burner.tid};
    for (int i = 0; i < 100 && !numbers.root_tid; i++)
        drain_for(fixture, judge_numbers, &numbers, 25);
    uint64_t key = (uint64_t)numbers.root_pid << 32 | numbers.root_tid;
    if (map >= 0)
        assert_int_equal(bpf_map_update_elem(map, &key, value, BPF_ANY), 0);
    drain_for(fixture, judge_numbers, &numbers, 1); /* from before that */
    struct verdict verdict = {.expected = expected, .tid = burner.tid};
    for (int i = 0; i < 40 && verdict.samples < 40; i++)
        drain_for(fixture, judge_context, &verdict, 50);
    burner_stop(&burner);
    if (verdict.samples >= 20 && verdict.exact == verdict.samples)
        return;
    tell_other(&verdict);
    fail_msg("%s", what);
}

static void expect_attached(struct fixture *fixture, int64_t attached)
{
    sampler_obi_poll(fixture->sampler);
    assert_int_equal(stats_find("spanprof_obi_map_attached", ""), attached);
}

static void test_the_map_comes_and_goes(void **state)
{
    struct fixture fixture;
    struct obi_value first = some_obi(0x31), second = some_obi(0x41), half = some_obi(0x51);
    struct expected of_first = expect_obi(&first), of_second = expect_obi(&second);
    (void)state;
    setup_obi(&fixture);
    expect_attached(&fixture, 0);
    check_obi(&fixture, "no map", -1, NULL, NULL, &nothing);
    int map = pin_map(BPF_MAP_TYPE_LRU_HASH, OBI_MAP_VALUE_SIZE);
    expect_attached(&fixture, 1);
    check_obi(&fixture, "pinned after us", map, &first, NULL, &of_first);
    memset(half.span_id, 0, sizeof(half.span_id));
    check_obi(&fixture, "a trace without a span", map, &half, NULL, &nothing);
    expect_attached(&fixture, 1);

    unpin_map(map);
    map = pin_map(BPF_MAP_TYPE_LRU_HASH, OBI_MAP_VALUE_SIZE);
    expect_attached(&fixture, 1);
    check_obi(&fixture, "replaced", map, &second, NULL, &of_second);
    teardown(&fixture);

    setup_obi(&fixture);
    expect_attached(&fixture, 1);
    check_obi(&fixture, "pinned before us", map, &first, NULL, &of_first);
    assert_int_equal(unlink(PIN), 0);
    expect_attached(&fixture, 0);
    check_obi(&fixture, "no longer pinned", map, &first, NULL, &nothing);
    close(map);
    teardown(&fixture);
}

static void test_other_things_at_its_place(void **state)
{
    struct fixture fixture;
    (void)state;
    setup_obi(&fixture);
    for (int i = 0; i < 3; i++) {
        int map = pin_map(i == 0 ? BPF_MAP_TYPE_HASH : BPF_MAP_TYPE_LRU_HASH,
                          i == 1 ? OBI_MAP_VALUE_SIZE + 8 : OBI_MAP_VALUE_SIZE);
        expect_attached(&fixture, i == 2);
        expect_attached(&fixture, i == 2);
        unpin_map(map);
    }
    expect_attached(&fixture, 0);
    assert_int_equal(mkdir(PIN, 0700), 0);
    expect_attached(&fixture, 0);
    assert_int_equal(rmdir(PIN), 0);
    teardown(&fixture);
}

static void test_a_pipe_at_its_place_does_not_block(void **state)
{
    struct fixture fixture;
    char why[SAMPLER_DIAGNOSIS_MAX];
    struct sampler_settings settings = {
        .frequency_hz = FREQUENCY, .ring_size_bytes = 1 << 20, .obi_map = FIFO};
    (void)state;
    assert_true(mkfifo(FIFO, 0600) == 0);
    assert_int_equal(sampler_open(&settings, &fixture.sampler, why, sizeof(why)), 0);
    uint64_t before = clock_monotonic_ns();
    expect_attached(&fixture, 0);
    assert_true(clock_monotonic_ns() - before < 5 * NS_PER_SEC);
    sampler_close(fixture.sampler);
    assert_int_equal(unlink(FIFO), 0);
}

/* What the process itself says comes first; labels stay beside OBI's ids. */
static void test_after_the_process_itself(void **state)
{
    struct fixture fixture;
    struct obi_value value = some_obi(0x61);
    struct published otel = some_context(0x70);
    static const struct custom_label label[] = {{3, "key", 5, "value"}};
    struct custom_set set = {.storage = label, .count = 1};
    struct expected own = {.source = CONTEXT_OTEL_THREAD, .trace_flags = otel.flags};
    struct expected of_obi = expect_obi(&value), both = of_obi;
    (void)state;
    setup_obi(&fixture);
    int map = pin_map(BPF_MAP_TYPE_LRU_HASH, OBI_MAP_VALUE_SIZE);
    expect_attached(&fixture, 1);
    publish_source(&fixture, CONTEXT_OTEL_THREAD);
    otel.attributes_size = 0;
    memcpy(own.trace_id, otel.trace_id, 16);
    memcpy(own.span_id, otel.span_id, 8);
    check_obi(&fixture, "its own ids", map, &value, &otel, &own);
    check_obi(&fixture, "OBI's where it has none", map, &value, NULL, &of_obi);
    otel.valid = 0;
    of_obi.torn = true;
    check_obi(&fixture, "OBI's where its own are torn", map, &value, &otel, &of_obi);
    publish_source(&fixture, CONTEXT_CUSTOM_LABELS);
    both.attributes_source = CONTEXT_CUSTOM_LABELS;
    expect_label(&both, "key", 3, "value", 5);
    check_obi(&fixture, "labels and OBI's ids", map, &value, &set, &both);
    unpin_map(map);
    teardown(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_map_comes_and_goes),
        cmocka_unit_test(test_other_things_at_its_place),
        cmocka_unit_test(test_a_pipe_at_its_place_does_not_block),
        cmocka_unit_test(test_after_the_process_itself),
    };
    if (!bpf_test_possible())
        return BPF_TEST_SKIP;
    if (!enter_own_bpffs()) {
        printf("skipped: no BPF file system can be mounted: %s\n", strerror(errno));
        leave_own_bpffs();
        return BPF_TEST_SKIP;
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    leave_own_bpffs();
    return failed;
}
