/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a process with PHP that lies: the image of a version, with words of the input put
 * in. First byte: the version; then, each time, two bytes for where (in units of 8 bytes) and eight
 * bytes for what.
 */
#include "agent-bpf/runtimes/php/php_attach.h"
#include "agent-bpf/runtimes/php/php_names.h"
#include "test/fuzz/list_input.h"
#include "test/support/runtimes/php_image.h"
#include <assert.h>

#define CALLS_ATTACH 8
#define CALLS_NAMES  64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct php_image image;

static void put_word(void *context, uint64_t address, uint64_t word)
{
    php_image_word(context, address, word);
}

static int find_names(void *context, const struct record_frame *frames, size_t n,
                      struct runtime_names *out)
{
    (void)context;
    struct runtime_memory memory;
    php_image_memory(&image, &memory, LIST_INPUT_REQUEST);
    image.calls = 0;
    int error = php_names(&memory, frames, n, out);
    assert(image.calls <= CALLS_NAMES);
    return error;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint32_t apis[] = {20190902, 20200930, 20210902, 20220829,
                                    20230831, 20240924, 20250925};
    uint64_t words[LIST_INPUT_WORDS], opline = 0;
    struct runtime_memory memory;
    struct php_process process;
    enum runtime_refusal why;
    int outcome;
    if (!size)
        return 0;
    php_image_make(&image, apis[data[0] % 7]);
    list_input_put_words(BYTES(data + 1, size - 1), IMAGE_START, IMAGE_BYTES, put_word, &image);
    php_image_memory(&image, &memory, LIST_INPUT_REQUEST);
    image.calls = 0;
    if (php_attach(&image.constants, 0, &memory, &process, &why)) { /* as far as it goes */
        process = image.layout.process;
        process.current = IMAGE_GLOBALS + image.layout.stack_page_size + 8;
        process.generator = IMAGE_CLASS + 0x100;
    }
    assert(image.calls <= CALLS_ATTACH);
    if (size > sizeof(opline))
        memcpy(&opline, data + size - sizeof(opline), sizeof(opline));
    size_t n = php_image_list(&image, &process, opline, words, LIST_INPUT_WORDS, &outcome);
    list_input_name(words, n, find_names, NULL);
    list_input_interleave(words, n, BYTES(data + 1, size - 1));
    return 0;
}
