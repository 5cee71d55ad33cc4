/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/runtimes/ruby_image.h"
#include "agent-bpf/runtimes/ruby/ruby_objects.h"
#include <errno.h>

static struct ruby_image *reading; /* by step_read() */

static int image_step_read(void *out, size_t size, uint64_t address)
{
    if (address < RUBY_IMAGE_START || address > RUBY_IMAGE_START + RUBY_IMAGE_BYTES ||
        size > RUBY_IMAGE_START + RUBY_IMAGE_BYTES - address)
        return -EFAULT;
    memcpy(out, reading->bytes + (address - RUBY_IMAGE_START), size);
    return 0;
}

#define step_read(out, size, address) image_step_read(out, size, address)
#include "agent-bpf/runtimes/ruby/ruby_list.h"

#define STACK_WORDS 0x300
#define NIL         4
#define EACH        900 /* number of an identifier, in the second block of names */

enum text {
    BLOCK_LABEL,
    METHOD_LABEL,
    PROGRAM_LABEL,
    PATH,
    CLASS_PATH,
    ARRAY_PATH,
    EACH_NAME,
    PLUS,
    STRING_PATH
};
enum { SHOP, ARRAY, STRING, STRING_SINGLETON };

const char *const ruby_image_functions[RUBY_IMAGE_FRAMES] = {"block in Shop#render", "Array#each",
                                                             "Shop#render", "<main>"};
static const char *const plain[RUBY_IMAGE_FRAMES] = {"block in render", "each", "render", "<main>"};

void ruby_image_word(struct ruby_image *image, uint64_t address, uint64_t word)
{
    memcpy(image->bytes + (address - RUBY_IMAGE_START), &word, sizeof(word));
}

uint64_t ruby_image_get(const struct ruby_image *image, uint64_t address)
{
    uint64_t word;
    memcpy(&word, image->bytes + (address - RUBY_IMAGE_START), sizeof(word));
    return word;
}

static void put_words(struct ruby_image *image, uint64_t address, const uint64_t *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ruby_image_word(image, address + 8 * i, words[i]);
}
#define PUT(address, ...)                                                                          \
    put_words(image, (address), (const uint64_t[]){__VA_ARGS__},                                   \
              sizeof((const uint64_t[]){__VA_ARGS__}) / 8)

static uint64_t text_at(unsigned text)
{
    return RUBY_IMAGE_TEXTS + 0x100 * (uint64_t)text;
}

/* Short ones are embedded. */
void ruby_image_text(struct ruby_image *image, unsigned text, const char *bytes)
{
    uint64_t at = text_at(text), length = strlen(bytes);
    uint64_t start = image->constants.layout.process.text_start, far = at + 0x80;
    bool embedded = length < (start == 16 ? 24 : 16);
    uint64_t flags = RUBY_T_STRING | (embedded ? 0 : 1 << 13);
    if (start == 16 && embedded)
        flags |= length << 14;
    PUT(at, flags, 0, length, far);
    memcpy(image->bytes + ((embedded ? at + start : far) - RUBY_IMAGE_START), bytes, length);
}

/* Lines: of the first ten positions the first; from 600 on RUBY_IMAGE_LINE. */
static void put_lines(struct ruby_image *image, unsigned i, uint64_t body)
{
    uint64_t at = RUBY_IMAGE_LINES + 0x400 * (uint64_t)i, table = at + 0x100;
    uint32_t lines[2] = {10 * (i + 1), RUBY_IMAGE_LINE};
    size_t entry = image->constants.layout.line_entry;
    PUT(body + image->constants.layout.body_lines, at, 0, 2, table);
    for (unsigned n = 0; n < 2; n++)
        memcpy(image->bytes + (at + n * entry - RUBY_IMAGE_START), &lines[n], 4);
    for (unsigned n = 0; n < 6; n++)
        ruby_image_word(image, table + 8 * n, 0x0102040810204081); /* all are 1 */
    uint64_t block = table + 48;
    PUT(block, 1, 0);
    PUT(block + 80, 1, 0);
    ruby_image_word(image, block + 80 + 16, 1ULL << (600 - 54 - 512)); /* in the first word */
    for (unsigned n = 1; n < 8; n++) /* numbers in front of the others */
        ruby_image_word(image, block + 80 + 8,
                        ruby_image_get(image, block + 80 + 8) | 1ULL << 9 * (n - 1));
}

