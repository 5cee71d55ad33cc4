/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/runtimes/python_image.h"
#include <assert.h>
#include <errno.h>

static struct python_image *reading; /* by step_read() */

static int image_step_read(void *out, size_t size, uint64_t address)
{
    if (address < IMAGE_START || address > IMAGE_START + IMAGE_BYTES ||
        size > IMAGE_START + IMAGE_BYTES - address)
        return -EFAULT;
    memcpy(out, reading->bytes + (address - IMAGE_START), size);
    if (address == reading->renamed_at)
        python_image_word(reading, IMAGE_TASK + IMAGE_TASK_NAMED, IMAGE_TEXTS);
    return 0;
}

#define step_read(out, size, address) image_step_read(out, size, address)
#include "agent-bpf/runtimes/python/python_task.h"

#define KEY_DIRECT 5
#define KEY_FAR    37 /* in glibc's second block of keys */
#define PRESENT    0xf0

const char *const python_image_functions[IMAGE_FRAMES_N] = {"inner", "größe", "текст.<locals>",
                                                            "a\xf0\x9f\x90\x8d"};
const char *const python_image_files[IMAGE_FRAMES_N] = {"/a.py", "/é.py", "/ж.py",
                                                        "/\xf0\x9f\x90\x8d.py"};

void python_image_put(struct python_image *image, uint64_t address, const void *bytes, size_t size)
{
    memcpy(image->bytes + (address - IMAGE_START), bytes, size);
}

void python_image_word(struct python_image *image, uint64_t address, uint64_t word)
{
    python_image_put(image, address, &word, sizeof(word));
}

uint64_t python_image_get(const struct python_image *image, uint64_t address)
{
    uint64_t word;
    memcpy(&word, image->bytes + (address - IMAGE_START), sizeof(word));
    return word;
}

