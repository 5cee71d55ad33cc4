/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Labels, on the real kernel: this program lays out what the Go runtime and the custom-labels
 * library have in memory, right and wrong, and its samples carry exactly that.
 */
#include "contexts_fixture.h"

#define G_M      48
#define M_CURG   192
#define G_LABELS 344

struct text { /* Go's string */
    const void *data;
    uint64_t size;
};

struct go_slice {
    const void *data;
    uint64_t size, capacity;
};

struct go_map {
    uint64_t count;
    uint8_t flags, log2_buckets;
    uint16_t overflow;
    uint32_t seed;
    const void *buckets;
};

struct go_bucket {
    uint8_t tophash[8];
    struct text keys[8], values[8];
    void *overflow;
};

/* A thread on its M's g0: the labels are those of the goroutine that the M runs. */
struct go_thread {
    void *g0[128], *m[128], *goroutine[128];
    const void *map; /* the variable that labels point to in the map form */
};

static void go_thread_init(struct go_thread *thread, const void *labels)
{
    memset(thread, 0, sizeof(*thread));
    thread->g0[G_M / 8] = thread->m;
    thread->m[M_CURG / 8] = thread->goroutine;
    thread->goroutine[G_M / 8] = thread->m;
    thread->goroutine[G_LABELS / 8] = (void *)(uintptr_t)labels;
}

static void publish_go(struct fixture *fixture, uint8_t form)
{
    struct context_process process = {.count = 1};
    process.variables[0] = static_variable(CONTEXT_GO_LABELS, &current_context);
    process.variables[0].go_form = form;
    process.variables[0].go_g_m = G_M;
    process.variables[0].go_m_curg = M_CURG;
    process.variables[0].go_g_labels = G_LABELS;
    publish_reader(fixture, (uint32_t)getpid(), &process);
}

static struct text text(const char *string)
{
    return (struct text){string, strlen(string)};
}

static const char *const words[][2] = {
    {"endpoint", "/cart"},
    {"span_id", "0123456789abcdef"},
    {"tenant", ""},
    {"trace_id", "00112233445566778899aabbccddeeff"},
};
#define N_WORDS (sizeof(words) / sizeof(words[0]))

static struct expected expect_words(uint8_t source)
{
    struct expected expected = {.attributes_source = source};
    for (size_t i = 0; i < N_WORDS; i++)
        expect_label(&expected, words[i][0], strlen(words[i][0]), words[i][1], strlen(words[i][1]));
    return expected;
}

/* ---- Go, slices ---- */

static void test_go_slice(void **state)
{
    struct fixture fixture;
    struct go_thread thread;
    struct text labels[2 * N_WORDS];
    (void)state;
    setup_size(&fixture, 4 << 20);
    publish_go(&fixture, GO_LABELS_SLICE);
    for (size_t i = 0; i < 2 * N_WORDS; i++)
        labels[i] = text(words[i / 2][i % 2]);
    struct go_slice slice = {labels, N_WORDS, N_WORDS};
    struct expected expected = expect_words(CONTEXT_GO_LABELS);
    go_thread_init(&thread, &slice);
    check(&fixture, "on g0", thread.g0, NULL, &expected);
    check(&fixture, "on the goroutine itself", thread.goroutine, NULL, &expected);
    check(&fixture, "no g", NULL, NULL, &nothing);
    slice.size = 0;
    check(&fixture, "no labels in the set", thread.g0, NULL, &nothing);
    thread.goroutine[G_LABELS / 8] = NULL;
    check(&fixture, "no set", thread.g0, NULL, &nothing);
    thread.m[M_CURG / 8] = NULL;
    check(&fixture, "no goroutine", thread.g0, NULL, &nothing);
    thread.g0[G_M / 8] = NULL;
    check(&fixture, "no M", thread.g0, NULL, &nothing);
    teardown(&fixture);
}

#if defined(__aarch64__)
/* Without cgo no thread-local variable holds g: it is in a register, in user code and as the kernel
 * found it at a system call. */
static void hold_g_in_x28(struct burner *burner)
{
    for (int i = 0; i < 1000; i++)
        __asm__ volatile("mov x28, %0\n"
                         "mov x0, #2000\n"
                         "1: subs x0, x0, #1\n"
                         "b.ne 1b\n"
                         "mov x8, #172\n" /* getpid */
                         "svc #0\n"
                         :
                         : "r"(burner->second)
                         : "x28", "x0", "x8", "cc", "memory");
}

static void test_go_register(void **state)
{
    struct fixture fixture;
    struct go_thread thread;
    struct text labels[2] = {text("k"), text("v")};
    struct go_slice slice = {labels, 1, 1};
    struct expected expected = {.attributes_source = CONTEXT_GO_LABELS};
    (void)state;
    setup_size(&fixture, 4 << 20);
    publish_go(&fixture, GO_LABELS_SLICE);
    go_thread_init(&thread, &slice);
    expect_label(&expected, "k", 1, "v", 1);
    struct burner burner = {.second = thread.g0, .cpu = -1, .step = hold_g_in_x28};
    burner_start(&burner);
    struct verdict verdict = {.expected = &expected, .tid = burner.tid};
    for (int i = 0; i < 40 && verdict.samples < 100; i++)
        drain_for(&fixture, judge_context, &verdict, 50);
    burner_stop(&burner);
    tell_other(&verdict); /* of those that were taken elsewhere */
    assert_true(verdict.exact > 20);
    assert_true(verdict.exact * 10 > verdict.samples * 8);
    teardown(&fixture);
}
#endif

