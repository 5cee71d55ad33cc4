/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request of a stranger on its way through: the first byte chooses signal (bits 0 and 1) and
 * limit. What is split has all items, in bodies that are well-formed and within the limit; so have
 * the slices of it.
 */
#include "proto/otlp/otlp_items.h"
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct bodies {
    enum signal signal;
    size_t max_bytes;
    uint64_t items;
};

static int emit(void *context, struct bytes body, uint64_t n_items)
{
    struct bodies *bodies = context;
    if (body.len > bodies->max_bytes || otlp_items_count(bodies->signal, body) != n_items)
        abort();
    int outcome = otlp_items_check(bodies->signal, body);
    if (outcome != OTLP_OK && outcome != OTLP_TOO_BIG) /* a part may swell more than the whole */
        abort();
    bodies->items += n_items;
    return 0;
}

static void slice(enum signal signal, struct bytes request, uint64_t n)
{
    uint64_t total = 1, items = 0;
    for (uint64_t at = 0; at < total; at += n) {
        struct buf part _cleanup_buf_ = BUF_INIT(0);
        if (otlp_items_slice(request, &(struct otlp_slice){at, n}, &part, &total) != OTLP_OK ||
            part.len > request.len)
            abort();
        items += otlp_items_count(signal, buf_bytes(&part));
    }
    if (items != otlp_items_count(signal, request))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size)
        return 0;
    struct bodies bodies = {.signal = data[0] & 3, .max_bytes = 16 + (data[0] & 0xfc)};
    struct bytes request = BYTES(data + 1, size - 1);
    if (otlp_items_check(bodies.signal, request) != OTLP_OK)
        return 0;
    slice(bodies.signal, request, 1 + (data[0] >> 2) % 8);
    struct otlp_split split = {emit, &bodies, bodies.max_bytes, NULL};
    int outcome = otlp_items_split(bodies.signal, request, &split);
    if (outcome == OTLP_OK && bodies.items != otlp_items_count(bodies.signal, request))
        abort();
    if (outcome != OTLP_OK && bodies.items)
        abort();
    return 0;
}
