/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inflateCopy() copies a decoder at any place of its output, also within a block. Invariant: the
 * states of the first n_states spans are known, since a span is reached through all before it.
 */
#include "agent-bpf/dwarf/dwarf_inflated.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#define INPUT_BYTES 16384
#define STATE_BYTES (40u << 10) /* of a decoder: 32 KiB of output, and its tables */

struct span {
    struct list recent;
    uint8_t *bytes;   /* NULL: not in memory */
    z_stream decoder; /* at its begin; total_in is the place in the input */
};

struct dwarf_inflated {
    struct dwarf_spans *spans;
    int fd;
    uint64_t offset, len, size;
    size_t n, n_states;
    uint8_t input[INPUT_BYTES];
    struct span span[];
};

struct dwarf_inflated *dwarf_inflated_open(struct dwarf_spans *spans, int fd, uint64_t offset,
                                           uint64_t len, uint64_t size)
{
    size_t n = (size_t)((size + DWARF_SPAN_BYTES - 1) / DWARF_SPAN_BYTES);
    struct dwarf_inflated *inflated = calloc(1, sizeof(*inflated) + n * sizeof(*inflated->span));
    if (!inflated)
        return NULL;
    inflated->spans = spans;
    inflated->fd = fd;
    inflated->offset = offset;
    inflated->len = len;
    inflated->size = size;
    inflated->n = n;
    return inflated;
}

static void span_forget(struct dwarf_spans *spans, struct span *span)
{
    list_remove(&span->recent);
    free(span->bytes);
    span->bytes = NULL;
    spans->n--;
}

void dwarf_spans_trim(struct dwarf_spans *spans, size_t keep)
{
    while (spans->n > keep)
        span_forget(spans, container_of(list_first(&spans->recent), struct span, recent));
}

void dwarf_inflated_close(struct dwarf_inflated *inflated)
{
    if (!inflated)
        return;
    for (size_t i = 0; i < inflated->n; i++)
        if (inflated->span[i].bytes)
            span_forget(inflated->spans, &inflated->span[i]);
    for (size_t i = 0; i < inflated->n_states; i++)
        inflateEnd(&inflated->span[i].decoder);
    free(inflated);
}

size_t dwarf_inflated_bytes(const struct dwarf_inflated *inflated)
{
    return sizeof(*inflated) + inflated->n * sizeof(*inflated->span) +
           inflated->n_states * STATE_BYTES;
}

/* ---- decoding ---- */

/* Input from the decoder's place on; false: there is no more. */
static bool decoder_refill(struct dwarf_inflated *inflated, z_stream *decoder)
{
    uint64_t left = inflated->len - decoder->total_in;
    size_t want = left < INPUT_BYTES ? (size_t)left : INPUT_BYTES;
    off_t at = (off_t)(inflated->offset + decoder->total_in);
    ssize_t n = want ? pread(inflated->fd, inflated->input, want, at) : 0;
    decoder->next_in = inflated->input;
    decoder->avail_in = n > 0 ? (uInt)n : 0;
    return n > 0;
}

/* `size` bytes; false: there are fewer. */
static bool decoder_run(struct dwarf_inflated *inflated, z_stream *decoder, uint8_t *out,
                        size_t size)
{
    int outcome = Z_OK;
    decoder->next_out = out;
    decoder->avail_out = (uInt)size;
    decoder->avail_in = 0; /* what is left there belongs to the last caller */
    while (decoder->avail_out && outcome == Z_OK)
        outcome = decoder->avail_in || decoder_refill(inflated, decoder)
                      ? inflate(decoder, Z_NO_FLUSH)
                      : Z_BUF_ERROR;
    return !decoder->avail_out;
}

static size_t span_size(const struct dwarf_inflated *inflated, size_t i)
{
    uint64_t left = inflated->size - (uint64_t)i * DWARF_SPAN_BYTES;
    return left < DWARF_SPAN_BYTES ? (size_t)left : DWARF_SPAN_BYTES;
}

/* Whose state is known, into bytes; then the state of the next one is known, too. */
static bool span_decode(struct dwarf_inflated *inflated, size_t i, uint8_t *bytes)
{
    z_stream decoder;
    if (inflateCopy(&decoder, &inflated->span[i].decoder) != Z_OK)
        return false;
    bool done = decoder_run(inflated, &decoder, bytes, span_size(inflated, i));
    if (done && i + 1 == inflated->n_states && i + 1 < inflated->n &&
        inflateCopy(&inflated->span[i + 1].decoder, &decoder) == Z_OK)
        inflated->n_states++;
    inflateEnd(&decoder);
    return done;
}

/* Decodes all spans up to this one whose state is not known; bytes: room for one. */
static bool span_reach(struct dwarf_inflated *inflated, size_t i, uint8_t *bytes)
{
    if (!inflated->n_states && inflateInit(&inflated->span[0].decoder) == Z_OK)
        inflated->n_states = 1;
    for (size_t known = inflated->n_states; known && i >= known; known = inflated->n_states)
        if (!span_decode(inflated, known - 1, bytes) || inflated->n_states == known)
            return false;
    return inflated->n_states;
}

static struct span *span_load(struct dwarf_inflated *inflated, size_t i)
{
    struct dwarf_spans *spans = inflated->spans;
    struct span *span = &inflated->span[i];
    if (span->bytes) {
        list_remove(&span->recent);
        list_append(&spans->recent, &span->recent);
        return span;
    }
    uint8_t *bytes = malloc(span_size(inflated, 0));
    if (!bytes)
        return NULL;
    if (!span_reach(inflated, i, bytes) || !span_decode(inflated, i, bytes)) {
        free(bytes);
        return NULL;
    }
    span->bytes = bytes;
    list_append(&spans->recent, &span->recent);
    spans->n++;
    dwarf_spans_trim(spans, DWARF_SPANS_MAX);
    return span;
}

size_t dwarf_inflated_read(struct dwarf_inflated *inflated, uint64_t at, uint8_t *out, size_t size)
{
    if (at >= inflated->size)
        return 0;
    size_t i = (size_t)(at / DWARF_SPAN_BYTES), from = (size_t)(at % DWARF_SPAN_BYTES);
    const struct span *span = span_load(inflated, i);
    size_t left = span_size(inflated, i) - from;
    if (!span)
        return 0;
    size = size < left ? size : left;
    memcpy(out, span->bytes + from, size);
    return size;
}
