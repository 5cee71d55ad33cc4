/* SPDX-License-Identifier: Apache-2.0 */
/* The small forms of the store: blobs, sets of rowids, samples in a batch. */
#include "store/db/blob.h"
#include "store/db/id_set.h"
#include "store/join/sample.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

static void test_numbers(void **state)
{
    static const uint64_t numbers[] = {0, 1, 127, 128, 300, UINT32_MAX, INT64_MAX, UINT64_MAX};
    static const int64_t signs[] = {0, -1, 1, -64, 64, INT64_MIN, INT64_MAX};
    struct blob_writer out _cleanup_blob_ = {0};
    (void)state;
    for (size_t i = 0; i < 8; i++)
        blob_put_number(&out, numbers[i]);
    for (size_t i = 0; i < 7; i++)
        blob_put_signed(&out, signs[i]);
    blob_put_bytes(&out, BYTES_LIT("text"));
    assert_int_equal(out.error, 0);
    struct blob_reader in = {.left = buf_bytes(&out.buf)};
    for (size_t i = 0; i < 8; i++)
        assert_true(blob_get_number(&in) == numbers[i]);
    for (size_t i = 0; i < 7; i++)
        assert_true(blob_get_signed(&in) == signs[i]);
    assert_true(bytes_is(blob_get_bytes(&in), "text"));
    assert_false(in.bad);
    assert_int_equal(in.left.len, 0);
    assert_int_equal(blob_get_number(&in), 0);
    assert_true(in.bad);
}

/* What is cut short or too long is bad, and stays so. */
static void test_bad(void **state)
{
    static const uint8_t endless[12] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                                        0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    static const uint8_t beyond[] = {5, 'a', 'b'};
    uint8_t fixed[8];
    (void)state;
    struct blob_reader in = {.left = BYTES(endless, sizeof(endless))};
    blob_get_number(&in);
    assert_true(in.bad);
    in = (struct blob_reader){.left = BYTES(beyond, sizeof(beyond))};
    assert_int_equal(blob_get_bytes(&in).len, 0);
    assert_true(in.bad);
    assert_int_equal(blob_get_bytes(&in).len, 0);
    in = (struct blob_reader){.left = BYTES(beyond, sizeof(beyond))};
    blob_get_fixed(&in, fixed, sizeof(fixed));
    assert_true(in.bad);
    assert_true(bytes_zero(fixed, sizeof(fixed)));
    in = (struct blob_reader){.left = BYTES(endless, 9)};
    blob_get_number32(&in);
    assert_true(in.bad);
}

static void test_id_set(void **state)
{
    struct id_set set = {0};
    (void)state;
    assert_false(id_set_has(&set, 1));
    for (int64_t i = 0; i < 100000; i++)
        assert_int_equal(id_set_add(&set, (i * 7919) % 1000), 0);
    id_set_seal(&set);
    assert_int_equal(set.count, 1000);
    assert_true(set.cap <= 4096); /* repeated ids take no room */
    for (int64_t i = 0; i < 1000; i++)
        assert_true(id_set_has(&set, i));
    assert_false(id_set_has(&set, 1000));
    assert_false(id_set_has(&set, -1));
    id_set_close(&set);
    id_set_close(&set);
}

static struct sample random_sample(void)
{
    static const uint8_t attributes[] = {0x4a, 2, 'a', 'b'};
    struct sample sample = {
        .time_unix_ns = (uint64_t)random() * (uint64_t)random(),
        .value_ns = (uint64_t)random(),
        .period_ns = random() % 2 ? 10309278 : (uint64_t)random(),
        .stack = random(),
        .process = random() % 3,
        .cpu = (uint32_t)random(),
        .tid = (uint32_t)random() % 3,
        .kind = (uint8_t)(1 + random() % 3),
        .state = (uint8_t)(random() % 2),
        .context_source = (uint8_t)(random() % 6),
        .trace_flags = (uint8_t)random(),
        .flags_trusted = random() % 2,
    };
    if (random() % 2)
        sample.value_ns = sample.period_ns;
    if (random() % 2)
        memset(sample.trace_id, 7, 16);
    if (random() % 2)
        memset(sample.span_id, 8, 8);
    if (random() % 2)
        memset(sample.local_root_id, 9, 8);
    if (random() % 2)
        memcpy(sample.comm, "sixteen letters!", 16);
    if (random() % 2)
        sample.attributes = BYTES(attributes, 4);
    return sample;
}

