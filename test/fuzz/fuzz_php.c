/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a process with PHP that lies: the image of a version, with words of the input put
 * in. First byte: the version; then, each time, two bytes for where (in units of 8 bytes) and eight
 * bytes for what.
 */
#include "agent-bpf/list_interleave.h"
#include "agent-bpf/runtimes/php/php_attach.h"
#include "agent-bpf/runtimes/php/php_names.h"
#include "test/support/runtimes/php_image.h"
#include <assert.h>
#include <stdlib.h>

#define REQUEST      ((size_t)1 << 20)
#define ARENA        ((size_t)4 << 20)
#define WORDS_MAX    (3 * 512)
#define CALLS_ATTACH 8
#define CALLS_NAMES  64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct php_image image;

static void put_words(struct bytes input)
{
    for (; input.len >= 10; input = bytes_skip(input, 10)) {
        uint64_t word, at = (uint64_t)(input.data[0] | input.data[1] << 8) * 8 % IMAGE_BYTES;
        memcpy(&word, input.data + 2, sizeof(word));
        php_image_word(&image, IMAGE_START + at, word);
    }
}

static void check_name(const struct runtime_name *name)
{
    assert(name->outcome < RUNTIME_FRAME_OUTCOMES);
    if (name->outcome != RUNTIME_FRAME_NAMED)
        return;
    assert(name->n_lines == 1 && bytes_utf8_valid(name->lines->function));
    assert(bytes_utf8_valid(name->lines->file) && name->lines->function.len <= 512);
}

static void find_names(const uint64_t *words, size_t n)
{
    static struct record_frame frames[WORDS_MAX];
    static struct runtime_name names[WORDS_MAX];
    struct runtime_memory memory;
    php_image_memory(&image, &memory, REQUEST);
    const uint64_t *end = words + n;
    struct arena arena;
    size_t n_frames = 0;
    while (record_frame_next(&words, end, &frames[n_frames]))
        n_frames++;
    assert(words == end);
    arena_init(&arena, ARENA);
    struct runtime_names out = {&arena, names};
    image.calls = 0;
    int error = php_names(&memory, frames, n_frames, &out);
    assert(image.calls <= CALLS_NAMES);
    for (size_t i = 0; !error && i < n_frames; i++)
        check_name(&names[i]);
    arena_close(&arena);
}

static void merge(const uint64_t *words, size_t n, struct bytes input)
{
    uint64_t user[64], *out = malloc((n + 64) * sizeof(*out));
    size_t n_user = input.len / 8 < 64 ? input.len / 8 : 64;
    unsigned remarks;
    memcpy(user, input.data, n_user * 8);
    for (size_t i = 0; i < n_user; i++) /* a kind that there is */
        user[i] = (user[i] & RECORD_FRAME_MASK) | (user[i] >> 56) % FRAME_KINDS
                                                      << RECORD_FRAME_SHIFT;
    struct list_interleave stack = {user, n_user, words, n, n_user & 1};
    assert(list_interleave(&stack, out, &remarks) <= n + n_user);
    free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint32_t apis[] = {20190902, 20200930, 20210902, 20220829,
                                    20230831, 20240924, 20250925};
    uint64_t words[WORDS_MAX], opline = 0;
    struct runtime_memory memory;
    struct php_process process;
    enum runtime_refusal why;
    int outcome;
    if (!size)
        return 0;
    php_image_make(&image, apis[data[0] % 7]);
    put_words(BYTES(data + 1, size - 1));
    php_image_memory(&image, &memory, REQUEST);
    image.calls = 0;
    if (php_attach(&image.constants, 0, &memory, &process, &why)) { /* as far as it goes */
        process = image.layout.process;
        process.current = IMAGE_GLOBALS + image.layout.stack_page_size + 8;
        process.generator = IMAGE_CLASS + 0x100;
    }
    assert(image.calls <= CALLS_ATTACH);
    if (size > sizeof(opline))
        memcpy(&opline, data + size - sizeof(opline), sizeof(opline));
    size_t n = php_image_list(&image, &process, opline, words, WORDS_MAX, &outcome);
    find_names(words, n);
    merge(words, n, BYTES(data + 1, size - 1));
    return 0;
}
