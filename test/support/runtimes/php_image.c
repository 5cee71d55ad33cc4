/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/runtimes/php_image.h"
#include <assert.h>
#include <errno.h>

static struct php_image *reading; /* by step_read() */

static int image_step_read(void *out, size_t size, uint64_t address)
{
    if (address < IMAGE_START || address > IMAGE_START + IMAGE_BYTES ||
        size > IMAGE_START + IMAGE_BYTES - address)
        return -EFAULT;
    memcpy(out, reading->bytes + (address - IMAGE_START), size);
    return 0;
}

#define step_read(out, size, address) image_step_read(out, size, address)
#include "agent-bpf/runtimes/php/php_list.h"

#define CALL_NESTED_CODE 0x10000u
#define STRING_TYPE      6
#define STACK_PAGE       0x40000

const char *const php_image_functions[IMAGE_FRAMES_N] = {
    "Größe\\Work::{closure}", "usort", "Größe\\Work::sort", "{include}", "{main}"};
const char *const php_image_files[IMAGE_FRAMES_N] = {"/é/work.php", "", "/é/work.php",
                                                     "/é/work.php", "/main.php"};

void php_image_put(struct php_image *image, uint64_t address, const void *bytes, size_t size)
{
    memcpy(image->bytes + (address - IMAGE_START), bytes, size);
}

void php_image_word(struct php_image *image, uint64_t address, uint64_t word)
{
    php_image_put(image, address, &word, sizeof(word));
}

int php_image_read(void *context, struct reader_range *ranges, size_t n)
{
    struct php_image *image = context;
    size_t bytes = 0;
    image->calls++;
    reading = image;
    for (size_t i = 0; i < n; i++) {
        ranges[i].error = image_step_read(ranges[i].out, ranges[i].size, ranges[i].address);
        bytes += ranges[i].size;
    }
    if (n > READER_RANGES_MAX || bytes > READER_BYTES_MAX || bytes > image->memory->bytes_left)
        return -E2BIG;
    image->memory->bytes_left -= bytes;
    return 0;
}

void php_image_memory(struct php_image *image, struct runtime_memory *memory, size_t bytes)
{
    image->memory = memory;
    *memory =
        (struct runtime_memory){.read = php_image_read, .context = image, .bytes_left = bytes};
}

void php_image_text(struct php_image *image, uint64_t address, struct bytes text)
{
    uint64_t hash = 5381;
    for (size_t i = 0; i < text.len; i++)
        hash = hash * 33 + text.data[i];
    php_image_word(image, address, (uint64_t)STRING_TYPE << 32 | 1);
    php_image_word(image, address + 8, hash | UINT64_C(1) << 63);
    php_image_word(image, address + 16, text.len);
    php_image_put(image, address + 24, text.data, text.len);
}

static void put_texts(struct php_image *image)
{
    static const struct bytes texts[IMAGE_TEXTS_N] = {
        [IMAGE_TEXT_CLOSURE] = BYTES_LIT("{closure}"),
        [IMAGE_TEXT_USORT] = BYTES_LIT("usort"),
        [IMAGE_TEXT_METHOD] = BYTES_LIT("sort"),
        [IMAGE_TEXT_CLASS] = BYTES_LIT("Größe\\Work"),
        [IMAGE_TEXT_FILE] = BYTES_LIT("/é/work.php"),
        [IMAGE_TEXT_OTHER_FILE] = BYTES_LIT("/main.php")};
    for (int i = 0; i < IMAGE_TEXTS_N; i++)
        php_image_text(image, IMAGE_TEXT(i), texts[i]);
    php_image_word(image, IMAGE_CLASS + PHP_CLASS_NAME, IMAGE_TEXT(IMAGE_TEXT_CLASS));
}

struct made {
    uint8_t type;
    uint64_t name, scope, file;
    uint32_t info;
};

static void put_function(struct php_image *image, unsigned i, const struct made *made)
{
    const struct php_process *process = &image->layout.process;
    uint32_t ops = IMAGE_OPS;
    php_image_put(image, IMAGE_FUNCTION(i), &made->type, 1);
    php_image_word(image, IMAGE_FUNCTION(i) + 8, made->name);
    php_image_word(image, IMAGE_FUNCTION(i) + 16, made->scope);
    if (!made->file)
        return;
    php_image_put(image, IMAGE_FUNCTION(i) + process->function_last, &ops, sizeof(ops));
    php_image_word(image, IMAGE_FUNCTION(i) + process->function_opcodes, IMAGE_OP(i, 0));
    php_image_word(image, IMAGE_FUNCTION(i) + process->function_filename, made->file);
    for (unsigned n = 0; n < IMAGE_OPS; n++) {
        uint32_t line = IMAGE_LINE(i) - 2 + n;
        php_image_put(image, IMAGE_OP(i, n) + PHP_OP_LINE, &line, sizeof(line));
    }
}

