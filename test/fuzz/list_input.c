/* SPDX-License-Identifier: Apache-2.0 */
#include "test/fuzz/list_input.h"
#include "agent-bpf/list_interleave.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define ARENA      ((size_t)4 << 20)
#define PUT_BYTES  10
#define NATIVE_MAX 64

void list_input_put_words(struct bytes input, uint64_t start, size_t size, list_input_put *put,
                          void *image)
{
    for (; input.len >= PUT_BYTES; input = bytes_skip(input, PUT_BYTES)) {
        uint64_t word, at = (uint64_t)(input.data[0] | input.data[1] << 8) * 8 % size;
        memcpy(&word, input.data + 2, sizeof(word));
        put(image, start + at, word);
    }
}

static void check(const struct runtime_name *name)
{
    assert(name->outcome < RUNTIME_FRAME_OUTCOMES);
    if (name->outcome != RUNTIME_FRAME_NAMED)
        return;
    assert(name->n_lines == 1 && bytes_utf8_valid(name->lines->function));
    assert(bytes_utf8_valid(name->lines->file) && name->lines->function.len <= RUNTIME_NAME_MAX);
}

void list_input_name(const uint64_t *words, size_t n, list_input_names *names, void *context)
{
    static struct record_frame frames[LIST_INPUT_WORDS];
    static struct runtime_name found[LIST_INPUT_WORDS];
    const uint64_t *end = words + n;
    struct arena arena;
    size_t n_frames = 0;
    assert(n <= LIST_INPUT_WORDS);
    while (record_frame_next(&words, end, &frames[n_frames]))
        n_frames++;
    assert(words == end);
    arena_init(&arena, ARENA);
    struct runtime_names out = {&arena, found};
    int error = names(context, frames, n_frames, &out);
    for (size_t i = 0; !error && i < n_frames; i++)
        check(&found[i]);
    arena_close(&arena);
}

void list_input_interleave(const uint64_t *words, size_t n, struct bytes input)
{
    uint64_t user[NATIVE_MAX], *out = malloc((n + NATIVE_MAX) * sizeof(*out));
    size_t n_user = input.len / 8 < NATIVE_MAX ? input.len / 8 : NATIVE_MAX;
    unsigned remarks;
    assert(out);
    memcpy(user, input.data, n_user * 8);
    for (size_t i = 0; i < n_user; i++) /* a kind that there is */
        user[i] = (user[i] & RECORD_FRAME_MASK) | (user[i] >> RECORD_FRAME_SHIFT) % FRAME_KINDS
                                                      << RECORD_FRAME_SHIFT;
    struct list_interleave stack = {user, n_user, words, n, input.len % 2};
    assert(list_interleave(&stack, out, &remarks) <= n + n_user);
    free(out);
}
