/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a process with CPython that lies: the image of a version, with words of the input
 * put in. First byte: the version; then, each time, two bytes for where (in units of 8 bytes) and
 * eight bytes for what.
 */
#include "agent-bpf/drain/task_name.h"
#include "agent-bpf/list_interleave.h"
#include "agent-bpf/runtimes/python/python_attach.h"
#include "agent-bpf/runtimes/python/python_names.h"
#include "test/support/runtimes/python_image.h"
#include <assert.h>
#include <stdlib.h>

#define REQUEST      ((size_t)1 << 20)
#define ARENA        ((size_t)4 << 20)
#define WORDS_MAX    (3 * 512)
#define CALLS_ATTACH 2000
#define CALLS_NAMES  64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct python_image image;

static void put_words(struct bytes input)
{
    for (; input.len >= 10; input = bytes_skip(input, 10)) {
        uint64_t word, at = (uint64_t)(input.data[0] | input.data[1] << 8) * 8 % IMAGE_BYTES;
        memcpy(&word, input.data + 2, sizeof(word));
        python_image_word(&image, IMAGE_START + at, word);
    }
}

static void check_names(const struct runtime_name *name)
{
    assert(name->outcome < RUNTIME_FRAME_OUTCOMES);
    if (name->outcome != RUNTIME_FRAME_NAMED)
        return;
    assert(name->n_lines == 1 && bytes_utf8_valid(name->lines->function));
    assert(bytes_utf8_valid(name->lines->file) && name->lines->function.len <= 512);
}

static void find_names(const struct python_process *process, const uint64_t *words, size_t n)
{
    static struct record_frame frames[WORDS_MAX];
    static struct runtime_name names[WORDS_MAX];
    struct runtime_memory memory;
    python_image_memory(&image, &memory, REQUEST);
    const uint64_t *end = words + n;
    struct arena arena;
    size_t n_frames = 0;
    while (record_frame_next(&words, end, &frames[n_frames]))
        n_frames++;
    assert(words == end);
    arena_init(&arena, ARENA);
    struct runtime_names out = {&arena, names};
    image.calls = 0;
    int error = python_names(&image.constants, process, &memory, frames, n_frames, &out);
    assert(image.calls <= CALLS_NAMES);
    for (size_t i = 0; !error && i < n_frames; i++)
        check_names(&names[i]);
    arena_close(&arena);
}

static void merge(const uint64_t *words, size_t n, struct bytes input)
{
    uint64_t user[64], *out = malloc((n + 64) * sizeof(*out));
    size_t n_user = input.len / 8 < 64 ? input.len / 8 : 64;
    unsigned remarks;
    memcpy(user, input.data, n_user * 8);
    for (size_t i = 0; i < n_user; i++) /* a kind that there is */
        user[i] = (user[i] & RECORD_FRAME_MASK) | (user[i] >> 56) % 6 << RECORD_FRAME_SHIFT;
    struct list_interleave stack = {user, n_user, words, n, input.len % 2};
    assert(list_interleave(&stack, out, &remarks) <= n + n_user);
    free(out);
}

/* Offsets that asyncio's section could have said, too: the words that follow those of CPython. */
static void find_task(const struct python_process *process)
{
    struct record_task task;
    char name[TASK_NAME_SIZE];
    uint64_t offsets = python_image_get(&image, IMAGE_RUNTIME + PYTHON_DEBUG_OFFSETS_BYTES);
    if ((uint32_t)offsets)
        memcpy(&image.tasks, &offsets, sizeof(image.tasks));
    size_t size = python_image_task(&image, process, IMAGE_DESCRIPTORS, &task);
    if (!size)
        return;
    assert(size % 8 == 0 && size <= sizeof(task) && task.size <= size - RECORD_TASK_HEAD);
    size_t len = task_name(&task, size, name);
    assert(len < sizeof(name) && bytes_utf8_valid(BYTES(name, len)));
    assert(!len || task.form != RECORD_TASK_UNREADABLE);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t words[WORDS_MAX], offsets[PYTHON_DEBUG_OFFSETS_BYTES / 8];
    struct python_process process;
    enum runtime_refusal why;
    int outcome;
    if (!size)
        return 0;
    unsigned minor = 8 + data[0] % 7;
    bool made = python_image_make(&image, minor, minor >= 13 && data[0] & 128,
                                  (enum image_slots)(data[0] / 8 % 3));
    assert(made);
    put_words(BYTES(data + 1, size - 1));
    /* What the file says may lie too: then nothing of it is used. */
    memcpy(offsets, image.bytes, sizeof(offsets));
    if (minor >= 13 && !python_layout(image.constants.layout.version,
                                      BYTES(offsets, sizeof(offsets)), &image.constants.layout))
        return 0;
    struct runtime_memory memory;
    python_image_memory(&image, &memory, REQUEST);
    image.calls = 0;
    if (python_attach(&image.constants, 0, &memory, &process, &why))
        process = image.constants.layout.process;
    assert(image.calls <= CALLS_ATTACH);
    find_task(&process);
    process.code_type = 0; /* as far as it goes */
    size_t n = python_image_list(&image, &process, IMAGE_DESCRIPTORS, words, WORDS_MAX, &outcome);
    find_names(&process, words, n);
    merge(words, n, BYTES(data + 1, size - 1));
    return 0;
}
