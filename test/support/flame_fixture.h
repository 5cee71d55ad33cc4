/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Stacks for tests of flame graphs, written as people do: "main;parse;read". A frame's name is its
 * key. Of a name that begins with [k] the frame is of the kernel, [?] stands for an unnamed one.
 */
#include "exporter/pages/flame.h"
#include <assert.h>
#include <string.h>

enum { FLAME_FIXTURE_DEPTH = 64 };

static inline struct history_frame flame_fixture_frame(const char *name, size_t len)
{
    static const uint8_t key[16] = {1};
    struct history_frame frame = {.key = bytes_siphash(BYTES(name, len), key),
                                  .function = BYTES(name, len),
                                  .file = BYTES_LIT("shop.c"),
                                  .module = BYTES_LIT("/usr/bin/shop"),
                                  .line = (int64_t)len,
                                  .type = HISTORY_FRAME_NATIVE};
    if (len > 3 && memcmp(name, "[k]", 3) == 0)
        frame.type = HISTORY_FRAME_KERNEL;
    if (len > 3 && memcmp(name, "[?]", 3) == 0)
        frame.unnamed = true;
    return frame;
}

/* Root first, with semicolons; "" = no frames. */
static inline int flame_fixture_add(struct flame *flame, const char *stack, uint64_t samples,
                                    bool baseline)
{
    struct history_frame frames[FLAME_FIXTURE_DEPTH];
    const struct history_frame *leaf_first[FLAME_FIXTURE_DEPTH];
    size_t n = 0;
    for (const char *at = stack; *at && n < FLAME_FIXTURE_DEPTH;) {
        size_t len = strcspn(at, ";");
        frames[n++] = flame_fixture_frame(at, len);
        at += len + (at[len] == ';');
    }
    for (size_t i = 0; i < n; i++)
        leaf_first[i] = &frames[n - 1 - i];
    return flame_add(flame, leaf_first, n, (struct flame_weight){samples * 10, samples}, baseline);
}