static void put_sequence(struct ruby_image *image, unsigned i, unsigned base)
{
    uint64_t iseq = RUBY_IMAGE_ISEQS + 0x40 * (uint64_t)i;
    uint64_t body = RUBY_IMAGE_BODIES + 0x200 * (uint64_t)i;
    bool is_program = i == 2;
    PUT(iseq, RUBY_T_IMEMO | RUBY_IMEMO_ISEQ << 12, 0, body);
    PUT(body, (uint64_t)1000 << 32, 0x50000000 + 0x10000 * (uint64_t)i);
    uint64_t line = 10 * (i + 1);
    bool is_fixnum = image->constants.layout.process.line_bytes == 8;
    PUT(body + RUBY_BODY_PATH, text_at(PATH), text_at(base), text_at(i),
        is_fixnum ? 2 * line + 1 : line);
    put_lines(image, i, body);
    ruby_image_word(image, body + image->constants.layout.body_local,
                    is_program ? iseq : RUBY_IMAGE_ISEQS + 0x40);
}

static void put_method(struct ruby_image *image, unsigned i, uint64_t type, uint64_t class,
                       uint64_t what, uint64_t id)
{
    uint64_t method = RUBY_IMAGE_METHODS + 0x100 * (uint64_t)i, definition = method + 0x80;
    PUT(method, RUBY_T_IMEMO | RUBY_IMEMO_METHOD << 12, class, definition, id, class);
    PUT(definition, type, what, 0, 0, id);
}

static uint64_t class_at(unsigned class)
{
    return RUBY_IMAGE_CLASSES + 0x200 * (uint64_t) class;
}

static void put_class(struct ruby_image *image, unsigned class, uint64_t key, uint64_t value)
{
    const struct ruby_layout *layout = &image->constants.layout;
    uint64_t at = class_at(class), fields = at + 0xc0, table = at + 0x100, entries = at + 0x140;
    bool is_singleton = class == STRING_SINGLETON;
    PUT(at, RUBY_T_CLASS | (uint64_t)is_singleton << 12, class_at(STRING_SINGLETON));
    if (layout->class_path)
        ruby_image_word(image, at + layout->class_path, value);
    if (!layout->class_variables)
        return;
    ruby_image_word(image, at + layout->class_fields, fields);
    ruby_image_word(image, fields + layout->class_variables, table);
    PUT(table + 32, 0, 1, entries);
    PUT(entries, 0, key, value);
}

/* {number, table, names, more}; two blocks of names. */
static void put_names(struct ruby_image *image)
{
    uint64_t blocks = RUBY_IMAGE_NAMES, pointers = blocks + 0x40;
    PUT(RUBY_IMAGE_DATA + 0x18, 2000, RUBY_IMAGE_NAMES, blocks, RUBY_IMAGE_NAMES);
    PUT(blocks, RUBY_T_ARRAY | 1 << 13 | 2 << 15, 0, pointers, pointers + 0x40);
    PUT(pointers, RUBY_T_ARRAY, 0, 1024, 0, RUBY_IMAGE_NAMES + 0x400 - 16 * '+');
    PUT(pointers + 0x40, RUBY_T_ARRAY, 0, 1024, 0, RUBY_IMAGE_NAMES + 0x800 - 16 * (EACH - 512));
    ruby_image_word(image, RUBY_IMAGE_NAMES + 0x400, text_at(PLUS));
    ruby_image_word(image, RUBY_IMAGE_NAMES + 0x800, text_at(EACH_NAME));
}

static void put_frame(struct ruby_image *image, unsigned i, uint64_t iseq, uint64_t flags,
                      uint64_t outer, uint64_t method)
{
    size_t size = image->constants.layout.process.frame_bytes;
    uint64_t end = RUBY_IMAGE_STACK + 8 * STACK_WORDS;
    uint64_t at = end - (RUBY_IMAGE_FRAMES + 1 - i) * size, env = RUBY_IMAGE_ENVS + 0x40 * i;
    uint64_t code = iseq ? 0x50000000 + 0x10000 * ((iseq - RUBY_IMAGE_ISEQS) / 0x40) : 0;
    PUT(env, method, outer, flags);
    PUT(at, iseq ? code + 8 * RUBY_IMAGE_POSITION : 0, 0, iseq, 0, env + 16);
    if (!i)
        PUT(RUBY_IMAGE_CONTEXT, RUBY_IMAGE_STACK, STACK_WORDS, at);
}

