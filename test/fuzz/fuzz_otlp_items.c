/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request of a stranger on its way through: the first byte chooses signal (bits 0 and 1) and
 * limit. What is split has all items, in bodies that are well-formed and within the limit.
 */
#include "proto/otlp_items.h"
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size)
        return 0;
    struct bodies bodies = {.signal = data[0] & 3, .max_bytes = 16 + (data[0] & 0xfc)};
    struct bytes request = BYTES(data + 1, size - 1);
    if (otlp_items_check(bodies.signal, request) != OTLP_OK)
        return 0;
    struct otlp_split split = {emit, &bodies, bodies.max_bytes};
    int outcome = otlp_items_split(bodies.signal, request, &split);
    if (outcome == OTLP_OK && bodies.items != otlp_items_count(bodies.signal, request))
        abort();
    if (outcome != OTLP_OK && bodies.items)
        abort();
    return 0;
}
