/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/codec.h"
#include "test/support/faults/fail_alloc.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <zstd.h>
#include <zlib.h>
#include <cmocka.h>

enum { MANY = 300000 };

static void fill(struct buf *out, size_t size)
{
    uint32_t x = 1;
    for (size_t i = 0; i < size; i++) {
        uint8_t byte = (uint8_t)((x = x * 1664525 + 1013904223) >> 28);
        assert_int_equal(buf_append(out, &byte, 1), 0);
    }
}

static void zstd(struct bytes in, struct buf *out)
{
    assert_int_equal(codec_zstd(in, out), 0);
}

static void gzip(struct bytes in, struct buf *out)
{
    assert_int_equal(codec_gzip(in, out), 0);
}

static void deflate_with(int window, struct bytes in, struct buf *out)
{
    z_stream stream = {.next_in = (Bytef *)(uintptr_t)in.data, .avail_in = (uInt)in.len};
    assert_int_equal(deflateInit2(&stream, 6, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(buf_reserve(out, deflateBound(&stream, in.len)), 0);
    stream.next_out = out->data + out->len;
    stream.avail_out = (uInt)(out->cap - out->len);
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    out->len += stream.total_out;
    deflateEnd(&stream);
}

static void zlib(struct bytes in, struct buf *out)
{
    deflate_with(15, in, out);
}

static void raw_deflate(struct bytes in, struct buf *out)
{
    deflate_with(-15, in, out);
}

typedef int (*inflate_fn)(struct bytes in, size_t max_bytes, struct buf *out);
static const struct {
    void (*deflate)(struct bytes in, struct buf *out);
    inflate_fn inflate;
} codecs[] = {{gzip, codec_inflate_gzip},
              {zstd, codec_inflate_zstd},
              {zlib, codec_inflate_deflate},
              {raw_deflate, codec_inflate_deflate}};

#define EACH_CODEC(i) for (size_t i = 0; i < sizeof(codecs) / sizeof(codecs[0]); i++)

static void test_round_trip(void **state)
{
    static const size_t sizes[] = {0, 1, 4095, 4096, 4097, 70000, MANY};
    (void)state;
    EACH_CODEC(c)
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        _cleanup_buf_ struct buf plain = BUF_INIT(0), packed = BUF_INIT(0), out = BUF_INIT(0);
        fill(&plain, sizes[i]);
        codecs[c].deflate(buf_bytes(&plain), &packed);
        assert_int_equal(buf_append(&out, "before", 6), 0);
        assert_int_equal(codecs[c].inflate(buf_bytes(&packed), sizes[i], &out), CODEC_OK);
        assert_int_equal(out.len, sizes[i] + 6);
        assert_memory_equal(out.data, "before", 6);
        if (sizes[i])
            assert_memory_equal(out.data + 6, plain.data, sizes[i]);
    }
}

/* One byte below the size is too big, and out is what it was; a bomb does not cost more than the
 * cap. */
static void test_cap(void **state)
{
    (void)state;
    EACH_CODEC(c)
    {
        _cleanup_buf_ struct buf plain = BUF_INIT(0), packed = BUF_INIT(0), out = BUF_INIT(0);
        fill(&plain, 50000);
        codecs[c].deflate(buf_bytes(&plain), &packed);
        assert_int_equal(buf_append(&out, "x", 1), 0);
        assert_int_equal(codecs[c].inflate(buf_bytes(&packed), 49999, &out), CODEC_TOO_BIG);
        assert_int_equal(out.len, 1);
        assert_int_equal(codecs[c].inflate(buf_bytes(&packed), 0, &out), CODEC_TOO_BIG);
        out.limit_bytes = 1000;
        assert_int_equal(codecs[c].inflate(buf_bytes(&packed), 60000, &out), CODEC_TOO_BIG);
        assert_int_equal(out.len, 1);
    }
}

static void test_bomb(void **state)
{
    (void)state;
    EACH_CODEC(c)
    {
        _cleanup_buf_ struct buf plain = BUF_INIT(0), packed = BUF_INIT(0), out = BUF_INIT(0);
        assert_int_equal(buf_reserve(&plain, 64 << 20), 0);
        memset(plain.data, 0, 64 << 20);
        plain.len = 64 << 20;
        codecs[c].deflate(buf_bytes(&plain), &packed);
        assert_true(packed.len < 500000);
        assert_int_equal(codecs[c].inflate(buf_bytes(&packed), 1 << 20, &out), CODEC_TOO_BIG);
        assert_int_equal(out.len, 0);
        assert_true(out.cap <= 4 << 20);
    }
}

static void test_members_are_joined(void **state)
{
    (void)state;
    EACH_CODEC(c)
    {
        _cleanup_buf_ struct buf packed = BUF_INIT(0), out = BUF_INIT(0);
        codecs[c].deflate(BYTES_LIT("one,"), &packed);
        codecs[c].deflate(BYTES_LIT(""), &packed);
        codecs[c].deflate(BYTES_LIT("two"), &packed);
        if (codecs[c].inflate == codec_inflate_deflate) { /* which is one stream */
            assert_int_equal(codecs[c].inflate(buf_bytes(&packed), 7, &out), CODEC_MALFORMED);
            continue;
        }
        assert_int_equal(codecs[c].inflate(buf_bytes(&packed), 7, &out), CODEC_OK);
        assert_true(bytes_is(buf_bytes(&out), "one,two"));
        /* the cap is for all members together */
        assert_int_equal(codecs[c].inflate(buf_bytes(&packed), 6, &out), CODEC_TOO_BIG);
    }
}

/* Each cut is malformed, and so is each garbage at the end. */
static void test_malformed(void **state)
{
    (void)state;
    EACH_CODEC(c)
    {
        _cleanup_buf_ struct buf plain = BUF_INIT(0), packed = BUF_INIT(0), out = BUF_INIT(0);
        fill(&plain, 500);
        codecs[c].deflate(buf_bytes(&plain), &packed);
        for (size_t n = 0; n < packed.len; n++)
            assert_int_equal(codecs[c].inflate(BYTES(packed.data, n), 1000, &out), CODEC_MALFORMED);
        assert_int_equal(out.len, 0);
        assert_int_equal(buf_append(&packed, "trailing", 8), 0);
        assert_int_equal(codecs[c].inflate(buf_bytes(&packed), 1000, &out), CODEC_MALFORMED);
        assert_int_equal(codecs[c].inflate(BYTES_LIT("not compressed at all"), 1000, &out),
                         CODEC_MALFORMED);
        assert_int_equal(out.len, 0);
    }
}

/* A wrong checksum is found, and other zlib wrappers are none of gzip. */
static void test_gzip_only(void **state)
{
    static const uint8_t zlib_hi[] = {0x78, 0x9c, 0xcb, 0xc8, 0x04, 0x00, 0x01, 0x3b, 0x00, 0xd2};
    _cleanup_buf_ struct buf packed = BUF_INIT(0), out = BUF_INIT(0);
    (void)state;
    gzip(BYTES_LIT("hello"), &packed);
    packed.data[packed.len - 8] ^= 1;
    assert_int_equal(codec_inflate_gzip(buf_bytes(&packed), 100, &out), CODEC_MALFORMED);
    assert_int_equal(codec_inflate_gzip(BYTES(zlib_hi, sizeof(zlib_hi)), 100, &out),
                     CODEC_MALFORMED);
}

/* A frame may ask for a window of 2 GiB with a few bytes: that memory is not given. */
static void test_zstd_window(void **state)
{
    static const uint8_t huge_window[] = {0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa8, 0x01, 0x00, 0x00};
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    (void)state;
    assert_int_equal(codec_inflate_zstd(BYTES(huge_window, sizeof(huge_window)), 1000, &out),
                     CODEC_MALFORMED);
}

static void test_no_memory(void **state)
{
    (void)state;
    EACH_CODEC(c)
    {
        _cleanup_buf_ struct buf plain = BUF_INIT(0), packed = BUF_INIT(0), out = BUF_INIT(0);
        fill(&plain, 100000);
        codecs[c].deflate(buf_bytes(&plain), &packed);
        unsigned failures = 0;
        for (unsigned n = 1;; n++, failures++) {
            buf_close(&out);
            fail_alloc_at(n);
            int outcome = codecs[c].inflate(buf_bytes(&packed), 100000, &out);
            if (!fail_alloc_hit()) {
                assert_int_equal(outcome, CODEC_OK);
                break;
            }
            assert_int_equal(outcome, -ENOMEM);
            assert_int_equal(out.len, 0);
        }
        assert_true(failures >= 2);
    }
    _cleanup_buf_ struct buf out = BUF_INIT(8);
    assert_int_equal(codec_gzip(BYTES_LIT("does not fit into eight"), &out), BUF_FULL);
    assert_int_equal(codec_zstd(BYTES_LIT("does not fit into eight"), &out), BUF_FULL);
    assert_int_equal(out.len, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),  cmocka_unit_test(test_cap),
        cmocka_unit_test(test_bomb),        cmocka_unit_test(test_members_are_joined),
        cmocka_unit_test(test_malformed),   cmocka_unit_test(test_gzip_only),
        cmocka_unit_test(test_zstd_window), cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
