/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Bounds the bytes of requests that are still being received, over all connections and protocols.
 * Complete requests are bounded by the intake. Thread: loop. Limit: limit_bytes; beyond, requests
 * are refused as retryable.
 */
#include <stdbool.h>
#include <stddef.h>

struct budget {
    size_t limit_bytes;
    size_t used_bytes;
};

bool budget_take(struct budget *budget,
                 size_t size); /* false: refused and counted, nothing taken */
void budget_give(struct budget *budget, size_t size);
