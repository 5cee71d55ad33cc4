/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a process with CPython that lies: the image of a version, with words of the input
 * put in. First byte: the version; then, each time, two bytes for where (in units of 8 bytes) and
 * eight bytes for what.
 */
#include "agent-bpf/drain/task_name.h"
#include "agent-bpf/runtimes/python/python_attach.h"
#include "agent-bpf/runtimes/python/python_names.h"
#include "test/fuzz/list_input.h"
#include "test/support/runtimes/python_image.h"
#include <assert.h>

#define CALLS_ATTACH 2000
#define CALLS_NAMES  64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct python_image image;

static void put_word(void *context, uint64_t address, uint64_t word)
{
    python_image_word(context, address, word);
}

static int find_names(void *context, const struct record_frame *frames, size_t n,
                      struct runtime_names *out)
{
    const struct python_process *process = context;
    struct runtime_memory memory;
    python_image_memory(&image, &memory, LIST_INPUT_REQUEST);
    image.calls = 0;
    int error = python_names(&image.constants, process, &memory, frames, n, out);
    assert(image.calls <= CALLS_NAMES);
    return error;
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
    uint64_t words[LIST_INPUT_WORDS], offsets[PYTHON_DEBUG_OFFSETS_BYTES / 8];
    struct python_process process;
    enum runtime_refusal why;
    int outcome;
    if (!size)
        return 0;
    unsigned minor = 8 + data[0] % 7;
    bool made = python_image_make(&image, minor, minor >= 13 && data[0] & 128,
                                  (enum image_slots)(data[0] / 8 % 3));
    assert(made);
    list_input_put_words(BYTES(data + 1, size - 1), IMAGE_START, IMAGE_BYTES, put_word, &image);
    /* What the file says may lie too: then nothing of it is used. */
    memcpy(offsets, image.bytes, sizeof(offsets));
    if (minor >= 13 && !python_layout(image.constants.layout.version,
                                      BYTES(offsets, sizeof(offsets)), &image.constants.layout))
        return 0;
    struct runtime_memory memory;
    python_image_memory(&image, &memory, LIST_INPUT_REQUEST);
    image.calls = 0;
    if (python_attach(&image.constants, 0, &memory, &process, &why))
        process = image.constants.layout.process;
    assert(image.calls <= CALLS_ATTACH);
    find_task(&process);
    process.code_type = 0; /* as far as it goes */
    size_t n =
        python_image_list(&image, &process, IMAGE_DESCRIPTORS, words, LIST_INPUT_WORDS, &outcome);
    list_input_name(words, n, find_names, &process);
    list_input_interleave(words, n, BYTES(data + 1, size - 1));
    return 0;
}