static void test_go_pointers_that_lead_nowhere(void **state)
{
    struct fixture fixture;
    struct go_thread thread;
    struct text labels[2] = {text("a"), text("b")};
    struct go_slice slice = {labels, 1, 1};
    (void)state;
    setup_size(&fixture, 4 << 20);
    publish_go(&fixture, GO_LABELS_SLICE);
    go_thread_init(&thread, &slice);
    check(&fixture, "wild g", (void *)0xdeadbeef000, NULL, &torn);
    thread.goroutine[G_M / 8] = thread.g0;
    check(&fixture, "a goroutine of another M", thread.g0, NULL, &torn);
    go_thread_init(&thread, (void *)UINT64_MAX);
    check(&fixture, "wild labels", thread.g0, NULL, &torn);
    go_thread_init(&thread, &slice);
    slice.size = 2;
    check(&fixture, "more than its capacity", thread.g0, NULL, &torn);
    slice = (struct go_slice){(void *)4096, 1, 1};
    check(&fixture, "wild array", thread.g0, NULL, &torn);
    slice = (struct go_slice){labels, UINT32_MAX, UINT64_MAX};
    char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_int_equal(munmap(pages + 4096, 4096), 0);
    struct text *last = (void *)(pages + 4096 - 64);
    slice.data = last;
    struct expected cut = {.torn = true, .cut = true};
    check(&fixture, "4 G labels, 2 of which are there", thread.g0, NULL, &cut);
    last[0] = (struct text){pages + 4090, UINT32_MAX};
    last[1] = text("value");
    last[2] = text("key");
    last[3] = (struct text){(void *)8, 3};
    slice.size = 2;
    check(&fixture, "neither label can be read", thread.g0, NULL, &cut);
    last[3] = text("value");
    struct expected one = {.attributes_source = CONTEXT_GO_LABELS, .cut = true};
    expect_label(&one, "key", 3, "value", 5);
    check(&fixture, "one of two can be read", thread.g0, NULL, &one);
    publish_go(&fixture, 77);
    check(&fixture, "a form that is not known", thread.g0, NULL, &nothing);
    munmap(pages, 4096);
    teardown(&fixture);
}

static void test_labels_beyond_the_limits(void **state)
{
    struct fixture fixture;
    struct go_thread thread;
    struct text labels[2 * 40];
    static char big[300];
    (void)state;
    setup_size(&fixture, 4 << 20);
    publish_go(&fixture, GO_LABELS_SLICE);
    memset(big, 'x', sizeof(big));
    struct go_slice slice = {labels, 1, 40};
    go_thread_init(&thread, &slice);

    struct expected expected = {.attributes_source = CONTEXT_GO_LABELS};
    labels[0] = labels[1] = (struct text){big, sizeof(big)};
    expect_label(&expected, big, CONTEXT_LABEL_MAX, big, CONTEXT_LABEL_MAX);
    check(&fixture, "longer than a label may be", thread.g0, NULL, &expected);

    for (int i = 0; i < 80; i++)
        labels[i] = text(i % 2 ? "v" : "k");
    expected = (struct expected){.attributes_source = CONTEXT_GO_LABELS, .cut = true};
    for (int i = 0; i < 32; i++)
        expect_label(&expected, "k", 1, "v", 1);
    slice.size = 40;
    check(&fixture, "more than are read", thread.g0, NULL, &expected);

    expected = (struct expected){.attributes_source = CONTEXT_GO_LABELS, .cut = true};
    for (int i = 0; i < 8; i++)
        labels[i] = (struct text){big, CONTEXT_LABEL_MAX};
    for (int i = 0; i < 4; i++)
        expect_label(&expected, big, CONTEXT_LABEL_MAX, big, CONTEXT_LABEL_MAX);
    assert_int_equal(expected.size, RECORD_MAX_ATTRIBUTES);
    slice.size = 5;
    check(&fixture, "full to the last byte", thread.g0, NULL, &expected);

    labels[1].size =
        CONTEXT_LABEL_MAX - 12; /* the fifth has no room, a shorter one behind it has */
    labels[8] = labels[9] = labels[2];
    labels[10] = text("trace_id");
    labels[11] = text("0");
    slice.size = 6;
    expected.size = 0;
    for (int i = 0; i < 4; i++)
        expect_label(&expected, big, CONTEXT_LABEL_MAX, big, labels[2 * i + 1].size);
    expect_label(&expected, "trace_id", 8, "0", 1);
    check(&fixture, "ids behind a label without room", thread.g0, NULL, &expected);
    teardown(&fixture);
}

/* ---- Go, maps ---- */

