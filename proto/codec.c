/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The output buffer starts small and doubles, so a small request costs a small buffer, and
 * inflating a bomb stops at the cap.
 */
#include "proto/codec.h"
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

enum {
    STEP_MIN = 4096,
    STEP_MAX = 1 << 20,
    GZIP_WINDOW = 15 + 16,    /* largest window, gzip wrapper only */
    ZLIB_WINDOW = 15,         /* zlib wrapper only */
    RAW_WINDOW = -15,         /* no wrapper */
    ZSTD_WINDOW_LOG_MAX = 23, /* 8 MiB: what every decoder must offer (RFC 8878, 3.1.1.1.2) */
};

/* Makes room for the next piece of output: at most the rest of max_bytes plus one byte, which shows
 * that the output is too big. */
static int codec_room(struct buf *out, size_t start, size_t max_bytes, size_t *size)
{
    size_t done = out->len - start;
    size_t want = done < STEP_MIN ? STEP_MIN : done;
    size_t left = max_bytes - done + 1;
    if (want > STEP_MAX)
        want = STEP_MAX;
    if (want > left)
        want = left;
    int error = buf_reserve(out, want);
    *size = want;
    return error == BUF_FULL ? CODEC_TOO_BIG : error;
}

static int inflate_some(z_stream *stream, bool members, struct buf *out, size_t start,
                        size_t max_bytes)
{
    size_t size;
    int error = codec_room(out, start, max_bytes, &size);
    if (error)
        return error;
    stream->next_out = out->data + out->len;
    stream->avail_out = (uInt)size;
    int result = inflate(stream, Z_NO_FLUSH);
    out->len += size - stream->avail_out;
    if (out->len - start > max_bytes)
        return CODEC_TOO_BIG;
    if (result == Z_MEM_ERROR)
        return -ENOMEM;
    if (result == Z_STREAM_END) {
        if (stream->avail_in == 0)
            return CODEC_OK;
        return members && inflateReset(stream) == Z_OK ? -EAGAIN : CODEC_MALFORMED;
    }
    if (result != Z_OK || (stream->avail_in == 0 && stream->avail_out > 0))
        return CODEC_MALFORMED; /* wrong, or cut off */
    return -EAGAIN;
}

static int inflate_all(struct bytes in, int window, size_t max_bytes, struct buf *out)
{
    assert(max_bytes < SIZE_MAX);
    if (in.len == 0 || in.len > UINT_MAX)
        return in.len ? CODEC_TOO_BIG : CODEC_MALFORMED;
    z_stream stream = {.next_in = (Bytef *)(uintptr_t)in.data, .avail_in = (uInt)in.len};
    if (inflateInit2(&stream, window) != Z_OK)
        return -ENOMEM;
    size_t start = out->len;
    int outcome;
    do {
        outcome = inflate_some(&stream, window == GZIP_WINDOW, out, start, max_bytes);
    } while (outcome == -EAGAIN);
    inflateEnd(&stream);
    if (outcome != CODEC_OK)
        out->len = start;
    return outcome;
}

int codec_inflate_gzip(struct bytes in, size_t max_bytes, struct buf *out)
{
    return inflate_all(in, GZIP_WINDOW, max_bytes, out);
}

/* A zlib wrapper begins with two bytes: as a big-endian number a multiple of 31, with method 8. */
static bool has_zlib_wrapper(struct bytes in)
{
    return in.len >= 2 && (in.data[0] & 15) == 8 && (in.data[0] << 8 | in.data[1]) % 31 == 0;
}

int codec_inflate_deflate(struct bytes in, size_t max_bytes, struct buf *out)
{
    return inflate_all(in, has_zlib_wrapper(in) ? ZLIB_WINDOW : RAW_WINDOW, max_bytes, out);
}

static int unzstd_some(ZSTD_DCtx *context, ZSTD_inBuffer *input, struct buf *out, size_t start,
                       size_t max_bytes)
{
    size_t size;
    int error = codec_room(out, start, max_bytes, &size);
    if (error)
        return error;
    ZSTD_outBuffer output = {out->data + out->len, size, 0};
    size_t before = input->pos;
    size_t result = ZSTD_decompressStream(context, &output, input);
    if (ZSTD_isError(result))
        return ZSTD_getErrorCode(result) == ZSTD_error_memory_allocation ? -ENOMEM
                                                                         : CODEC_MALFORMED;
    out->len += output.pos;
    if (out->len - start > max_bytes)
        return CODEC_TOO_BIG;
    if (input->pos == input->size && result == 0)
        return CODEC_OK; /* the last frame is complete and flushed */
    if (input->pos == input->size && output.pos < size)
        return CODEC_MALFORMED; /* cut off */
    if (input->pos == before && output.pos == 0)
        return CODEC_MALFORMED; /* no progress */
    return -EAGAIN;
}

int codec_inflate_zstd(struct bytes in, size_t max_bytes, struct buf *out)
{
    assert(max_bytes < SIZE_MAX);
    if (in.len == 0)
        return CODEC_MALFORMED;
    ZSTD_DCtx *context = ZSTD_createDCtx();
    if (!context)
        return -ENOMEM;
    ZSTD_DCtx_setParameter(context, ZSTD_d_windowLogMax, ZSTD_WINDOW_LOG_MAX);
    ZSTD_inBuffer input = {in.data, in.len, 0};
    size_t start = out->len;
    int outcome;
    do {
        outcome = unzstd_some(context, &input, out, start, max_bytes);
    } while (outcome == -EAGAIN);
    ZSTD_freeDCtx(context);
    if (outcome != CODEC_OK)
        out->len = start;
    return outcome;
}

int codec_gzip(struct bytes in, struct buf *out)
{
    assert(in.len <= UINT_MAX);
    z_stream stream = {.next_in = (Bytef *)(uintptr_t)in.data, .avail_in = (uInt)in.len};
    if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, GZIP_WINDOW, MAX_MEM_LEVEL - 1,
                     Z_DEFAULT_STRATEGY))
        return -ENOMEM;
    uLong bound = deflateBound(&stream, in.len);
    int error = buf_reserve(out, bound);
    if (!error) {
        stream.next_out = out->data + out->len;
        stream.avail_out = (uInt)bound;
        int result = deflate(&stream, Z_FINISH);
        assert(result == Z_STREAM_END);
        out->len += bound - stream.avail_out;
        (void)result;
    }
    deflateEnd(&stream);
    return error;
}

int codec_zstd(struct bytes in, struct buf *out)
{
    size_t bound = ZSTD_compressBound(in.len);
    int error = buf_reserve(out, bound);
    if (error)
        return error;
    size_t size = ZSTD_compress(out->data + out->len, bound, in.data, in.len, ZSTD_CLEVEL_DEFAULT);
    if (ZSTD_isError(size))
        return -ENOMEM; /* nothing else can go wrong: there is room for the largest result */
    out->len += size;
    return 0;
}