static void put_frames(struct php_image *image)
{
    uint64_t file = IMAGE_TEXT(IMAGE_TEXT_FILE), other = IMAGE_TEXT(IMAGE_TEXT_OTHER_FILE);
    const struct made frames[IMAGE_FRAMES_N] = {
        {PHP_FUNCTION_USER, IMAGE_TEXT(IMAGE_TEXT_CLOSURE), IMAGE_CLASS, file, PHP_CALL_TOP},
        {PHP_FUNCTION_INTERNAL, IMAGE_TEXT(IMAGE_TEXT_USORT), 0, 0, PHP_CALL_TOP},
        {PHP_FUNCTION_USER, IMAGE_TEXT(IMAGE_TEXT_METHOD), IMAGE_CLASS, file, 0},
        {PHP_FUNCTION_USER, 0, 0, file, CALL_NESTED_CODE},
        {PHP_FUNCTION_USER, 0, 0, other, CALL_NESTED_CODE | PHP_CALL_TOP}};
    for (unsigned i = 0; i < IMAGE_FRAMES_N; i++) {
        put_function(image, i, &frames[i]);
        php_image_word(image, IMAGE_FRAME(i), frames[i].file ? IMAGE_OP(i, 2) : 0xdead);
        php_image_word(image, IMAGE_FRAME(i) + 24, IMAGE_FUNCTION(i));
        php_image_word(image, IMAGE_FRAME(i) + 40, frames[i].info);
        php_image_word(image, IMAGE_FRAME(i) + 48, i + 1 < IMAGE_FRAMES_N ? IMAGE_FRAME(i + 1) : 0);
    }
}

static void put_modules(struct php_image *image, uint32_t api)
{
    uint64_t entries = IMAGE_MODULES + 0x100, core = IMAGE_MODULES + 0x200;
    php_image_word(image, IMAGE_MODULES + 16, entries);
    php_image_word(image, entries, core);
    php_image_put(image, core + 4, &api, sizeof(api));
    php_image_word(image, core + 32, core + 0x80);
    php_image_put(image, core + 0x80, "Core", sizeof("Core"));
}

void php_image_make(struct php_image *image, uint32_t api)
{
    memset(image, 0, sizeof(*image));
    bool known = php_layout(api, &image->layout);
    assert(known);
    (void)known;
    image->constants = (struct php_constants){.globals = IMAGE_GLOBALS,
                                              .modules = IMAGE_MODULES,
                                              .generator = IMAGE_OBJECTS + 0xf00,
                                              .evaluation = {{0x1000, 0x2000}}};
    uint64_t page_size = IMAGE_GLOBALS + image->layout.stack_page_size;
    php_image_word(image, page_size - 24, 0x7f0000000100);
    php_image_word(image, page_size - 16, 0x7f0000000000 + STACK_PAGE);
    php_image_word(image, page_size - 8, 0x7f0000000000);
    php_image_word(image, page_size, STACK_PAGE);
    php_image_word(image, page_size + 8, IMAGE_FRAME(0));
    php_image_word(image, image->constants.generator, IMAGE_CLASS + 0x100);
    put_modules(image, api);
    put_texts(image);
    put_frames(image);
}

size_t php_image_list(struct php_image *image, const struct php_process *process, uint64_t opline,
                      uint64_t *words, size_t max, int *outcome)
{
    struct php_list list;
    size_t n = 0;
    reading = image;
    *outcome = php_list_begin(process, opline, &list);
    while (*outcome == RUNTIME_LIST_GOES_ON && n + RUNTIME_LIST_WORDS_MAX <= max) {
        *outcome = php_list_next(process, &list);
        if (*outcome != RUNTIME_LIST_GOES_ON)
            continue;
        memcpy(words + n, list.next.words, list.next.n_words * sizeof(*words));
        n += list.next.n_words;
    }
    return n;
}