static void assert_same(const struct sample *a, const struct sample *b)
{
    struct sample x = *a, y = *b;
    assert_true(bytes_equal(x.attributes, y.attributes));
    x.attributes = y.attributes = BYTES(NULL, 0);
    assert_true(x.time_unix_ns == y.time_unix_ns && x.value_ns == y.value_ns &&
                x.period_ns == y.period_ns && x.stack == y.stack && x.process == y.process &&
                x.cpu == y.cpu && x.tid == y.tid && x.kind == y.kind && x.state == y.state &&
                x.context_source == y.context_source && x.trace_flags == y.trace_flags &&
                x.flags_trusted == y.flags_trusted);
    assert_memory_equal(x.trace_id, y.trace_id, 16);
    assert_memory_equal(x.span_id, y.span_id, 8);
    assert_memory_equal(x.local_root_id, y.local_root_id, 8);
    assert_memory_equal(x.comm, y.comm, SAMPLE_COMM);
}

enum { N_SAMPLES = 2000 };

static void test_samples(void **state)
{
    static struct sample samples[N_SAMPLES];
    struct blob_writer out _cleanup_blob_ = {0};
    struct sample previous = {0}, sample;
    (void)state;
    srandom(1);
    for (int i = 0; i < N_SAMPLES; i++) {
        samples[i] = random_sample();
        sample_encode(&out, &samples[i], &previous);
        previous = samples[i];
    }
    previous = (struct sample){0};
    struct blob_reader in = {.left = buf_bytes(&out.buf)};
    for (int i = 0; i < N_SAMPLES; i++) {
        assert_true(sample_decode(&in, &sample, &previous));
        assert_same(&sample, &samples[i]);
        previous = sample;
    }
    assert_int_equal(in.left.len, 0);
    assert_false(sample_decode(&in, &sample, &previous));
    for (size_t len = 0; len < 200; len++) { /* cut anywhere: says so, at the latest at the end */
        in = (struct blob_reader){.left = {out.buf.data, len}};
        previous = (struct sample){0};
        while (in.left.len && sample_decode(&in, &sample, &previous))
            previous = sample;
    }
}

/* Of each length, with nothing behind it or much. */
static void test_number_lengths(void **state)
{
    (void)state;
    for (unsigned bit = 0; bit < 64; bit++)
        for (int less = 0; less < 2; less++)
            for (size_t behind = 0; behind < 12; behind++) {
                struct blob_writer out _cleanup_blob_ = {0};
                uint64_t number = (UINT64_C(1) << bit) - (uint64_t)less;
                blob_put_number(&out, number);
                size_t len = out.buf.len;
                for (size_t i = 0; i < behind; i++)
                    blob_put_fixed(&out, "\xff", 1);
                struct blob_reader in = {.left = buf_bytes(&out.buf)};
                assert_true(blob_get_number(&in) == number);
                assert_int_equal(in.left.len, out.buf.len - len);
                assert_false(in.bad);
            }
    struct blob_reader padded = {.left = BYTES_LIT("\x81\x80\x00 and more")};
    assert_int_equal(blob_get_number(&padded), 1);
    assert_int_equal(padded.left.len, 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers), cmocka_unit_test(test_number_lengths),
        cmocka_unit_test(test_bad),     cmocka_unit_test(test_id_set),
        cmocka_unit_test(test_samples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