int python_image_read(void *context, struct reader_range *ranges, size_t n)
{
    struct python_image *image = context;
    size_t bytes = 0;
    assert(n); /* as the reader's client does */
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

void python_image_memory(struct python_image *image, struct runtime_memory *memory, size_t bytes)
{
    image->memory = memory;
    *memory =
        (struct runtime_memory){.read = python_image_read, .context = image, .bytes_left = bytes};
}

/* Without a build of that kind here, free-threaded layouts follow CPython's headers. */
void python_image_offsets(unsigned minor, bool free_threaded,
                          uint64_t offsets[PYTHON_DEBUG_OFFSETS_BYTES / 8])
{
    uint64_t head = free_threaded ? 16 : 0; /* objects begin with more */
    uint64_t *at = offsets;
    memset(offsets, 0, PYTHON_DEBUG_OFFSETS_BYTES);
    memcpy(at++, "xdebugpy", 8);
    *at++ = PYTHON_VERSION(3, minor) | PRESENT;
    *at++ = free_threaded;
#define GROUP(...)                                                                                 \
    do {                                                                                           \
        const uint64_t numbers[] = {__VA_ARGS__};                                                  \
        memcpy(at, numbers, sizeof(numbers));                                                      \
        at += sizeof(numbers) / sizeof(*numbers);                                                  \
    } while (0)
    GROUP(0x45000, 600, 632);
    GROUP(0x40000, 7280, 7264, 7344);
    at += minor == 14 ? 12 : 9;
    GROUP(0x300, 0, 8, 16, 72 + head, 152 + head, 160 + head, 240, 32);
    GROUP(88, 8, 0, 56, 80, free_threaded ? 78 : 70);
    at += minor == 14 ? 2 : 0;
    GROUP(216 + head, 112 + head, 120 + head, 128 + head, 136 + head, 68 + head, 52 + head, 96, 104,
          200 + head);
    at += minor == 14 ? 1 : 0;
    GROUP(16 + head, 8 + head); /* object */
    at += 4 + 3 + 3 + (minor == 14 ? 4 : 0) + 3 + 2 + 3;
    GROUP(40 + head, 16 + head, 32 + head);            /* bytes */
    GROUP(64 + head, 32 + head, 16 + head, 40 + head); /* str */
#undef GROUP
}

/* Decodes UTF-8 that is valid. */
static uint32_t character_of(const uint8_t **text)
{
    uint32_t first = *(*text)++, n = first < 0x80 ? 0 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
    uint32_t character = n ? first & (0x3fu >> n) : first;
    for (; n; n--)
        character = character << 6 | (*(*text)++ & 63u);
    return character;
}

static void put_text(struct python_image *image, uint64_t address, const char *utf8)
{
    const struct python_layout *layout = &image->constants.layout;
    uint32_t most = 0, state;
    uint64_t length = 0;
    for (const uint8_t *at = (const uint8_t *)utf8; *at; length++) {
        uint32_t character = character_of(&at);
        most = character > most ? character : most;
    }
    uint32_t width = most < 0x100 ? 1 : most < 0x10000 ? 2 : 4;
    uint64_t data = address + layout->text_header;
    if (most >= 0x80)
        data += PYTHON_MINOR(layout->version) < 12 ? 24 : 16;
    state = (width | 8 | (most < 0x80 ? 16 : 0)) << layout->text_state_shift;
    python_image_word(image, address + layout->text_length, length);
    python_image_put(image, address + layout->text_state, &state, sizeof(state));
    if (layout->process.text_hash)
        python_image_word(image, address + layout->process.text_hash, 0x5bd1e995 * (address + 1));
    for (const uint8_t *at = (const uint8_t *)utf8; *at; data += width) {
        uint32_t character = character_of(&at);
        python_image_put(image, data, &character, width);
    }
}

/* Units up to IMAGE_LASTI - 1 are of the first line; from there on IMAGE_LINE_MORE further. */
static void put_table(struct python_image *image, uint64_t address)
{
    static const uint8_t lnotab[] = {2 * IMAGE_LASTI, IMAGE_LINE_MORE};
    static const uint8_t linetable[] = {2 * IMAGE_LASTI, 0, 60, IMAGE_LINE_MORE};
    static const uint8_t locations[] = {0xe8 | (IMAGE_LASTI - 1), 0, 0xe8 | 7,
                                        2 * IMAGE_LINE_MORE}; /* no columns */
    static const struct bytes tables[] = {[PYTHON_LNOTAB] = {lnotab, sizeof(lnotab)},
                                          [PYTHON_LINETABLE] = {linetable, sizeof(linetable)},
                                          [PYTHON_LOCATIONS] = {locations, sizeof(locations)}};
    const struct python_layout *layout = &image->constants.layout;
    struct bytes table = tables[layout->lines];
    python_image_word(image, address + layout->bytes_length, table.len);
    python_image_put(image, address + layout->bytes_data, table.data, table.len);
}

static void put_code(struct python_image *image, unsigned i)
{
    const struct python_layout *layout = &image->constants.layout;
    uint64_t code = IMAGE_CODES + 0x200 * i, texts = IMAGE_TEXTS + 0x400 * i;
    uint32_t line = IMAGE_FIRST_LINE * (i + 1);
    put_text(image, texts, python_image_files[i]);
    put_text(image, texts + 0x200, python_image_functions[i]);
    put_table(image, IMAGE_TABLES + 0x100 * i);
    python_image_word(image, code, 1); /* a reference */
    python_image_word(image, code + layout->object_type, IMAGE_TYPE);
    if (layout->code_units)
        python_image_word(image, code + layout->code_units, IMAGE_UNITS);
    python_image_put(image, code + layout->code_first_line, &line, sizeof(line));
    python_image_word(image, code + layout->code_filename, texts);
    python_image_word(image, code + layout->code_name, texts + 0x200);
    if (layout->code_qualname)
        python_image_word(image, code + layout->code_qualname, texts + 0x200);
    python_image_word(image, code + layout->code_table, IMAGE_TABLES + 0x100 * i);
}

/* Frames 0 and 1 belong to the inner activation, 2 and 3 to the outer one. */
static void put_frames(struct python_image *image)
{
    const struct python_process *process = &image->constants.layout.process;
    bool shims = process->activations == PYTHON_SHIMS;
    uint64_t frame = IMAGE_FRAMES, next;
    for (unsigned i = 0; i < IMAGE_FRAMES_N; i++, frame = next) {
        uint64_t code = IMAGE_CODES + 0x200 * i;
        uint64_t lasti = (uint64_t)IMAGE_LASTI << process->lasti_shift;
        bool last = i + 1 == IMAGE_FRAMES_N, outer = i & 1;
        next = frame + 0x100;
        python_image_word(image, frame + process->frame_code, code);
        python_image_word(
            image, frame + process->frame_position,
            process->position_is_int ? lasti : code + process->code_instructions + 2 * IMAGE_LASTI);
        if (process->activations == PYTHON_CFRAMES)
            python_image_put(image, frame + process->frame_owner, &outer, 1);
        if (shims && outer) {
            python_image_word(image, frame + process->frame_previous, next);
            python_image_put(image, next + process->frame_owner, &(uint8_t){3}, 1);
            frame = next;
            next = frame + 0x100;
        }
        python_image_word(image, frame + process->frame_previous, last ? 0 : next);
    }
    for (unsigned i = 0; process->has_cframe && i < 2; i++) {
        uint64_t cframe = IMAGE_CFRAMES + 0x40 * i;
        python_image_word(image, cframe + process->cframe_frame,
                          IMAGE_FRAMES + (uint64_t)i * (shims ? 0x300 : 0x200));
        python_image_word(image, cframe + process->cframe_previous, i ? 0 : cframe + 0x40);
    }
}

static void put_slot(struct python_image *image, uint64_t tp, uint64_t array, uint64_t state,
                     enum image_slots slots)
{
    if (slots == IMAGE_SLOT_DIRECT) {
        python_image_word(image, tp + 0x310 + 16 * KEY_DIRECT + 8, state);
        return;
    }
    bool glibc = slots == IMAGE_SLOT_GLIBC;
    python_image_word(image, tp + (glibc ? 0x510 + 8 * (KEY_FAR / 32) : 128), array);
    python_image_word(image, array + (glibc ? 16 * (KEY_FAR % 32) + 8 : 8 * KEY_FAR), state);
}

static void put_threads(struct python_image *image, enum image_slots slots)
{
    const struct python_layout *layout = &image->constants.layout;
    const struct python_process *process = &layout->process;
    int key[2] = {1, slots == IMAGE_SLOT_DIRECT ? KEY_DIRECT : KEY_FAR};
    python_image_word(image, IMAGE_RUNTIME + layout->interpreters_head, IMAGE_INTERPRETER);
    python_image_word(image, IMAGE_INTERPRETER + layout->threads_head, IMAGE_THREADS);
    python_image_put(image, IMAGE_RUNTIME + layout->runtime_key, key, sizeof(key));
    for (unsigned i = 0; i < 2; i++) {
        uint64_t state = IMAGE_THREADS + 0x200 * i, tp = IMAGE_DESCRIPTORS + IMAGE_PAGE * i;
        python_image_word(image, state + layout->thread_next, i ? 0 : state + 0x200);
        python_image_word(image, state + layout->thread_interpreter, IMAGE_INTERPRETER);
        python_image_word(image, state + process->thread_id, tp);
        put_slot(image, tp, IMAGE_ARRAYS + 0x800 * i, state, slots);
    }
    python_image_word(image, IMAGE_THREADS + process->thread_frame,
                      process->has_cframe ? IMAGE_CFRAMES : IMAGE_FRAMES);
}

void python_image_name_task(struct python_image *image, const char *utf8)
{
    const struct python_layout *layout = &image->constants.layout;
    put_text(image, IMAGE_TASK_NAME, utf8);
    python_image_word(image, IMAGE_TASK_NAME + layout->object_type, IMAGE_TEXT_TYPE);
}

void python_image_number_task(struct python_image *image, uint64_t number)
{
    uint32_t digits[] = {number & 0x3fffffff, (uint32_t)(number >> 30)};
    uint64_t at = IMAGE_TASK_NAME + image->constants.layout.object_type;
    python_image_word(image, at, IMAGE_NUMBER_TYPE);
    python_image_word(image, at + 8, (digits[1] ? UINT64_C(2) : UINT64_C(1)) << 3);
    python_image_put(image, at + 16, digits, sizeof(digits));
}

static void put_task(struct python_image *image)
{
    uint32_t type = image->constants.layout.object_type;
    image->tasks = (struct python_tasks){.thread_task = IMAGE_THREAD_TASK / 8,
                                         .task_size = IMAGE_TASK_SIZE / 8,
                                         .task_name = IMAGE_TASK_NAMED / 8,
                                         .is_task = IMAGE_TASK_IS_TASK};
    python_image_word(image, IMAGE_THREADS + IMAGE_THREAD_TASK, IMAGE_TASK);
    python_image_word(image, IMAGE_TASK + type, IMAGE_TASK_TYPE);
    python_image_put(image, IMAGE_TASK + IMAGE_TASK_IS_TASK, &(uint8_t){1}, 1);
    python_image_word(image, IMAGE_TASK + IMAGE_TASK_NAMED, IMAGE_TASK_NAME);
    python_image_word(image, IMAGE_TASK_TYPE + type + 24, IMAGE_TASK_SIZE);
    python_image_name_task(image, "task");
}

bool python_image_make(struct python_image *image, unsigned minor, bool free_threaded,
                       enum image_slots slots)
{
    uint64_t offsets[PYTHON_DEBUG_OFFSETS_BYTES / 8] = {0};
    memset(image, 0, sizeof(*image));
    if (minor >= 13)
        python_image_offsets(minor, free_threaded, offsets);
    if (!python_layout(PYTHON_VERSION(3, minor) | PRESENT, BYTES(offsets, sizeof(offsets)),
                       &image->constants.layout))
        return false;
    image->constants.runtime = IMAGE_RUNTIME;
    image->constants.code_type = IMAGE_TYPE;
    image->constants.text_type = IMAGE_TEXT_TYPE;
    image->constants.number_type = IMAGE_NUMBER_TYPE;
    image->constants.evaluation[0] = (struct runtime_range){0x1000, 0x2000};
    python_image_put(image, IMAGE_RUNTIME, offsets, sizeof(offsets));
    python_image_word(image, IMAGE_TYPE + 32, image->constants.layout.code_size);
    for (unsigned i = 0; i < IMAGE_FRAMES_N; i++)
        put_code(image, i);
    put_frames(image);
    put_threads(image, slots);
    if (minor >= 14)
        put_task(image);
    return true;
}

size_t python_image_list(struct python_image *image, const struct python_process *process,
                         uint64_t tp, uint64_t *words, size_t max, int *outcome)
{
    struct python_list list;
    size_t n = 0;
    reading = image;
    *outcome = python_list_begin(process, tp, image->apart, &list);
    while ((*outcome == RUNTIME_LIST_GOES_ON || *outcome == RUNTIME_LIST_AGAIN) &&
           n + RUNTIME_LIST_WORDS_MAX <= max) {
        *outcome = python_list_next(process, &list);
        if (*outcome == RUNTIME_LIST_AGAIN)
            n = 0;
        if (*outcome != RUNTIME_LIST_GOES_ON)
            continue;
        memcpy(words + n, list.next.words, list.next.n_words * sizeof(*words));
        n += list.next.n_words;
    }
    return n;
}

size_t python_image_task(struct python_image *image, const struct python_process *process,
                         uint64_t tp, struct record_task *task)
{
    struct python_list list;
    reading = image;
    python_list_begin(process, tp, image->apart, &list);
    size_t size = python_task(process, &image->tasks, &list);
    assert(size <= sizeof(*task));
    memcpy(task, &list.task, size);
    return size;
}