static void put(struct go_bucket *bucket, int slot, uint8_t hash, const char *const word[2])
{
    bucket->tophash[slot] = hash;
    bucket->keys[slot] = text(word[0]);
    bucket->values[slot] = text(word[1]);
}

static void test_go_map(void **state)
{
    struct fixture fixture;
    struct go_thread thread;
    static struct go_bucket buckets[32];
    struct go_map map = {.count = N_WORDS, .buckets = buckets};
    const char *const gone[2] = {"gone", "gone"};
    (void)state;
    setup_size(&fixture, 4 << 20);
    publish_go(&fixture, GO_LABELS_MAP);
    go_thread_init(&thread, &thread.map);
    check(&fixture, "no map", thread.g0, NULL, &nothing);
    thread.map = &map;
    for (int i = 0; i < (int)N_WORDS; i++) {
        put(&buckets[0], 2 * i, (uint8_t)(5 + i), words[i]);
        put(&buckets[0], 2 * i + 1, (uint8_t)i, gone); /* 0..4: no slot in use */
    }
    struct expected expected = expect_words(CONTEXT_GO_LABELS);
    check(&fixture, "one bucket", thread.g0, NULL, &expected);
    memset(buckets, 0, sizeof(buckets));
    for (int i = 0; i < (int)N_WORDS; i++)
        put(&buckets[5 * i], i, 255, words[i]);
    map.log2_buckets = 4;
    check(&fixture, "16 buckets", thread.g0, NULL, &expected);
    map.log2_buckets = 3; /* two of them beyond */
    struct expected half = {.attributes_source = CONTEXT_GO_LABELS, .cut = true};
    for (size_t i = 0; i < 2; i++)
        expect_label(&half, words[i][0], strlen(words[i][0]), words[i][1], strlen(words[i][1]));
    check(&fixture, "8 buckets", thread.g0, NULL, &half);
    map.log2_buckets = 255;
    map.count = UINT64_MAX;
    expected.cut = true;
    check(&fixture, "2^255 buckets", thread.g0, NULL, &expected);
    map.buckets = (void *)0xffffffff81000000;
    struct expected cut = {.torn = true, .cut = true};
    check(&fixture, "wild buckets", thread.g0, NULL, &cut);
    map.count = 0;
    check(&fixture, "empty", thread.g0, NULL, &nothing);
    thread.map = (void *)1;
    check(&fixture, "wild map", thread.g0, NULL, &torn);
    teardown(&fixture);
}

/* ---- custom labels ---- */

static void test_custom_labels(void **state)
{
    struct fixture fixture;
    struct custom_label labels[40];
    struct custom_set set = {.storage = labels, .count = N_WORDS + 1, .capacity = 40};
    (void)state;
    setup_size(&fixture, 4 << 20);
    publish_source(&fixture, CONTEXT_CUSTOM_LABELS);
    memset(labels, 0, sizeof(labels));
    for (size_t i = 0; i < N_WORDS; i++)
        labels[i < 2 ? i : i + 1] = (struct custom_label){strlen(words[i][0]), words[i][0],
                                                          strlen(words[i][1]), words[i][1]};
    labels[2] = (struct custom_label){.key_size = 7, .value_size = 7, .value = "deleted"};
    struct expected expected = expect_words(CONTEXT_CUSTOM_LABELS);
    check(&fixture, "a set", &set, NULL, &expected);
    check(&fixture, "no set", NULL, NULL, &nothing);
    set.count = 0;
    check(&fixture, "an empty set", &set, NULL, &nothing);
    set.count = UINT64_MAX;
    expected.cut = true;
    check(&fixture, "2^64 labels", &set, NULL, &expected);
    set.storage = (void *)0xdeadbeefdeadbeef;
    struct expected cut = {.torn = true, .cut = true};
    check(&fixture, "wild storage", &set, NULL, &cut);
    check(&fixture, "wild set", (void *)0xdeadbeef000, NULL, &torn);
    labels[0].value_size = UINT64_MAX;
    labels[0].value = (void *)UINT64_MAX;
    set = (struct custom_set){.storage = labels, .count = 2};
    expected = (struct expected){.attributes_source = CONTEXT_CUSTOM_LABELS, .cut = true};
    expect_label(&expected, words[1][0], strlen(words[1][0]), words[1][1], strlen(words[1][1]));
    check(&fixture, "a wild value", &set, NULL, &expected);
    sampler_count(fixture.sampler);
    assert_true(stats_find("spanprof_sample_contexts_total", "outcome=\"labels\"") > 0);
    assert_true(stats_find("spanprof_sample_labels_cut_total", "") > 0);
    teardown(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_go_slice),
#if defined(__aarch64__)
        cmocka_unit_test(test_go_register),
#endif
        cmocka_unit_test(test_go_pointers_that_lead_nowhere),
        cmocka_unit_test(test_labels_beyond_the_limits),
        cmocka_unit_test(test_go_map),
        cmocka_unit_test(test_custom_labels),
    };
    if (!bpf_test_possible())
        return BPF_TEST_SKIP;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
