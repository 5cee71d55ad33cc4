/* SPDX-License-Identifier: Apache-2.0 */
/* Inflating strangers' bytes: never more than the cap, nothing left behind on refusal, and what we
 * compress comes back. The first byte chooses. */
#include "proto/codec.h"
#include <assert.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int (*inflate)(struct bytes, size_t, struct buf *), struct bytes in,
                  size_t max_bytes)
{
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    if (buf_append(&out, "before", 6))
        abort();
    int outcome = inflate(in, max_bytes, &out);
    if (outcome < CODEC_OK || outcome > CODEC_TOO_BIG)
        abort();
    if (outcome ? out.len != 6 : out.len - 6 > max_bytes)
        abort();
}

static void check_round_trip(struct bytes in)
{
    _cleanup_buf_ struct buf packed = BUF_INIT(0), out = BUF_INIT(0);
    if (codec_gzip(in, &packed) || codec_inflate_gzip(buf_bytes(&packed), in.len, &out) ||
        !bytes_equal(in, buf_bytes(&out)))
        abort();
}

static int (*const inflaters[])(struct bytes, size_t, struct buf *) = {
    codec_inflate_zstd, codec_inflate_gzip, codec_inflate_deflate};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct bytes in = BYTES(data + 1, size - 1);
    size_t max_bytes = (size_t)1 << (data[0] >> 2) % 21;
    if (data[0] % 4 == 0)
        check_round_trip(in);
    else
        check(inflaters[data[0] % 4 - 1], in, max_bytes);
    return 0;
}
