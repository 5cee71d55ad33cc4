/* SPDX-License-Identifier: Apache-2.0 */
/* Time per owner and leaf function. */
#include "store/query/history_reader_state.h"
#include <errno.h>

struct top_key {
    uint64_t owner, frame;
};

struct top {
    struct top_key key;
    uint64_t ns;
    struct bytes function;
};

void reader_tops_open(struct reader_tops *tops, struct history_reader *reader)
{
    tops->reader = reader;
    MAP_INIT(&tops->of, struct top, key);
}

void reader_tops_close(struct reader_tops *tops)
{
    map_close(&tops->of);
}

static int reader_tops_make(struct reader_tops *tops, const struct top_key *key,
                            const struct history_frame *leaf, struct top **result)
{
    struct arena *arena = &tops->reader->scratch;
    struct top *top = arena_zalloc(arena, sizeof(*top));
    const void *text = arena_dup(arena, leaf->function.data, leaf->function.len);
    if (!top || !text)
        return -ENOMEM;
    *top = (struct top){.key = *key, .function = BYTES(text, leaf->function.len)};
    *result = top;
    return map_put(&tops->of, top, NULL);
}

int reader_tops_add(struct reader_tops *tops, uint64_t owner, int64_t stack, uint64_t ns)
{
    const struct history_frame *const *frames;
    size_t n;
    int error = history_frames_get(&tops->reader->frames, stack, &frames, &n);
    if (error || !n)
        return error;
    struct top_key key = {owner, frames[0]->key};
    struct top *top = map_get(&tops->of, &key);
    error = top ? 0 : reader_tops_make(tops, &key, frames[0], &top);
    if (!error)
        top->ns += ns;
    return error;
}

static bool is_more(const struct top *top, const struct reader_top *best)
{
    return top->ns > best->ns || (top->ns == best->ns && top->key.frame < best->key);
}

void reader_tops_best(const struct reader_tops *tops, struct reader_top *best, size_t n)
{
    const struct top *top;
    for (size_t i = 0; (top = map_next(&tops->of, &i));)
        if (top->key.owner < n && is_more(top, &best[top->key.owner]))
            best[top->key.owner] = (struct reader_top){top->ns, top->key.frame, top->function};
}
