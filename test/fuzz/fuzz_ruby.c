/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a process with Ruby that lies: the image of a version, with words of the input put
 * in. First byte: the version; then, each time, two bytes for where (in units of 8 bytes) and eight
 * bytes for what.
 */
#include "agent-bpf/runtimes/ruby/ruby_attach.h"
#include "agent-bpf/runtimes/ruby/ruby_names.h"
#include "test/fuzz/list_input.h"
#include "test/support/runtimes/ruby_image.h"
#include <assert.h>

#define CALLS_NAMES 256

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const versions[] = {"2.7.8", "3.0.7", "3.1.2", "3.2.11", "3.3.8", "3.4.12"};

static struct ruby_image image;

static void put_word(void *context, uint64_t address, uint64_t word)
{
    ruby_image_word(context, address, word);
}

static int find_names(void *context, const struct record_frame *frames, size_t n,
                      struct runtime_names *out)
{
    const struct ruby_process *process = context;
    struct runtime_memory memory;
    ruby_image_memory(&image, &memory, LIST_INPUT_REQUEST);
    image.calls = 0;
    int error = ruby_names(&image.constants.layout, process, &memory, frames, n, out);
    assert(image.calls <= CALLS_NAMES);
    return error;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint64_t words[LIST_INPUT_WORDS];
    struct runtime_memory memory;
    struct ruby_process process;
    enum runtime_refusal why;
    int outcome;
    if (!size)
        return 0;
    bool made = ruby_image_make(&image, versions[data[0] % (sizeof(versions) / sizeof(*versions))]);
    assert(made);
    list_input_put_words(BYTES(data + 1, size - 1), RUBY_IMAGE_START, RUBY_IMAGE_BYTES, put_word,
                         &image);
    ruby_image_memory(&image, &memory, LIST_INPUT_REQUEST);
    image.calls = 0;
    if (ruby_attach(&image.constants, 0, &memory, &process, &why))
        return 0;
    assert(image.calls <= RUBY_ATTACH_READS);
    size_t n = ruby_image_list(&image, &process, words, LIST_INPUT_WORDS, &outcome);
    list_input_name(words, n, find_names, &process);
    list_input_interleave(words, n, BYTES(data + 1, size - 1));
    return 0;
}