static void put_frames(struct ruby_image *image)
{
    uint64_t method = RUBY_IMAGE_ENVS + 0x40 * 2 + 16;
    put_frame(image, 0, RUBY_IMAGE_ISEQS, 0x22220001 | RUBY_ENV_FINISH, method | 1, 0);
    put_frame(image, 1, 0, RUBY_FRAME_CFUNC | RUBY_ENV_LOCAL, 0, RUBY_IMAGE_METHODS + 0x100);
    put_frame(image, 2, RUBY_IMAGE_ISEQS + 0x40, RUBY_FRAME_METHOD | RUBY_ENV_LOCAL, 0,
              RUBY_IMAGE_METHODS);
    put_frame(image, 3, RUBY_IMAGE_ISEQS + 0x80, 0x44440001 | RUBY_ENV_LOCAL | RUBY_ENV_FINISH, 0,
              NIL);
    put_frame(image, 4, 0, RUBY_FRAME_DUMMY | RUBY_ENV_LOCAL | RUBY_ENV_FINISH, 0, NIL);
}

bool ruby_image_make(struct ruby_image *image, const char *version)
{
    memset(image, 0, sizeof(*image));
    if (!ruby_layout(version, &image->constants.layout))
        return false;
    image->constants.evaluation[0] = (struct runtime_range){0x1000, 0x2000};
    image->constants.string_class = RUBY_IMAGE_START + 0x300;
    image->constants.writable = RUBY_IMAGE_DATA;
    image->constants.writable_end = RUBY_IMAGE_DATA + 0x40;
    bool is_global = image->constants.layout.version < RUBY_VERSION(3, 0);
    image->constants.current = is_global ? RUBY_CURRENT_GLOBAL : RUBY_CURRENT_FIXED;
    image->constants.current_at = RUBY_IMAGE_TP + 8;
    image->constants.current_offset = 8;
    for (unsigned i = 0; i < 3; i++)
        ruby_image_text(image, i, i == 1 ? plain[2] : i ? plain[3] : plain[0]);
    ruby_image_text(image, PATH, "/srv/shop/lib/with/a/long/name/shop.rb");
    ruby_image_text(image, CLASS_PATH, "Shop");
    ruby_image_text(image, ARRAY_PATH, "Array");
    ruby_image_text(image, EACH_NAME, "each");
    ruby_image_text(image, PLUS, "+");
    ruby_image_text(image, STRING_PATH, "String");
    put_sequence(image, 0, METHOD_LABEL);
    put_sequence(image, 1, METHOD_LABEL);
    put_sequence(image, 2, PROGRAM_LABEL);
    put_method(image, 0, 0, class_at(SHOP), RUBY_IMAGE_ISEQS + 0x40, 901 << 4);
    put_method(image, 1, 1, class_at(ARRAY), 0x1234, EACH << 4);
    put_class(image, SHOP, 0x111, text_at(CLASS_PATH));
    put_class(image, ARRAY, 0x111, text_at(ARRAY_PATH));
    put_class(image, STRING, 0x111, text_at(STRING_PATH));
    put_class(image, STRING_SINGLETON, 0x222, class_at(STRING));
    ruby_image_word(image, image->constants.string_class, class_at(STRING));
    put_names(image);
    put_frames(image);
    ruby_image_word(image, RUBY_IMAGE_TP + 8, RUBY_IMAGE_CONTEXT);
    if (is_global) { /* the thread that holds the lock */
        const struct ruby_process *process = &image->constants.layout.process;
        ruby_image_word(image, RUBY_IMAGE_CONTEXT + process->ec_thread, RUBY_IMAGE_CONTEXT + 0x80);
        ruby_image_word(image, RUBY_IMAGE_CONTEXT + 0x80 + process->thread_native, RUBY_IMAGE_TP);
    }
    return true;
}

static int image_read(void *context, struct reader_range *ranges, size_t n)
{
    struct ruby_image *image = context;
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

void ruby_image_memory(struct ruby_image *image, struct runtime_memory *memory, size_t bytes)
{
    image->memory = memory;
    *memory = (struct runtime_memory){.read = image_read, .context = image, .bytes_left = bytes};
}

size_t ruby_image_list(struct ruby_image *image, const struct ruby_process *process,
                       uint64_t *words, size_t max, int *outcome)
{
    struct ruby_list list;
    size_t n = 0;
    reading = image;
    *outcome = ruby_list_begin(process, RUBY_IMAGE_TP, &list);
    while (*outcome == RUNTIME_LIST_GOES_ON && n + RUNTIME_LIST_WORDS_MAX <= max) {
        *outcome = ruby_list_next(process, &list);
        if (*outcome != RUNTIME_LIST_GOES_ON)
            continue;
        memcpy(words + n, list.next.words, list.next.n_words * sizeof(*words));
        n += list.next.n_words;
    }
    return n;
}
