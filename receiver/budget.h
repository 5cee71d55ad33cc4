/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The bytes of requests that are being received, over all connections and protocols; what is
 * complete is the intake's to bound. Thread: loop. Limit: limit_bytes, then requests are refused as
 * retryable.
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
