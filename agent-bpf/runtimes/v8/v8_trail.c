/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/runtimes/v8/v8_trail.h"
#include "agent-bpf/record.h"

static void trail_key(const uint64_t words[3], uint64_t key[3])
{
    memcpy(key, words, 3 * sizeof(*key));
    key[0] &= ~RECORD_FRAME_EXACT;
}

void v8_trail_follow(const struct v8_store *store, struct v8_heap *heap, const uint64_t words[3],
                     uint64_t *code)
{
    uint64_t key[3], line;
    struct bytes kept;
    *code = 0;
    trail_key(words, key);
    if (!store || !store->get(store->context, V8_KEPT_TRAIL, key, &kept))
        return;
    memcpy(code, kept.data, sizeof(*code));
    for (kept = bytes_skip(kept, sizeof(*code)); kept.len; kept = bytes_skip(kept, sizeof(line))) {
        memcpy(&line, kept.data, sizeof(line));
        if (heap->n_lines < V8_AHEAD_LINES)
            v8_heap_want(heap, line, V8_HEAP_LINE);
    }
}

void v8_trail_put(const struct v8_store *store, const struct v8_heap *heap, const uint64_t words[3],
                  uint64_t code)
{
    uint64_t key[3], trail[1 + V8_TRAIL_LINES] = {code};
    struct bytes kept;
    if (!store)
        return;
    size_t n = 1 + v8_heap_touched(heap, trail + 1, V8_TRAIL_LINES);
    struct bytes value = BYTES(trail, n * sizeof(*trail));
    trail_key(words, key);
    if (!store->get(store->context, V8_KEPT_TRAIL, key, &kept) || !bytes_equal(kept, value))
        store->put(store->context, V8_KEPT_TRAIL, key, value);
}
